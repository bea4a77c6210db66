#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a compiled program does on its command line and under mpirun, shown on hand-written images: launch_test.sh TOY_PROGRAM
# Each check states what it expects; the last line counts them.

read_events=$(cd "$(dirname "$0")" && pwd)/read_events.py
. "$(dirname "$0")/checks.sh"

# same NAME FILE FILE: the log lines, losses included, are equal and there are some.
same() { verdict "$1" equal "$2" "$3"; }
equal() { [ -s "$1" ] && diff "$1" "$2"; }

losses() { sed -n 's/^\(epoch.*\);.*/\1/p' out > "$1"; }

check "alone: log line" 0 '^epoch: 1 step: 50, loss is [0-9.]+, lr 0.02; [0-9.]+ us a step, [0-9]+ samples/s$' "$toy" train 1
losses one
check "alone: last line" 0 '^trained 400 steps in [0-9.]+ s \([0-9.]+ us a step\)$' "$toy" train 1
check "data threads" 0 '^epoch: 1 step: 50, loss is [0-9.]+,' "$toy" train 1 --data-threads 3
losses threads
same "prepared by 3 threads" one threads
check "data threads: none" error '^error: --data-threads: ' "$toy" train 1 --data-threads 0
repeat="env ASHLAR_REPEAT_BATCH=1 $toy train 1"
check "repeat batch" 0 '^ASHLAR_REPEAT_BATCH: every step takes the first batch, and nothing of this run is saved$' $repeat
check "repeat batch: last line" 0 '^trained 400 steps in [0-9.]+ s \([0-9.]+ us a step, the first batch in every step\)$' $repeat
losses repeated
check "repeat batch: other losses" 1 '' cmp -s one repeated
for option in "--checkpoint-dir kept" "--save-every 3" "--save-parameters kept" "--export kept.onnx"; do
  check "repeat batch: not with $option" error "^error: ${option%% *} but ASHLAR_REPEAT_BATCH=1 trains on the first batch alone" $repeat $option
done
check "a setting that is no number" error '^error: ASHLAR_PATIENCE is "abc", not a number from 1 to 100000; correct it, or unset it$' env ASHLAR_PATIENCE=abc "$toy" train 1
check "evaluation without training" 0 '^eval: loss is [0-9.]+$' "$toy" train 1 --epochs 0 --eval
check "steps" 0 '^trained 7 steps' "$toy" train 1 --steps 7
check "steps count on in the next epoch" 0 '^epoch: 3 step: 50,' "$toy" train 1 --steps 450
check "lines count steps across epochs" 0 '^epoch: 2 step: 100,' "$toy" train 1 --log-every 300
check "plan" 0 'all-reduce of 16 bytes' "$toy" train 4 --plan
check "help" 0 '--log-every' "$toy" train 1 --help
check "profile" 0 'all_reduce gradient' "$toy" train 1 --profile
check "profile: by kind" 0 '^  .* % .* us .* 1 calls .* MB .*  other kernels$' "$toy" train 1 --profile
check "profile: all lines" 0 '^ by module, in one run:$' "$toy" train 1 --profile=all
check "profile: some lines" error '^error: --profile: some not in' "$toy" train 1 --profile=some
check "numerics" 0 '^epoch: 2 step: 200, loss is 0.0008' "$toy" train 1 --check-numerics
check "no graph on the cpu" error '^error: .*--no-graph' "$toy" train 1 --no-graph
check "no benchmark of a training" error '^error: .*--benchmark' "$toy" train 1 --benchmark 3
check "unknown option" error '^error: .*--bogus' "$toy" train 1 --bogus
check "data refused" error '^error: .*' "$toy" train 1 --data /nowhere
check "metrics" 0 trained "$toy" train 1 --steps 50 --metrics losses.jsonl
check "metrics: content" 0 '^\{"epoch": 1, "step": 50, "loss": [0-9.]+, "seconds": [0-9.]+, "global_step": 50, "learning_rate": 0.02, "step_seconds": [-+0-9.e]+, "samples_per_second": [-+0-9.e]+\}$' cat losses.jsonl
check "metrics: evaluation" 0 trained "$toy" train 1 --steps 50 --metrics losses.jsonl --eval
check "metrics: content of an evaluation" 0 '^\{"global_step": 50, "eval_loss": [0-9.]+\}$' cat losses.jsonl
check "metrics: cannot write" error '^error: cannot write no/such.jsonl' "$toy" train 1 --metrics no/such.jsonl

