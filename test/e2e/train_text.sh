# SPDX-License-Identifier: Apache-2.0
#
# A GPT learns generated sentences and writes some. Targets between documents do not count: the loss is the same on one rank, on two and in
# micro-batches, whose numbers of targets differ. Tokens beyond the vocabulary stop the run before its first step. ashlar-data prints what a
# job reads.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" transformer --sequence 64 --vocabulary 256 -o gpt.onnx
"$tools/ashlarc" gpt.onnx --job "$jobs/gpt_text.txtpb" -o gpt
mpirun -n 2 ./gpt --epochs 2 --eval --threads 1 --export trained.onnx > gpt.log
evaluation gpt.log | awk '{ sub(",", "", $3); exit !($3 > 0.254 && $3 < 0.38) }' || fail "the sentences are not learned: $(evaluation gpt.log)"
"$tools/ashlarc" trained.onnx --generate -o write
# One subject: its verb has an s.
printf 'the old man' | od -An -tu1 -v > prompt.txt
./write --prompt prompt.txt --stop 10 > written.txt
sentence=$(tr ' ' '\n' < written.txt | awk 'NF { printf "%c", $1 }')
[[ $sentence =~ ^' '(see|find|like|follow|hear|paint|draw|need)'s the '(red|green|blue|white)' '(ball|tree|boat|door|book|house|horse|tower) ]] ||
  fail "no sentence: the old man$sentence"

# Documents of 1 to 100 bytes, so that windows have different numbers of targets.
mkdir -p data
python3 - << 'PYTHON'
text = b""
for number in range(400):
    text += bytes(97 + (number * 7 + place * 3) % 26 for place in range(number * 37 % 100)) + b"\n"
open("data/train.bin", "wb").write(text)
open("data/val.bin", "wb").write(text[:3000])
PYTHON
documents_job() { # MESH ACCUMULATE IGNORE_INDEX
  sed "s/size: 2/size: $1/; s/^loss .*/loss { softmax_cross_entropy { logits: \"logits\" labels: \"labels\" $3 } }/" "$jobs/gpt_text.txtpb" |
    sed "s/text { sequence_length: 64 }/tokens { type: U8 sequence_length: 64 documents { boundary: 10 predict_next: false } }/"
  echo "accumulate: $2"
}
# The ignored label may be a class, here of a byte that no text has.
for run in one:1:1:-1 two:2:1:0 parts:1:4:-1; do
  IFS=: read -r name mesh parts ignored <<< "$run"
  documents_job "$mesh" "$parts" "ignore_index: $ignored" > $name.txtpb
  "$tools/ashlarc" gpt.onnx --job $name.txtpb -o $name
  mpirun -n "$mesh" ./$name --data data --steps 12 --log-every 1 --eval --threads 1 > $name.log
done
# Sums in another order: 2^-24 a term.
expect_close one.log two.log 1e-4
expect_close one.log parts.log 1e-4
[ "$(evaluation one.log)" = "$(evaluation two.log)" ] || fail "evaluations differ: $(evaluation one.log), $(evaluation two.log)"

"$tools/ashlar-data" data --job one.txtpb --json > facts.json
python3 - << 'PYTHON' || fail "ashlar-data prints: $(cat facts.json)"
import json
text = open("data/train.bin", "rb").read()
windows = (len(text) - 1) // 64
train, evaluation = json.load(open("facts.json"))
assert (train["samples"], evaluation["samples"]) == (windows, 2999 // 64), train["samples"]
assert train["steps_of_pass"] == windows // 32 and len(set(train["first_batch"])) == 32
tokens, targets = train["columns"]
assert (tokens["name"], tokens["tensor"], tokens["type"], tokens["shape"], tokens["transformed"]) == ("tokens", "tokens", "u8", [64], [64])
assert (tokens["least"], tokens["greatest"]) == (10, 122)
assert tokens["boundaries"] == text[:64 * windows].count(10)
assert targets["counting"] == sum(byte != 10 for byte in text[:64 * windows])
PYTHON
"$tools/ashlar-data" data > found.txt
grep -q "^tokens train.bin: " found.txt || fail "ashlar-data finds no tokens"

documents_job 1 1 "" > none.txtpb
expect_error 'documents.predict_next: false leaves out targets of "labels" but the loss ignores no label; give the loss an ignore_index: -100' \
  "$tools/ashlarc" gpt.onnx --job none.txtpb -o none

# A token that the embedding does not have.
python3 -c "import struct; open('data/train.bin', 'wb').write(struct.pack('<2050H', *[300 if i == 200 else 5 for i in range(2050)]))"
sed 's/type: U8//' one.txtpb > wide.txtpb
"$tools/ashlarc" gpt.onnx --job wide.txtpb -o wide
expect_error 'index 300 of sample 3 in column "tokens" of the train split is not one of the 256 rows 0 .. 255 of the model'"'"'s table' ./wide --data data
