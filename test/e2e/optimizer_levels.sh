# SPDX-License-Identifier: Apache-2.0
#
# Every optimizer at every level of optimizer_parallel, with --deterministic: the same bits on 1, 2 and 4 ranks. Element by element what a
# level computes is what whole parameters compute; LAMB's norms are summed over the pieces, in another order.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp --layers 2 --width 32 -o mlp.onnx

# optimizer NAME: as a job says it.
optimizer() {
  case $1 in
    sgd) echo 'optimizer { sgd {} learning_rate: 0.05 }' ;;
    momentum) echo 'optimizer { momentum { momentum: 0.9 } learning_rate: 0.02 }' ;;
    nesterov) echo 'optimizer { momentum { momentum: 0.9 nesterov: true } learning_rate: 0.02 }' ;;
    adam) echo 'optimizer { adam {} learning_rate: 0.01 }' ;;
    adamw) echo 'optimizer { adamw { weight_decay: 0.1 } learning_rate: 0.01 clip_global_norm: 0.5 }' ;;
    lamb) echo 'optimizer { lamb { weight_decay: 0.1 } learning_rate: 0.01 }' ;;
  esac
}

# train OPTIMIZER LEVEL RANKS: into OPTIMIZER.LEVEL.RANKS, the losses into that name with .losses.
train() {
  local name=$1.$2.$3
  {
    sed '/^optimizer {/,/^}/d; /^optimizer_parallel/d; s/^deterministic .*/deterministic { chunks: 4 always: true }/; s/global_batch: .*/global_batch: 32/' \
      "$jobs/mlp_zero1.txtpb"
    optimizer "$1"
    [ "$2" = 0 ] || echo "optimizer_parallel { level: $2 threshold_kb: 1 }"
  } > "$name.txtpb"
  "$tools/ashlarc" mlp.onnx --job "$name.txtpb" --mesh "dp=$3" -o program
  rm -rf "$name"
  mpirun -n "$3" ./program --deterministic --steps 3 --log-every 1 --save-parameters "$name" > "$name.log"
  losses "$name.log" > "$name.losses"
}

for name in sgd momentum nesterov adam adamw lamb; do
  train $name 0 1
  for level in 1 2 3; do
    train $name $level 1
    if [ $name = lamb ]; then
      expect_same_parameters $name.0.1 $name.$level.1 1e-5
    else
      diff -r $name.0.1 $name.$level.1 > /dev/null || fail "$name, level $level: parameters differ from those of whole parameters"
    fi
    for ranks in 2 4; do
      [ $ranks = 2 ] || [ $level = 3 ] || continue
      train $name $level $ranks
      cmp $name.$level.1.losses $name.$level.$ranks.losses || fail "$name, level $level: losses on 1 and on $ranks ranks differ"
      diff -r $name.$level.1 $name.$level.$ranks > /dev/null || fail "$name, level $level: parameters on 1 and on $ranks ranks differ"
    done
  done
done

# The levels split what they say, and optimizers are what they are called: other bits than plain SGD.
"$tools/ashlarc" mlp.onnx --job lamb.3.4.txtpb --mesh dp=4 --explain > explain.log
grep -q "^  fc1.weight  *32x784xf32  *\[{dp}, {}\]  *8x784xf32" explain.log || fail "level 3 does not split fc1.weight"
for name in momentum nesterov adam adamw lamb; do
  ! diff -r sgd.0.1 $name.0.1 > /dev/null || fail "$name gives the parameters of sgd"
done
! diff -r momentum.0.1 nesterov.0.1 > /dev/null || fail "nesterov gives the parameters of momentum"

# With micro-batches the sums of gradients are whole where a device has the memory, and the step is faster; one byte less, and they are split.
"$tools/ashlar-zoo" mlp --layers 6 --width 256 -o deep.onnx
for level in 2 3; do
  { sed '/^optimizer_parallel/d; /^deterministic/d; s/global_batch: .*/global_batch: 32/' "$jobs/mlp_zero1.txtpb"
    echo "optimizer_parallel { level: $level } accumulate: 4 machine { intra_host { bandwidth_gb_per_s: 0.1 } }"; } > sync.txtpb
  { cat sync.txtpb; echo 'gradient_sync: STEP'; } > step.txtpb
  "$tools/ashlarc" deep.onnx --job step.txtpb --mesh dp=4 --report step.json
  bytes=$(python3 -c 'import json; print(json.load(open("step.json"))["memory"]["bytes"])')
  for less in 0 1; do
    "$tools/ashlarc" deep.onnx --job sync.txtpb --mesh dp=4 --memory $((bytes - less))B --report sync.json --explain > explain.log
    python3 - $less << 'PYTHON' || fail "level $level, $less bytes less than gradients that are reduced once need: not what fits"
import json, sys
found, step = (json.load(open(f"{name}.json")) for name in ("sync", "step"))
once, each = found["gradient_sync"]["strategies"]
assert once["bytes"] == step["memory"]["bytes"] > each["bytes"] and once["step_ns"] < each["step_ns"], (once, each)
taken = (once, each)[int(sys.argv[1])]
assert (found["gradient_sync"]["taken"], found["memory"]["bytes"]) == (taken["name"], taken["bytes"]), found["gradient_sync"]
PYTHON
    grep -A1 "^gradients  *reduced once a step: " explain.log > both.log
    grep -q "^  *reduced in each micro-batch: " both.log || fail "level $level: --explain does not compare"
  done
  "$tools/ashlarc" plan deep.onnx --job sync.txtpb --mesh dp=4 --json unlimited.json > plan.log
  "$tools/ashlarc" plan deep.onnx --job sync.txtpb --mesh dp=4 --memory 1GB --json limited.json > plan.log
  python3 - << 'PYTHON' || fail "level $level: ashlarc plan does not choose as ashlarc does"
import json
limited, unlimited = (json.load(open(f"{name}.json"))["meshes"][0]["step_ns"] for name in ("limited", "unlimited"))
assert limited < unlimited, (limited, unlimited)
PYTHON
done
