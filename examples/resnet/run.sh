#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains ResNet-18 on files of CIFAR-10: ASHLAR_DATA/cifar-10-batches-bin, else generated ones in the same format.
. "$(dirname "$0")/../common.sh"

files=${ASHLAR_DATA:-}/cifar-10-batches-bin steps=312
if $small || [ ! -d "$files" ]; then
  # 512 images and 64, whose colour is their label's, with noise.
  mkdir -p images
  python3 - << 'PYTHON'
import random
for file, count in (("data_batch_1.bin", 512), ("test_batch.bin", 64)):
    draw = random.Random(file)
    with open(f"images/{file}", "wb") as out:
        for label in (i % 10 for i in range(count)):
            planes = [bytes(min(255, level + noise) for noise in draw.randbytes(1024)) for level in ((label * 53) % 160, (label * 89) % 160, (label * 131) % 160)]
            out.write(bytes([label]) + b"".join(planes))
PYTHON
  files=images steps=60
  if $small; then steps=30; fi
fi

# The learning rate decays until the last step: before it, running statistics lag behind the weights.
sed "s/decay_steps: 312/decay_steps: $steps/" "$example/job.txtpb" > job.txtpb

show ashlar-zoo resnet --depth 18 --image 32 -o resnet.onnx
show ashlarc resnet.onnx --job job.txtpb -o resnet --html plan.html
train resnet 2 --data "$files" --steps $steps
result resnet
