# SPDX-License-Identifier: Apache-2.0
#
# What a job, a model or a checkpoint names is a regular file of a bounded size. A device that never ends, a pipe that nobody writes to, a file
# outside of the job's folder and numbers that count nothing are one line, at once, without a word of what lies there.

. "$(dirname "$0")/common.sh"

rm -rf -- work && mkdir work
cd work
mkdir jobs
"$tools/ashlar-zoo" mlp --width 24 -o mlp.onnx
cat > one.txtpb << 'JOB'
global_batch: 12 loss { softmax_cross_entropy { logits: "logits" labels: "labels" } } optimizer { momentum { momentum: 0.9 } learning_rate: 0.01 }
dataset { digits { train_samples: 240 } features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }
JOB
mkfifo pipe jobs/pipe

# refused TEXT COMMAND...: one line, within the time and memory of a compilation.
refused() {
  local text=$1
  shift
  (ulimit -v 8000000; expect_error "$text" "$@") || exit 1
  [ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "not one line says: $text"; }
}

# The order of a pipeline: below the folder of the job, links followed.
order() {
  (cat one.txtpb; echo "pipeline { stages: 2 micro_batches: 4 order: \"$1\" }") > jobs/job.txtpb
}
echo 'secret 1: F0' > outside.txt
ln -s ../outside.txt jobs/link.txt
ln -s /dev/zero jobs/zero.txt
mkdir jobs/folder
for given in /dev/zero /etc/passwd ../outside.txt folder/../../outside.txt "$PWD/outside.txt"; do
  order "$given"
  refused "jobs/job.txtpb: pipeline.order \"$given\" is not below the job's folder; copy the file there, and name it from there" \
    "$tools/ashlarc" mlp.onnx --job jobs/job.txtpb -o out
done
order link.txt
refused "pipeline.order \"link.txt\" is a link to $PWD/outside.txt, which is not below the job's folder" "$tools/ashlarc" mlp.onnx --job jobs/job.txtpb -o out
! grep -q secret error.log || fail "the error prints a file from outside"
order zero.txt
refused "is a link to /dev/zero, which is not below the job's folder" "$tools/ashlarc" mlp.onnx --job jobs/job.txtpb -o out
for given in pipe folder; do
  order $given
  refused "/jobs/$given: cannot be read: it is not a regular file" "$tools/ashlarc" mlp.onnx --job jobs/job.txtpb -o out
done
truncate -s 1T jobs/large.txt
order large.txt
refused "/jobs/large.txt: cannot be read: it has 1099511627776 bytes, and 67108864 are the most that are read" "$tools/ashlarc" mlp.onnx --job jobs/job.txtpb -o out
printf 'stage 0: F0 F1 B0 B1 F2 F3 B2 B3\nstage 1: F0 B0 F1 B1 F2 B2 F3 B3\n' | tee jobs/folder/good.txt > good.txt
order folder/good.txt
"$tools/ashlarc" mlp.onnx --job jobs/job.txtpb -o out || fail "an order below the job's folder is refused"
order good.txt
"$tools/ashlarc" mlp.onnx --job <(cat jobs/job.txtpb) -o out || fail "the order of a job from a pipe is not looked for in the current folder"

# What the command line of the compiler names.
refused "/dev/zero: cannot be read: it is not a regular file" "$tools/ashlarc" /dev/zero -o out
refused "pipe: cannot be read: it is not a regular file" "$tools/ashlarc" pipe -o out
for option in --job --machine --load-strategy; do
  refused "/dev/zero: cannot be read: it is not a regular file" "$tools/ashlarc" mlp.onnx "$option" /dev/zero -o out
  refused "jobs/large.txt: cannot be read: it has 1099511627776 bytes" "$tools/ashlarc" mlp.onnx "$option" jobs/large.txt -o out
done
# A pipe is taken there, but not waited for without an end.
status=0
timeout 60 "$tools/ashlarc" mlp.onnx --job pipe -o out 2> error.log || status=$?
[ $status = 1 ] && grep -qF "pipe: cannot be read: it is a pipe, and nothing came through it for 10 seconds" error.log ||
  { cat error.log >&2; fail "a pipe that nobody writes to: status $status"; }
