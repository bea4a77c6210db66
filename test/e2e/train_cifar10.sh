# SPDX-License-Identifier: Apache-2.0
#
# A small dense net on real CIFAR-10 with crops and flips, where ASHLAR_DATA names a folder with cifar-10-batches-bin/: what such a net reaches,
# and steps that do not wait for data.

. "$(dirname "$0")/common.sh"

if [ ! -d "${ASHLAR_DATA:-}/cifar-10-batches-bin" ]; then
  echo "skipped: ASHLAR_DATA names no folder with cifar-10-batches-bin/"
  exit 77
fi
python3 "$(dirname "$0")/images.py" model model.onnx 3 32 32
cat > job.txtpb << 'JOB'
global_batch: 100
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { momentum {} learning_rate: 0.005 }
dataset {
  cifar10 {}
  features {
    column: "image" tensor: "x"
    transforms { random_crop { padding: 4 } }
    transforms { random_horizontal_flip {} }
    transforms { rescale { scale: 0.00392157 } }
    transforms { normalize { mean: [0.4914, 0.4822, 0.4465] std: [0.2023, 0.1994, 0.2010] } }
    transforms { hwc2chw {} }
  }
  features { column: "label" tensor: "labels" }
}
JOB
"$tools/ashlarc" model.onnx --job job.txtpb --mesh dp=2 -o program
mpirun -n 2 ./program --data "$ASHLAR_DATA/cifar-10-batches-bin" --epochs 8 --eval --threads 1 > run.log
# Ten classes: 0.1 is chance. A linear model reaches about 0.38 on the whole set.
expect_less 0.33 "$(accuracy run.log)" "accuracy after 8 epochs"
