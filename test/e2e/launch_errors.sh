# SPDX-License-Identifier: Apache-2.0
#
# Launches that cannot work end at once with one line; a rank that dies ends the job.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/long_run.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o mlp
expect_error "run it with mpirun -n 4" mpirun -n 3 ./mlp
expect_error "run it with mpirun -n 4" ./mlp
expect_error "--bogus" mpirun -n 4 ./mlp --bogus
# Behind our line mpirun has nothing to say when it is asked for that.
for quiet in "mpirun --quiet" "env OMPI_MCA_orte_execute_quiet=1 mpirun"; do
  # shellcheck disable=SC2086 # words
  expect_error "error: " $quiet -n 4 ./mlp --bogus
  [ "$(wc -l < error.log)" = 1 ] || { cat error.log >&2; fail "$quiet: the error is not one line"; }
done

# Ranks of different programs stop at start.
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o same
sed 's/seed: 1//; $ a seed: 2' "$jobs/mlp.txtpb" > other.txtpb
"$tools/ashlarc" mlp.onnx --job other.txtpb -o other
mpirun -n 2 ./mlp --steps 1 : -n 2 ./same --steps 1 > /dev/null || fail "the same program compiled twice is not the same"
expect_error "error: rank 2 runs program" mpirun -n 2 ./mlp --steps 1 : -n 2 ./other --steps 1
# On a host of their own each two run the same program.
expect_error "error: rank 2 runs program" env ASHLAR_FORCE_HOSTS=2 mpirun -n 2 ./mlp --steps 1 : -n 2 ./other --steps 1
[ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }

# The hash of the order of collectives is of nothing else; ranks that meet in other ones are told apart, too.
cat "$jobs/mlp.txtpb" <(echo 'comm_fusion { all_reduce { mode: AUTO_BUCKETS } }') > fused.txtpb
"$tools/ashlarc" mlp.onnx --job fused.txtpb -o fused
order_of() {
  sed -n 's/^order  *collectives in one order on all 4 devices, checked: .* hash \([0-9a-f]*\)$/\1/p' <("./$1" --plan)
}
[ "$(order_of mlp)" ] && [ "$(order_of mlp)" = "$(order_of other)" ] || fail "another seed changes the order of collectives: $(order_of mlp), $(order_of other)"
[ "$(order_of mlp)" != "$(order_of fused)" ] || fail "fused collectives have the order of others: $(order_of mlp)"
expect_error "error: rank 3 runs program" mpirun -n 3 ./mlp --steps 1 : -n 1 ./fused --steps 1

# The rank that has something to say is not the first.
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o alone
expect_error "4 ranks at launch but the program was compiled for 1" mpirun -n 3 ./mlp --steps 1 : -n 1 ./alone --steps 1

# Ranks that would not do the same: one would wait for ever, or train another model.
expect_error "rank 3: started with --steps 2 but rank 0 with --steps 1" mpirun -n 3 ./mlp --steps 1 : -n 1 ./mlp --steps 2
expect_error "rank 1: started with --eval but rank 0 without --eval" mpirun -n 1 ./mlp --steps 1 : -n 3 ./mlp --steps 1 --eval
expect_error "rank 3: started with --seed 3 but rank 0 with --seed 1" mpirun -n 3 ./mlp --steps 1 : -n 1 ./mlp --steps 1 --seed 3

# What mpirun tells its ranks is checked.
for wrong in 'SIZE 0 1 1048576' 'SIZE -1 1 1048576' 'SIZE 4294967300 1 1048576' 'SIZE 18446744073709551620 1 1048576' 'SIZE 4x 1 1048576' \
  'RANK 4 0 3' 'RANK -1 0 3' 'RANK 4294967296 0 3' 'RANK x 0 3'; do
  read -r name value low high <<< "$wrong"
  expect_error "error: OMPI_COMM_WORLD_$name is \"$value\", not a number from $low to $high; start the program with mpirun" \
    env OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 "OMPI_COMM_WORLD_$name=$value" ./mlp
done
expect_error 'OMPI_COMM_WORLD_RANK is "", not a number from 0 to 3' env -u OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE=4 ./mlp

