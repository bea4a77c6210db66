# SPDX-License-Identifier: Apache-2.0
#
# Attention on the emulator, by cuDNN and in generated kernels: a small GPT gives the losses of the cpu target, in bf16 and f16 (cuDNN), and in
# f32 and with narrow heads (kernels), on one rank and on several, with a captured step and without, in stages of a pipeline, with layers
# computed again; and without either.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

# cuda JOB NAME OPTIONS...: the program of the cuda target.
cuda() {
  local job=$1 name=$2
  shift 2
  "$tools/ashlarc" transformer.onnx --job "$job" --target cuda --gpu-arch sm_90 "$@" -o "$name"
}

# expect_calls PROGRAM COUNT: the step has so many calls of the library for attention, forward and backward.
expect_calls() {
  local found
  found=$("./$1" --plan | grep -oE '[0-9]+ library attention' | head -1 | grep -oE '^[0-9]+' || echo 0)
  [ "$found" = "$2" ] || fail "$1 has $found calls for attention, not $2"
}

python3 "$(dirname "$0")/write_tokens.py" data 50 16
"$tools/ashlar-zoo" transformer --seed 2 -o transformer.onnx
parallel=$jobs/transformer_tensor_parallel.txtpb
sed '/^mode:/d; /^mesh {/,/^}/d; /^rules/d' "$parallel" > single.txtpb

# bf16 has 8 bits; the losses fall by a quarter in these steps, and roundings grow with them.
{ cat single.txtpb; echo 'precision: BF16_MIXED'; } > bf16.txtpb
"$tools/ashlarc" transformer.onnx --job bf16.txtpb -o cpu
cuda bf16.txtpb gpu
expect_calls gpu 4
./cpu --data data --steps 6 --log-every 1 --eval > cpu.log
./on_emulator 1 ./gpu --data data --steps 6 --log-every 1 --eval > gpu.log
expect_close cpu.log gpu.log 1e-2
./on_emulator 1 ./gpu --data data --steps 6 --log-every 1 --no-graph > eager.log
expect_same_losses gpu.log eager.log "the captured step computes other numbers"
./on_emulator 1 env ASHLAR_EMULATOR_SEED=9 ./gpu --data data --steps 6 --log-every 1 > order.log
expect_same_losses gpu.log order.log "another order of independent work gives other numbers"

# Two ranks: half of the batch each, half of the heads each.
{ cat "$parallel"; echo 'precision: BF16_MIXED'; } > parallel.txtpb
for mesh in dp=2,tp=1 dp=1,tp=2; do
  cuda parallel.txtpb split --mesh $mesh
  expect_calls split 4
  ./on_emulator 2 mpirun -n 2 ./split --data data --steps 6 --log-every 1 > $mesh.log
  expect_close cpu.log $mesh.log 1e-2
done

# Layers computed again: the forward pass has its calls twice.
{ cat bf16.txtpb; echo 'rules { match: "layer*" recompute: true }'; } > again.txtpb
cuda again.txtpb again
expect_calls again 6
./on_emulator 1 ./again --data data --steps 6 --log-every 1 > again.log
expect_close cpu.log again.log 1e-2

# Two stages with slots: a call has the addresses of each.
{ cat bf16.txtpb; echo 'mode: SEMI_AUTO mesh { axes { name: "dp" size: 1 } } rules { match: "tokens" layout: "[{dp}, {}]" } pipeline { stages: 2 micro_batches: 4 }'; } > stages.txtpb
cuda stages.txtpb stages
./on_emulator 2 mpirun -n 2 ./stages --data data --steps 6 --log-every 1 > stages.log
expect_close cpu.log stages.log 1e-2

# f16 with a loss scale.
{ cat single.txtpb; echo 'precision: F16_MIXED'; } > f16.txtpb
"$tools/ashlarc" transformer.onnx --job f16.txtpb -o cpu16
cuda f16.txtpb gpu16
expect_calls gpu16 4
./cpu16 --data data --steps 6 --log-every 1 > cpu16.log
./on_emulator 1 ./gpu16 --data data --steps 6 --log-every 1 > gpu16.log
expect_close cpu16.log gpu16.log 1e-2

# A mask that is added, of one row that is repeated for all.
python3 "$(dirname "$0")/masked_attention_model.py" masked.onnx
{ sed 's/^global_batch:.*/global_batch: 16/' "$jobs/mlp.txtpb"; echo 'precision: BF16_MIXED'; } > masked.txtpb
"$tools/ashlarc" masked.onnx --job masked.txtpb --mesh dp=1 -o masked_cpu
./masked_cpu --steps 6 --log-every 1 > masked_cpu.log
for ranks in 1 2; do
  "$tools/ashlarc" masked.onnx --job masked.txtpb --mesh dp=$ranks --target cuda --gpu-arch sm_90 -o masked
  expect_calls masked 2
  ./on_emulator $ranks mpirun -n $ranks ./masked --steps 6 --log-every 1 > masked.log
  expect_close masked_cpu.log masked.log 1e-2
done

