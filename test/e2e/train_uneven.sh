# SPDX-License-Identifier: Apache-2.0
#
# Batches that the ranks do not divide: the last ranks hold padding, or nothing but padding, and the losses are those of one rank.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
for batch in 250 3; do
  sed "s/global_batch: 256/global_batch: $batch/" "$jobs/mlp.txtpb" > job.txtpb
  for ranks in 1 3 4; do
    "$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=$ranks -o mlp_$ranks
    mpirun -n $ranks ./mlp_$ranks --steps 20 --log-every 2 --threads 1 --eval > $ranks.log
    # Sums over the batch in another order: 2^-24 a term, grown by 20 steps.
    expect_close 1.log $ranks.log 1e-4
    evaluation $ranks.log > $ranks.eval
    cmp 1.eval $ranks.eval || fail "batch $batch: $ranks ranks evaluate otherwise than one"
  done
done
