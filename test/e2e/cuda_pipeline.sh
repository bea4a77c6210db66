# SPDX-License-Identifier: Apache-2.0
#
# Pipelines on the emulator: the stages of the cuda target train what those of the cpu target train, with every schedule, in any order that
# streams and events allow, and when all streams of a device share one queue: then an order of messages that only streams save from a deadlock
# is one. A send waits for its receiver, so a wrong order hangs, and the job says so.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"
. "$(dirname "$0")/pipeline_job.sh"

# A rank that hangs says so in good time.
export ASHLAR_PATIENCE=20

# compile MODEL JOB NAME: for both targets, NAME.cpu and NAME.cuda.
compile() {
  "$tools/ashlarc" "$1" --job "$2" -o "$3.cpu"
  "$tools/ashlarc" "$1" --job "$2" --target cuda --gpu-arch sm_90 -o "$3.cuda"
}

# reference NAME RANKS OPTION...: trains on the cpu, into cpu.log and cpu.parameters.
reference() {
  rm -rf cpu.parameters
  mpirun -n "$2" "./$1.cpu" --log-every 1 --save-parameters cpu.parameters "${@:3}" > cpu.log || fail "$1 does not run on the cpu"
}

# same NAME RANKS SETTING OPTION...: on the emulator, with a setting of it ("A=1 B=2", or ""), what reference() found.
same() {
  rm -rf cuda.parameters
  # shellcheck disable=SC2086 # several settings
  ./on_emulator "$2" env $3 timeout 100 mpirun -n "$2" "./$1.cuda" --log-every 1 --save-parameters cuda.parameters "${@:4}" > cuda.log ||
    fail "$1 with \"$3\" and options \"${*:4}\" does not run on the emulator"
  expect_close cpu.log cuda.log 1e-4
  expect_same_parameters cpu.parameters cuda.parameters 1e-4
  if grep -q '^eval:' cpu.log; then
    evaluation cpu.log > cpu.eval
    evaluation cuda.log | cmp cpu.eval - || fail "$1 evaluates otherwise: $(evaluation cuda.log)"
  fi
}

# The jobs of docs/jobs, with smaller batches.
"$tools/ashlar-zoo" mlp -o mlp.onnx
for schedule in gpipe 1f1b zero_bubble interleaved; do
  sed 's/^global_batch:.*/global_batch: 64/; s/digits {}/digits { train_samples: 640 eval_samples: 100 }/' "$jobs/mlp_pipeline_$schedule.txtpb" > $schedule.txtpb
  compile mlp.onnx $schedule.txtpb $schedule
  reference $schedule 4 --steps 3 --eval
  same $schedule 4 "" --steps 3 --eval
done
# What a stage computes again, it does between the same messages.
(cat 1f1b.txtpb; echo 'rules { match: "*" recompute: true }') > again.txtpb
compile mlp.onnx again.txtpb again
reference again 4 --steps 3
same again 4 "" --steps 3
# One layer a rank to compute, all else is about order: kernels that cost nothing, several seeds of the order.
"$tools/ashlar-zoo" mlp --layers 4 --width 24 -o small.onnx

# job STAGES SCHEDULE OPTIMIZER [LINE]
job() {
  pipeline_job 24 30 "$3" "pipeline { stages: $1 micro_batches: 6 schedule: $2 }" "${4:-}"
}
for schedule in GPIPE ONE_F_ONE_B ZERO_BUBBLE; do
  job 2 $schedule "$momentum" > two.txtpb
  job 4 $schedule "$clip" > four.txtpb # what stages say of the norm goes to and fro beside what goes along
  compile small.onnx two.txtpb two
  compile small.onnx four.txtpb four
  reference two 4 --steps 4 --eval
  same two 4 "ASHLAR_EMULATOR_SEED=5" --steps 4 --eval
  reference four 8 --steps 4 --eval
  same four 8 "ASHLAR_EMULATOR_SEED=7" --steps 4 --eval
  same four 8 "ASHLAR_EMULATOR_QUEUES=1" --steps 4 --eval
  if [ $schedule = ONE_F_ONE_B ]; then
    same four 8 "" --steps 4 --eval --no-graph
    same four 8 "" --steps 4 --eval --check-numerics
    mv two.cuda longer.cuda
  fi
done

# What is received for a forward run is read again by the backward run of the micro-batch: the next one must not come before.
job 3 ONE_F_ONE_B "$momentum" 'rules { match: "relu1" pipeline_stage: 0 } rules { match: "fc2" pipeline_stage: 1 } rules { match: "fc4" pipeline_stage: 2 }' > again.txtpb
compile small.onnx again.txtpb again
reference again 6 --steps 4
for seed in 1 2 3; do
  same again 6 "ASHLAR_EMULATOR_SEED=$seed" --steps 4
done

# A stage without parameters, and so without collectives, between two that have some: they connect among themselves.
job 3 GPIPE "$momentum" 'rules { match: "fc1" pipeline_stage: 0 } rules { match: "relu1" pipeline_stage: 1 } rules { match: "fc2" pipeline_stage: 2 }' > bare.txtpb
compile small.onnx bare.txtpb bare
reference bare 6 --steps 4
same bare 6 "" --steps 4

