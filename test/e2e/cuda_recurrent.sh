# SPDX-License-Identifier: Apache-2.0
#
# Loops on the emulator: recurrent models give the losses of the cpu target on one rank and on two, captured, step by step, and watched; the
# executable of a loop is as large for 8 steps as for 512.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"
here=$(cd "$(dirname "$0")" && pwd)

sed 's/^global_batch:.*/global_batch: 32/' "$jobs/mlp.txtpb" > batch.txtpb

# compile MODEL JOB MESH OUTPUT
compile() {
  "$tools/ashlarc" "$1" --job "$2" --mesh "$3" --target cuda --gpu-arch sm_90 -o "$4"
}

# A Scan, an LSTM in both directions and a GRU; parameters read and left as rows of constants, and of states of all steps.
python3 "$here/recurrent_model.py" recurrent.onnx
"$tools/ashlarc" recurrent.onnx --job batch.txtpb --mesh dp=1 -o cpu
./cpu --steps 6 --log-every 1 --eval > cpu.log
evaluation cpu.log > cpu.eval
compile recurrent.onnx batch.txtpb dp=1 one
./on_emulator 1 ./one --steps 6 --log-every 1 --eval > one.log
expect_close cpu.log one.log 1e-4
evaluation one.log | cmp cpu.eval - || fail "evaluation differs: $(evaluation one.log)"
for option in --no-graph --check-numerics --profile=all; do
  ./on_emulator 1 ./one --steps 6 --log-every 1 $option > watched.log
  expect_same_losses one.log watched.log "$option computes other numbers"
done
# The profile counts an instruction of a loop once a step, and names no iterations: 14 steps, 6 runs, a kernel for both directions.
grep -qE '^ +[0-9.]+ % +[0-9.]+ us +168 calls +[a-z]+_[0-9]+ lstm$' watched.log || fail "no kernel of the LSTM runs once a step"
./on_emulator 1 env ASHLAR_EMULATOR_SEED=9 ./one --steps 6 --log-every 1 > order.log
expect_same_losses one.log order.log "another order of independent work gives other numbers"
./on_emulator 1 ./one --steps 8 --log-every 1 --trace one.json > traced.log
python3 "$here/check_trace.py" one.json --ranks 1 --steps 3-5 --programs train_step=1 --programs-only || fail "the trace is wrong"
compile recurrent.onnx batch.txtpb dp=2 two
./on_emulator 2 mpirun -n 2 ./two --steps 6 --log-every 1 > two.log
expect_close cpu.log two.log 1e-4

# Two stages, each with loops: every micro-batch has its slot.
{ grep -v '^global_batch\|^pipeline' "$jobs/mlp_pipeline_1f1b.txtpb"; echo 'global_batch: 32'; } > whole.txtpb
{ cat whole.txtpb; echo 'accumulate: 4'; } > accumulate.txtpb
{ cat whole.txtpb; echo 'pipeline { stages: 2 micro_batches: 4 schedule: ONE_F_ONE_B }'; } > pipeline.txtpb
"$tools/ashlarc" recurrent.onnx --job accumulate.txtpb --mesh dp=1 -o cpu
./cpu --steps 4 --log-every 1 > cpu.log
compile recurrent.onnx pipeline.txtpb dp=1 stages
for option in "" --check-numerics; do
  # shellcheck disable=SC2086 # an option or nothing
  ./on_emulator 2 mpirun -n 2 ./stages --steps 4 --log-every 1 $option > stages.log
  expect_close cpu.log stages.log 1e-4
done

# A NaN that one iteration leaves in its row: the check names the instruction.
python3 - << 'PYTHON'
from npy_writer import write_npy
from onnx_writer import body, graph_input, graph_output, node, write_model

logs = body("logs", [node("Log", ["row"], ["log"], "log")], ["row"], ["log"])
write_model("logs.onnx", "logs", [node("Scan", ["x"], ["y"], num_scan_inputs=1, body=logs), graph_input("x", [5, 16]), graph_output("y", [5, 16])])
write_npy("good.npy", "f", (5, 16), [1] * 80)
write_npy("bad.npy", "f", (5, 16), [1] * 50 + [-1] + [1] * 29)
PYTHON
"$tools/ashlarc" logs.onnx --target cuda --gpu-arch sm_90 -o logs
./on_emulator 1 ./logs --input x=good.npy --check-numerics > nan.log 2>&1 || { cat nan.log >&2; fail "--check-numerics finds a NaN where none is"; }
! ./on_emulator 1 ./logs --input x=bad.npy --check-numerics > nan.log 2>&1 || fail "--check-numerics finds no NaN"
grep -q 'NaN in run 1 of .*loop_0 .*log.* element 2 of operand 1, f32 of 16 elements' nan.log || { cat nan.log >&2; fail "--check-numerics does not name the row"; }

# A body with work of all kinds, and with a mean over samples, which ranks combine in each iteration while they compute.
python3 "$here/bodies_model.py" bodies.onnx
for precision in F32 BF16_MIXED; do
  { cat batch.txtpb; echo "precision: $precision"; } > bodies.txtpb
  tolerance=$([ $precision = F32 ] && echo 1e-4 || echo 2e-2)
  "$tools/ashlarc" bodies.onnx --job bodies.txtpb --mesh dp=1 -o cpu
  ./cpu --steps 5 --log-every 1 > cpu.log
  compile bodies.onnx bodies.txtpb dp=1 one
  ./on_emulator 1 ./one --steps 5 --log-every 1 > one.log
  expect_close cpu.log one.log $tolerance
  compile bodies.onnx bodies.txtpb dp=2 two
  for option in "" --no-graph --check-numerics --profile; do
    # shellcheck disable=SC2086 # an option or nothing
    ./on_emulator 2 mpirun -n 2 ./two --steps 5 --log-every 1 $option > two.log
    expect_close cpu.log two.log $tolerance
  done
done

# The code of a loop does not depend on its steps.
sed '/^dataset {/,/^}/d' batch.txtpb > long.txtpb
echo 'dataset { npy {} features { column: "x" tensor: "input" } features { column: "label" tensor: "labels" } }' >> long.txtpb
for steps in 8 512; do
  python3 "$here/recurrent_model.py" long.onnx $steps
  "$tools/ashlarc" long.onnx --job long.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 --emit ptx -o $steps.ptx
done
python3 - << 'PYTHON' || fail "the code of 512 steps is longer than that of 8: $(wc -c 8.ptx 512.ptx)"
import os
import sys

sys.exit(os.path.getsize("512.ptx") > 1.1 * os.path.getsize("8.ptx"))
PYTHON
