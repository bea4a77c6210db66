# SPDX-License-Identifier: Apache-2.0
#
# Two runs that write checkpoints into one folder: the second is told who writes there, and ends before it changes anything. The lock goes with
# its holder, so what is killed resumes at once.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/long_run.sh"

rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" mlp --width 24 -o mlp.onnx
cat > job.txtpb << 'JOB'
global_batch: 12 loss { softmax_cross_entropy { logits: "logits" labels: "labels" } } optimizer { momentum { momentum: 0.9 } learning_rate: 0.01 }
dataset { digits { train_samples: 240 } features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }
JOB
"$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=2 -o two
"$tools/ashlarc" mlp.onnx --job <(cat job.txtpb; echo 'checkpoint { prefix: "other" }') --mesh dp=1 -o other
"$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=1 -o one

start_long_run mpirun -n 2 ./two --threads 1 --steps 100000000 --log-every 1000 --save-every 1000 --checkpoint-dir saved
for _ in $(seq 1200); do
  [ -e saved/ashlar-50_20/index.json ] && break
  sleep 0.05
done
holder=$(process_of 0)
for program in "./one" "mpirun -n 2 ./two"; do
  rm -rf metrics
  status=0 # it waits some seconds for the lock, more than expect_error gives a busy machine
  timeout 60 $program --steps 3 --checkpoint-dir saved --resume latest --metrics metrics > error.out 2> error.log || status=$?
  [ $status = 1 ] && grep -qF "saved has checkpoints \"ashlar\" of a run that goes on (process $holder on host $(uname -n)); name another --checkpoint-dir, or wait until it ends" error.log ||
    { cat error.log >&2; fail "$program: status $status"; }
  [ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "$program: not one line"; }
  [ ! -e metrics ] && ! grep -q '^trained' error.out || fail "$program begins all the same"
done
./other --threads 1 --steps 3 --checkpoint-dir saved > other.log || fail "a run of another prefix is refused"
./one --threads 1 --steps 1 --checkpoint-dir elsewhere > elsewhere.log
[ "$(ls -A elsewhere)" = "ashlar-1_1" ] || fail "a run that ends leaves $(ls -A elsewhere | xargs)"
kill -0 "$launcher" || fail "the first run did not go on"

# Killed, rank and launcher, and resumed at once.
last=$(ls -d saved/ashlar-*_20 | tail -1)
kill -KILL "$holder"
kill -KILL "$launcher"
./one --threads 1 --steps 100 --checkpoint-dir saved --resume latest > resumed.log || fail "a killed run does not resume at once"
wait "$launcher" 2> /dev/null || true
trap - EXIT
grep -q '^resumed from saved/ashlar-' resumed.log || { cat resumed.log >&2; fail "nothing was resumed behind $last"; }
[ ! -e saved/.ashlar.lock ] || fail "the lock is left"
