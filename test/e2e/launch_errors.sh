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

# One rank is killed in the middle of a long run.
mpirun -n 4 ./mlp --epochs 1000 > long.log 2>&1 &
launcher=$!
trap 'kill "$launcher" 2> /dev/null || true' EXIT
for _ in $(seq 100); do
  grep -q 'loss is' long.log && break
  sleep 0.1
done
grep -q 'loss is' long.log || fail "the long run does not start"
read -ra ranks < "/proc/$launcher/task/$launcher/children" || true # the file has no line end
start=$SECONDS
kill -9 "${ranks[-1]}"
wait "$launcher" && fail "the job succeeds although a rank was killed"
[ $((SECONDS - start)) -le 10 ] || fail "the job ends $((SECONDS - start)) s after a rank was killed"
