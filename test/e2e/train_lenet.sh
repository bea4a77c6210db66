# SPDX-License-Identifier: Apache-2.0
#
# LeNet-5 on real MNIST, where ASHLAR_DATA names a folder with mnist/: 98.5 % after 2 epochs.

. "$(dirname "$0")/common.sh"

if [ ! -d "${ASHLAR_DATA:-}/mnist" ]; then
  echo "skipped: ASHLAR_DATA names no folder with mnist/"
  exit 77
fi
"$tools/ashlar-zoo" lenet -o lenet.onnx
"$tools/ashlarc" lenet.onnx --job "$jobs/lenet_mnist.txtpb" -o lenet
mpirun -n 2 ./lenet --data "$ASHLAR_DATA/mnist" --log-every 0 --eval --threads 1 > lenet.log
expect_less 0.985 "$(accuracy lenet.log)" "accuracy after 2 epochs"
