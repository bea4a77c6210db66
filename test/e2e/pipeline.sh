# SPDX-License-Identifier: Apache-2.0
#
# A pipeline trains what one stage trains: every schedule, stages by rule and by price, data parallelism and optimizer levels inside a stage, a norm
# over all stages, losses, evaluation, and the parameters of all stages. The reference adds up the same micro-batches in one program.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp --layers 4 --width 48 -o mlp.onnx

# job STAGES SCHEDULE OPTIMIZER [LINE]: of STAGES stages; 1: of none, which adds up the same micro-batches.
job() {
  cat << JOB
mode: SEMI_AUTO
mesh { axes { name: "dp" size: 2 } }
rules { match: "input" layout: "[{dp}, {}]" }
global_batch: 48
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { $3 }
dataset {
  digits { train_samples: 480 eval_samples: 100 }
  features { column: "image" tensor: "input" transforms { rescale { scale: 0.00392156862745098 } } }
  features { column: "label" tensor: "labels" }
}
epochs: 1
$([ "$1" = 1 ] && echo 'accumulate: 6' || echo "pipeline { stages: $1 micro_batches: 6 schedule: $2 }")
${4:-}
JOB
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
PYTHON
}

momentum='momentum { momentum: 0.9 } learning_rate: 0.05'
clip="$momentum clip_global_norm: 0.05"
adamw='adamw { weight_decay: 0.1 } learning_rate: 0.001 clip_global_norm: 0.05' # divides by roots of small numbers: rounding grows with the steps
train reference 2 1 "" "$momentum"
train clipped 2 1 "" "$clip"
train adamw 2 1 "" "$adamw"
! diff -r reference clipped > /dev/null || fail "the norm bounds nothing"
for schedule in GPIPE ONE_F_ONE_B ZERO_BUBBLE; do
  train "$schedule.2" 4 2 $schedule "$momentum"
  compare "$schedule.2" reference
  train "$schedule.4" 8 4 $schedule "$clip"
  compare "$schedule.4" clipped
done

# Rules say where the stages meet; levels split within them.
train ruled 6 3 ONE_F_ONE_B "$momentum" 'rules { match: "fc1" pipeline_stage: 0 } rules { match: "fc2" pipeline_stage: 1 } rules { match: "fc3" pipeline_stage: 2 }'
compare ruled reference
./ruled.program --plan > ruled.plan
grep -q "^stage  *0 of 3, 3 slots; sends" ruled.plan || fail "the plan says of the first stage: $(grep "^stage" ruled.plan)"
for level in 1 2 3; do
  train level.$level 4 2 ONE_F_ONE_B "$adamw" "optimizer_parallel { level: $level threshold_kb: 1 }"
  compare level.$level adamw
done

# On two hosts that share no memory.
export ASHLAR_FORCE_HOSTS=2
rm -rf hosts
mpirun -n 4 ./ONE_F_ONE_B.2.program --steps 8 --log-every 1 --eval --save-parameters hosts > hosts.log || fail "it does not run on two hosts"
compare hosts reference
unset ASHLAR_FORCE_HOSTS

expect_error "compiled for 4 (2 stages of dp=2)" mpirun -n 2 ./ONE_F_ONE_B.2.program
