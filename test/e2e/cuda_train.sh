# SPDX-License-Identifier: Apache-2.0
#
# Training on the emulator: the cuda target gives the losses of the cpu target, on one rank and on several, with a captured step and without,
# each rank with a device of its own or all sharing one.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

# compile MODEL JOB NAME OPTIONS...: the same program for both targets, NAME_cpu and NAME_cuda.
compile() {
  local model=$1 job=$2 name=$3
  shift 3
  "$tools/ashlarc" "$model" --job "$job" --target cpu "$@" -o "${name}_cpu"
  "$tools/ashlarc" "$model" --job "$job" --target cuda --gpu-arch sm_90 "$@" -o "${name}_cuda"
}

"$tools/ashlar-zoo" linear -o linear.onnx
compile linear.onnx "$jobs/linear.txtpb" linear
./linear_cpu --steps 60 --log-every 5 > cpu.log
./on_emulator 1 ./linear_cuda --steps 60 --log-every 5 > cuda.log
# Sums in another order: 2^-24 a term, grown by 60 steps.
expect_close cpu.log cuda.log 1e-4
./on_emulator 1 ./linear_cuda --steps 60 --log-every 5 --no-graph > eager.log
expect_same_losses cuda.log eager.log "the captured step computes other numbers"
./on_emulator 1 env ASHLAR_EMULATOR_SEED=9 ./linear_cuda --steps 60 --log-every 5 > order.log
expect_same_losses cuda.log order.log "another order of independent work gives other numbers"

# A quarter of mlp's batch, so that the products take less time.
sed 's/^global_batch:.*/global_batch: 64/' "$jobs/mlp.txtpb" > mlp.txtpb
"$tools/ashlar-zoo" mlp -o mlp.onnx
compile mlp.onnx mlp.txtpb mlp --mesh dp=1
./mlp_cpu --steps 8 --log-every 1 --save-parameters mlp.parameters > cpu.log
./on_emulator 1 ./mlp_cuda --steps 8 --log-every 1 > cuda.log
expect_close cpu.log cuda.log 1e-4
for mesh in dp=2 dp=1,tp=2 dp=4; do
  "$tools/ashlarc" mlp.onnx --job mlp.txtpb --target cuda --gpu-arch sm_90 --mesh $mesh -o split
  ./on_emulator 4 mpirun -n "$(ranks_of split)" ./split --steps 8 --log-every 1 --save-parameters $mesh.parameters > $mesh.log
  expect_close cpu.log $mesh.log 1e-4
  expect_same_parameters mlp.parameters $mesh.parameters 1e-5 # the largest goes to rank 0 in parts
done
./on_emulator 1 env ASHLAR_SHARE_DEVICE=1 mpirun -n 4 ./split --steps 8 --log-every 1 > shared.log
expect_same_losses dp=4.log shared.log "ranks that share a device compute other numbers"

# Each rank runs the updates of what it owns.
sed 's/^global_batch:.*/global_batch: 64/' "$jobs/mlp_grouping.txtpb" > grouping.txtpb
compile mlp.onnx grouping.txtpb grouping
mpirun -n 4 ./grouping_cpu --steps 8 --log-every 1 --save-parameters grouping.parameters > cpu.log
for option in "" --no-graph --check-numerics; do
  # shellcheck disable=SC2086 # an option or nothing
  ./on_emulator 4 mpirun -n 4 ./grouping_cuda --steps 8 --log-every 1 --save-parameters grouping.cuda $option > grouping.log
  expect_close cpu.log grouping.log 1e-4
  expect_same_parameters grouping.parameters grouping.cuda 1e-4
done

# In bf16, and in f16 with a loss scale so large that the first steps are left out; sums round where the cpu target's do, in another order.
for precision in BF16_MIXED F16_MIXED; do
  { cat mlp.txtpb; echo "precision: $precision"; [ $precision = BF16_MIXED ] || echo 'loss_scale { initial: 16777216 }'; } > mixed.txtpb
  compile mlp.onnx mixed.txtpb mixed --mesh dp=1
  "$tools/ashlarc" mlp.onnx --job mixed.txtpb --target cuda --gpu-arch sm_90 --mesh dp=2 -o split
  ./mixed_cpu --steps 8 --log-every 1 > cpu.log
  ./on_emulator 1 ./mixed_cuda --steps 8 --log-every 1 > cuda.log
  ./on_emulator 2 mpirun -n 2 ./split --steps 8 --log-every 1 > split.log
  expect_close cpu.log cuda.log 1e-2
  expect_close cpu.log split.log 1e-2