# Ranks of several hosts find each other through mpirun, on a network that they have; one that does not come is named.
expect_error 'error: ASHLAR_NETWORK is "10.9", not a network such as 10.77.0.0/24' env ASHLAR_FORCE_HOSTS=2 ASHLAR_NETWORK=10.9 mpirun -n 4 ./mlp
expect_error 'error: ASHLAR_NETWORK is "203.0.113.0/24" but this host has 127.0.0.1/8' \
  env ASHLAR_FORCE_HOSTS=2 ASHLAR_NETWORK=203.0.113.0/24 mpirun -n 4 ./mlp
expect_error 'error: rank 3 did not come up within 2 s (ASHLAR_PATIENCE)' \
  env ASHLAR_FORCE_HOSTS=2 ASHLAR_PATIENCE=2 mpirun -n 3 ./mlp --steps 1 : -n 1 sleep 60
[ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }

# Started by hand, or by another launcher: nobody waits for ranks that cannot come.
for given in 'PMIX_NAMESPACE' 'PMIX_NAMESPACE OMPI_COMM_WORLD_LOCAL_SIZE=4' 'PMIX_RANK OMPI_COMM_WORLD_LOCAL_SIZE=2' \
  'PMIX_RANK OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=job'; do
  read -r missing others <<< "$given"
  # shellcheck disable=SC2086 # words
  expect_error "error: OMPI_COMM_WORLD_SIZE is 4 but $missing is not set, so ranks were started by hand and cannot meet; run the program with mpirun -n 4, " \
    env OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 $others ./mlp
done
expect_error "error: PMI_SIZE is 4 but PMI_FD is not set, so ranks were started by hand and cannot meet; run the program with mpiexec -n 4" \
  env PMI_SIZE=4 PMI_RANK=0 ./mlp
expect_error "error: WORLD_SIZE is 4 but MASTER_PORT is not set, so ranks cannot meet; set MASTER_PORT, equal on all ranks, " \
  env WORLD_SIZE=4 RANK=0 ./mlp
# A step of Slurm with one task, as of an interactive shell, is no launch of several ranks.
expect_error "error: 1 ranks at launch but the program was compiled for 4; run it with srun -n 4" \
  env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_JOB_ID=1 ./mlp

# How often the ranks went to sleep so far; looking on and on, and yielding, is no sleep.
naps() {
  local rank
  for rank in "${ranks[@]}"; do cat "/proc/$rank/status"; done | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'
}

# Whether a process runs; one that has ended may wait to be collected.
runs() {
  [ -e "/proc/$1" ] && ! grep -qs "^State:.Z" "/proc/$1/status"
}

# One rank is killed in the middle of a long run, on one host and between two.
for hosts in 1 2; do
  ASHLAR_FORCE_HOSTS=$hosts start_long_run mpirun -n 4 ./mlp --epochs 1000
  start=$SECONDS
  kill -9 "${ranks[-1]}"
  wait "$launcher" && fail "the job succeeds although a rank was killed on $hosts hosts"
  [ $((SECONDS - start)) -le 10 ] || fail "the job on $hosts hosts ends $((SECONDS - start)) s after a rank was killed"
done

# The launcher does not end the others: a rank of the same host sees it, though it waits for one of another host.
ASHLAR_FORCE_HOSTS=2 start_long_run mpirun --enable-recovery -n 4 ./mlp --epochs 1000
kill -9 "$(process_of 3)"
for _ in $(seq 100); do
  grep -q '^error: rank 3 terminated without reporting an error$' long.log && break
  sleep 0.1
done
grep -q '^error: rank 3 terminated without reporting an error$' long.log || { cat long.log >&2; fail "nobody says that rank 3 was killed"; }
kill -9 "$launcher" "${ranks[@]}" 2> /dev/null || true
wait "$launcher" 2> /dev/null || true

# The launcher is killed: it cannot end its ranks, so they end themselves.
start_long_run mpirun -n 4 ./mlp --epochs 1000
kill -9 "$launcher"
wait "$launcher" 2> /dev/null && fail "the job succeeds although its launcher was killed"
for _ in $(seq 100); do
  left=0
  for rank in "${ranks[@]}"; do
    runs "$rank" && left=$((left + 1))
  done
  [ $left = 0 ] && break
  sleep 0.1
done
[ $left = 0 ] || { kill -9 "${ranks[@]}" || true; fail "$left ranks still run 10 s after their launcher was killed"; }

