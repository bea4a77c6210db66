# SPDX-License-Identifier: Apache-2.0
#
# Weights grouping: the numbers of plain data parallelism, with --deterministic its bits on 1, 2 and 4 ranks; what each rank keeps; and what ranks
# with nothing to own are told. The cuda target: cuda_train.sh.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
cp "$jobs/mlp_grouping.txtpb" grouped.txtpb
sed 's/adamw {[^}]*}/lamb { weight_decay: 0.01 }/' grouped.txtpb > lamb.txtpb
# All that the update may be mixed with: sums of micro-batches, with a common norm and without, a scale of the loss, a schedule.
sed '$a accumulate: 4' grouped.txtpb > sums.txtpb
sed 's/learning_rate: 0.002/learning_rate: 0.002 clip_global_norm: 1 schedule { cosine { decay_steps: 20 } warmup_steps: 3 }/; $a accumulate: 2' \
  grouped.txtpb > clipped.txtpb
sed '$a precision: F16_MIXED loss_scale { initial: 16777216 }' grouped.txtpb > narrow.txtpb

# compile NAME RANKS OPTIONS...: the job of that name, for that many ranks.
compile() {
  local name=$1 ranks=$2
  shift 2
  "$tools/ashlarc" mlp.onnx --job "$name.txtpb" --mesh "dp=$ranks" "$@" -o "${name}_$ranks"
}

# state_of PROGRAM: the bytes of state a device, as the plan prints them.
state_of() {
  "./$1" --plan | sed -n 's/^memory .* parameters, \(.*\) state,.*/\1/p'
}

for name in grouped lamb sums clipped narrow; do
  sed '/^optimizer_parallel/d' $name.txtpb > ${name}_whole.txtpb
  compile ${name}_whole 1
  mpirun -n 1 ./${name}_whole_1 --deterministic --steps 10 --log-every 1 --save-parameters $name.expected > whole.log
  losses whole.log > expected.losses
  for ranks in 1 2 4; do
    compile $name $ranks
    mpirun -n $ranks ./${name}_$ranks --deterministic --steps 10 --log-every 1 --save-parameters $name.$ranks > $name.log
    losses $name.log | cmp expected.losses - || fail "$name on $ranks ranks: losses differ from those of plain data parallelism"
    diff -r $name.expected $name.$ranks > /dev/null || fail "$name on $ranks ranks: parameters differ from those of plain data parallelism"
  done
done

# Without fixed chunks the all-reduces are those of plain data parallelism, too.
compile grouped_whole 4
mpirun -n 4 ./grouped_whole_4 --steps 10 --log-every 1 --save-parameters plain > plain.log
mpirun -n 4 ./grouped_4 --steps 10 --log-every 1 --save-parameters owned > owned.log
expect_same_losses plain.log owned.log "grouping changes numbers"
diff -r plain owned > /dev/null || fail "grouping changes parameters"
mpirun -n 4 ./grouped_4 --steps 3 --log-every 1 --check-numerics > checked.log
head -n 3 <(losses owned.log) | cmp - <(losses checked.log) || fail "--check-numerics changes numbers"

# fc1.weight, of 512 x 784, has most state, and a rank to itself; of four ranks none keeps more than it, on two one keeps it and the other the rest.
[ "$(state_of grouped_whole_4)" = "5.4 MB" ] || fail "plain data parallelism keeps $(state_of grouped_whole_4) of state"
for ranks in 2 4; do
  [ "$(state_of grouped_$ranks)" = "3.2 MB" ] || fail "the largest of $ranks owners keeps $(state_of grouped_$ranks) of state"
done
# Each rank adds up its own terms of all gradients, which are summed once a step: 3.2 MB + 2.7 MB.
for sums in sums clipped; do
  [ "$(state_of ${sums}_4)" = "5.9 MB" ] || fail "with sums of gradients ($sums) the largest owner keeps $(state_of ${sums}_4) of state"
done
./grouped_4 --plan > plan.log
grep -q "^grouping  *each parameter has an owner, which keeps its state and updates it" plan.log || fail "the plan does not name the grouping"
grep -q "^owners  *device 0 3.2 MB, device 1 2.1 MB, device 2 41.0 KB, device 3 8.3 KB" plan.log || fail "the plan does not name the owners"
grep -q "^collectives  *6 broadcast a step, 2.7 MB sent by each device: next value of fc3.bias, " plan.log || fail "the plan does not count the broadcasts"
"$tools/ashlarc" mlp.onnx --job grouped.txtpb --explain --report report.json > explain.log
sed -n '/^owners of parameters/,$p' explain.log > owners.log
grep -q "^  0  *3.2 MB  *fc1.weight$" owners.log || fail "--explain does not name the owner of fc1.weight"
grep -q "^  3  *8.3 KB  *.*fc1.bias" owners.log || fail "--explain does not name the owner of fc1.bias"
python3 - << 'CHECK' || fail "the report does not name the owners"
import json
report = json.load(open("report.json"))
owners = {owner["device"]: owner for owner in report["owners"]}
assert sorted(owners) == [0, 1, 2, 3] and owners[0]["parameters"] == ["fc1.weight"] and owners[0]["bytes"] == 2 * 4 * 512 * 784
for variable in report["variables"]:
    assert ("owner" in variable) == (not variable["trainable"]), variable
CHECK

# mlp trains 6 parameters.
expect_error 'parameter ownership gives each rank a parameter to own, but 6 parameters are trained on 8 ranks; use at most 6' \
  "$tools/ashlarc" mlp.onnx --job grouped.txtpb --mesh dp=8 -o many