# A parameter of three stages, whose gradients and new values go between them beside activations, and a skip over a stage, in one step that adds
# up the same micro-batches on one stage.
python3 "$(dirname "$0")/tied_model.py" tied.onnx
for schedule in ONE_F_ONE_B ZERO_BUBBLE; do
  job 3 $schedule "$momentum" 'rules { match: "fc1" pipeline_stage: 0 } rules { match: "fc2" pipeline_stage: 1 } rules { match: "fc3" pipeline_stage: 2 }' > tied.txtpb
  sed '/^pipeline/d; s/^rules.*pipeline_stage.*/accumulate: 6/' tied.txtpb > whole.txtpb
  "$tools/ashlarc" tied.onnx --job tied.txtpb --target cuda --gpu-arch sm_90 -o tied.cuda
  "$tools/ashlarc" tied.onnx --job whole.txtpb -o tied.cpu
  reference tied 2 --steps 4
  same tied 6 "ASHLAR_EMULATOR_SEED=2" --steps 4
  same tied 6 "ASHLAR_EMULATOR_QUEUES=1" --steps 4
done

# Tensor parallelism and split states within a stage, collectives that overlap computation, several rounds of an update.
python3 "$(dirname "$0")/write_tokens.py" data 50 16
"$tools/ashlar-zoo" transformer -o transformer.onnx
compile transformer.onnx "$jobs/transformer_3d.txtpb" transformer
reference transformer 8 --steps 3 --data data --eval
same transformer 8 "" --steps 3 --data data --eval
same transformer 8 "ASHLAR_EMULATOR_QUEUES=1" --steps 3 --data data --eval

# A rank has the memory that was planned, to the byte: the least that the compiler takes is enough for a run. Of constants those of its stage.
"$tools/ashlar-zoo" mlp --layers 4 --width 24 -o small.onnx
job 2 ONE_F_ONE_B "$momentum" > planned.txtpb
planned() { "$tools/ashlarc" small.onnx --job planned.txtpb --target cuda --gpu-arch sm_90 --memory "$1B" -o planned.cuda 2> planned.log; }
planned 64000000
most=$(./planned.cuda --plan | awk '/ a rank:/ { if ($1 > most) most = $1 } END { print most * 1000000 }')
low=$((most - 100000)) high=$((most + 100000))
while [ $((high - low)) -gt 1 ]; do
  middle=$(((low + high) / 2))
  if planned $middle; then high=$middle; else low=$middle; fi
done
planned $high || fail "a pipeline of $high bytes is refused"
./on_emulator 4 mpirun -n 4 ./planned.cuda --steps 1 > /dev/null || fail "a pipeline needs more than the $high bytes that were planned"

# The profile tells of waits, as on the cpu.
./on_emulator 4 mpirun -n 4 ./longer.cuda --steps 2 --profile > profile.log
grep -qE ' 12 calls  receive .* from stage 1$' profile.log || { cat profile.log >&2; fail "the profile says nothing of what stage 0 receives"; }
grep -qE ' 12 calls  wait until stage 1 has ' profile.log || fail "the profile says nothing of what stage 0 sends"

# A message that NCCL refuses; behind those of the start.
export LD_LIBRARY_PATH=$emulator ASHLAR_EMULATOR_DEVICES=4
for call in $(seq 20 60); do
  ASHLAR_EMULATOR_NCCL_FAIL=$call expect_error "NCCL: unhandled system error: call $call was told to fail" mpirun -n 4 ./longer.cuda --steps 20
  [ "$(grep -c '^error' error.log)" = 1 ] || { cat error.log >&2; fail "call $call fails and not one line says so"; }
  grep -qE "rank [0-3] (sending|receiving) .* (to|from) stage [01]: NCCL" error.log && break
  [ "$call" != 60 ] || fail "no call was of a message"
done

# A rank of one stage dies: those of the other end soon and name it.
cat > rank.sh << 'SCRIPT'
./longer.cuda --steps 100000000 --log-every 1000000 &
[ "$OMPI_COMM_WORLD_RANK" != 2 ] || { sleep 2; kill -9 $!; }
wait $!
echo $? > status.$OMPI_COMM_WORLD_RANK
SCRIPT
rm -f status.*
start=$SECONDS
OMPI_MCA_orte_abort_on_non_zero_status=0 timeout 60 mpirun -n 4 bash rank.sh > death.out 2> death.log ||
  fail "the script of a rank hangs or fails: status $?"
for rank in 0 1 3; do
  [ -e status.$rank ] || fail "rank $rank hangs"
  [ "$(cat status.$rank)" != 0 ] || fail "rank $rank succeeded in a job with a dead rank"
done
[ $((SECONDS - start)) -le 12 ] || fail "it took $((SECONDS - start)) s to end"
grep -qE "^error: rank 2 terminated without reporting an error; rank [013] was (sending|receiving|in the collective) " death.log || { cat death.log >&2; fail "nobody names rank 2"; }

# A rank of one stage is stopped: those that wait for it end when they have waited as long as they may.
cat > rank.sh << 'SCRIPT'
[ "$OMPI_COMM_WORLD_RANK" != 2 ] || { sleep 2 && kill -STOP $$; } &
exec ./longer.cuda --steps 100000000 --log-every 1000000
SCRIPT
status=0
start=$SECONDS
ASHLAR_PATIENCE=3 timeout 60 mpirun -n 4 bash rank.sh > stop.out 2> stop.log || status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] || fail "a job with a stopped rank ended with status $status"
[ $((SECONDS - start)) -le 20 ] || fail "it took $((SECONDS - start)) s to end a job with a stopped rank"
grep -qE "^error: rank [013] got no further for 3 s; it was (sending|receiving|in the collective) " stop.log || { cat stop.log >&2; fail "nobody says that it waits"; }
