# SPDX-License-Identifier: Apache-2.0
#
# Loops in each other, whose products keep rows of the loops around them: two rows of one parameter that move in different loops are two, and
# in a pipeline every micro-batch reads them.

. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)

python3 "$here/nested_model.py" nested.onnx
python3 "$here/nested_model.py" copied.onnx copied
for model in nested copied; do
  "$tools/ashlarc" $model.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o $model
  ./$model --steps 1 --log-every 1 --threads 1 > $model.log
done
expect_close nested.log copied.log 1e-6
"$tools/ashlarc" nested.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 --emit exec -o nested.mlir
grep -q 'strides = .*kept_weights' nested.mlir || fail "no product keeps weights that move"

{ grep -v '^global_batch\|^pipeline' "$jobs/mlp_pipeline_1f1b.txtpb"; echo 'global_batch: 32'; } > whole.txtpb
{ cat whole.txtpb; echo 'accumulate: 4'; } > accumulate.txtpb
{
  cat whole.txtpb
  echo 'pipeline { stages: 2 micro_batches: 4 schedule: GPIPE }'
  for stage in in=0 outer=1 fc=1; do echo "rules { match: \"${stage%=*}\" pipeline_stage: ${stage#*=} }"; done
} > pipeline.txtpb
"$tools/ashlarc" nested.onnx --job accumulate.txtpb --mesh dp=1 -o accumulated
./accumulated --steps 4 --log-every 1 > accumulated.log
"$tools/ashlarc" nested.onnx --job pipeline.txtpb --mesh dp=1 -o stages
mpirun -n 2 ./stages --steps 4 --log-every 1 > stages.log
expect_close accumulated.log stages.log 1e-4
