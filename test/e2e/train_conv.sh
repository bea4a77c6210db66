# SPDX-License-Identifier: Apache-2.0
#
# A network of convolutions of all kinds (strides, dilations, groups, depthwise, transposed) trains, and its losses are the same on one rank,
# with the batch split, with filters and channels split, also unevenly, and by stages.

. "$(dirname "$0")/common.sh"

python3 "$(dirname "$0")/conv_model.py" kinds conv.onnx
sed "s/global_batch: 256/global_batch: 48/; s/^epochs:.*/epochs: 1/" "$jobs/mlp.txtpb" > job.txtpb

# 14 * 14 positions, and so on: the products of a step are known from the model.
"$tools/ashlarc" conv.onnx --job job.txtpb --mesh dp=1 -o conv_1
./conv_1 --plan > plan.txt
grep -Eq 'library convolutions' plan.txt || fail "the plan has no convolutions: $(cat plan.txt)"

./conv_1 --steps 40 --log-every 5 --threads 1 --eval > 1.log
losses 1.log > 1.losses
expect_less "$(tail -n 1 1.losses)" "$(awk 'NR == 1 { print 0.7 * $1 }' 1.losses)" "the loss does not fall"

for ranks in 2 5; do # 48 samples, the last of 5 ranks with less
  "$tools/ashlarc" conv.onnx --job job.txtpb --mesh dp=$ranks -o conv_$ranks
  mpirun -n $ranks ./conv_$ranks --steps 40 --log-every 5 --threads 1 --eval > $ranks.log
  # Sums over the batch in another order: 2^-24 a term, grown by 40 steps.
  expect_close 1.log $ranks.log 1e-4
done
mpirun -n 2 ./conv_2 --steps 10 --log-every 1 --threads 1 --deterministic > deterministic_2.log
./conv_1 --steps 10 --log-every 1 --threads 2 --deterministic > deterministic_1.log
expect_same_losses deterministic_1.log deterministic_2.log "1 and 2 ranks differ in deterministic mode"

# Filters of conv1, groups of conv3, channels in of conv4, filters of conv5: each over 4 devices, which do not divide 6 or 3.
sed 's/DATA_PARALLEL/SEMI_AUTO/; s/mesh {.*/mesh { axes { name: "tp" size: 4 } }/' job.txtpb > split.txtpb
cat >> split.txtpb <<'END'
rules { match: "conv1.weight" layout: "[{tp}, {}, {}, {}]" }
rules { match: "conv3.weight" layout: "[{tp}, {}, {}, {}]" }
rules { match: "conv4.weight" layout: "[{}, {tp}, {}, {}]" }
rules { match: "conv5.weight" layout: "[{}, {tp}, {}, {}]" }
END
"$tools/ashlarc" conv.onnx --job split.txtpb -o split
mpirun -n 4 ./split --steps 40 --log-every 5 --threads 1 --eval > split.log
expect_close 1.log split.log 1e-4

# In stages, with what the first one computes computed again.
(cat job.txtpb; echo 'pipeline { stages: 2 micro_batches: 4 } rules { match: "block*" recompute: true }') > stages.txtpb
"$tools/ashlarc" conv.onnx --job stages.txtpb --mesh dp=1 -o stages
mpirun -n 2 ./stages --steps 40 --log-every 5 --threads 1 --eval > stages.log
expect_close 1.log stages.log 1e-4

# In mixed precision. At the learning rate above the loss jumps from step 36 on, and one rounding more or less changes it by 10 to 30 %.
sed 's/learning_rate: 0.1/learning_rate: 0.05/' job.txtpb > f32.txtpb
(cat f32.txtpb; echo 'precision: BF16_MIXED') > bf16.txtpb
for precision in f32 bf16; do
  "$tools/ashlarc" conv.onnx --job $precision.txtpb --mesh dp=1 -o $precision
  ./$precision --steps 70 --log-every 5 --threads 1 > $precision.log
done
losses f32.log > f32.losses
expect_less "$(tail -n 1 f32.losses)" "$(awk 'NR == 1 { print 0.4 * $1 }' f32.losses)" "the loss does not fall"
expect_close f32.log bf16.log 0.05 # 8 bits of mantissa, grown by 70 steps
