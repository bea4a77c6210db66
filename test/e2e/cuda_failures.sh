# SPDX-License-Identifier: Apache-2.0
#
# The cuda target on the emulator: what goes wrong in the middle of a job of two ranks ends it with one line, and nothing crashes on the way.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"
export LD_LIBRARY_PATH=$emulator ASHLAR_EMULATOR_DEVICES=2

"$tools/ashlar-zoo" mlp --width 64 -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 --target cuda --gpu-arch sm_90 -o mlp

# A collective fails: in the first step, while the second is captured. A batch is on its way to the device then.
for call in 2 9 12; do
  ASHLAR_EMULATOR_NCCL_FAIL=$call expect_error "in the collective all_reduce" mpirun -n 2 ./mlp --steps 20
  [ "$(grep -c '^error' error.log)" = 1 ] || { cat error.log >&2; fail "call $call fails and not one line says so"; }
  grep -q "exited on signal" error.log && { cat error.log >&2; fail "call $call fails and a rank crashes"; }
done

# Communicators that are never made end the job, after as long as the user says.
ASHLAR_EMULATOR_NCCL_STUCK=1 ASHLAR_CONNECT_SECONDS=1 expect_error "got no further for 1 s; it was connecting the GPUs of the ranks" mpirun -n 2 ./mlp --steps 2

expect_error "rank 1: started with --steps 3 but rank 0 with --steps 2" mpirun -n 1 ./mlp --steps 2 : -n 1 ./mlp --steps 3

# Both ways to watch a run at once: times are there too.
mpirun -n 2 ./mlp --steps 2 --check-numerics --profile > watched.log
grep -q '^profile of train_step: 2 runs' watched.log || fail "no profile beside --check-numerics"
grep -qE '^ +[1-9][0-9.]* % .* loop_' watched.log || { cat watched.log >&2; fail "--profile beside --check-numerics measures nothing"; }
