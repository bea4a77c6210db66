#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains a vision transformer on generated digits. The compiler finds the layouts of two devices.
. "$(dirname "$0")/../common.sh"

if $small; then
  size=(--layers 1 --width 32 --heads 2 --hidden 64) steps=150
else
  size=(--layers 4 --width 64 --heads 4 --hidden 256) steps=400
fi

show ashlar-zoo vit "${size[@]}" --patch 7 --image 28 --channels 1 --classes 10 -o vit.onnx
show ashlarc vit.onnx --job "$example/job.txtpb" -o vit --html plan.html
./vit --plan | grep -E "^(mesh|layouts)"
train vit 2 --steps $steps
result vit