# Without a launcher, which would end the others: started by hand as rank R of 2. by_hand R COMMAND...
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 -o pair
by_hand() {
  env PMIX_NAMESPACE="by-hand-$$" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK="$1" "${@:2}"
}

# Fails unless the process ends within so many seconds, with an error. expect_end PID SECONDS WHAT
expect_end() {
  local start=$SECONDS
  while runs "$1"; do
    [ $((SECONDS - start)) -le "$2" ] || { kill -9 "$1"; fail "$3 still runs after $2 s"; }
    sleep 0.1
  done
  wait "$1" && fail "$3 ends without an error"
  true
}

# Two processes that are one rank.
for rank in 0 1; do
  by_hand $rank env ASHLAR_PATIENCE=2 ./pair > a.log 2>&1 &
  first=$!
  by_hand $rank env ASHLAR_PATIENCE=2 ./pair > b.log 2>&1 &
  second=$!
  expect_end $first 10 "the first rank $rank"
  expect_end $second 10 "the second rank $rank"
  [ "$(grep -c '^error: ' a.log)$(grep -c '^error: ' b.log)" = 11 ] || { cat a.log b.log >&2; fail "two ranks $rank: not one line each"; }
done

# Two jobs with one port.
for log in a.log b.log; do
  RANK=0 WORLD_SIZE=2 MASTER_PORT=29512 ASHLAR_PATIENCE=2 ./pair > $log 2>&1 &
done
wait
grep -q '^error: another process has the local socket .*; start each rank once, and give each job of a host a MASTER_PORT of its own$' a.log b.log ||
  { cat a.log b.log >&2; fail "two jobs with one MASTER_PORT"; }

# Ranks in PID namespaces of their own are not taken for dead, and one that dies is noticed. The other one waits for it for a while.
if unshare -p -f --kill-child true 2> /dev/null; then
  by_hand 0 unshare -p -f --kill-child ./pair --epochs 1000 > a.log 2>&1 &
  first=$!
  by_hand 1 ./pair --epochs 1000 > b.log 2>&1 &
  second=$!
  for _ in $(seq 100); do
    grep -q 'loss is' a.log && break
    sleep 0.1
  done
  kill -STOP $second
  sleep 1
  kill -CONT $second
  sleep 0.5
  runs $first && runs $second || { cat a.log b.log >&2; fail "ranks in two PID namespaces take each other for dead"; }
  before=$(wc -l < a.log)
  sleep 1
  [ "$(wc -l < a.log)" -gt "$before" ] || fail "ranks in two PID namespaces do not go on after a pause"
  read -ra inside < "/proc/$first/task/$first/children" || true
  kill -9 "${inside[0]}"
  expect_end $second 10 "the rank whose peer in another PID namespace was killed"
  grep -q '^error: rank 0 terminated without reporting an error$' b.log || { cat b.log >&2; fail "nobody says that rank 0 was killed"; }
  wait $first || true
else
  echo "skipped: no PID namespaces here"
fi

# A rank that is stopped is waited for with patience, and then named: within a host, from another host, and where ranks of its host wait for it
# in their memory while those of another host wait for these.
export ASHLAR_PATIENCE=3
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_tensor_parallel.txtpb" --mesh dp=2,tp=2 -o split
for run in "mlp 1 2" "mlp 2 2" "split 2 1"; do
  read -r program hosts stopped <<< "$run"
  ASHLAR_FORCE_HOSTS=$hosts start_long_run mpirun -n 4 "./$program" --epochs 1000
  kill -STOP "$(process_of "$stopped")"
  if [ "$hosts" = 2 ]; then
    sleep 1
    before=$(naps)
    sleep 1
    [ $(($(naps) - before)) -gt 300 ] || fail "a rank that waits for another host does not leave its core to others: $(($(naps) - before)) naps"
  fi
  expect_end "$launcher" 60 "$program on $hosts hosts with a stopped rank"
  grep -Eq "^waiting for rank $stopped for ([3-9]|1[0-9]) s; the job ends after 1[26] s" long.log ||
    { cat long.log >&2; fail "nobody says that rank $stopped is waited for"; }
  grep -q "^error: rank $stopped did not come within [12][0-9] s" long.log || { cat long.log >&2; fail "nobody says that rank $stopped did not come"; }
  [ "$(grep -c '^waiting for\|^error: ' long.log)" = 2 ] || { cat long.log >&2; fail "it is said more than once"; }
done
