# SPDX-License-Identifier: Apache-2.0
#
# --trace of compiled programs: every program of the order as often as it should run, messages with both their ends, planned beside measured; pipelines of two and
# four stages on one host and on two, one program without a pipeline, collectives that overlap computation. Losses are those of a run without a trace.

. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)

# expect_trace FILE ARGUMENT...: check_trace.py finds nothing wrong.
expect_trace() {
  python3 "$here/check_trace.py" "$@" > checked.log || fail "$1 is not the trace that it should be"
}

"$tools/ashlar-zoo" mlp -o mlp.onnx
stage="forward=8,backward=8,update=1@7"

# Two stages of two devices.
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" -o two
mpirun -n 4 ./two --steps 12 --log-every 1 > plain.log
mpirun -n 4 ./two --steps 12 --log-every 1 --trace two.json > traced.log
expect_same_losses plain.log traced.log "a trace changes losses"
grep -qx "trace of steps 3 to 5 in two.json" traced.log || fail "the run does not say what it traced"
expect_trace two.json --ranks 4 --steps 3-5 --programs "$stage;$stage" --overlap
[ "$(ls -A | grep -c '^.ashlar')" = 0 ] || fail "a temporary file is left"

# On two hosts the clocks are compared.
ASHLAR_FORCE_HOSTS=2 mpirun -n 4 ./two --steps 12 --trace hosts.json --trace-steps 12 > hosts.log
expect_trace hosts.json --ranks 4 --steps 12-12 --programs "$stage;$stage" --overlap
grep -q '"rank":3.*"clock_error_us":0.000' hosts.json && fail "the clock of rank 3 was not compared"

# Four stages; each schedule has an order of its own. The first stage has nothing to send back: with ZERO_BUBBLE all of its backward pass is weights.
for schedule in GPIPE ZERO_BUBBLE; do
  sed -e 's/size: 2/size: 1/' -e "s/stages: 2.*schedule: ONE_F_ONE_B/stages: 4 micro_batches: 8 schedule: $schedule/" "$jobs/mlp_pipeline_1f1b.txtpb" > four.txtpb
  "$tools/ashlar-zoo" mlp --layers 4 --width 256 -o four.onnx
  "$tools/ashlarc" four.onnx --job four.txtpb -o four
  mpirun -n 4 ./four --steps 6 --trace four.json --trace-steps 2-4 > four.log
  split="forward=8,backward=8,weights=8,update=1@7"
  [ $schedule = GPIPE ] && programs="$stage;$stage;$stage;$stage" || programs="forward=8,weights=8,update=1@7;$split;$split;$split"
  expect_trace four.json --ranks 4 --steps 2-4 --programs "$programs"
done

# No pipeline: one program a step, or one a micro-batch and the update; chunks of one process.
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 -o one
mpirun -n 2 ./one --steps 4 --trace one.json > one.log
expect_trace one.json --ranks 2 --steps 2-4 --programs train_step=1
mpirun -n 2 ./one --steps 5 --deterministic --profile --trace deterministic.json > one.log
expect_trace deterministic.json --ranks 2 --steps 3-5 --programs train_step=1
{ cat "$jobs/mlp.txtpb"; echo "accumulate: 4"; } > accumulate.txtpb
"$tools/ashlarc" mlp.onnx --job accumulate.txtpb --mesh dp=2 -o accumulate
mpirun -n 2 ./accumulate --steps 5 --trace accumulate.json > one.log
expect_trace accumulate.json --ranks 2 --steps 3-5 --programs train_step=4,update=1@3

# Collectives beside computation have a track of their own.
{ cat "$jobs/mlp.txtpb"; echo "machine { ranks_per_host: 1 device { gflop_per_s: 20 } inter_host { bandwidth_gb_per_s: 1 } }"; } > beside.txtpb
"$tools/ashlarc" mlp.onnx --job beside.txtpb --mesh dp=2 -o beside
ASHLAR_FORCE_HOSTS=2 mpirun -n 2 ./beside --steps 5 --trace beside.json > one.log
expect_trace beside.json --ranks 2 --steps 3-5 --programs train_step=1
grep -q '"name":"asynchronous collectives"' beside.json || fail "no collective runs beside computation"

# A model that runs once.
"$tools/ashlar-zoo" elementwise -o elementwise.onnx
"$tools/ashlarc" elementwise.onnx -o forward
./forward --benchmark 5 --trace forward.json --trace-steps 2-6 > forward.log
expect_trace forward.json --ranks 1 --steps 2-6 --programs forward=1
echo "traces are as they should be"
