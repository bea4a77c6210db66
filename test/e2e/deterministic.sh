# SPDX-License-Identifier: Apache-2.0
#
# With --deterministic 1, 2, 4 and 8 ranks print the same bits for 50 steps, whatever the number of threads.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
for ranks in 1 2 4 8; do
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=$ranks -o mlp_$ranks
  mpirun -n $ranks ./mlp_$ranks --deterministic --threads 1 --steps 50 --log-every 1 > $ranks.log
  losses $ranks.log > $ranks.losses
  [ "$(wc -l < $ranks.losses)" = 50 ] || fail "$ranks ranks print $(wc -l < $ranks.losses) losses"
  cmp 1.losses $ranks.losses || fail "1 and $ranks ranks differ"
done
./mlp_1 --deterministic --threads 2 --steps 50 --log-every 1 > threads.log
losses threads.log | cmp 1.losses - || fail "1 and 2 threads differ"

# A batch that does not divide into chunks has no such variant, and says so.
sed 's/global_batch: 256/global_batch: 36/' "$jobs/mlp.txtpb" > odd.txtpb
"$tools/ashlarc" mlp.onnx --job odd.txtpb --mesh dp=1 -o odd
expect_error "8 chunks, which do not divide the global batch of 36" ./odd --deterministic --steps 1

# A job can ask for it for good.
cp "$jobs/mlp.txtpb" always.txtpb
echo 'deterministic { chunks: 8 always: true }' >> always.txtpb
"$tools/ashlarc" mlp.onnx --job always.txtpb --mesh dp=2 -o always
mpirun -n 2 ./always --threads 1 --steps 50 --log-every 1 > always.log
losses always.log | cmp 1.losses - || fail "deterministic.always differs from --deterministic"
