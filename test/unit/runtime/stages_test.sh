#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pipelines of stages under mpirun, on hand-written images: numbers, parameters, wrong ranks, ranks that die or stop. stages_test.sh TOY_PROGRAM
# Each check states what it expects; the last line counts them.

check_trace=$(cd "$(dirname "$0")/../../e2e" && pwd)/check_trace.py
. "$(dirname "$0")/checks.sh"
limit=30

# results FILE: the lines that do not depend on time.
results() { grep -v "^trained" out | sed "s/;.*//" > "$1"; }

check "two stages" 0 '^eval: loss is [0-9.]+$' mpirun -n 2 "$toy" pipeline 2x1 --eval --save-parameters two
results expected
verdict "log lines on rank 0 only" [ "$(grep -c '^epoch' out)" = 4 ]
verdict "parameters of all stages" [ "$(cd two && echo *)" = "w0.npy w1.npy" ]

# same NAME COMMAND...: the same losses and parameters, bit by bit.
same() {
  local name=$1
  shift
  rm -rf saved
  check "$name" 0 '^trained 20 steps' "$@" --eval --save-parameters saved
  results found
  verdict "$name: the same results" cmp expected found
  verdict "$name: the same parameters" diff -r two saved
}
same "all forward first" mpirun -n 2 "$toy" pipeline 2x1:gpipe
same "a slow receiver" mpirun -n 2 "$toy" pipeline 2x1:slow=1
same "a slow sender" mpirun -n 2 "$toy" pipeline 2x1:slow=0
same "two hosts" env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 "$toy" pipeline 2x1
same "two hosts, all forward first" env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 "$toy" pipeline 2x1:gpipe
same "two hosts, a slow receiver" env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 "$toy" pipeline 2x1:slow=1
same "two hosts, a slow sender" env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 "$toy" pipeline 2x1:slow=0
same "long messages" mpirun -n 2 "$toy" pipeline 2x1:bytes=1000000
same "two hosts, long messages" env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 "$toy" pipeline 2x1:bytes=1000000
same "two hosts, long messages, a slow receiver" env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 "$toy" pipeline 2x1:bytes=1000000:slow=1
same "two threads a rank" mpirun -n 2 "$toy" pipeline 2x1:bytes=1000000 --threads 2
check "three stages of two" 0 '^eval' mpirun -n 6 "$toy" pipeline 3x2 --eval --save-parameters three
results expected
rm -rf two && mv three two
same "three stages of two on two hosts: stage 1 is on both" env ASHLAR_FORCE_HOSTS=2 mpirun -n 6 "$toy" pipeline 3x2
same "three stages of two on three hosts" env ASHLAR_FORCE_HOSTS=3 mpirun -n 6 "$toy" pipeline 3x2:slow=1
check "numerics" 0 '^trained' mpirun -n 2 "$toy" pipeline 2x1 --check-numerics
check "profile" 0 'wait until stage 1 has h0' mpirun -n 2 "$toy" pipeline 2x1 --profile
# Stages that sleep run at one time, however few cores there are.
step="forward=4,backward=4,norm=1,update=1"
for hosts in 1 3; do
  check "trace on $hosts hosts" 0 '^trace of steps 5 to 6 in trace.json$' env ASHLAR_FORCE_HOSTS=$hosts mpirun -n 6 "$toy" pipeline 3x2:slow=99:sleep=5000 \
    --steps 6 --trace trace.json --trace-steps 5-6
  check "trace on $hosts hosts: content" 0 'as they should be$' python3 "$check_trace" trace.json --ranks 6 --steps 5-6 --programs "$step;$step;$step" --overlap
done
check "worker logs tell the loss" 0 '^trained' mpirun -n 3 "$toy" pipeline 3x1 --log-dir logs
steps() { sed -n 's/^\(epoch.*\);.*/\1/p' "logs/worker_$1.log"; }
steps 0 > found
verdict "worker logs agree" eval '[ -s found ] && steps 1 | cmp - found && steps 2 | cmp - found'

check "started alone" error '^error: started alone but the program was compiled for 4 ranks \(2 stages of dp=2\); run it with mpirun -n 4$' \
  "$toy" pipeline 2x2
check "ranks of one stage" error '^error: 2 ranks at launch but the program was compiled for 4 \(2 stages of dp=2\); run it with mpirun -n 4$' \
  mpirun -n 2 "$toy" pipeline 2x2
verdict "only one rank prints the error" [ "$(grep -c '^error' out)" = 1 ]
check "another pipeline" error '^error: rank [01] runs program .* but rank [01] runs' mpirun -n 1 "$toy" pipeline 2x1 : -n 1 "$toy" train 2
check "lines at different steps" error '^error: rank 1: started with --log-every 3 but rank 0 with --log-every 5' \
  mpirun -n 1 "$toy" pipeline 2x1 : -n 1 "$toy" pipeline 2x1 --log-every 3

# start PROGRAM_ARGUMENT...: a long run in the background, until it trains: sets job.
start() {
  mpirun "$@" --steps 2000000000 --log-every 5 > out 2>&1 &
  job=$!
  for _ in $(seq 100); do
    grep -q '^epoch' out && break
    sleep 0.1
  done
}

# signal RANK SIGNAL: to a rank of the job.
signal() {
  local pid
  for pid in $(pgrep -P $job); do
    if grep -qzx "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ"; then
      kill "-$2" "$pid"
    fi
  done
}

# A rank of one stage is killed: the others end soon.
for hosts in 1 2; do
  export ASHLAR_FORCE_HOSTS=$hosts
  for rank in 0 1 2; do
    start -n 3 "$toy" pipeline 3x1:slow=1
    begin=$SECONDS
    signal $rank KILL
    wait $job
    status=$?
    verdict "rank $rank killed on $hosts hosts" [ $status -ne 0 -a $((SECONDS - begin)) -le 10 ]
  done
done

# The launcher does not end the others: a rank that waits for another stage says which one is gone.
export ASHLAR_FORCE_HOSTS=1
start -n 3 --enable-recovery "$toy" pipeline 3x1
signal 1 KILL
for _ in $(seq 100); do
  grep -q '^error: rank 1 terminated without reporting an error$' out && break
  sleep 0.1
done
verdict "the killed rank is named" grep -q '^error: rank 1 terminated without reporting an error$' out
kill -9 $job $(pgrep -P $job) 2> /dev/null
wait $job 2> /dev/null

# A stage that is stopped is named by those that wait for it, whoever waits for whom.
export ASHLAR_PATIENCE=1
for hosts in 1 2; do
  export ASHLAR_FORCE_HOSTS=$hosts
  start -n 3 "$toy" pipeline 3x1
  begin=$SECONDS
  signal 1 STOP
  wait $job
  verdict "rank 1 stopped on $hosts hosts" eval 'grep -q "^error: rank 1 did not come within" out && [ $((SECONDS - begin)) -le 20 ]'
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
