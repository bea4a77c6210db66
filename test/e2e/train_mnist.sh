# SPDX-License-Identifier: Apache-2.0
#
# The seed MLP on real MNIST, where ASHLAR_DATA names a folder with mnist/: MindSpore's published loss curve, and 97 % after 5 epochs.

. "$(dirname "$0")/common.sh"

if [ ! -d "${ASHLAR_DATA:-}/mnist" ]; then
  echo "skipped: ASHLAR_DATA names no folder with mnist/"
  exit 77
fi
"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_mindspore.txtpb" --mesh dp=2 -o curve
mpirun -n 2 ./curve --data "$ASHLAR_DATA/mnist" --steps 100 --log-every 10 > curve.log
# The example's losses at steps 10, 20, ..., 100. Initial values and the order of samples differ, so the shape counts: each within 10 %.
for loss in 2.2922 2.2783 2.2538 2.1638 1.9843 1.6062 1.2097 0.9816 0.7723 0.6854; do
  echo "epoch: 1 step: 0, loss is $loss"
done > mindspore.log
expect_close mindspore.log curve.log 0.1

"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 -o mlp
mpirun -n 2 ./mlp --data "$ASHLAR_DATA/mnist" --epochs 5 --log-every 0 --eval > eval.log
expect_less 0.97 "$(accuracy eval.log)" "accuracy after 5 epochs"