(yes '# a comment' || true) > pipe 2> /dev/null &
refused "pipe: cannot be read: it is a pipe with more than 67108864 bytes" "$tools/ashlarc" mlp.onnx --job pipe -o out
wait

# Checkpoints. forge FIELDS: changes the index, with a checksum that fits.
"$tools/ashlarc" mlp.onnx --job one.txtpb -o one
./one --threads 1 --steps 2 --checkpoint-dir saved > saved.log
cat > forge.py << 'PYTHON'
import json, sys
index = json.load(open("saved/ashlar-1_2/index.json"))
del index["checksum"]
exec(sys.argv[1])
json.dump(index, open("bad/ashlar-1_2/index.json", "w"))
PYTHON
forged() {
  rm -rf bad
  cp -r saved bad
  python3 forge.py "$1"
  # The program tells the checksum that would fit.
  ./one --resume bad/ashlar-1_2 > /dev/null 2> error.log && fail "a forged index is taken"
  local sum
  sum=$(sed -n 's/.* has the checksum "\([0-9a-f]*\)" but records null; .*/\1/p' error.log)
  [ -n "$sum" ] || { cat error.log >&2; fail "no checksum is told"; }
  sed -i "s/}\$/, \"checksum\": \"$sum\"}/" bad/ashlar-1_2/index.json
}
forged 'index["steps_done"] = -1'
refused "bad/ashlar-1_2/index.json: steps_done is -1, not a whole number from 0 to 281474976710656; the checkpoint is damaged" ./one --resume bad/ashlar-1_2
forged 'index["steps_done"] = 1e300'
refused "steps_done is 1e+300, not a whole number" ./one --resume bad/ashlar-1_2
forged 'index["tensors"][0]["pieces"][0]["file"] = 1e300'
refused "file is 1e+300, not a whole number" ./one --resume bad/ashlar-1_2
./one --threads 1 --steps 3 --checkpoint-dir bad --resume latest > latest.log
grep -qF "passed over bad/ashlar-1_2" latest.log || fail "--resume latest does not pass over a forged index"
for kind in pipe zero; do
  rm -rf bad
  cp -r saved bad
  rm bad/ashlar-1_2/index.json
  [ $kind = zero ] && ln -s /dev/zero bad/ashlar-1_2/index.json || mkfifo bad/ashlar-1_2/index.json
  refused 'cannot open "bad/ashlar-1_2/index.json": it is not a regular file' ./one --resume bad/ashlar-1_2
  timeout 20 ./one --threads 1 --steps 1 --checkpoint-dir bad --resume latest > latest.log || fail "--resume latest hangs or fails: $?"
  grep -qF "passed over bad/ashlar-1_2" latest.log || fail "--resume latest does not pass over an index that is a $kind"
  timeout 20 "$tools/ashlar-ckpt" list bad > list.log || fail "ashlar-ckpt list hangs or fails: $?"
done
rm bad/ashlar-1_2/rank-00000.safetensors
mkfifo bad/ashlar-1_2/rank-00000.safetensors
cp saved/ashlar-1_2/index.json copy.json
rm bad/ashlar-1_2/index.json
mv copy.json bad/ashlar-1_2/index.json
refused "bad/ashlar-1_2/rank-00000.safetensors has 0 bytes but index.json records " ./one --resume bad/ashlar-1_2
refused '"pipe": it is not a regular file' ./one --init-from pipe

# A value that is empty names nothing, and is not the same as none.
for option in --data --metrics --tensorboard --log-dir --save-parameters --checkpoint-dir --resume --export --init-from --rename --trace --trace-steps; do
  refused "$option: its value is empty; give it one, or leave the option out" ./one --steps 1 "$option" ""
  refused "$option: its value is empty; give it one, or leave the option out" ./one "$option=" --steps 1
done
for option in --job --mesh --machine --memory --load-strategy --report --html --save-strategy --timeline --annotate --dump-phases --gpu-arch --target -o; do
  refused "$option: its value is empty; give it one, or leave the option out" "$tools/ashlarc" mlp.onnx "$option" ""
done
refused "--mesh: its value is empty" "$tools/ashlarc" mlp.onnx --mesh= --job one.txtpb -o out
refused "--mesh: its value is empty" "$tools/ashlarc" plan mlp.onnx --job one.txtpb --mesh ""
refused "model: its value is empty" "$tools/ashlarc" "" --job one.txtpb -o out
