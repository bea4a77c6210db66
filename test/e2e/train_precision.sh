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
  (cat "$jobs/mlp_hybrid.txtpb"; echo "precision: $precision") > hybrid.txtpb
  "$tools/ashlarc" hybrid.onnx --job hybrid.txtpb -o hybrid
  mpirun -n 4 ./hybrid --steps 40 --log-every 10 --threads 1 > hybrid_$precision.log
  expect_close hybrid_F32.log hybrid_$precision.log 5e-3
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
