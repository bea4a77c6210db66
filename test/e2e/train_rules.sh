# SPDX-License-Identifier: Apache-2.0
#
# Jobs that split parameters by rules: eight ranks, the same rules on meshes of other sizes, and one rank do the same.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx

# compile_and_run NAME RANKS JOB [OPTION...]: writes NAME.log.
compile_and_run() {
  local name=$1 ranks=$2 job=$3
  shift 3
  "$tools/ashlarc" mlp.onnx --job "$job" "$@" -o "$name"
  mpirun -n "$ranks" "./$name" --steps 30 --log-every 5 --threads 1 > "$name.log"
}

compile_and_run one 1 "$jobs/mlp.txtpb" --mesh dp=1
compile_and_run tensor_parallel 8 "$jobs/mlp_tensor_parallel.txtpb"
compile_and_run tensor_parallel_1 1 "$jobs/mlp_tensor_parallel.txtpb" --mesh dp=1,tp=1
compile_and_run two_dims 8 "$jobs/mlp_2d.txtpb"
compile_and_run two_dims_4 4 "$jobs/mlp_2d.txtpb" --mesh dp=1,x=2,y=2

# Counts of slices, parts of axes, priorities, open dims, momentum that follows its parameter.
sed -e '/^rules/d' -e 's/^  sgd {}/  momentum { momentum: 0.5 }/' "$jobs/mlp_tensor_parallel.txtpb" > counts.txtpb
cat >> counts.txtpb <<'RULES'
rules { match: "fc1" in { slices: [2, 1] } in { slices: [4, 1] } }
rules { match: "fc2" in { slices: [2, 2] } in { slices: [1, 2] } out { slices: [2, 1] } }
rules { match: "fc3.weight" layout: "[{}, {tp:(2)2}]" priority: 1 }
rules { match: "relu2.out" layout: "[{dp}, {?}]" priority: 2 }
RULES
sed -e 's/^  sgd {}/  momentum { momentum: 0.5 }/' "$jobs/mlp.txtpb" > momentum.txtpb
compile_and_run momentum 1 momentum.txtpb --mesh dp=1
compile_and_run counts 8 counts.txtpb

# Sums in another order: 2^-24 a term, grown by 30 steps.
for name in tensor_parallel tensor_parallel_1 two_dims two_dims_4; do
  expect_close one.log $name.log 1e-4
done
expect_close momentum.log counts.log 1e-4
expect_less "$(losses two_dims.log | tail -1)" "$(losses two_dims.log | sed -n 1p)" "the last loss against the first"

# The state of fc1.weight is as small as the parameter: its layout was inferred from it.
./counts --plan > counts.plan
./momentum --plan > momentum.plan
state() {
  sed -n -e 's/^memory .* parameters, \([0-9.]*\) KB state.*/\1/p' -e 's/^memory .* parameters, \([0-9.]*\) MB state.*/\1e3/p' "$1"
}
expect_less "$(state counts.plan)" "$(state momentum.plan)" "KB of state"
expect_error "--deterministic computes the batch in chunks" mpirun -n 8 ./counts --deterministic
