# SPDX-License-Identifier: Apache-2.0
#
# What the compiler planned is what the processes have: the memory of all ranks together, at its most, is the planned bytes within 2 %, beyond
# what a program without a model has.

. "$(dirname "$0")/common.sh"

watch() {
  python3 "$(dirname "$0")/watch_memory.py" "$@"
}

# Planned bytes of a device.
planned() {
  "$tools/ashlarc" mlp.onnx --job "$1" --emit exec -o planned.mlir
  sed -n 's/.*exec.variant @default arena \([0-9]*\).*/\1/p' planned.mlir
}

"$tools/ashlar-zoo" mlp --no-data --layers 8 --width 2048 -o mlp.onnx
"$tools/ashlar-zoo" mlp --no-data --layers 1 -o small.onnx
for case in "1 1" "1 2" "3 2" "3 4"; do
  read -r level ranks <<< "$case"
  sed "s/size: 4/size: $ranks/; s/ deterministic .*//; s/^deterministic .*//" "$jobs/mlp_zero$level.txtpb" > job.txtpb
  echo 'init { match: "*" normal { std: 0.02 } }' >> job.txtpb
  "$tools/ashlarc" mlp.onnx --job job.txtpb -o mlp
  "$tools/ashlarc" small.onnx --job job.txtpb -o small
  mlp=$(watch mlp mpirun -n $ranks ./mlp --steps 3 --threads 1)
  small=$(watch small mpirun -n $ranks ./small --steps 3 --threads 1)
  arena=$(planned job.txtpb)
  python3 -c "
grown, planned = ($mlp - $small) / $ranks, $arena
print(f'level $level on $ranks ranks: {grown / 1e6:.1f} MB a rank, {planned / 1e6:.1f} MB planned')
assert abs(grown - planned) <= 0.02 * planned" || fail "level $level on $ranks ranks: what is held is not what was planned"
done
