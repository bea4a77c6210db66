# SPDX-License-Identifier: Apache-2.0
#
# Launches that cannot work end at once with one line; a rank that dies ends the job.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o mlp
expect_error "run it with mpirun -n 4" mpirun -n 3 ./mlp
expect_error "run it with mpirun -n 4" ./mlp
expect_error "--bogus" mpirun -n 4 ./mlp --bogus

# Ranks of different programs stop at start.
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" -o same
sed 's/seed: 1//; $ a seed: 2' "$jobs/mlp.txtpb" > other.txtpb
"$tools/ashlarc" mlp.onnx --job other.txtpb -o other
mpirun -n 2 ./mlp --steps 1 : -n 2 ./same --steps 1 > /dev/null || fail "the same program compiled twice is not the same"
expect_error "program" mpirun -n 2 ./mlp --steps 1 : -n 2 ./other --steps 1

# The rank that has something to say is not the first.
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o alone
expect_error "4 ranks at launch but the program was compiled for 1" mpirun -n 3 ./mlp --steps 1 : -n 1 ./alone --steps 1

# Ranks that would not do the same: one would wait for ever, or train another model.
expect_error "rank 3: started with --steps 2 but rank 0 with --steps 1" mpirun -n 3 ./mlp --steps 1 : -n 1 ./mlp --steps 2
expect_error "rank 1: started with --eval but rank 0 without --eval" mpirun -n 1 ./mlp --steps 1 : -n 3 ./mlp --steps 1 --eval
expect_error "rank 3: started with --seed 3 but rank 0 with --seed 1" mpirun -n 3 ./mlp --steps 1 : -n 1 ./mlp --steps 1 --seed 3

# Starts a long run and waits until it trains: sets launcher and ranks, the processes.
start_long_run() {
  mpirun -n 4 ./mlp --epochs 1000 > long.log 2>&1 &
  launcher=$!
  trap 'kill "$launcher" 2> /dev/null || true' EXIT
  for _ in $(seq 100); do
    grep -q 'loss is' long.log && break
    sleep 0.1
  done
  grep -q 'loss is' long.log || fail "the long run does not start"
  read -ra ranks < "/proc/$launcher/task/$launcher/children" || true # the file has no line end
}

# Whether a process runs; one that has ended may wait to be collected.
runs() {
  [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status"
}

# One rank is killed in the middle of a long run.
start_long_run
start=$SECONDS
kill -9 "${ranks[-1]}"
wait "$launcher" && fail "the job succeeds although a rank was killed"
[ $((SECONDS - start)) -le 10 ] || fail "the job ends $((SECONDS - start)) s after a rank was killed"

# The launcher is killed: it cannot end its ranks, so they end themselves.
start_long_run
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
