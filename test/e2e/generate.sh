# SPDX-License-Identifier: Apache-2.0
#
# A GPT learns to count in steps of 3, is exported, and counts on from prompts: on one rank and with heads and vocabulary on two, for one text
# and for a batch of prompts of all lengths, with the logits of the whole model. What is drawn depends on neither batch nor mesh.

. "$(dirname "$0")/common.sh"

texts=$(dirname "$0")/generated_texts.py
job=$jobs/transformer_tensor_parallel.txtpb
python3 "$(dirname "$0")/write_tokens.py" data 50 16
"$tools/ashlar-zoo" transformer --seed 2 -o transformer.onnx
"$tools/ashlarc" transformer.onnx --job "$job" --mesh dp=1,tp=1 -o train
./train --data data --eval --threads 1 --export trained.onnx > train.log
grep -q "accuracy is 1.0000 (512 of 512)" train.log || fail "it does not learn to count: $(tail -1 train.log)"

# The job that trained the model generates with it, in chunks of 4 positions.
{ cat "$job"; echo 'generate { chunk: 4 }'; } > job.txtpb
# Those of 6 do not divide the context: the last one of a long prompt begins earlier.
sed 's/chunk: 4/chunk: 6/' job.txtpb > job6.txtpb
"$tools/ashlarc" trained.onnx --job job6.txtpb --mesh dp=1,tp=1 --generate -o one
[[ $(echo 7 10 13 | ./one) == "16 19 22 25 28 31 34 37 40 43 46 49 2" ]] || fail "it does not count: $(echo 7 10 13 | ./one)"
[[ $(echo 7 10 13 | ./one --stop 25) == "16 19 22 25" ]] || fail "it does not stop"
echo 7 10 13 | ./one --new-tokens 0 > none.txt
[[ $(wc -c < none.txt) -eq 1 ]] || fail "0 new tokens are no empty line: $(cat none.txt)"
rm none.txt
echo 7 10 13 | ./one --trace trace.json > traced.txt
python3 "$(dirname "$0")/check_trace.py" trace.json --ranks 1 --steps 3-5 --programs decode=1 || fail "the trace is wrong"

# All lengths of prompts, batch by batch, against the model on the whole texts.
for length in $(seq 1 16); do
  for ((i = 0; i < length; ++i)); do printf '%d ' $(((length + 3 * i) % 50)); done
  echo
done > prompts.txt
"$tools/ashlarc" trained.onnx --job job.txtpb --mesh dp=1,tp=1 --batch 3 --generate -o three
"$tools/ashlarc" trained.onnx --batch 16 -o forward
"$tools/ashlarc" trained.onnx --job job.txtpb --mesh dp=1,tp=2 --batch 3 --generate -o split
"$tools/ashlarc" trained.onnx --job job.txtpb --mesh dp=2,tp=2 --batch 4 --generate -o all
for program in one three split all; do
  mpirun -n "$(ranks_of $program)" ./$program --prompt prompts.txt --output $program.txt --logits $program.npy --threads 1
  python3 "$texts" whole 16 prompts.txt $program.txt
  ./forward --input tokens=tokens.npy --output logits=whole.npy
  python3 "$texts" compare prompts.txt $program.txt $program.npy whole.npy
  cmp one.txt $program.txt
done

# Each device keeps keys and values of its own heads, and no key is sent: what is reduced are sums of products, and logits are gathered.
"$tools/ashlarc" trained.onnx --job job.txtpb --mesh dp=1,tp=2 --generate --emit dist -o split.mlir
grep 'nn.variable @cache' split.mlir > caches.txt
[[ $(grep -c '2 : i64\|tensor<1x2x16x16xf32>' caches.txt) -eq $(wc -l < caches.txt) ]] || fail "keys are not on the devices of their heads: $(cat caches.txt)"
! grep 'dist.all_to_all\|dist.permute' split.mlir || fail "keys or values are sent"

# Draws: by seed, text and position.
for program in one three all; do
  mpirun -n "$(ranks_of $program)" ./$program --prompt prompts.txt --temperature 3 --top-k 20 --top-p 0.9 --seed 5 --threads 1 > drawn_$program.txt
  cmp drawn_one.txt drawn_$program.txt
done
./one --prompt prompts.txt --temperature 3 --seed 6 > other.txt
! cmp -s drawn_one.txt other.txt || fail "another seed draws the same"

# bf16: the weights are rounded, it counts all the same.
{ cat job.txtpb; echo 'precision: BF16_MIXED'; } > narrow.txtpb
"$tools/ashlarc" trained.onnx --job narrow.txtpb --mesh dp=1,tp=1 --generate -o narrow
[[ $(echo 7 10 13 | ./narrow --new-tokens 4) == "16 19 22 25" ]] || fail "in bf16 it does not count: $(echo 7 10 13 | ./narrow --new-tokens 4)"

# Wrong input: one line, and no output.
refuse() { # TEXT COMMAND...
  local text=$1
  shift
  if "$@" > refused.log 2>&1; then fail "accepted: $*"; fi
  grep -qF -- "$text" refused.log || fail "$*: $(cat refused.log)"
  [ "$(wc -l < refused.log)" -eq 1 ] || fail "$*: more than one line: $(cat refused.log)"
}
echo 1 2 > short.txt
echo 1 50 > beyond.txt
seq -s ' ' 1 17 > long.txt
refuse "token 2 of prompt 1 is 50, but the vocabulary has 50 tokens" ./one --prompt beyond.txt
refuse "prompt 1 has 17 tokens, but the model has 16 positions" ./one --prompt long.txt
refuse "--new-tokens 15 behind prompt 1 of 2 tokens, but the model has 16 positions" ./one --prompt short.txt --new-tokens 15
refuse "--top-k without --temperature" ./one --prompt short.txt --top-k 5
refuse "nan is not a number from 0 to 1000000" ./one --prompt short.txt --temperature nan
refuse "nan is not a number from 0 to 1" ./one --prompt short.txt --temperature 1 --top-p nan
refuse "--stop 50, but the vocabulary has 50 tokens" ./one --prompt short.txt --stop 50
refuse "name it FILE.npy" ./one --prompt short.txt --logits -
refuse "--output and --logits both name ./x.npy; give each a file of its own" ./one --prompt short.txt --logits ./x.npy --output x.npy
refuse "--trace and --output both name x.npy; give each a file of its own" ./one --prompt short.txt --trace x.npy --output x.npy
cp short.txt before.txt
for option in --output --trace; do
  refuse "$option names ./short.txt, which is the file of --prompt short.txt; name another file" ./one --prompt short.txt $option ./short.txt
done
cmp short.txt before.txt || fail "the prompts are replaced"
refuse "none.txt: cannot be opened" ./one --prompt none.txt
refuse "no/folder/x.npy" ./one --prompt short.txt --output no/folder/x.npy
refuse "--trace: 2 positions were computed one by one, and step 5 is traced" ./one --prompt short.txt --output new.txt --new-tokens 1 --trace trace.json
refuse "has no prompt" ./one --prompt /dev/null
refuse "token 2 of prompt 1 is 50" mpirun --quiet -n 2 ./split --prompt beyond.txt
"$tools/ashlar-zoo" mlp -o mlp.onnx
refuse "generation needs one of tokens" "$tools/ashlarc" mlp.onnx --generate -o mlp
[ ! -e mlp ] || fail "a refused model leaves a file"
