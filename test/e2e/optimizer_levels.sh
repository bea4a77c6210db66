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
