# SPDX-License-Identifier: Apache-2.0
#
# Mixed precision: bf16 and f16 train as f32 does, on one rank and on several; a loss scale that is too large finds its place.

. "$(dirname "$0")/common.sh"

# train NAME MODEL PRECISION MESH [OPTION...]: writes NAME.log. MODEL.txtpb is its job, without a precision.
train() {
  local name=$1 model=$2 precision=$3 mesh=$4
  shift 4
  (cat "$model.txtpb"; echo "precision: $precision") > "$name.txtpb"
  "$tools/ashlarc" "$model.onnx" --job "$name.txtpb" --mesh "$mesh" -o "$name"
  mpirun -n "$(ranks_of "$name")" "./$name" --threads 1 "$@" > "$name.log"
}

"$tools/ashlar-zoo" mlp --width 96 -o mlp.onnx
sed '/^log_every/d' "$jobs/mlp.txtpb" > mlp.txtpb
for precision in F32 BF16_MIXED F16_MIXED; do
  train mlp_$precision mlp $precision dp=1 --steps 40 --log-every 5
done
# Numbers have 8 (bf16) or 11 (f16) bits; a loss is the mean over 256 rows, whose errors are of either sign.
expect_close mlp_F32.log mlp_BF16_MIXED.log 5e-3
expect_close mlp_F32.log mlp_F16_MIXED.log 1e-3
expect_other_losses mlp_F32.log mlp_BF16_MIXED.log "the precision changes nothing"
# Ranks add f32 gradients in another order, after which some number rounds the other way.
for mesh in dp=2 dp=4; do
  for precision in BF16_MIXED F16_MIXED; do
    train mlp_$mesh mlp $precision $mesh --steps 40 --log-every 5
    expect_close mlp_$precision.log mlp_$mesh.log 2e-3
  done
done

# In fixed chunks every number rounds alike on every number of ranks.
for mesh in dp=1 dp=2; do
  train chunks_$mesh mlp BF16_MIXED $mesh --steps 10 --log-every 1 --deterministic
  losses chunks_$mesh.log > chunks_$mesh.losses
done
cmp chunks_dp=1.losses chunks_dp=2.losses || fail "--deterministic gives other bits on two ranks"

# Several micro-batches share the converted parameters, a step computes them again: on one rank, sharded, and in stages, where the second and
# the third layer have one weight and so its copies.
python3 "$(dirname "$0")/tied_model.py" shared.onnx
{ sed 's/^mode: .*/mode: SEMI_AUTO/' mlp.txtpb; echo 'rules { match: "input" layout: "[{dp}, {}]" } deterministic { chunks: 4 }'; } > tied.txtpb
micro_batches() {
  local name=$1 mesh=$2
  shift 2
  { cat tied.txtpb; printf '%s\n' "$@"; } > shared.txtpb
  train $name shared BF16_MIXED $mesh --steps 12 --log-every 1 $(grep -q deterministic shared.txtpb && echo --deterministic)
}
micro_batches whole dp=1
micro_batches parts dp=1 'accumulate: 4'
expect_close whole.log parts.log 2e-3
expect_other_losses whole.log parts.log "micro-batches change no rounding"
micro_batches twice dp=2 'accumulate: 4'
expect_same_losses parts.log twice.log
for level in 1 2 3; do
  micro_batches level$level dp=2 'accumulate: 4' "optimizer_parallel { level: $level threshold_kb: 0 }"
  expect_same_losses parts.log level$level.log
done
sed -i 's/deterministic .*//' tied.txtpb # which is for one stage
# Where communication overlaps, as between hosts, the ends of a step are joined with what is done once.
for level in 1 2; do
  for count in 2 4; do
    parallel="optimizer_parallel { level: $level threshold_kb: 0 }"
    micro_batches apart dp=2 "accumulate: $count" "$parallel"
    micro_batches joined dp=2 "accumulate: $count" "$parallel" 'machine { ranks_per_host: 1 }'
    expect_close apart.log joined.log 1e-5
    grep -q "^\(first\|last\) run" <<< "$(./joined --plan)" || fail "level $level: no run is joined with what a step does once"
  done
