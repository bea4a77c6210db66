# SPDX-License-Identifier: Apache-2.0
#
# Numbers are moved as bits: NaNs with their payload, infinities, zeros with their sign and denormals, in parameters and in optimizer state, are the same
# behind a checkpoint that is resumed and saved, on one mesh and on others, behind --export, --save-parameters, --init-from and ashlar-ckpt convert.

. "$(dirname "$0")/common.sh"
bits="$(dirname "$0")/checkpoint_bits.py"

rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" mlp --width 64 -o mlp.onnx
sed 's/DATA_PARALLEL/SEMI_AUTO/; /^epochs/d; /^mesh/d' "$jobs/mlp_adamw.txtpb" > adamw.txtpb
echo 'on_nonfinite: CONTINUE' >> adamw.txtpb
(cat adamw.txtpb; echo 'mesh { axes { name: "dp" size: 2 } } optimizer_parallel { level: 3 threshold_kb: 0 } rules { match: "input" layout: "[{dp}, {}]" }') > zero.txtpb
(cat adamw.txtpb; echo 'mesh { axes { name: "dp" size: 2 } axes { name: "tp" size: 2 } } rules { match: "input" layout: "[{dp}, {}]" }
rules { match: "fc1.weight" layout: "[{tp}, {}]" } rules { match: "fc2.weight" layout: "[{}, {tp}]" }') > columns.txtpb
(cat adamw.txtpb; echo 'mesh { axes { name: "dp" size: 1 } } pipeline { stages: 2 micro_batches: 4 } rules { match: "input" layout: "[{dp}, {}]" }') > stages.txtpb
for name in zero columns stages; do
  "$tools/ashlarc" mlp.onnx --job $name.txtpb -o $name
done
"$tools/ashlarc" mlp.onnx --job zero.txtpb --mesh dp=3 -o padded # 64 rows on three ranks
"$tools/ashlarc" mlp.onnx --job zero.txtpb --mesh dp=1 -o one

# The whole state of a step is overwritten. What goes on from there has no step left to do, and passes it on.
mpirun -n 2 ./zero --threads 1 --steps 1 --checkpoint-dir planted > log
python3 "$bits" plant planted/ashlar-1_1 expected.json
from=planted
for name in zero columns padded stages one; do
  mpirun -n "$(ranks_of $name)" ./$name --threads 1 --steps 1 --resume $from/ashlar-1_1 --checkpoint-dir $name.saved --save-parameters $name.parameters --export $name.onnx > log
  grep -q "^trained 0 steps" log || { cat log >&2; fail "$name trains"; }
  "$tools/ashlar-ckpt" convert $name.saved/ashlar-1_1 -o $name.safetensors > log
  "$tools/ashlar-ckpt" verify $name.saved/ashlar-1_1 > log
  python3 "$bits" compare expected.json $name.safetensors $name.parameters $name.onnx || fail "$name changes bits"
  from=$name.saved
done
"$tools/ashlar-ckpt" diff planted/ashlar-1_1 one.saved/ashlar-1_1 > log || { cat log >&2; fail "diff tells equal bits apart"; }

# As weights to start from: of a file of another tool, and of the model that was exported.
for weights in zero.safetensors columns.onnx; do
  rm -rf started
  mpirun -n 3 ./padded --threads 1 --steps 0 --init-from $weights --save-parameters started > log
  python3 "$bits" compare expected.json started || fail "--init-from $weights changes bits"
done
"$tools/ashlarc" one.onnx --job zero.txtpb -o again
mpirun -n 2 ./again --steps 0 --save-parameters again.parameters > log
python3 "$bits" compare expected.json again.parameters || fail "a model changes bits where it is compiled"
