# SPDX-License-Identifier: Apache-2.0
#
# Random numbers do not depend on the mesh: with dropout, each rank draws its part of the same mask. Another seed draws another mask.

. "$(dirname "$0")/common.sh"

python3 "$(dirname "$0")/dropout_model.py" dropout.onnx
for ranks in 1 2 4; do
  "$tools/ashlarc" dropout.onnx --job "$jobs/mlp.txtpb" --mesh dp=$ranks -o dropout_$ranks
  mpirun -n $ranks ./dropout_$ranks --steps 30 --log-every 5 --threads 1 > $ranks.log
  # Sums over the batch in another order: 2^-24 a term, grown by 30 steps.
  expect_close 1.log $ranks.log 1e-4
  mpirun -n $ranks ./dropout_$ranks --steps 30 --log-every 1 --threads 1 --deterministic > deterministic_$ranks.log
  expect_same_losses deterministic_1.log deterministic_$ranks.log "1 and $ranks ranks differ in deterministic mode"
done
./dropout_1 --steps 30 --log-every 5 --threads 1 --seed 5 > seed.log
expect_other_losses 1.log seed.log "the seed does not change the mask"

# Nor on the micro-batches of a step, nor on the stages of a pipeline: a sample draws by its place in the step.
for parts in "accumulate: 4" "pipeline { stages: 2 micro_batches: 4 }" "pipeline { stages: 2 micro_batches: 8 schedule: ZERO_BUBBLE }"; do
  ranks=1
  [[ $parts != pipeline* ]] || ranks=2
  (cat "$jobs/mlp.txtpb"; echo "$parts") > parts.txtpb
  "$tools/ashlarc" dropout.onnx --job parts.txtpb --mesh dp=1 -o parts
  mpirun -n $ranks ./parts --steps 30 --log-every 5 --threads 1 > parts.log
  expect_close 1.log parts.log 1e-4
done

# Weights of an attention: computed in blocks that draw their own part of the mask, on ranks that share samples, heads or keys, for micro-batches,
# and as the ops of the model.
python3 "$(dirname "$0")/attention_dropout_model.py" attention.onnx
"$tools/ashlarc" attention.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 --emit exec -o attention.exec
grep -q 'exec.attention .*dropout 0.2' attention.exec || fail "the dropout is no part of the attention"
"$tools/ashlarc" attention.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 --no-attention -o written_out
./written_out --steps 20 --log-every 5 --threads 1 > written_out.log
(cat "$jobs/mlp.txtpb"; echo "accumulate: 4") > parts.txtpb
. "$(dirname "$0")/attention_dropout_jobs.sh"
while read -r ranks job mesh; do
  "$tools/ashlarc" attention.onnx --job "$job" --mesh $mesh -o parts
  mpirun -n $ranks ./parts --steps 20 --log-every 5 --threads 1 < /dev/null > parts.log
  expect_close written_out.log parts.log 1e-4
done <<END
1 $jobs/mlp.txtpb dp=1
2 $jobs/mlp.txtpb dp=2
4 heads.txtpb dp=2,tp=2
2 keys.txtpb dp=1,cp=2
1 parts.txtpb dp=1
END
