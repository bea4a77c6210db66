# SPDX-License-Identifier: Apache-2.0
#
# What a program of the cuda target says when it cannot run, one line each and never a hang: driver, device, code, memory, ranks, NCCL.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

# Fails unless the log of the last expect_error has one line that begins with "error:".
expect_one_error() {
  [ "$(grep -c '^error:' error.log)" = 1 ] || { cat error.log >&2; fail "not one line of error"; }
}

"$tools/ashlar-zoo" linear -o linear.onnx
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" --target cuda -o linear
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" --target cuda --gpu-arch sm_90 --mesh dp=2 -o linear_2

# This machine may have a driver: then there is nothing to say.
if ! grep -q 'libcuda\.so\.1' <<< "$(ldconfig -p)"; then
  expect_error "libcuda.so.1 cannot be loaded" ./linear --steps 2
  expect_one_error
fi
expect_error "12.2" ./on_emulator 1 env ASHLAR_EMULATOR_DRIVER=12020 ./linear --steps 2
expect_one_error
grep -q "13.0" error.log || fail "it does not say which driver is needed: $(cat error.log)"
expect_error "GPU" ./on_emulator 0 ./linear --steps 2
expect_one_error
expect_error "7.5" ./on_emulator 1 env ASHLAR_EMULATOR_CAPABILITY=7.5 ./linear --steps 2
expect_one_error
grep -q "sm_80" error.log || fail "it does not say what the program holds: $(cat error.log)"
expect_error "memory" ./on_emulator 1 env ASHLAR_EMULATOR_MEMORY=500 ./linear --steps 2
expect_one_error

# What a rank would allocate is what was planned, part by part: here with pieces of a parameter that have to be packed, and --memory just so.
"$tools/ashlar-zoo" mlp --layers 2 --width 64 -o mlp.onnx
sed '/^deterministic/d; s/^global_batch: .*/global_batch: 32/; s/level: 3/level: 3 threshold_kb: 0/' "$jobs/mlp_zero3.txtpb" > level3.txtpb
compile="$tools/ashlarc mlp.onnx --job level3.txtpb --target cuda --gpu-arch sm_90 -o mlp"
$compile --report mlp.json
total=$(python3 -c "import json; print(json.load(open('mlp.json'))['memory']['bytes'])")
$compile --memory "${total}B"
./on_emulator 4 mpirun -n 4 ./mlp --steps 1 > /dev/null || fail "a program of just the memory it was compiled for does not run"
parts=$(python3 -c "
import json
parts = {part['name']: part['bytes'] for part in json.load(open('mlp.json'))['memory']['parts']}
tensors = sum(parts.get(name, 0) for name in ('parameters', 'state', 'inputs and outputs', 'temporaries'))
kib = lambda bytes: f'{bytes / 1024:.1f} KiB'
assert parts['collectives'] > 0
print(f'(tensors {kib(tensors)}, constants {kib(parts[\"constants\"])}, batches {kib(parts[\"batches\"])}, messages 0.0 KiB, collectives {kib(parts[\"collectives\"])}, matrix products 32.0 MiB)')")
expect_error "$parts" ./on_emulator 4 env ASHLAR_EMULATOR_MEMORY=500 mpirun -n 4 ./mlp --steps 1
expect_error "matrix products 33.55 MB" $compile --memory "$((total - 1))B"

# More ranks than devices.
expect_error "ASHLAR_SHARE_DEVICE" ./on_emulator 1 mpirun -n 2 ./linear_2 --steps 2
expect_one_error

# A collective call that NCCL refuses: the first, and one within the captured step.
for call in 1 3; do
  expect_error "NCCL" ./on_emulator 2 env ASHLAR_EMULATOR_NCCL_FAIL=$call mpirun -n 2 ./linear_2 --steps 4
done

# A rank that dies in the middle: whether NCCL tells or hangs, the other one ends within 30 s and names it.
cat > rank.sh << 'SCRIPT'
arguments="--steps 100000000 --log-every 1000000"
if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then
  ./linear_2 $arguments
  echo $? > survivor.status
else
  ./linear_2 $arguments &
  sleep 1.5
  kill -9 $!
  wait
fi
SCRIPT
for told in 0 1; do
  rm -f survivor.status
  start=$SECONDS
  # The launcher would end the job on its own.
  ./on_emulator 2 env ASHLAR_EMULATOR_NCCL_DEATH=$told OMPI_MCA_orte_abort_on_non_zero_status=0 timeout 60 mpirun -n 2 bash rank.sh > death.out 2> death.log ||
    fail "the script of a rank hangs or fails: status $?"
  [ -e survivor.status ] || fail "the survivor hangs"
  [ "$(cat survivor.status)" != 0 ] || fail "a job with a dead rank succeeded"
  [ $((SECONDS - start)) -le 35 ] || fail "it took $((SECONDS - start)) s to end"
  grep -q "^error:.*rank 1.*all_reduce" death.log || { cat death.log >&2; fail "nobody names rank 1 and the collective"; }
done

# A NaN is found at the instruction that makes it.
sed 's/learning_rate:.*/learning_rate: 1e30/' "$jobs/linear.txtpb" > diverges.txtpb
"$tools/ashlarc" linear.onnx --job diverges.txtpb --target cuda --gpu-arch sm_90 -o diverges
expect_error "NaN" ./on_emulator 1 ./diverges --steps 20 --check-numerics
expect_one_error
grep -q "step" error.log || fail "it does not say in which step: $(cat error.log)"
