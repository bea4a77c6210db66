# SPDX-License-Identifier: Apache-2.0
#
# tools/supervise.sh: a training whose rank is killed goes on and ends with the bits of one that nobody touched, also on fewer ranks. How
# often it starts, with what, its status, and signals to it.

. "$(dirname "$0")/common.sh"

supervise=$(cd "$(dirname "$0")/../../tools" && pwd)/supervise.sh
rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" mlp -o mlp.onnx
sed '/^epochs/d; /^log_every/d' "$jobs/mlp_zero3.txtpb" > job.txtpb
"$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=4 -o four
"$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=2 -o two
steps=60
./two --help > help.log
mpirun -n 2 ./two --deterministic --threads 1 --steps $steps --save-parameters expected > expected.log

# kill_a_rank PROGRAM FILE: kills a rank of the program as soon as the file, a checkpoint's, is there.
kill_a_rank() {
  local process
  for _ in $(seq 1200); do
    if [ -e "$2" ]; then
      for process in $(grep -lx "$1" /proc/[0-9]*/comm 2> /dev/null); do # one program for all: the run does not wait
        process=${process%/comm}
        if [ "$(readlink "$process/exe" 2> /dev/null)" = "$PWD/$1" ] && grep -qzx OMPI_COMM_WORLD_RANK=1 "$process/environ" 2> /dev/null; then
          kill -KILL "${process#/proc/}" && echo "killed a rank of $1" >> kills
          return
        fi
      done
    fi
    sleep 0.05
  done
}

# The same ranks again; then, after a second kill, half of them.
kill_a_rank four saved/ashlar-1_10/index.json &
"$supervise" -n 2 -- mpirun -n 4 ./four --deterministic --threads 1 --steps $steps --save-every 5 --checkpoint-dir saved --save-parameters again --log-every 1 --metrics again.jsonl --log-dir logs > again.log 2> again.err ||
  { cat again.log again.err >&2; fail "the supervised run ends with status $?"; }
wait
[ "$(cat kills)" = "killed a rank of four" ] || fail "no rank was killed"
[ "$(grep -c '^supervise: ended with status [1-9][0-9]* after [0-9]* s; restart 1 of 2: mpirun -n 4 ./four .* --resume latest$' again.err)" = 1 ] ||
  { cat again.err >&2; fail "no line, or not one, tells of the restart"; }
[ "$(grep -c '^resumed from saved/ashlar-1_[0-9]*: ' again.log)" = 1 ] || { cat again.log >&2; fail "the run does not go on from a checkpoint"; }
diff -r expected again > /dev/null || fail "the supervised run ends with other parameters"
# The logs are of both runs: each step is once in the metrics.
[ "$(sed 's/.*"global_step": \([0-9]*\),.*/\1/' again.jsonl)" = "$(seq $steps)" ] || { cat again.jsonl >&2; fail "the metrics do not go on"; }
[ "$(head -n 5 logs/worker_0.log)" = "$(head -n 5 again.log)" ] && grep -q '^resumed from saved/' logs/worker_0.log || fail "the log of rank 0 does not go on"
kill_a_rank four fewer/ashlar-1_10/index.json &
"$supervise" --fallback "mpirun -n 2 ./two --deterministic --threads 1 --steps $steps --save-every 5 --checkpoint-dir fewer --save-parameters fallback" -- \
  mpirun -n 4 ./four --deterministic --threads 1 --steps $steps --save-every 5 --checkpoint-dir fewer --save-parameters none > fewer.log 2> fewer.err ||
  { cat fewer.log fewer.err >&2; fail "the run with a fallback ends with status $?"; }
wait
grep -q 'restart 1 of 3: mpirun -n 2 ./two' fewer.err || { cat fewer.err >&2; fail "the fallback is not told"; }
grep -q '^resumed from fewer/ashlar-1_' fewer.log || fail "the fallback does not go on from a checkpoint"
diff -r expected fallback > /dev/null || fail "the run with a fallback ends with other parameters"

# How often, with which arguments, which status.
cat > program << 'EOF'
#!/bin/bash
printf '<%s>' "$@" >> starts
echo >> starts
exit "${1#status=}"
EOF
chmod +x program

