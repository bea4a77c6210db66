#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs of lit at the same time do not share outputs: lit_beside.sh LIT FOLDER_OF_THE_SITE_CONFIG
set -euo pipefail
lit=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The configuration of this build for a suite with one test, which fails when another run overwrites its output.
sed "s,^config.ashlar_test_dir = .*,config.ashlar_test_dir = \"$work/outputs\"," "$2/lit.site.cfg.py" > "$work/lit.site.cfg.py"
cat >> "$work/lit.site.cfg.py" << END
config.test_source_root = "$work"
config.substitutions.append(("%run", lit_config.params["run"]))
END
echo 'RUN: echo run %run > %t && sleep 2 && grep -q "run %run$" %t' > "$work/output.test"

runs=()
for run in 1 2 3; do
  "$lit" -sv -D run=$run "$work" > "$work/$run.log" 2>&1 &
  runs+=($!)
done
for run in 1 2 3; do
  wait "${runs[run - 1]}" || { cat "$work/$run.log" >&2; echo "FAILED: run $run of three at the same time" >&2; exit 1; }
done
# A later run takes a folder that is free again: there are as many as runs at the same time.
"$lit" -sv -D run=4 "$work" > "$work/4.log" 2>&1 || { cat "$work/4.log" >&2; exit 1; }
[ "$(ls "$work/outputs/lit" | xargs)" = "0 1 2" ] || { echo "FAILED: folders of outputs $(ls "$work/outputs/lit" | xargs)" >&2; exit 1; }
echo "three runs of lit at the same time"
