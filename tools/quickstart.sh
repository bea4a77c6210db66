#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds Ashlar, writes the seed MLP as ONNX, compiles it for 4 ranks, trains it under mpirun and evaluates it.
# tools/quickstart.sh [--data DIR]   DIR: real MNIST idx files, plain or .gz; default: digits drawn by the runtime.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
data=()
while [ $# -gt 0 ]; do
  case $1 in
    --data)
      [ $# -ge 2 ] || { echo "error: --data needs a folder" >&2; exit 2; }
      [ -d "$2" ] || { echo "error: --data $2 is not a folder" >&2; exit 2; }
      data=(--data "$(cd "$2" && pwd)")
      shift 2
      ;;
    *)
      echo "error: unknown option $1; usage: tools/quickstart.sh [--data DIR]" >&2
      exit 2
      ;;
  esac
done

cd "$root"
tools/setup.sh
if [ ! -f build/build.ninja ]; then
  cmake --preset dev >/dev/null
fi
NINJA_STATUS='building ashlarc: %f of %t, %e s ' ninja -C build ashlarc ashlar-zoo

out=build/quickstart
mkdir -p "$out"
build/bin/ashlar-zoo mlp -o "$out/mlp.onnx"
build/bin/ashlarc "$out/mlp.onnx" --job docs/jobs/mlp.txtpb -o "$out/mlp"

# As root, and with more ranks than cores, Open MPI wants to be told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
"$out/mlp" --plan
mpirun -n 4 "$out/mlp" "${data[@]}" --eval

cat <<EOF

Next:
  build/bin/ashlarc $out/mlp.onnx --job docs/jobs/mlp.txtpb --mesh dp=2 -o $out/mlp2 && mpirun -n 2 $out/mlp2 --eval
  build/bin/ashlarc $out/mlp.onnx --job docs/jobs/mlp.txtpb --emit dist -o -
  build/bin/ashlar-zoo linear -o $out/linear.onnx && build/bin/ashlarc $out/linear.onnx --job docs/jobs/linear.txtpb -o $out/linear && $out/linear
EOF
