# SPDX-License-Identifier: Apache-2.0
#
# Fused collectives of dense layers: the same parameters to the last bit as without, on one host and between hosts, in fewer collectives.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" dense-layers -o layers.onnx
python3 "$(dirname "$0")/write_rows.py" rows
grep -v comm_fusion "$jobs/dense_layers.txtpb" > none.txtpb
{ cat none.txtpb; echo 'rules { match: "*" comm_fusion: 9 }'; } > one.txtpb
{ cat none.txtpb; echo 'comm_fusion { all_reduce { mode: AUTO_BUCKETS } } machine { intra_host { latency_us: 0.5 bandwidth_gb_per_s: 1 } }'; } > auto.txtpb
cp "$jobs/dense_layers.txtpb" ids.txtpb

# run NAME LOG [VARIABLE=VALUE...] -- [OPTION...]: trains on 4 ranks and keeps the parameters in LOG.d.
run() {
  local name=$1 log=$2 settings=()
  shift 2
  while [ "$1" != -- ]; do settings+=("$1") && shift; done
  shift
  env "${settings[@]}" mpirun -n 4 "./$name" --data rows --epochs 3 --log-every 1 --threads 1 --save-parameters "$log.d" "$@" > "$log.log"
}

same_bits() {
  expect_same_losses "$1.log" "$2.log"
  for file in "$1.d"/*.npy; do
    cmp -s "$file" "$2.d/$(basename "$file")" || fail "$file of $1 and of $2 differ"
  done
}

for name in none ids one auto; do
  "$tools/ashlarc" layers.onnx --job $name.txtpb -o $name
  run $name $name --
  run $name $name.hosts ASHLAR_FORCE_HOSTS=2 --
  run $name $name.deterministic -- --deterministic
done
[ "$(find none.d -name '*.npy' | wc -l)" = 12 ] || fail "there are not 12 parameters to compare"
[ "$(losses none.log | wc -l)" = 24 ] || fail "there are not 24 losses to compare"
for name in ids one auto; do
  same_bits none $name
  same_bits none.hosts $name.hosts
  same_bits none.deterministic $name.deterministic
done

# What a step has: the loss, and twelve gradients.
expect_plan() {
  "./$1" --plan > "$1.plan"
  grep -q "^collectives  $2 a step, 4.0 KB sent by each device: " "$1.plan" || { cat "$1.plan" >&2; fail "the plan of $1 does not name $2"; }
}
expect_plan none "13 all_reduce"
expect_plan ids "7 all_reduce of 13 tensors"
expect_plan one "2 all_reduce of 13 tensors"

# A fused collective is one instruction to the profile. 24 steps of a loss and twelve gradients; 24 of a loss and one for all.
calls() {
  mpirun -n 4 "./$1" --data rows --epochs 3 --threads 1 --profile > "$1.profile"
  sed -n '/^profile of train_step/,/^profile of [^t]/s/.* \([0-9]*\) calls  all_reduce.*/\1/p' "$1.profile" | awk '{ sum += $1 } END { print sum }'
}
[ "$(calls none)" = 312 ] || { cat none.profile >&2; fail "the profile without ids does not count 312 all-reduces"; }
[ "$(calls one)" = 48 ] || { cat one.profile >&2; fail "the profile with one id does not count 48 all-reduces"; }

# Optimizer parallelism: gradients are scattered and parameters gathered, each in one collective.
for level in 1 2 3; do
  { sed -e 's/^mode: .*/mode: SEMI_AUTO/' -e 's/^optimizer .*/optimizer { momentum {} learning_rate: 0.05 }/' none.txtpb
    echo 'rules { match: "input" layout: "[{dp}, {}]" }'
    echo "optimizer_parallel { level: $level threshold_kb: 0 }"; } > level$level.txtpb
  { cat level$level.txtpb; echo 'comm_fusion { all_reduce { mode: SIZE } all_gather { mode: SIZE } reduce_scatter { mode: SIZE } }'; } > fused$level.txtpb
  for name in level$level fused$level; do
    "$tools/ashlarc" layers.onnx --job $name.txtpb -o $name
    run $name $name --
    ./$name --plan > $name.plan
  done
  same_bits level$level fused$level
  grep -q "^collectives  1 reduce_scatter of 12 tensors a step" fused$level.plan || { cat fused$level.plan >&2; fail "level $level has several reduce-scatters"; }
  gathers=$(sed -n 's/^collectives  \([0-9]*\) all_gather of .* tensors a step.*/\1/p' fused$level.plan)
  [ "$gathers" = $([ $level = 3 ] && echo 2 || echo 1) ] || { cat fused$level.plan >&2; fail "level $level has $gathers all-gathers"; }
done
