#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/job_reference.py refuses comments of job.proto that lack a part of the reference: job_reference.sh ROOT
set -euo pipefail
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/compiler/job"
proto=compiler/job/job.proto

# Generates the page of job.proto as it is now in the folder.
generate() {
  python3 -B "$root/tools/job_reference.py" "$folder" "$folder/job.md" 2> "$folder/error.log"
}

# Fails unless the page is refused with a text once a substitution has changed job.proto. expect_refused SED TEXT
expect_refused() {
  sed -E "$1" "$root/$proto" > "$folder/$proto"
  ! cmp -s "$root/$proto" "$folder/$proto" || { echo "FAILED: $1 changes nothing" >&2; exit 1; }
  ! generate || { echo "FAILED: accepted after $1" >&2; exit 1; }
  grep -qF -- "$2" "$folder/error.log" || { cat "$folder/error.log" >&2; echo "FAILED: no error \"$2\" after $1" >&2; exit 1; }
}

cp "$root/$proto" "$folder/$proto"
generate || { cat "$folder/error.log" >&2; exit 1; }
# All fields and values are there: as many rows as numbers, less the two extensions.
rows=$(grep -c '^| `' "$folder/job.md")
fields=$(sed 's,//.*,,' "$root/$proto" | grep -cE '= [0-9]+ *(\[.*\])?;')
[ "$rows" -eq $((fields - 2)) ] || { echo "FAILED: $rows rows for $((fields - 2)) fields and values" >&2; exit 1; }
grep -qF '| `accumulate` | int64 | `1` | micro-batches |' "$folder/job.md" || { echo "FAILED: no row of accumulate" >&2; exit 1; }

expect_refused 's/; unit: samples; example: 1024$/; example: 1024/' "Dataset.Digits.train_samples has no unit"
expect_refused '/optional double learning_rate/s/default: required; //' "Optimizer.learning_rate has no default"
expect_refused 's/; example: "encoder.*$//' "Job.frozen has no example"
expect_refused '/optional Setting all_gather/s,//.*,,' "CommFusion.all_gather has no meaning"
expect_refused 's/example: \[20, 35\]/example: [20, x]/' "the example does not parse"
expect_refused 's/checkpoint \{ every_steps: 1000/checkpoint { every_step: 1000/' "the example does not parse"
expect_refused 's/^message Checkpoint \{/message Checkpoint { option deprecated = true;/' "the line is not understood"
echo "job.md is complete"
