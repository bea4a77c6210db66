# SPDX-License-Identifier: Apache-2.0
#
# A rank is killed at a random step; the run then goes on from its newest checkpoint on a random number of ranks, and ends with the bits of a run
# that nobody touched. ASHLAR_KILLS says how often (default 20); ASHLAR_KILLS_SEED begins another sequence.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/long_run.sh"

kills=${ASHLAR_KILLS:-20} steps=40
RANDOM=${ASHLAR_KILLS_SEED:-1}
"$tools/ashlar-zoo" mlp -o mlp.onnx
# 12 chunks, so that 1 to 4 ranks share them out; all kinds of state: sharded parameters, AdamW, a schedule, the loss scale of f16.
sed 's/global_batch: 256/global_batch: 240/; s/chunks: 8/chunks: 12/; s/momentum { momentum: 0.9 }/adamw {}/; s/0.02/0.002/; /^epochs/d; /^log_every/d' \
  "$jobs/mlp_zero3.txtpb" > job.txtpb
echo 'precision: F16_MIXED loss_scale { initial: 65536 growth_steps: 9 }' >> job.txtpb
for ranks in 1 2 3 4; do
  "$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=$ranks -o on_$ranks
done
./on_1 --deterministic --threads 1 --steps $steps --save-parameters expected > expected.log

for kill in $(seq "$kills"); do
  ranks=$((RANDOM % 4 + 1)) victim=$((RANDOM % ranks)) step=$((RANDOM % (steps - 2) + 1)) every=$((RANDOM % 4 + 1)) others=$((RANDOM % 4 + 1))
  what="kill $kill: rank $victim of $ranks behind step $step, saving every $every, then $others ranks"
  rm -rf saved ended
  start_long_run mpirun -n $ranks ./on_$ranks --deterministic --threads 1 --steps $((steps * 1000)) --save-every $every --checkpoint-dir saved --log-every 1
  pid=$(process_of $victim)
  while ! grep -q "step: $step," long.log; do
    kill -0 "$launcher" 2> /dev/null || { cat long.log >&2; fail "$what: the run ends before"; }
    sleep 0.002
  done
  kill -KILL "$pid"
  killed=$SECONDS status=0
  wait "$launcher" || status=$?
  trap - EXIT
  [ $status != 0 ] || fail "$what: the job ends with status 0"
  [ $((SECONDS - killed)) -le 10 ] || fail "$what: the job ends $((SECONDS - killed)) s later"
  # The run was to be longer: it may have come further than the end.
  newest=$(find saved -maxdepth 1 -name 'ashlar-*' 2> /dev/null | sed 's/.*_//' | sort -n | tail -n 1)
  [ "${newest:-0}" -le $steps ] || { rm -rf saved; echo "$what: $newest steps were saved, the resumed run starts again"; }
  mpirun -n $others ./on_$others --deterministic --threads 1 --steps $steps --checkpoint-dir saved --resume latest --save-parameters ended > resumed.log 2>&1 ||
    { cat resumed.log >&2; fail "$what: the resumed run fails"; }
  diff -r expected ended > /dev/null || { cat resumed.log >&2; fail "$what: the resumed run ends with other bits"; }
  [ -z "$(find saved -maxdepth 1 -name '.*.*' ! -name .)" ] || fail "$what: left behind: $(ls -A saved | xargs)"
done
echo "$kills kills, $kills equal ends"
