#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains a GPT with eight experts a layer on four ranks, two experts on each. ASHLAR_DATA: as for the example gpt.
. "$(dirname "$0")/../common.sh"

if $small; then
  size=(--layers 1 --width 32 --heads 2) steps=100
else
  size=(--layers 2 --width 64) steps=900
fi
data=()
if [ -e "${ASHLAR_DATA:-}/tinyshakespeare.txt" ]; then
  data=(--data "$ASHLAR_DATA")
fi

show ashlar-zoo transformer "${size[@]}" --experts 8 --chosen 2 --sequence 64 --vocabulary 256 -o moe.onnx
show ashlarc moe.onnx --job "$example/job.txtpb" -o moe --html plan.html
./moe --plan | grep "^collectives"
train moe 4 --steps $steps "${data[@]}"
result moe