done
for level in 0 1 3; do
  micro_batches stages$level dp=2 'pipeline { stages: 2 micro_batches: 4 schedule: ONE_F_ONE_B } rules { match: "fc2" pipeline_stage: 1 }' \
    "$([ $level = 0 ] || echo "optimizer_parallel { level: $level threshold_kb: 0 }")"
  expect_close parts.log stages$level.log 2e-3
done

# Norms, attention, an embedding and its transpose; split over heads and words too. The loss falls a hundredfold in 30 steps: a rounding
# early on shifts it by a share of a step.
python3 "$(dirname "$0")/write_tokens.py" data 50 16
"$tools/ashlar-zoo" transformer --seed 2 -o transformer.onnx
sed '/^epochs/d; /^log_every/d' "$jobs/transformer_tensor_parallel.txtpb" > transformer.txtpb
train transformer_F32 transformer F32 dp=1,tp=1 --data data --steps 60 --log-every 10
for precision in BF16_MIXED F16_MIXED; do
  train transformer_$precision transformer $precision dp=1,tp=1 --data data --steps 60 --log-every 10
  expect_close transformer_F32.log transformer_$precision.log 1e-1
  train split transformer $precision dp=2,tp=2 --data data --steps 60 --log-every 10
  expect_close transformer_$precision.log split.log 1e-1
done

# A model that holds its collectives itself: products split over tp are rounded before they are summed.
"$tools/ashlar-zoo" mlp-hybrid -o hybrid.onnx
for precision in F32 BF16_MIXED F16_MIXED; do
  for count in 1 4; do
    (sed 's/labels: "labels"/& micro_batches: MEAN/' "$jobs/mlp_hybrid.txtpb"; echo "precision: $precision accumulate: $count") > hybrid.txtpb
    "$tools/ashlarc" hybrid.onnx --job hybrid.txtpb -o hybrid
    mpirun -n 4 ./hybrid --steps 40 --log-every 10 --threads 1 > hybrid_$precision$count.log
    expect_close hybrid_F321.log hybrid_$precision$count.log 5e-3
  done
done

# Gradients of 2^30 times the loss overflow: the first steps leave the weights as they are, as a learning rate of nearly 0 does.
(cat mlp.txtpb; echo 'loss_scale { initial: 1073741824 }') > overflow.txtpb
sed 's/learning_rate: 0.1/learning_rate: 1e-30/' mlp.txtpb > still.txtpb
cp mlp.onnx overflow.onnx
cp mlp.onnx still.onnx
train overflow_1 overflow F16_MIXED dp=1 --steps 40 --log-every 1
train still_1 still F16_MIXED dp=1 --steps 40 --log-every 1
losses overflow_1.log | sed -n 1,6p > a.losses
losses still_1.log | sed -n 1,6p | cmp - a.losses || fail "a step that overflows changes the weights"
expect_less "$(losses overflow_1.log | tail -1)" 1 "the last loss of a scale that started too large"
train overflow_2 overflow F16_MIXED dp=2 --steps 40 --log-every 1
expect_close overflow_1.log overflow_2.log 2e-3

# Without training: weights stay f32 and are converted, outputs are f32.
"$tools/ashlar-zoo" linear -o linear.onnx
printf 'global_batch: 8\nprecision: BF16_MIXED\n' > forward.txtpb
"$tools/ashlarc" linear.onnx --job forward.txtpb -o forward
python3 -c 'from npy_writer import write_npy; write_npy("x.npy", "f", (8, 2), [i / 4 for i in range(16)])'
./forward --input input=x.npy --output output=y.npy
python3 - << 'PYTHON' || fail "wrong values in y.npy"
import struct
data = open("y.npy", "rb").read()
assert b"'<f4'" in data[:128], data[:128]
def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]
weight = bf16(0.02)
for row, value in enumerate(struct.unpack("<8f", data[10 + struct.unpack("<H", data[8:10])[0]:])):
    product = weight * bf16(row / 2) + weight * bf16(row / 2 + 0.25)
    # The product may be kept in f32 where the bias joins it.
    assert value in (bf16(bf16(product) + weight), bf16(product + weight)), (row, value)
PYTHON