check "bar on a terminal" 0 '\[=* *\] [0-9]+/400 [0-9]+ samples/s, [0-9]+:[0-9][0-9] left' \
  python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))' "$toy" train 1
check "no bar in a log" 0 trained "$toy" train 1
verdict "no bar in a log: content" eval '! grep -q " left" out'
check "tensorboard" 0 trained "$toy" train 1 --steps 100 --tensorboard events/run --metrics losses.jsonl --eval
check "tensorboard: read by TensorBoard" 0 '^as the metrics: 9 numbers|^skipped: ' python3 "$read_events" events/run losses.jsonl
grep '^skipped: ' out
check "tensorboard: ranks write one file" 0 trained mpirun -n 2 "$toy" train 2 --steps 50 --tensorboard events/two
verdict "tensorboard: one file" eval '[ "$(ls events/two | grep -c "^events.out.tfevents.[0-9]*.$(hostname).[0-9]*.0$")" = 1 ] && [ "$(ls events/two | wc -l)" = 1 ]'
check "tensorboard: cannot write" error '^error: cannot make the folder losses.jsonl|^error: .*losses.jsonl' "$toy" train 1 --tensorboard losses.jsonl

check "trace" 0 '^trace of steps 3 to 5 in trace.json$' "$toy" train 1 --trace trace.json
check "trace: content" 0 '"cat":"program","name":"train_step","args":\{"step":5,"micro_batch":0\}' cat trace.json
check "trace: steps" 0 '^trace of steps 7 to 7 in trace.json$' "$toy" train 1 --steps 7 --trace trace.json --trace-steps 7
check "trace: of a run" 0 '^trace of steps 1 to 1 in trace.json$' "$toy" forward 1 --benchmark 3 --trace trace.json --trace-steps 1-1
check "trace: no such step" error '^error: --trace-steps 7-8: the run has 7 steps; name steps from 1 to 7$' "$toy" train 1 --steps 7 --trace trace.json --trace-steps 7-8
check "trace: no steps" error '^error: --trace: the run has 0 steps' "$toy" train 1 --steps 0 --trace trace.json
check "trace: no file" error '^error: --trace-steps 1-2 without --trace; add --trace FILE.json$' "$toy" train 1 --trace-steps 1-2
for steps in 0 3-2 0-2 1- -1 1-2-3 x 1-x "1 - 2" 4294967296; do
  check "trace: steps $steps" error "^error: --trace-steps.* $steps: expected steps A-B|--trace-steps: 1 required|not expected" "$toy" train 1 --trace trace.json --trace-steps "$steps"
done
check "trace: a file of its own" error '^error: --trace and --metrics both name ./both.json; give each a file of its own$' "$toy" train 1 --trace both.json --metrics ./both.json
check "trace: not the log of the rank" error '^error: --trace and --log-dir both name logs/worker_0.log; ' "$toy" train 1 --trace logs/worker_0.log --log-dir logs
check "trace: cannot write" error '^error: cannot write no/such.json' "$toy" train 1 --trace no/such.json
ln -s target.json link.json
check "trace: a link" error '^error: .*link.json' "$toy" train 1 --trace link.json
check "trace: the disk is full" error '^error: cannot write trace.json: File too large$' sh -c 'ulimit -f 1; "$1" train 1 --log-every 0 --trace trace.json --trace-steps 1-50' sh "$toy"
check "trace: nothing is left of it" 1 '' sh -c 'ls -A | grep "^\.ashlar-"'
check "standard output is full" error '^error: cannot write all of standard output: No space' sh -c '"$1" train 1 > /dev/full' sh "$toy"