done

python3 "$(dirname "$0")/dropout_model.py" dropout.onnx
compile dropout.onnx mlp.txtpb dropout --mesh dp=1
"$tools/ashlarc" dropout.onnx --job mlp.txtpb --target cuda --gpu-arch sm_90 --mesh dp=2 -o split
./dropout_cpu --steps 6 --log-every 1 > cpu.log
./on_emulator 1 ./dropout_cuda --steps 6 --log-every 1 > cuda.log
./on_emulator 2 mpirun -n 2 ./split --steps 6 --log-every 1 > split.log
expect_close cpu.log cuda.log 1e-4
expect_close cpu.log split.log 1e-4

# A small GPT: embedding, attention, norms, tensor parallel too.
python3 "$(dirname "$0")/write_tokens.py" data 50 16
"$tools/ashlar-zoo" transformer --seed 2 -o transformer.onnx
sed '/^mode:/d; /^mesh {/,/^}/d; /^rules/d' "$jobs/transformer_tensor_parallel.txtpb" > single.txtpb
compile transformer.onnx single.txtpb transformer
./transformer_cpu --data data --steps 6 --log-every 1 --eval --save-parameters cpu.parameters > cpu.log
./on_emulator 1 ./transformer_cuda --data data --steps 6 --log-every 1 --eval --save-parameters cuda.parameters > cuda.log
expect_close cpu.log cuda.log 1e-3
expect_same_parameters cpu.parameters cuda.parameters 1e-4
evaluation cpu.log > cpu.eval
evaluation cuda.log | cmp cpu.eval - || fail "evaluation differs: $(evaluation cuda.log)"
for mesh in dp=2,tp=2 dp=1,tp=3; do
  "$tools/ashlarc" transformer.onnx --job "$jobs/transformer_tensor_parallel.txtpb" --target cuda --gpu-arch sm_90 --mesh $mesh -o split
  ./on_emulator 4 mpirun -n "$(ranks_of split)" ./split --data data --steps 6 --log-every 1 --save-parameters $mesh.parameters > $mesh.log
  expect_close cpu.log $mesh.log 1e-3
  expect_same_parameters cpu.parameters $mesh.parameters 1e-4
done

# Layers computed again, one rank and four.
{ cat single.txtpb; echo 'rules { match: "layer*" recompute: true }'; } > again.txtpb
"$tools/ashlarc" transformer.onnx --job again.txtpb --target cuda --gpu-arch sm_90 -o again
./on_emulator 1 ./again --data data --steps 6 --log-every 1 > again.log
expect_close cpu.log again.log 1e-3
"$tools/ashlarc" transformer.onnx --job "$jobs/transformer_recompute.txtpb" --target cuda --gpu-arch sm_90 -o again
"$tools/ashlarc" transformer.onnx --job "$jobs/transformer_recompute.txtpb" -o again_cpu
mpirun -n 4 ./again_cpu --data data --steps 6 --log-every 1 > again_cpu.log
./on_emulator 4 mpirun -n 4 ./again --data data --steps 6 --log-every 1 > again.log
expect_close again_cpu.log again.log 1e-3

# --eval with a last batch that is not full, and of less than one batch; what it has to print is e2e_evaluation's.
echo 'global_batch: 6 loss { softmax_cross_entropy { logits: "logits" labels: "label" } } optimizer { sgd {} learning_rate: 0.01 }
dataset { npy {} features { column: "x" tensor: "x" } features { column: "label" tensor: "label" } }' > evaluation.txtpb
python3 "$(dirname "$0")/evaluation_model.py" model evaluation.onnx
"$tools/ashlarc" evaluation.onnx --job evaluation.txtpb -o evaluation_cpu
for count in 5 13; do
  python3 "$(dirname "$0")/evaluation_model.py" data data_$count $count
  ./evaluation_cpu --data data_$count --steps 0 --eval > cpu.log
  evaluation cpu.log > cpu.eval
  for mesh in dp=1 dp=2; do
    "$tools/ashlarc" evaluation.onnx --job evaluation.txtpb --target cuda --gpu-arch sm_90 --mesh $mesh -o split
    ./on_emulator 2 mpirun -n "$(ranks_of split)" ./split --data data_$count --steps 0 --eval > cuda.log
    evaluation cuda.log | cmp cpu.eval - || fail "evaluation of $count samples on $mesh differs: $(evaluation cuda.log)"
  done
done
