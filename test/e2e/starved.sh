# SPDX-License-Identifier: Apache-2.0
#
# What the system refuses or takes away ends in one line with the fact, or does not matter: streams that are closed or full, limits on files,
# processes and memory, and files that are cut while they are read.

. "$(dirname "$0")/common.sh"

rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlar-zoo" linear -o linear.onnx
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" -o linear
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o mlp
train="./linear --steps 20 --log-every 1"
compile="$tools/ashlarc linear.onnx --job $jobs/linear.txtpb"
draw="$tools/ashlarc mlp.onnx --job $jobs/mlp_pipeline_1f1b.txtpb --timeline"

# expect_line TEXT COMMAND: the shell's command fails with exactly this line on stderr.
expect_line() {
  expect_error "$1" bash -c "$2"
  [ "$(wc -l < error.log)" = 1 ] || { cat error.log >&2; fail "$2 says more than one line"; }
}

# Streams that are closed are as /dev/null, and no file takes their place.
$train --metrics expected.jsonl > expected.log
sed 's/"seconds.*//' expected.jsonl > expected.losses
for closed in '<&-' '>&-' '2>&-' '<&- >&-' '>&- 2>&-' '<&- >&- 2>&-'; do
  rm -rf metrics.jsonl logs out.mlir out
  bash -c "$train --metrics metrics.jsonl --log-dir logs $closed" > out.log 2>&1 || { cat out.log >&2; fail "training with $closed"; }
  sed 's/"seconds.*//' metrics.jsonl | cmp - expected.losses || fail "$closed: other text in the metrics"
  grep -v '^trained' expected.log | sed 's/;.*//' | cmp - <(grep -v '^trained' logs/worker_0.log | sed 's/;.*//') || fail "$closed: other text in the log"
  bash -c "$compile -o out --report report.json --explain $closed" > out.log || fail "compiling with $closed"
  ./out --steps 1 > out.log || fail "an executable compiled with $closed does not run"
  bash -c "$compile --emit nn -o out.mlir $closed" && bash -c "$tools/ashlar-opt out.mlir -o again.mlir $closed" || fail "ashlar-opt with $closed"
  cmp <($tools/ashlar-opt out.mlir) again.mlir || fail "$closed: other text in the module"
  bash -c "$tools/ashlar-zoo linear -o again.onnx $closed" && cmp again.onnx linear.onnx || fail "ashlar-zoo with $closed"
  status=0
  bash -c "$train --bogus $closed" > out.log 2>&1 || status=$?
  [ $status = 1 ] || fail "an error with $closed has status $status"
  status=0
  bash -c "$compile --bogus $closed" > out.log 2>&1 || status=$?
  [ $status = 1 ] || fail "an error of ashlarc with $closed has status $status"
done

# Streams that are full: one line that names the stream, or, where that line has no place, the status.
for text in "$compile --emit nn -o -" "$compile --emit llvm -o -" "$compile --explain" "$compile --report -" "$compile --save-strategy - --mesh dp=1" \
  "$draw -" "$compile --print-params" "$tools/ashlarc --help" "$tools/ashlar-zoo mlp -o -"; do
  expect_line "cannot write standard output: no space left on device" "$text > /dev/full"
done
$compile --emit nn -o linear.mlir
expect_line "error: cannot write standard output: no space left on device" "$tools/ashlar-opt linear.mlir > /dev/full"
for text in "$train" "./linear --help" "./linear --plan" "./linear --steps 1 --profile"; do
  expect_line "error: cannot write all of standard output: No space left on device" "$text > /dev/full"
done
for command in "$compile --bogus" "$train --bogus" "$train --metrics /dev/full"; do
  status=0
  bash -c "$command 2> /dev/full" > out.log || status=$?
  [ $status = 1 ] || fail "$command with a full standard error has status $status"
done
$train 2> /dev/full > out.log || fail "training needs standard error"

"$tools/ashlar-opt" --list-passes > passes.log
grep -q ashlar-fuse passes.log || fail "ashlar-opt --list-passes lists no passes"
expect_line "error: cannot write standard output: no space left on device" "$tools/ashlar-opt --list-passes > /dev/full"

# A reader that has gone: the usual end.
cat > gone.py << 'PYTHON'
import os, signal, subprocess, sys
for command in sys.argv[1:]:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command.split(), stdout=writer, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (-signal.SIGPIPE, b""), (command, ended)
PYTHON
python3 gone.py "$train" "./linear --plan" "$compile --emit llvm -o -" "$compile --explain" "$tools/ashlar-zoo linear -o -" \
  "$tools/ashlar-opt linear.mlir" || fail "see above"

# Full files and file size limits: the name and the reason.
expect_line "error: cannot write /dev/full: No space left on device" "$train --metrics /dev/full > out.log"
expect_line "cannot write /dev/full: no space left on device" "$tools/ashlar-zoo mlp -o /dev/full"
for option in "--emit nn -o" "--report" "--save-strategy"; do
  expect_line "cannot write /dev/full: no space left on device" "$compile --mesh dp=1 $option /dev/full"
