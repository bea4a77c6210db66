# SPDX-License-Identifier: Apache-2.0
#
# The seed MLP on the digits the program draws itself: it learns, 1, 2 and 4 ranks do the same, and hosts make no difference.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
for ranks in 1 2 4; do
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=$ranks -o mlp_$ranks
  mpirun -n $ranks ./mlp_$ranks --steps 50 --log-every 5 --threads 1 > $ranks.log
  # Sums over the batch in another order: 2^-24 a term, grown by 50 steps.
  expect_close 1.log $ranks.log 1e-4
done
expect_less "$(losses 4.log | tail -1)" "$(losses 4.log | sed -n 1p)" "the last loss against the first"
ASHLAR_FORCE_HOSTS=2 mpirun -n 4 ./mlp_4 --steps 20 --log-every 5 --threads 1 > hosts.log
losses 4.log | sed -n 1,4p > 4.losses
losses hosts.log | cmp 4.losses - || fail "ranks on two hosts compute other bits"
./mlp_1 --epochs 3 --eval > eval.log
expect_less 0.5 "$(accuracy eval.log)" "accuracy after 3 epochs"