# expect_kernels COUNT MODEL JOB OPTIONS...: the step has so many kernels of attention, and no call.
expect_kernels() {
  local count=$1 model=$2 job=$3 found
  shift 3
  "$tools/ashlarc" "$model" --job "$job" --target cuda "$@" --emit exec -o - | sed -n '/exec.program @train_step/,/^    }/p' > step.mlir
  found=$(grep -c 'exec.kernel @attention_kernel' step.mlir)
  [ "$found" = "$count" ] || fail "$model with $job $* has $found kernels of attention, not $count"
  if grep -q exec.attention step.mlir; then fail "$model with $job $* has calls for attention"; fi
}

# Kernels in place of calls: of each layer one forward, and three backward, for a large log-sum-exp and by keys and rows. In f32, and of heads of 4 in
# bf16.
cuda single.txtpb plain
expect_kernels 8 transformer.onnx single.txtpb
"$tools/ashlarc" transformer.onnx --job single.txtpb -o plain_cpu
./plain_cpu --data data --steps 6 --log-every 1 --eval > plain_cpu.log
./on_emulator 1 ./plain --data data --steps 6 --log-every 1 --eval > plain.log
expect_close plain_cpu.log plain.log 1e-5
cuda "$parallel" plain_2 --mesh dp=1,tp=2
expect_kernels 8 transformer.onnx "$parallel" --mesh dp=1,tp=2
./on_emulator 2 mpirun -n 2 ./plain_2 --data data --steps 6 --log-every 1 --eval > plain_2.log
expect_close plain_cpu.log plain_2.log 1e-5
"$tools/ashlar-zoo" transformer --seed 2 --heads 16 -o narrow.onnx
"$tools/ashlarc" narrow.onnx --job bf16.txtpb -o narrow_cpu
"$tools/ashlarc" narrow.onnx --job bf16.txtpb --target cuda --gpu-arch sm_90 -o narrow
expect_kernels 8 narrow.onnx bf16.txtpb
./narrow_cpu --data data --steps 6 --log-every 1 > narrow_cpu.log
./on_emulator 1 ./narrow --data data --steps 6 --log-every 1 > narrow.log
expect_close narrow_cpu.log narrow.log 1e-2

# Weights that are dropped inside of the kernels, on ranks that share samples, heads, or keys, whose parts are combined.
python3 "$(dirname "$0")/attention_dropout_model.py" dropout.onnx
. "$(dirname "$0")/attention_dropout_jobs.sh"
for precision in F32 BF16_MIXED; do
  bound=1e-4
  [ $precision = F32 ] || bound=1e-2
  for job in "$jobs/mlp.txtpb" heads.txtpb keys.txtpb; do
    { sed 's/^global_batch:.*/global_batch: 16/' "$job"; echo "precision: $precision"; } > "$precision.$(basename "$job")"
  done
  "$tools/ashlarc" dropout.onnx --job $precision.mlp.txtpb --mesh dp=1 -o dropout_cpu
  ./dropout_cpu --steps 4 --log-every 1 > dropout_cpu.log
  while read -r ranks job mesh; do
    "$tools/ashlarc" dropout.onnx --job $precision.$job.txtpb --mesh $mesh --target cuda --gpu-arch sm_90 -o dropout
    expect_kernels 4 dropout.onnx $precision.$job.txtpb --mesh $mesh
    ./on_emulator $ranks mpirun -n $ranks ./dropout --steps 4 --log-every 1 > dropout.log < /dev/null
    expect_close dropout_cpu.log dropout.log $bound
  done <<END
1 mlp dp=1
2 mlp dp=2
2 heads dp=1,tp=2
2 keys dp=1,cp=2
END
done

# By request, without either.
"$tools/ashlarc" transformer.onnx --job bf16.txtpb --target cuda --no-attention --emit nn -o without.mlir
grep -q nn.softmax without.mlir || fail "attention is not left as it was"
cuda bf16.txtpb without --no-attention
expect_calls without 0
./on_emulator 1 ./without --data data --steps 6 --log-every 1 > without.log
expect_close cpu.log without.log 1e-2

# An engine whose sums have any order is reported; a graph without an engine ends the start with one line and the way out.
./on_emulator 1 env ASHLAR_EMULATOR_CUDNN_ENGINES=37 ./gpu --data data --steps 2 > any.log 2> any.err
if grep -q 'last bits' any.err; then fail "an engine with sums in any order is taken where another one is there"; fi
./on_emulator 1 env ASHLAR_EMULATOR_CUDNN_ENGINES=3 ./gpu --data data --steps 2 > none.log 2> none.err && fail "a program runs without an engine"
grep -q 'error: .*has no engine for an attention of 16 x 4 heads.*--no-attention' none.err || fail "the reason is missing: $(cat none.err)"

# Compiler and runtime count the same workspace: 32 MiB, 16 x 4 heads of 16 x 16 numbers in f32, and one for each row.
"$tools/ashlarc" transformer.onnx --job bf16.txtpb --target cuda --memory 1MB -o large 2> large.err && fail "a program in 1 MB"
grep -q 'matrix products 33.62 MB' large.err || fail "other bytes are planned: $(cat large.err)"
./on_emulator 1 env ASHLAR_EMULATOR_MEMORY=1048576 ./gpu --data data --steps 2 > small.log 2> small.err && fail "a program runs in 1 MiB"
grep -q 'matrix products 32.1 MiB' small.err || fail "other bytes are taken: $(cat small.err)"
