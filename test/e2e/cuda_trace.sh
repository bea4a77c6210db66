# SPDX-License-Identifier: Apache-2.0
#
# --trace of the cuda target, on the emulator: when programs ran, by the clock of the device, captured and not, on one rank and on two.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"
here=$(cd "$(dirname "$0")" && pwd)

# expect_trace FILE ARGUMENT...: check_trace.py finds nothing wrong.
expect_trace() {
  python3 "$here/check_trace.py" "$@" --programs-only > checked.log || fail "$1 is not the trace that it should be"
}

"$tools/ashlar-zoo" linear -o linear.onnx
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" --target cuda --gpu-arch sm_90 --mesh dp=1 -o one
./on_emulator 1 ./one --steps 20 --log-every 1 > plain.log
./on_emulator 1 ./one --steps 20 --log-every 1 --trace one.json > traced.log
expect_same_losses plain.log traced.log "a trace changes losses"
expect_trace one.json --ranks 1 --steps 3-5 --programs train_step=1
./on_emulator 1 ./one --steps 20 --no-graph --trace one.json --trace-steps 1-20 > traced.log
expect_trace one.json --ranks 1 --steps 1-20 --programs train_step=1

# Several micro-batches and ranks.
{ cat "$jobs/linear.txtpb"; echo "accumulate: 2"; } > accumulate.txtpb
"$tools/ashlarc" linear.onnx --job accumulate.txtpb --target cuda --gpu-arch sm_90 --mesh dp=2 -o two
./on_emulator 2 mpirun -n 2 ./two --steps 6 --trace two.json > traced.log
expect_trace two.json --ranks 2 --steps 3-5 --programs train_step=1,train_step+update=1@1

# A model that runs once.
"$tools/ashlar-zoo" elementwise -o elementwise.onnx
"$tools/ashlarc" elementwise.onnx --target cuda --gpu-arch sm_90 -o forward
./on_emulator 1 ./forward --benchmark 2 --trace forward.json --trace-steps 1-2 > forward.log
expect_trace forward.json --ranks 1 --steps 1-2 --programs forward=1
