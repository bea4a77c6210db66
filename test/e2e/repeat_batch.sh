# SPDX-License-Identifier: Apache-2.0
#
# ASHLAR_REPEAT_BATCH=1: every step takes the first batch, on the cpu and on the emulator, with micro-batches, over ranks and in a pipeline. A
# learning rate of almost 0 makes a loss tell which batch it is of. A job that saves checkpoints writes none then.

. "$(dirname "$0")/common.sh"

# losses LOG: those of the log, one a line.
losses() {
  sed -n 's/^epoch.*loss is \([^,]*\).*/\1/p' "$1"
}

# expect_repeats LOG: all losses are the first one, and the last line says why.
expect_repeats() {
  [ "$(losses "$1" | wc -l)" -ge 4 ] && [ "$(losses "$1" | sort -u | wc -l)" -eq 1 ] || { cat "$1" >&2; fail "$1: not the first batch in every step"; }
  grep -q 'a step.*, the first batch in every step)$' "$1" || { cat "$1" >&2; fail "$1: the last line does not say so"; }
}

rm -rf kept-*
"$tools/ashlar-zoo" linear -o linear.onnx
sed 's/learning_rate:.*/learning_rate: 1e-30/; s/^epochs:.*/epochs: 1/' "$jobs/linear.txtpb" > frozen.txtpb
{ cat frozen.txtpb; echo 'accumulate: 2 checkpoint { prefix: "kept" every_steps: 2 }'; } > saved.txtpb
steps="--steps 6 --log-every 1"
"$tools/ashlarc" linear.onnx --job frozen.txtpb --mesh dp=1 -o one
./one $steps > plain.log
[ "$(losses plain.log | sort -u | wc -l)" -eq 6 ] || fail "batches are alike anyway"
ASHLAR_REPEAT_BATCH=1 ./one $steps > one.log
expect_repeats one.log
[ "$(losses one.log | head -1)" = "$(losses plain.log | head -1)" ] || fail "it is not the first batch"
"$tools/ashlarc" linear.onnx --job saved.txtpb --mesh dp=2 -o saved
ASHLAR_REPEAT_BATCH=1 mpirun -n 2 ./saved $steps --eval > saved.log
expect_repeats saved.log
[ -z "$(compgen -G "kept-*")" ] || fail "a run that repeats a batch saves checkpoints"
grep -q '^eval: ' saved.log || fail "it does not evaluate"
mpirun -n 2 ./saved $steps > /dev/null
[ -n "$(compgen -G "kept-*")" ] || fail "a run that does not repeat a batch saves none"
expect_error "started with ASHLAR_REPEAT_BATCH but rank 0 without ASHLAR_REPEAT_BATCH" \
  mpirun -n 1 ./saved $steps : -n 1 env ASHLAR_REPEAT_BATCH=1 ./saved $steps

[ -e "$tools/../emulator/libcuda.so.1" ] || exit 0
. "$(dirname "$0")/emulator.sh"
"$tools/ashlarc" linear.onnx --job frozen.txtpb --mesh dp=1 --target cuda --gpu-arch sm_90 -o one_cuda
for option in "" --no-graph; do
  ./on_emulator 1 env ASHLAR_REPEAT_BATCH=1 ./one_cuda $steps $option > cuda.log
  expect_repeats cuda.log
  expect_close one.log cuda.log 1e-6
done
grep -qE '^trained 6 steps in [0-9.]+ s \([0-9.]+ us a step, [0-9.]+ us waiting for data, the first batch in every step\)$' cuda.log ||
  { tail -1 cuda.log >&2; fail "the last line does not say how long steps waited for data"; }
./on_emulator 1 ./one_cuda --steps 12 --data-threads 3 > cuda.log
grep -qE '^trained 12 steps in [0-9.]+ s \([0-9.]+ us a step, [0-9.]+ us of the host, [0-9.]+ us waiting for data\)$' cuda.log ||
  { tail -1 cuda.log >&2; fail "the last line does not say how long the host was busy and waited"; }
sed 's/^accumulate.*/accumulate: 2/' saved.txtpb > micro.txtpb
"$tools/ashlarc" linear.onnx --job micro.txtpb --mesh dp=2 --target cuda --gpu-arch sm_90 -o micro
./on_emulator 2 env ASHLAR_REPEAT_BATCH=1 mpirun -n 2 ./micro $steps > cuda.log
expect_repeats cuda.log
expect_close saved.log cuda.log 1e-6
