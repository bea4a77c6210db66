#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the coverage-guided fuzzer of job parser and importer, with address and undefined-behaviour sanitizers.
#   tools/fuzz_frontend.sh SECONDS [SEED [ZOO]]
# SECONDS 0 only builds it.
# SEED says where the search begins; 0, the default, is a new place each time. ZOO is ashlar-zoo, by default that of build/; its models and
# docs/jobs are the first inputs. What is found, and the inputs that reach new code, stay in build/fuzz_frontend. Exit status 0 when nothing
# was found.
set -euo pipefail

seconds=${1:?usage: tools/fuzz_frontend.sh SECONDS [SEED [ZOO]]}
root=$(cd "$(dirname "$0")/.." && pwd)
seed=${2:-0}
zoo=${3:-$root/build/bin/ashlar-zoo}
folder=$root/build/fuzz_frontend

cd "$root"
mkdir -p "$folder/seeds" "$folder/corpus" "$folder/found"
[ -e build/build.ninja ] || cmake --preset dev >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; exit 1; }
ninja -C build fuzz_frontend >"$folder/build.log" 2>&1 || { tail -n 50 "$folder/build.log"; exit 1; }

[ "$seconds" != 0 ] || exit 0

# Every model without its data, with each of the jobs; small enough to be mutated as a whole.
"$zoo" linear -o "$folder/linear.onnx"
"$zoo" mlp --layers 2 --width 4 --no-data -o "$folder/mlp.onnx"
"$zoo" mlp-hybrid --width 4 -o "$folder/hybrid.onnx"
"$zoo" transformer --layers 1 --width 8 --heads 2 --no-data -o "$folder/transformer.onnx"
for kernel in elementwise softmax cross-entropy adamw; do
  "$zoo" "$kernel" -o "$folder/$kernel.onnx"
done
for model in "$folder"/*.onnx; do
  for job in docs/jobs/*.txtpb; do
    { cat "$job"; printf '\0'; cat "$model"; } >"$folder/seeds/$(basename "$model" .onnx)-$(basename "$job" .txtpb)"
  done
done

# LLVM's libraries are built without sanitizers: what our half of an arena or container poisons, theirs would not clear.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:detect_container_overflow=0:allow_user_poisoning=0
export UBSAN_OPTIONS=print_stacktrace=1
# Some 500 inputs a second; their number bounds the run where the clock does not.
exec build/bin/fuzz_frontend "$folder/corpus" "$folder/seeds" -seed="$seed" -max_total_time="$seconds" -runs=$((500 * seconds)) -max_len=65536 -timeout=60 \
  -rss_limit_mb=4096 -artifact_prefix="$folder/found/" -print_final_stats=1 -verbosity=0
