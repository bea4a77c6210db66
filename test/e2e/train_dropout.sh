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
