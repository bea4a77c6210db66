# SPDX-License-Identifier: Apache-2.0
#
# How long ashlarc takes for the seed MLP and for deep nets, and how the memory plan compares with its lower bound. Both variants of a training
# job on dp=4 are compiled and linked. compile_time.sh [BUILD_FOLDER]

set -euo pipefail
source_folder=$(cd "$(dirname "$0")/../.." && pwd)
tools=$(cd "${1:-$source_folder/build}" && pwd)/bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# Prints the best of three compilations of a model in seconds, and the ratio of its memory plan. row NAME MODEL
row() {
  local best=1000000
  for _ in 1 2 3; do
    local begin=$EPOCHREALTIME
    "$tools/ashlarc" "$2" --job "$source_folder/docs/jobs/mlp.txtpb" -o program
    local took=$(( (${EPOCHREALTIME/[.,]/} - ${begin/[.,]/}) / 1000 ))
    best=$((took < best ? took : best))
  done
  local ratio
  ratio=$(./program --plan | sed -n 's/.*this one is \([0-9.]*\) times.*/\1/p')
  printf '%-26s %6d.%03d s   memory plan %s x the lower bound\n' "$1" $((best / 1000)) $((best % 1000)) "$ratio"
}

"$tools/ashlar-zoo" mlp -o mlp.onnx
row "mlp 784-512-512-10" mlp.onnx
for layers in 25 50 100 200; do
  "$tools/ashlar-zoo" mlp --layers $layers --width 512 -o deep.onnx
  row "mlp, $layers layers of 512" deep.onnx
done
