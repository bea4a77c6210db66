# SPDX-License-Identifier: Apache-2.0
#
# ashlarc --calibrate: what two ranks measure is a machine that jobs are compiled with, with numbers that can be right.

. "$(dirname "$0")/common.sh"

TIMEFORMAT='%U'
seconds=$({ time "$tools/ashlarc" --calibrate machine.txtpb --ranks 2; } 2>&1)
expect_less "$seconds" 60 "seconds of a processor, of two ranks" # 14 and less were seen
cat machine.txtpb

# number FIELD: the first one of that name.
number() {
  sed -n "s/^ *$1: \([0-9.e+-]*\).*/\1/p" machine.txtpb | head -n 1
}
# rate TABLE FROM: GFLOP/s of f32.
rate() {
  sed -n "s/^ *$1 { from: $2 gflop_per_s: \([0-9.e+-]*\) .*/\1/p" machine.txtpb
}
for field in gflop_per_s narrow_gflop_per_s memory_gb_per_s launch_us bandwidth_gb_per_s; do
  expect_less 0 "$(number $field)" "$field"
done
# Whatever the processor is, and whatever else it does: vectors are faster than their parts, one row of a product has no use for them, and
# no core does 10^13 operations a second.
expect_less "$(rate products 1)" "$(rate products 128)" "products of one row against large ones"
expect_less "$(rate convolutions 1)" "$(rate convolutions 64)" "convolutions of one channel against those of 64"
expect_less "$(rate attentions 1)" "$(rate attentions 64)" "attentions of one row against those of 256 of width 64"
expect_less "$(number gflop_per_s)" 10000 "GFLOP/s"
expect_less "$(number memory_gb_per_s)" 1000 "GB/s of memory"
expect_less "$(number launch_us)" 100 "us of a launch"
for kind in ALL_REDUCE REDUCE_SCATTER ALL_TO_ALL ALL_GATHER BROADCAST; do
  grep -q "collectives { kind: $kind latency_us: [0-9.e+-]* bandwidth_gb_per_s: [0-9.e+-]* }  # 7 times" machine.txtpb || fail "no $kind"
done
! grep -q "^  inter_host" machine.txtpb || fail "links between hosts were not measured"

# Jobs are compiled and planned with it, whatever machine they have themselves; the program does what it did.
"$tools/ashlar-zoo" mlp -o mlp.onnx
{ cat "$jobs/mlp.txtpb"; echo 'machine { device { gflop_per_s: 0.001 } }'; } > slow.txtpb
"$tools/ashlarc" mlp.onnx --job slow.txtpb --mesh dp=2 --machine machine.txtpb --report with.json -o with
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 -o without
for program in with without; do
  mpirun -n 2 ./$program --steps 5 --log-every 1 --threads 1 > $program.log
done
expect_same_losses with.log without.log "the machine changes what a program computes"
"$tools/ashlarc" plan mlp.onnx --job slow.txtpb --mesh dp=2 --machine machine.txtpb --json with_plan.json > plan.log
"$tools/ashlarc" plan mlp.onnx --job slow.txtpb --mesh dp=2 --json slow_plan.json > plan.log
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 --machine machine.txtpb --emit dist -o with.mlir
grep -q "products = \[<from = 1, " with.mlir || fail "the programs do not have the rates"
grep -q "kinds = \[<kind = all_reduce, " with.mlir || fail "the mesh does not have the costs of kinds"
python3 - <<'PYTHON' || fail "the predicted steps are wrong"
import json
step = {name: json.load(open(f"{name}_plan.json"))["meshes"][0]["step_ns"] for name in ("with", "slow")}
assert step["with"] > 0 and step["slow"] > 1000 * step["with"], step
PYTHON

# One rank needs no mpirun, and has no links. An error leaves what was there.
PATH=/nonexistent "$tools/ashlarc" --calibrate one.txtpb --ranks 1
! grep -q "^  intra_host" one.txtpb || fail "links of one rank"
cp one.txtpb before.txtpb
expect_error "there is no mpirun on the PATH to start them; install Open MPI, or measure one: --ranks 1" \
  env PATH=/nonexistent "$tools/ashlarc" --calibrate one.txtpb --ranks 2
cmp one.txtpb before.txtpb || fail "a failed calibration wrote to its output"