for n in 2 4 8; do
  check "$n ranks" 0 '^trained 400' mpirun -n $n "$toy" train $n
  losses ranks
  same "$n ranks = 1 rank, bit by bit" one ranks
done
check "deterministic alone" 0 '^trained 400' "$toy" train 1 --deterministic
losses deterministic
for n in 2 4; do
  check "deterministic, $n ranks" 0 '^trained 400' mpirun -n $n "$toy" train $n --deterministic
  losses ranks
  same "deterministic: $n ranks = 1 rank, bit by bit" deterministic ranks
done
check "two hosts" 0 '^trained 400' env ASHLAR_FORCE_HOSTS=2 mpirun -n 4 "$toy" train 4
losses ranks
same "two hosts = one" one ranks
# torchrun's variables, set by a shell: ranks of one host meet by MASTER_PORT; of two hosts at rank 0, with a secret.
by_variables() { # RANKS RANKS_ON_HOST VARIABLE=VALUE...
  local rank ranks=$1 on_host=$2 pids=() status=0
  shift 2
  for rank in $(seq $((ranks - 1)) -1 0); do
    env RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$((rank % on_host)) LOCAL_WORLD_SIZE=$on_host MASTER_ADDR=localhost MASTER_PORT=$port "$@" "$toy" train $ranks > out.$rank 2>&1 &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || status=1; done
  cat out.0
  return $status
}
port=$((20000 + $$ % 10000))
head -c 32 /dev/urandom > key
chmod 600 key
verdict "torchrun's variables" eval 'by_variables 4 4 > out'
losses ranks
same "torchrun's variables = mpirun" one ranks
verdict "torchrun's variables: two hosts" eval 'by_variables 4 2 ASHLAR_KEY_FILE=key > out'
losses ranks
same "torchrun's variables: two hosts = one" one ranks
check "torchrun's variables: no secret" error '^error: ranks on several hosts meet at MASTER_ADDR, where anybody may connect, but ASHLAR_KEY_FILE is not set' \
  env RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port "$toy" train 4
check "torchrun's variables: wrong number" error '^error: 3 ranks at launch but the program was compiled for 4; run it with WORLD_SIZE=4$' \
  env RANK=0 WORLD_SIZE=3 MASTER_PORT=$port "$toy" train 4
check "two launchers" error '^error: OMPI_COMM_WORLD_SIZE is 2 but WORLD_SIZE is "4", so two launchers started this rank' \
  mpirun -n 2 -x RANK=0 -x WORLD_SIZE=4 "$toy" train 2
check "worker logs" 0 trained mpirun -n 2 "$toy" train 2 --log-dir logs/run
check "worker logs: content" 0 '^epoch: 2 step: 200' cat logs/run/worker_1.log

check "started alone" error '^error: started alone but the program was compiled for 4 ranks; run it with mpirun -n 4$' "$toy" train 4
check "wrong number of ranks" error '^error: 3 ranks at launch but the program was compiled for 4; run it with mpirun -n 4$' \
  mpirun -n 3 "$toy" train 4
check "chunks are named" error '^error: 4 ranks at launch but the program was compiled for 2 of 4 chunks each; run it with mpirun -n 2$' \
  mpirun -n 4 "$toy" train 2 --deterministic
verdict "only one rank prints the error" [ "$(grep -c '^error' out)" = 1 ]
check "different programs" error '^error: rank 1 runs program .* but rank 0 runs' mpirun -n 1 "$toy" train 2 : -n 1 "$toy" forward 2
check "different programs on two hosts" error '^error: rank 1 runs program .* but rank 0 runs' \
  env ASHLAR_FORCE_HOSTS=2 mpirun -n 1 "$toy" train 2 : -n 1 "$toy" forward 2
