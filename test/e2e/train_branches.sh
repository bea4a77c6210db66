# SPDX-License-Identifier: Apache-2.0
#
# An If whose condition a run finds: the branch that is not taken does not run, in both directions, and the losses are those of a model that
# computes both and selects, on one device and on others in data, tensor and optimizer parallelism, in micro-batches and in a pipeline.

. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)

for kind in batch always never; do
  python3 "$here/branches_model.py" $kind.onnx $kind
  python3 "$here/branches_model.py" $kind.select.onnx $kind select
done

# How many calls of the products of a layer the profile of 8 steps has.
products() {
  sed -n "s|^ *[0-9.]* % .* \([0-9]*\) calls  gemm $2 .*|\1|p" "$1" | awk '{ calls += $1 } END { print calls + 0 }'
}

for model in batch batch.select always never; do
  "$tools/ashlarc" $model.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o $model
  ./$model --steps 8 --log-every 1 --threads 1 --profile > $model.log
done
expect_close batch.log batch.select.log 1e-6
# A step has three products of then/fc and of else/down.
then=$(products batch.log choice/then/fc)
[ "$then" -gt 0 ] && [ "$then" -lt 24 ] && [ $((then % 3)) = 0 ] || fail "$then products of the branch for true in 8 steps"
[ "$(products batch.log choice/else/down)" = $((24 - then)) ] || fail "the other steps do not run the other branch"
[ "$(products always.log choice/then/fc) $(products always.log choice/else/down)" = "24 0" ] || fail "a branch ran that is not taken"
[ "$(products never.log choice/then/fc) $(products never.log choice/else/down)" = "0 24" ] || fail "a branch ran that is not taken"

# Of four ranks: the batch; the batch and the weights of the branches; all parameters. The other job has the same optimizer on one device.
grep -v '^rules\|^mode\|^optimizer_parallel\|^deterministic' "$jobs/mlp_zero3.txtpb" > job.txtpb
{ cat job.txtpb; echo 'mode: DATA_PARALLEL'; } > one.txtpb
{
  cat job.txtpb
  echo 'mode: SEMI_AUTO'
  echo 'rules { match: "input" layout: "[{dp}, {}]" }'
  echo 'rules { match: "then.w" layout: "[{}, {tp}]" }'
  echo 'rules { match: "else.down" layout: "[{}, {tp}]" }'
  echo 'rules { match: "else.up" layout: "[{tp}, {}]" }'
} > rules.txtpb
"$tools/ashlarc" batch.onnx --job one.txtpb --mesh dp=1 -o one
./one --steps 8 --log-every 1 --threads 1 > one.log
"$tools/ashlarc" batch.onnx --job "$jobs/mlp_zero3.txtpb" -o zero3
mpirun -n 4 ./zero3 --steps 8 --log-every 1 > zero3.log
expect_close one.log zero3.log 1e-4
"$tools/ashlarc" batch.onnx --job rules.txtpb --mesh dp=2,tp=2 -o rules
mpirun -n 4 ./rules --steps 8 --log-every 1 > rules.log
expect_close one.log rules.log 1e-4
# What a branch alone reads is gathered where it runs: by all ranks, or none.
"$tools/ashlarc" batch.onnx --job "$jobs/mlp_zero3.txtpb" --emit exec -o zero3.mlir
grep -A1 'exec.repeat 1 when' zero3.mlir | grep 'exec.collective all_gather' > gathers || fail "no branch gathers its parameters"

# A condition of samples is another one in each micro-batch; one of parameters is not.
{ cat one.txtpb; echo 'accumulate: 4'; } > accumulate.txtpb
expect_error "cannot be computed in 4 micro-batches: \"holds\"" "$tools/ashlarc" batch.onnx --job accumulate.txtpb --mesh dp=1 -o no
{
  cat job.txtpb
  echo 'mode: SEMI_AUTO'
  echo 'rules { match: "input" layout: "[{dp}, {}]" }'
  echo 'pipeline { stages: 2 micro_batches: 4 schedule: ONE_F_ONE_B }'
  for stage in in=0 tanh=0 choice=1 fc=1; do echo "rules { match: \"${stage%=*}*\" pipeline_stage: ${stage#*=} }"; done
} > pipeline.txtpb
for kind in always never; do
  "$tools/ashlarc" $kind.onnx --job one.txtpb --mesh dp=1 -o $kind
  ./$kind --steps 8 --log-every 1 --threads 1 > $kind.log
  "$tools/ashlarc" $kind.onnx --job accumulate.txtpb --mesh dp=2 -o $kind.accumulated
  mpirun -n 2 ./$kind.accumulated --steps 8 --log-every 1 > $kind.accumulated.log
  expect_close $kind.log $kind.accumulated.log 1e-4
  "$tools/ashlarc" $kind.onnx --job pipeline.txtpb --mesh dp=1 -o $kind.stages
  mpirun -n 2 ./$kind.stages --steps 8 --log-every 1 > $kind.stages.log
  expect_close $kind.log $kind.stages.log 1e-4
done
