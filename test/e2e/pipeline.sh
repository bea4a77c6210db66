# SPDX-License-Identifier: Apache-2.0
#
# A pipeline trains what one stage trains: every schedule, stages by rule and by cost, data parallelism and optimizer levels inside a stage, a norm
# over all stages, losses, evaluation, and the parameters of all stages. The reference adds up the same micro-batches in one program.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pipeline_job.sh"

"$tools/ashlar-zoo" mlp --layers 4 --width 48 -o mlp.onnx

# job STAGES ORDER OPTIMIZER [LINE]: of STAGES stages, with ORDER the fields that say in which order they work; 1: of none, which adds up the same
# micro-batches.
job() {
  local stages="pipeline { stages: $1 micro_batches: 6 $2 }"
  [ "$1" != 1 ] || stages='accumulate: 6'
  pipeline_job 48 100 "$3" "$stages" "${4:-}"
}

# train NAME RANKS JOB...: compiles the job and trains into the folder NAME.
train() {
  job "${@:3}" > "$1.txtpb"
  "$tools/ashlarc" mlp.onnx --job "$1.txtpb" -o "$1.program"
  rm -rf "$1"
  mpirun -n "$2" "./$1.program" --steps 8 --log-every 1 --eval --save-parameters "$1" > "$1.log" || fail "$1 does not run"
}

# compare NAME REFERENCE: the same parameters, losses and evaluation. Kernels are grouped otherwise in stages, so f32 rounds otherwise in eight steps;
# losses of the evaluation are printed with four digits.
compare() {
  expect_same_parameters "$2" "$1" 1e-5
  python3 - "$1.log" "$2.log" << 'PYTHON' || fail "$1: other losses than $2"
import re, sys
found = [re.findall(r"(?:loss|accuracy) is ([-0-9.e+]+)", open(name).read()) for name in sys.argv[1:]]
assert len(found[0]) == len(found[1]) == 10, found  # 8 steps, and loss and accuracy of the evaluation
assert all(abs(float(a) - float(b)) <= 1e-4 * abs(float(b)) for a, b in zip(*found)), found
norms = [re.findall(r"gradient norm ([0-9.e+-]+);", open(name).read()) for name in sys.argv[1:]]
assert len(norms[0]) == len(norms[1]) == (8 if sys.argv[2] in ("clipped.log", "adamw.log") else 0), norms
assert all(abs(float(a) - float(b)) <= 1e-3 * float(b) for a, b in zip(*norms)), norms
PYTHON
}

train reference 2 1 "" "$momentum"
train clipped 2 1 "" "$clip"
train adamw 2 1 "" "$adamw"
! diff -r reference clipped > /dev/null || fail "the norm bounds nothing"
for schedule in GPIPE ONE_F_ONE_B ZERO_BUBBLE; do
  train "$schedule.2" 4 2 "schedule: $schedule" "$momentum"
  compare "$schedule.2" reference
  train "$schedule.4" 8 4 "schedule: $schedule" "$clip"
  compare "$schedule.4" clipped
done

# Twice through the stages: with as many micro-batches as fill groups, and not; a norm over all, and an evaluation of 100 samples in batches of 8.
train interleaved.2 4 2 "schedule: INTERLEAVED chunks: 2" "$momentum"
compare interleaved.2 reference
train interleaved.4 8 4 "schedule: INTERLEAVED chunks: 2" "$clip"
compare interleaved.4 clipped
./interleaved.2.program --plan > interleaved.plan
grep -q "^forward_1 " interleaved.plan || fail "the plan says nothing of the second chunk: $(cat interleaved.plan)"
if grep -q "^eval_step" interleaved.plan; then fail "the plan counts the evaluation among the programs of a step"; fi

# An order of one's own: what a schedule has chosen, as it is written, and another one, with the weights apart.
"$tools/ashlarc" mlp.onnx --job interleaved.2.txtpb --save-order saved.txt -o same.program
train saved 4 2 'chunks: 2 order: "saved.txt"' "$momentum"
compare saved reference
./saved.program --plan > saved.plan
grep -q "an order of its own" saved.plan || fail "the plan does not say whose order it is"
for job in saved interleaved.2; do "$tools/ashlarc" mlp.onnx --job $job.txtpb --emit exec -o $job.exec; done
cmp saved.exec interleaved.2.exec || fail "a saved order makes another program"
cat > own.txt << 'ORDER'
# the second stage does what only it waits for at the end
stage 0: F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 F5 B3 W3
         B4 W4 B5 W5
stage 1: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 W0 W1 W2 W3 W4 W5
ORDER
train own 4 2 'order: "own.txt"' "$clip"
compare own clipped
# One micro-batch at a time: a slot a stage, so an evaluation has to take one batch at a time, too.
for stage in 0 1; do
  echo "stage $stage:$(for i in 0 1 2 3 4 5; do echo -n " F$i.0 F$i.1 B$i.1 B$i.0"; done)"
done > single.txt
train single 4 2 'chunks: 2 order: "single.txt"' "$momentum"
compare single reference
./single.program --plan > single.plan
grep -q "^stage  *0 of 2, 1 slot;" single.plan || fail "the plan of one micro-batch at a time says: $(grep "^stage" single.plan)"

# Rules say where the stages meet; levels split within them.
train ruled 6 3 "schedule: ONE_F_ONE_B" "$momentum" 'rules { match: "fc1" pipeline_stage: 0 } rules { match: "fc2" pipeline_stage: 1 } rules { match: "fc3" pipeline_stage: 2 }'
compare ruled reference
./ruled.program --plan > ruled.plan
grep -q "^stage  *0 of 3, 3 slots; sends" ruled.plan || fail "the plan says of the first stage: $(grep "^stage" ruled.plan)"
for level in 1 2 3; do
  train level.$level 4 2 "schedule: ONE_F_ONE_B" "$adamw" "optimizer_parallel { level: $level threshold_kb: 1 }"
  compare level.$level adamw
done

# On two hosts that share no memory.
export ASHLAR_FORCE_HOSTS=2
rm -rf hosts
mpirun -n 4 ./ONE_F_ONE_B.2.program --steps 8 --log-every 1 --eval --save-parameters hosts > hosts.log || fail "it does not run on two hosts"
compare hosts reference
rm -rf hosts.chunks
mpirun -n 4 ./interleaved.2.program --steps 8 --log-every 1 --eval --save-parameters hosts.chunks > hosts.chunks.log || fail "chunks do not run on two hosts"
compare hosts.chunks reference
unset ASHLAR_FORCE_HOSTS

expect_error "compiled for 4 (2 stages of dp=2)" mpirun -n 2 ./ONE_F_ONE_B.2.program
