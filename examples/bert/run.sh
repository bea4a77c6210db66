#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains a small BERT on topics of texts, keeps it as safetensors, and fine-tunes the file on opinions, of which there are 64 texts only.
. "$(dirname "$0")/../common.sh"

if $small; then
  size=(--layers 1 --width 32 --heads 2 --hidden 64) words=253 texts=2048 epochs=4
else
  size=(--layers 2 --width 64 --heads 4 --hidden 256) words=1021 texts=8192 epochs=3
fi
size+=(--vocabulary $((words + 3)) --positions 64 --sequence 32)

show python3 "$example/data.py" texts $words $texts
show ashlar-zoo bert "${size[@]}" --classes 8 -o topics.onnx
show ashlarc topics.onnx --job "$example/job.txtpb" -o topics
rm -rf -- topics.checkpoints
train topics 2 --data texts/topics --epochs $epochs --checkpoint-dir topics.checkpoints
checkpoint=$(echo topics.checkpoints/ashlar-*)
show ashlar-ckpt convert "$checkpoint" -o bert.safetensors --parameters

show ashlar-zoo bert "${size[@]}" --classes 2 --seed 2 -o opinions.onnx
show ashlarc opinions.onnx --job "$example/job.txtpb" -o opinions --html plan.html
train opinions 2 --data texts/opinions --epochs 20
cp opinions.log from_scratch.log
train opinions 2 --data texts/opinions --epochs 20 --init-from bert.safetensors --init-partial
echo "without the file: $(sed -n 's/^eval: //p' from_scratch.log)"
result opinions
