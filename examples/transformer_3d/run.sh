#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains a GPT on eight ranks in three dimensions: two stages of a pipeline, each on two times two devices. ASHLAR_DATA: as for the example gpt.
. "$(dirname "$0")/../common.sh"

if $small; then
  size=(--layers 2 --width 32 --heads 2) steps=60
else
  size=(--layers 4 --width 64 --heads 4) steps=800
fi
data=()
if [ -e "${ASHLAR_DATA:-}/tinyshakespeare.txt" ]; then
  data=(--data "$ASHLAR_DATA")
fi

show ashlar-zoo transformer "${size[@]}" --sequence 64 --vocabulary 256 -o gpt.onnx
show ashlarc gpt.onnx --job "$example/job.txtpb" -o gpt --html plan.html --timeline stages.svg
./gpt --plan
train gpt 8 --steps $steps --threads 1 "${data[@]}"
result gpt