check "different variants" error \
  '^error: rank 1 runs the deterministic variant of the program but rank 0 the default one; start all ranks with --deterministic, or none' \
  mpirun -n 1 "$toy" train 2 : -n 1 "$toy" train 2 --deterministic
check "different variants on two hosts" error '^error: rank 1 runs the deterministic variant of the program but rank 0' \
  env ASHLAR_FORCE_HOSTS=2 mpirun -n 1 "$toy" train 2 : -n 1 "$toy" train 2 --deterministic

# Parameters after a training.
check "parameters: alone" 0 '^trained 400' "$toy" train 1 --save-parameters saved/one
values='local $/; open F, "<", $ARGV[0]; $_ = <F>; printf "%.1f %.1f %.1f\n", unpack "f<3", substr($_, -12)'
check "parameters: value" 0 '^2.0 3.0 5.0$' perl -e "$values" saved/one/parameters.npy
check "parameters: nothing else is written" 0 '^parameters.npy$' ls saved/one
check "parameters: 4 ranks" 0 '^trained 400' mpirun -n 4 "$toy" train 4 --save-parameters four
same "parameters: 4 ranks = 1 rank" saved/one/parameters.npy four/parameters.npy
check "parameters: two hosts" 0 '^trained 400' env ASHLAR_FORCE_HOSTS=2 mpirun -n 4 "$toy" train 4 --save-parameters hosts
same "parameters: two hosts = 1 rank" saved/one/parameters.npy hosts/parameters.npy
check "parameters: deterministic alone" 0 '^trained 400' "$toy" train 1 --deterministic --save-parameters chunks_1
check "parameters: deterministic, 2 ranks" 0 '^trained 400' mpirun -n 2 "$toy" train 2 --deterministic --save-parameters chunks_2
same "parameters: deterministic, 2 ranks = 1 rank" chunks_1/parameters.npy chunks_2/parameters.npy
check "parameters: no step" 0 '^trained 0 steps' "$toy" train 1 --steps 0 --save-parameters first
check "parameters: before the first step" 0 '^0.0 0.0 0.1$' perl -e "$values" first/parameters.npy
check "parameters: no folder" error '^error: rank 0: cannot make the directory saved/one/parameters.npy/a: Not a directory$' \
  mpirun -n 2 "$toy" train 2 --save-parameters saved/one/parameters.npy/a
check "parameters: on one rank only" error '^error: rank 1: started with --save-parameters but rank 0 without --save-parameters' \
  mpirun -n 1 "$toy" train 2 : -n 1 "$toy" train 2 --save-parameters saved

# A rank killed in the middle ends the job.
mpirun -n 2 "$toy" train 2 --steps 2000000000 --log-every 0 > out 2>&1 &
job=$!
sleep 1
victim=$(pgrep -P $job | head -n 1)
begin=$SECONDS
kill -9 "$victim" 2> /dev/null
wait $job
status=$?
verdict "killed rank: victim '$victim', status $status after $((SECONDS - begin)) s" \
  [ -n "$victim" -a $status -ne 0 -a $((SECONDS - begin)) -le 10 ]

