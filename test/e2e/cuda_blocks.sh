# SPDX-License-Identifier: Apache-2.0
#
# A model whose logits are large trains with a piece of them at a time on the emulator, too: to the losses of the cpu target, in f32 and bf16,
# on one rank and with its vocabulary sharded over two, as products that cuBLASLt adds to the sum of the blocks before.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

"$tools/ashlar-zoo" transformer --layers 1 --width 32 --heads 2 --sequence 256 --vocabulary 8192 -o model.onnx
python3 "$(dirname "$0")/write_tokens.py" data 8192 256
cat > job.txtpb <<'END'
global_batch: 8
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { adamw {} learning_rate: 0.01 }
dataset {
  npy {}
  features { column: "tokens" tensor: "tokens" }
  features { column: "next" tensor: "labels" }
}
epochs: 1
END

# check NAME RANKS TOLERANCE OPTIONS...: the program of the job NAME.txtpb has two blocks, and the losses of the cpu target.
check() {
  local name=$1 ranks=$2 tolerance=$3 count
  shift 3
  "$tools/ashlarc" model.onnx --job "$name.txtpb" -o "${name}_cpu" "$@"
  "$tools/ashlarc" model.onnx --job "$name.txtpb" --target cuda --gpu-arch sm_90 -o "$name" "$@"
  "$tools/ashlarc" model.onnx --job "$name.txtpb" --target cuda --emit exec -o "$name.mlir" "$@"
  count=$(grep -c 'exec.gemm .* accumulate epilogue none' "$name.mlir" || true)
  [ "$count" -eq 1 ] || fail "$name has $count products that are added up, not 1"
  mpirun -n "$ranks" "./${name}_cpu" --data data --steps 2 --log-every 1 > "${name}_cpu.log"
  ./on_emulator "$ranks" mpirun -n "$ranks" "./$name" --data data --steps 2 --log-every 1 > "$name.log"
  expect_close "${name}_cpu.log" "$name.log" "$tolerance"
}

# 64 MiB of logits in each.
cp job.txtpb f32.txtpb
check f32 1 1e-4
{ sed 's/^global_batch:.*/global_batch: 16/' job.txtpb; echo 'precision: BF16_MIXED'; } > bf16.txtpb
check bf16 1 1e-2 # 8 bits of mantissa
{
  sed 's/^global_batch:.*/global_batch: 16/' job.txtpb
  echo 'mode: SEMI_AUTO mesh { axes { name: "tp" size: 2 } }'
  echo 'machine { intra_host { latency_us: 0.1 } }' # that of a GPU is too long for blocks of so few operations
  echo 'rules { match: "embedding.weight" layout: "[{tp}, {}]" } rules { match: "head.weight" layout: "[{}, {tp}]" }'
} > sharded.txtpb
check sharded 2 1e-4