done
expect_line "cannot write /dev/full: no space left on device" "$draw /dev/full"
# expect_limited BLOCKS TEXT COMMAND: the limit must not hold for the file that its line goes to.
expect_limited() {
  expect_line "$2" "set -o pipefail; (ulimit -f $1; $3 > /dev/null) 2>&1 | cat >&2"
}
expect_limited 0 "error: cannot write metrics.jsonl: File too large" "$train --metrics metrics.jsonl"
expect_limited 0 "error: cannot write logs/worker_0.log: File too large" "$train --log-dir logs"
expect_limited 100 "error: cannot write big.onnx: file too large" "$tools/ashlar-zoo mlp -o big.onnx"
expect_limited 0 "error: cannot write step.svg: file too large" "$draw step.svg"
expect_limited 0 "error: cannot write out.mlir: file too large" "$compile --emit nn -o out.mlir"
[ ! -e big.onnx ] || fail "half a model was left"

# Limits on processes, which root does not have, and on memory.
chmod 711 .
user="setpriv --reuid 54321 --regid 54321 --clear-groups"
if $user true 2> /dev/null && $user test -x linear; then
  mkdir -m 777 open
  expect_line "error: cannot start 3 threads: Resource temporarily unavailable; lower --threads" \
    "$user bash -c 'ulimit -u 1; exec ./linear --steps 3 --threads 4'"
  expect_line "error: cannot start the thread that prepares batches: Resource temporarily unavailable; raise" \
    "$user bash -c 'ulimit -u 1; exec ./linear --steps 3 --threads 1'"
  expect_line "posix_spawn failed: Resource temporarily unavailable; if it is a limit, raise" \
    "$user bash -c 'ulimit -u 1; TMPDIR=$PWD/open exec $compile -o open/out'"
  [ -z "$(ls -A open)" ] || fail "left behind: $(ls -A open)"
else
  echo "limits on processes are not tried: no other user may run the programs here"
fi
"$tools/ashlar-zoo" mlp --layers 4 --width 2048 -o wide.onnx
"$tools/ashlarc" wide.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o wide
# expect_bounded TEXT KILOBYTES COMMAND: under each limit on memory (ulimit -v) it does its work or says one line of what it lacks; at least
# once that is TEXT. Below some limit the loader of programs already fails, with a line of its own.
expect_bounded() {
  local said=0 status kilobytes
  for kilobytes in $2; do
    status=0
    (ulimit -v "$kilobytes"; exec $3) > out.log 2> error.log || status=$?
    [ $status = 0 ] || grep -q 'error while loading shared libraries' error.log \
      || { [ $status = 1 ] && [ "$(grep -c '^error: .*\(memory\|ulimit -v\)' error.log)" = 1 ] && [ "$(wc -l < error.log)" = 1 ]; } \
      || { cat error.log >&2; fail "$3 with ulimit -v $kilobytes ends with $status"; }
    grep -qF -- "$1" error.log && said=1
  done
  [ $said = 1 ] || fail "$3 never said: $1"
}
expect_bounded "error: out of memory; raise the limit of the process (ulimit -v)" "340000 360000 380000 400000 420000 440000 480000" \
  "$tools/ashlarc wide.onnx --job $jobs/mlp.txtpb --emit exec -o limited"
expect_bounded "of memory: Cannot allocate memory; use more devices, or raise the limit of the process (ulimit -v)" "80000 100000 120000" \
  "./wide --steps 1 --threads 1"
expect_bounded "error: cannot start 15 threads: Resource temporarily unavailable; lower --threads" "150000 180000 220000 260000" \
  "./wide --steps 1 --threads 16"

# A file of data that is cut during the run.
cat > data.py << 'PYTHON'
from npy_writer import write_npy
write_npy("x_train.npy", "f", (65536, 2), [0] * 131072)
write_npy("y_train.npy", "f", (65536, 1), [0] * 65536)
PYTHON
python3 data.py
cat > npy.txtpb << 'JOB'
global_batch: 16
loss { mean_squared_error { prediction: "output" target: "target" } }
optimizer { sgd {} learning_rate: 0.01 }
dataset {
  npy {}
  features { column: "x" tensor: "input" }
  features { column: "y" tensor: "target" }
}
JOB
"$tools/ashlarc" linear.onnx --job npy.txtpb -o npy
for bytes in 524415 300000 100 0; do # within the last page, at others, everything
  python3 data.py
  rm -f npy.log
  ./npy --data . --steps 100000000 --log-every 1000 > npy.log 2> error.log &
  pid=$!
  until grep -qs 'loss is' npy.log; do sleep 0.02; done
  truncate -s $bytes x_train.npy
  status=0
  timeout 20 tail --pid=$pid -f /dev/null || { kill $pid; fail "the run goes on"; }
  wait $pid || status=$?
  [ $status = 1 ] && [ "$(wc -l < error.log)" = 1 ] && grep -q '^error: "./x_train.npy" had 524416 bytes when it was opened' error.log \
    || { cat error.log >&2; fail "x_train.npy cut to $bytes bytes: status $status"; }
done