# Forward programs.
write_npy() { # rows columns: writes x.npy with 0, 1, 2, ... as f32, for all tests below
  local header="{'descr': '<f4', 'fortran_order': False, 'shape': ($1, $2), }"
  while [ $(((${#header} + 11) % 64)) -ne 0 ]; do header="$header "; done
  {
    printf '\x93NUMPY\x01\x00'
    printf "\\x$(printf %02x $((${#header} + 1)))\\x00%s\n" "$header"
    for i in $(seq 0 $(($1 * $2 - 1))); do
      perl -e 'print pack("f<", $ARGV[0])' "$i"
    done
  } > x.npy
}
write_npy 8 3
check "forward: alone" 0 '' "$toy" forward 1 --input x=x.npy
check "forward: default names" 0 'net_twice.npy' ls
cp product.npy expected.npy
check "forward: 4 ranks" 0 '' mpirun -n 4 "$toy" forward 4 --input x=x.npy --output product=p4.npy
same "forward: 4 ranks = 1 rank" expected.npy p4.npy
check "forward: two hosts" 0 '' env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 "$toy" forward 2 --input x=x.npy --output product=p2.npy
same "forward: two hosts = 1 rank" expected.npy p2.npy
check "forward: value" 0 '^113 216$' perl -e 'local $/; open F, "<expected.npy"; $_ = <F>; my @v = unpack "f<*", substr($_, -64); print "$v[0] $v[1]\n";'
check "forward: missing input" error '^error: input x is not given; add --input x=FILE.npy$' "$toy" forward 1
check "forward: unknown input" error '^error: --input q: no such tensor; the program has x$' "$toy" forward 1 --input q=x.npy
check "forward: unknown output" error '^error: --output q: no such tensor; the program has net/twice, product$' \
  "$toy" forward 1 --input x=x.npy --output q=q.npy
write_npy 7 3
check "forward: wrong shape" error '^error: "x.npy" has shape \(7, 3\) but \(8, 3\) is expected$' mpirun -n 2 "$toy" forward 2 --input x=x.npy --output product=no.npy
write_npy 8 3
check "forward: cannot write" error '^error: .*no/such/p.npy' "$toy" forward 1 --input x=x.npy --output product=no/such/p.npy
check "forward: two outputs in one file" error '^error: --output net/twice and --output product both name no.npy; ' \
  "$toy" forward 1 --input x=x.npy --output product=no.npy --output net/twice=no.npy
check "forward: one file spelled in two ways" error '^error: rank 0: --output net/twice and --output product both name (./)?no.npy; ' \
  mpirun -n 2 "$toy" forward 2 --input x=x.npy --output product=no.npy --output net/twice=./no.npy
check "forward: one of two files cannot be written" error '^error: .*no/such/p.npy' \
  "$toy" forward 1 --input x=x.npy --output net/twice=no.npy --output product=no/such/p.npy
check "forward: no temporary file" error 'cannot access' ls ./*.part
mkfifo pipe
check "forward: does not replace a device" error '^error: cannot write pipe: it is there and not a regular file' \
  "$toy" forward 1 --input x=x.npy --output product=pipe
check "forward: no partial file" error 'cannot access' ls no.npy no

# Benchmarks, and NaN.
line='^forward: [0-9.]+ us a run, median of 7$'
check "benchmark: random inputs" 0 "$line" "$toy" forward 1 --benchmark 7
check "benchmark: 2 ranks" 0 "$line" mpirun -n 2 "$toy" forward 2 --benchmark 7 --input x=x.npy
check "benchmark: with the profile" 0 '100.0 %|product' "$toy" forward 1 --benchmark 7 --profile
check "benchmark: writes no outputs" error '^error: --benchmark writes no outputs; leave out --output$' \
  "$toy" forward 1 --benchmark 7 --output product=no.npy
set_last() { perl -e 'open F, "+<x.npy"; seek F, -4 * @ARGV, 2; print F pack("f<*", @ARGV)' -- "$@"; }
set_last -inf inf
check "numerics: infinity is none" 0 '' "$toy" forward 1 --input x=x.npy --output product=no.npy
check "numerics: the first instruction with a NaN" error \
  '^error: NaN in run 1 of forward: product \(2 of 3\) left it in element 14 of operand 3, f32 of 16 elements, on device 0$' \
  "$toy" forward 1 --input x=x.npy --output product=no.npy --check-numerics
check "numerics: on the device that has it" error '^error: NaN in run 1 of forward: product .* on device 1$' \
  mpirun -n 2 "$toy" forward 2 --input x=x.npy --output product=no.npy --check-numerics
set_last nan
check "numerics: in the data" error '^error: NaN before run 1 of forward: element 23 of the input x on device 0$' \
  "$toy" forward 1 --input x=x.npy --output product=no.npy --check-numerics

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
