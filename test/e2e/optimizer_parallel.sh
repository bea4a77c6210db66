# SPDX-License-Identifier: Apache-2.0
#
# Optimizer parallelism: with --deterministic the same bits on 1, 2 and 4 ranks, at every level and in groups, as without it; what each rank
# holds; and what stays whole.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
grep -v optimizer_parallel "$jobs/mlp_zero1.txtpb" > whole.txtpb
for level in 1 2 3; do
  grep -v accumulate "$jobs/mlp_zero$level.txtpb" > level$level.txtpb
done
sed 's/shard_size: 2/shard_size: 2 threshold_kb: 0/; $a deterministic { chunks: 8 }' "$jobs/mlp_hsdp.txtpb" > groups.txtpb

# compile NAME RANKS: the job of that name, for that many ranks.
compile() {
  "$tools/ashlarc" mlp.onnx --job "$1.txtpb" --mesh "dp=$2" -o "$1_$2"
}

compile whole 1
mpirun -n 1 ./whole_1 --deterministic --steps 20 --log-every 1 --save-parameters expected > whole.log
losses whole.log > expected.losses
for name in level1 level2 level3; do
  for ranks in 1 2 4; do
    compile $name $ranks
    mpirun -n $ranks ./${name}_$ranks --deterministic --steps 20 --log-every 1 --save-parameters $name.$ranks > $name.log
    losses $name.log | cmp expected.losses - || fail "$name on $ranks ranks: losses differ from those of whole parameters"
    diff -r expected $name.$ranks > /dev/null || fail "$name on $ranks ranks: parameters differ from those of whole parameters"
  done
  # Without fixed chunks: the ranks add up in another order.
  mpirun -n 4 ./${name}_4 --steps 20 --log-every 1 --save-parameters $name.plain > /dev/null
  expect_same_parameters expected $name.plain 1e-4
done

# A gathered bias of 10 elements in 4 pieces of 3 is added by another kernel than a whole one: rounding differs, by as much on every number of ranks.
for ranks in 2 4; do
  compile groups $ranks
  mpirun -n $ranks ./groups_$ranks --deterministic --steps 20 --log-every 1 --save-parameters groups.$ranks > groups.log
  expect_same_parameters expected groups.$ranks 1e-5
done
diff -r groups.2 groups.4 > /dev/null || fail "groups of 2 devices: parameters on 2 and on 4 ranks differ"

# What a rank keeps, and what is left whole. fc1.weight has 512 x 784 elements of 4 bytes.
"$tools/ashlarc" mlp.onnx --job level3.txtpb --explain > explain.log
grep -q "^  fc1.weight  *512x784xf32  *\[{dp}, {}\]  *128x784xf32  *401.4 KB" explain.log || fail "level 3 does not split fc1.weight"
grep -q "^  fc1.weight.momentum  *512x784xf32  *\[{dp}, {}\]  *128x784xf32" explain.log || fail "level 3 does not split fc1.weight.momentum"
sed -n '/leaves replicated/,$p' explain.log > whole.log
grep -q "fc1.bias  *2.0 KB on a device, below the threshold of 65.5 KB" whole.log || fail "no reason for fc1.bias"

./level3_4 --plan > level3_4.plan
grep -q "^split  *level 3 from 64 KiB on, over all devices that replicate a parameter" level3_4.plan || fail "the plan does not say what is split"

# More devices than rows: the last ones hold nothing, and the bits stay.
sed 's/threshold_kb: 0//; s/level: 1/level: 3 threshold_kb: 0/; s/chunks: 8/chunks: 64/' level1.txtpb > many.txtpb
"$tools/ashlarc" mlp.onnx --job many.txtpb --mesh dp=2 -o many
mpirun -n 2 ./many --deterministic --steps 3 --save-parameters many.split > /dev/null
sed '/^optimizer_parallel/d' many.txtpb > many_whole.txtpb
"$tools/ashlarc" mlp.onnx --job many_whole.txtpb --mesh dp=2 -o many
mpirun -n 2 ./many --deterministic --steps 3 --save-parameters many.whole > /dev/null
expect_same_parameters many.whole many.split 1e-5

# A size that does not divide.
sed 's/level: 3/level: 3 shard_size: 3/' "$jobs/mlp_zero3.txtpb" > odd.txtpb
expect_error 'shard_size 3 does not divide the 4 devices that replicate parameter "fc1.weight"' "$tools/ashlarc" mlp.onnx --job odd.txtpb -o odd
