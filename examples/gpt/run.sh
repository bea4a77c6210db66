#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains a small GPT on bytes of text and lets it write three texts. ASHLAR_DATA: a folder with tinyshakespeare.txt, else sentences are generated.
. "$(dirname "$0")/../common.sh"

if $small; then
  size=(--layers 2 --width 64) steps=100
else
  size=(--layers 4 --width 128) steps=600
fi
data=() prompt="my friend "
if [ -e "${ASHLAR_DATA:-}/tinyshakespeare.txt" ]; then
  data=(--data "$ASHLAR_DATA") prompt="ROMEO:"
fi

show ashlar-zoo transformer "${size[@]}" --sequence 128 --vocabulary 256 -o gpt.onnx
show ashlarc gpt.onnx --job "$example/job.txtpb" -o gpt --html plan.html
train gpt 2 --steps $steps "${data[@]}" --export trained.onnx

show ashlarc trained.onnx --generate --batch 3 -o write
# Tokens are bytes.
for _ in 1 2 3; do
  printf %s "$prompt" | od -An -tu1 -v
done > prompts.txt
show ./write --prompt prompts.txt --output new.txt --temperature 0.7 --seed 1
while read -r tokens; do
  printf '%s' "$prompt"
  tr ' ' '\n' <<< "$tokens" | LC_ALL=C awk 'NF { printf "%c", $1 }'
  printf '\n---\n'
done < new.txt | tee texts.txt
result gpt
