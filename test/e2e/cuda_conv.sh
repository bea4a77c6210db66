# SPDX-License-Identifier: Apache-2.0
#
# Convolutions of all kinds on the emulator, by its cuDNN: the losses of the cpu target on one rank, with the batch, filters and channels, and
# rows split, in bf16 and f16, and in tf32.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

python3 "$(dirname "$0")/conv_model.py" kinds conv.onnx
sed "s/global_batch: 256/global_batch: 12/; s/^epochs:.*/epochs: 1/" "$jobs/mlp.txtpb" > job.txtpb

# cuda JOB NAME OPTIONS...: compiles for GPUs.
cuda() {
  local job=$1 name=$2
  shift 2
  "$tools/ashlarc" conv.onnx --job "$job" --target cuda --gpu-arch sm_90 "$@" -o "$name"
}

"$tools/ashlarc" conv.onnx --job job.txtpb --mesh dp=1 -o cpu
./cpu --steps 6 --log-every 1 --threads 1 --save-parameters cpu.parameters > cpu.log
cuda job.txtpb one --mesh dp=1
./one --plan > plan.txt
grep -q 'library convolutions' plan.txt || fail "the plan has no convolutions: $(cat plan.txt)"
# Sums in another order: 2^-24 a term, grown by the steps.
./on_emulator 1 ./one --steps 6 --log-every 1 --save-parameters cuda.parameters > cuda.log
expect_close cpu.log cuda.log 1e-6
expect_same_parameters cpu.parameters cuda.parameters 1e-4
for option in --no-graph --profile; do
  ./on_emulator 1 ./one --steps 6 --log-every 1 $option > other.log
  expect_same_losses cuda.log other.log "$option computes other numbers"
done
./on_emulator 1 env ASHLAR_EMULATOR_SEED=9 ./one --steps 6 --log-every 1 > order.log
expect_same_losses cuda.log order.log "another order of independent work gives other numbers"

cuda job.txtpb split --mesh dp=2
./on_emulator 2 mpirun -n 2 ./split --steps 6 --log-every 1 > split.log
expect_close cpu.log split.log 1e-6

# Filters of conv1, groups of conv3, channels in of conv4, filters of conv5, over 4 devices.
sed 's/DATA_PARALLEL/SEMI_AUTO/; s/mesh {.*/mesh { axes { name: "tp" size: 4 } }/' job.txtpb > tensor.txtpb
cat >> tensor.txtpb <<'END'
rules { match: "conv1.weight" layout: "[{tp}, {}, {}, {}]" }
rules { match: "conv3.weight" layout: "[{tp}, {}, {}, {}]" }
rules { match: "conv4.weight" layout: "[{}, {tp}, {}, {}]" }
rules { match: "conv5.weight" layout: "[{}, {tp}, {}, {}]" }
END
cuda tensor.txtpb tensor
./on_emulator 4 mpirun -n 4 ./tensor --steps 6 --log-every 1 > tensor.log
expect_close cpu.log tensor.log 1e-6

# Rows of the images, in uneven pieces: padding on one side only.
sed 's/DATA_PARALLEL/SEMI_AUTO/; s/mesh {.*/mesh { axes { name: "y" size: 3 } }/' job.txtpb > rows.txtpb
echo 'rules { match: "image" layout: "[{}, {}, {y}, {}]" }' >> rows.txtpb
cuda rows.txtpb rows
./on_emulator 3 mpirun -n 3 ./rows --steps 6 --log-every 1 > rows.log
expect_close cpu.log rows.log 1e-6

# tf32 has 11 bits, bf16 8, f16 11: the steps are that far apart.
(cat job.txtpb; echo 'allow_tf32: true') > tf32.txtpb
cuda tf32.txtpb tf32 --mesh dp=1
./on_emulator 1 ./tf32 --steps 6 --log-every 1 > tf32.log
expect_close cpu.log tf32.log 1e-2
cmp -s cuda.log tf32.log && fail "tf32 changes nothing"
for precision in BF16_MIXED F16_MIXED; do
  (cat job.txtpb; echo "precision: $precision") > mixed.txtpb
  "$tools/ashlarc" conv.onnx --job mixed.txtpb --mesh dp=1 -o mixed_cpu
  ./mixed_cpu --steps 6 --log-every 1 --threads 1 > mixed_cpu.log
  cuda mixed.txtpb mixed --mesh dp=1
  ./on_emulator 1 ./mixed --steps 6 --log-every 1 > mixed.log
  expect_close mixed_cpu.log mixed.log 1e-2
done