# expect_starts STATUS LINES ARGUMENTS...: that status, and what the program was started with.
expect_starts() {
  local expected=$1 lines=$2 status=0
  shift 2
  rm -f starts
  "$supervise" "$@" > out 2> err || status=$?
  [ $status = "$expected" ] || { cat err >&2; fail "supervise.sh $* ends with $status, not $expected"; }
  [ "$(cat starts)" = "$lines" ] || fail "supervise.sh $* starts: $(cat starts)"
  [ "$(wc -l < err)" = $(($(wc -l < starts) - 1)) ] || { cat err >&2; fail "supervise.sh $*: not one line for each restart"; }
}
expect_starts 0 '<status=0><--resume><latest>' -- ./program status=0
expect_starts 0 $'<status=0><a  b><$x\'"*><--resume><latest>' -- ./program status=0 'a  b' $'$x\'"*'
expect_starts 0 '<status=0><--resume><latest><--steps><3>' -- ./program status=0 --resume latest --steps 3
expect_starts 0 '<status=0><--resume=latest>' -- ./program status=0 --resume=latest
expect_starts 0 '<status=0><--resume-partial><--resume><latest>' -- ./program status=0 --resume-partial
again='<status=7><--resume><latest>'
expect_starts 7 "$again"$'\n'"$again"$'\n'"$again"$'\n'"$again" -- ./program status=7
expect_starts 7 "$again"$'\n'"$again" -n 1 -- ./program status=7
expect_starts 3 '<status=3><--resume><latest>' -- ./program status=3 # numbers that are not finite, and would be so again
expect_starts 7 "$again" -n 0 -- ./program status=7
fallen='<status=9><b  c><--resume><latest>'
expect_starts 9 "$again"$'\n'"$fallen"$'\n'"$fallen" -n 2 --fallback "./program status=9 'b  c'" -- ./program status=7
expect_starts 0 "$again"$'\n'"$fallen"$'\n''<status=0><--resume><latest>' --fallback "./program status=9 'b  c'" --fallback './program status=0' -- ./program status=7
expect_error 'error: -n needs a number of restarts, not "x"; usage: ' "$supervise" -n x -- true
expect_error 'error: there is no command behind --; usage: ' "$supervise" -n 2 --
expect_error 'error: "mpirun" is neither an option nor --; usage: ' "$supervise" mpirun
expect_error 'error: --fallback needs a command; usage: ' "$supervise" --fallback '' -- true
expect_error 'error: 1 fallbacks but 0 restarts; usage: ' "$supervise" -n 0 --fallback true -- false
expect_error 'Killed' "$supervise" -n 0 -- bash -c 'kill -KILL $$'

# A launcher that still waits for a lost host ten seconds after its ranks ended is killed; one that had none is not.
cat > launcher << 'EOF'
#!/bin/bash
[ "$1" = none ] || OMPI_COMM_WORLD_RANK=0 sleep 2
sleep 14
exit 6
EOF
chmod +x launcher
"$supervise" -n 0 -- ./launcher none > none.out 2> none.err &
none=$!
status=0
"$supervise" -n 0 -- ./launcher one > out 2> err || status=$?
[ $status = 137 ] || { cat err >&2; fail "a launcher that outlives its rank ends with status $status"; }
[ "$(grep -c '^supervise: the launcher still runs 10 s after the ranks of this host ended, and is killed' err)" = 1 ] ||
  { cat err >&2; fail "no line, or not one, tells of the launcher"; }
status=0
wait $none || status=$?
[ $status = 6 ] || { cat none.err >&2; fail "a command without ranks ends with status $status"; }

# A signal reaches the run, which is the last one, with its own status. Twice, too.
cat > trapper << 'EOF'
#!/bin/bash
trap 'echo TERM; sleep 0.2; exit 3' TERM
trap 'echo INT; exit 4' INT
trap 'echo USR1' USR1
echo ready
for i in $(seq 100); do sleep 0.05; done
exit 5
EOF
chmod +x trapper
cat > signals.py << 'PYTHON'
import signal, subprocess, sys
for sent, status in (("TERM", 3), ("INT", 4), ("USR1", 5), ("USR1 TERM", 3), ("TERM TERM", 3)):
    process = subprocess.Popen([sys.argv[1], "--", "./trapper"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout.readline() == "ready\n", sent
    for name in sent.split():
        process.send_signal(getattr(signal, "SIG" + name))
        assert process.stdout.readline() == name + "\n" or sent == "TERM TERM", sent
    rest = process.stdout.read()
    assert process.wait(timeout=20) == status and rest in ("", "TERM\n"), (sent, process.returncode, rest)
PYTHON
python3 -c 'import signal; signal.signal(signal.SIGINT, signal.default_int_handler); exec(open("signals.py").read())' "$supervise" || fail "signals: see above"
