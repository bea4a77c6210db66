#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Packs what checks and measures the cuda target into one folder, for a machine with a GPU but without MLIR: executables, what they must
# compute, and run.sh, which runs them (docs/gpu.md). Needs a finished build with the cuda target.
#
#     tools/gpu-check.sh [-o DIR] [--gpu-arch LIST]        default: build/gpu-check
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/build/bin
out=$root/build/gpu-check
arch=()
while [ $# -gt 0 ]; do
  case $1 in
    -o) shift; out=$1 ;;
    --gpu-arch) shift; arch=(--gpu-arch "$1") ;;
    *) echo "error: unknown argument $1; usage: gpu-check.sh [-o DIR] [--gpu-arch LIST]" >&2; exit 1 ;;
  esac
  shift
done
for tool in ashlarc ashlar-zoo ashlar-fuzz ashlar_conformance bench_cuda_matmul compare_npy; do
  [ -x "$tools/$tool" ] || { echo "error: $tools/$tool is not there; build Ashlar with the CUDA toolkit first (tools/check.sh)" >&2; exit 1; }
done
rm -rf "$out"
mkdir -p "$out/bin" "$out/expected" "$out/forward"
out=$(cd "$out" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# compile MODEL OUTPUT [OPTION...]: for GPUs.
compile() {
  local model=$1 output=$2
  shift 2
  "$tools/ashlarc" "$scratch/$model.onnx" --target cuda "${arch[@]}" "$@" -o "$out/bin/$output"
}

# train NAME MODEL TOLERANCE JOB MESH_OF_2: the losses that a GPU must reproduce are those of the cpu target on one rank.
train() {
  local name=$1 model=$2 tolerance=$3 job=$4 mesh=$5 data=()
  [ -d "$out/data/$name" ] && data=(--data "$out/data/$name")
  "$tools/ashlarc" "$scratch/$model.onnx" --job "$job" --mesh "${mesh//2/1}" -o "$scratch/$name"
  "$scratch/$name" "${data[@]}" --steps 20 --log-every 1 --metrics "$out/expected/$name.jsonl" >/dev/null
  compile "$model" "$name.1" --job "$job" --mesh "${mesh//2/1}"
  compile "$model" "$name.2" --job "$job" --mesh "$mesh"
  echo "$name $tolerance" >>"$out/trains"
}

# pipeline NAME TOLERANCE JOB: a rank a stage; one rank that adds up the same micro-batches on the cpu target says what the losses are.
pipeline() {
  local name=$1 tolerance=$2 job=$3
  sed 's/^global_batch:.*/global_batch: 64/' "$job" >"$scratch/$name.txtpb" # small steps: it is about their order
  sed '/pipeline_stage/d; s/^pipeline .*micro_batches: \([0-9]*\).*/accumulate: \1/' "$scratch/$name.txtpb" >"$scratch/$name.whole.txtpb"
  "$tools/ashlarc" "$scratch/mlp.onnx" --job "$scratch/$name.whole.txtpb" --mesh dp=1 -o "$scratch/$name"
  "$scratch/$name" --steps 20 --log-every 1 --metrics "$out/expected/$name.jsonl" >/dev/null
  compile mlp "$name.2" --job "$scratch/$name.txtpb" --mesh dp=1
  echo "$name $tolerance" >>"$out/pipelines"
}

# kernel NAME BYTES_MOVED ZOO_ARGUMENT...
kernel() {
  local name=$1 bytes=$2
  shift 2
  "$tools/ashlar-zoo" "$name" "$@" -o "$scratch/$name.onnx"
  compile "$name" "$name"
  echo "$name $bytes" >>"$out/kernels"
}

jobs=$root/docs/jobs
"$tools/ashlar-zoo" linear -o "$scratch/linear.onnx"
"$tools/ashlar-zoo" mlp -o "$scratch/mlp.onnx"
"$tools/ashlar-zoo" mlp --layers 12 --width 4096 --no-data -o "$scratch/mlp_large.onnx"
"$tools/ashlar-zoo" transformer --seed 2 -o "$scratch/transformer.onnx"
{ cat "$jobs/mlp.txtpb"; echo "precision: BF16_MIXED"; } >"$scratch/bf16.txtpb"
sed -e 's/^global_batch: .*/global_batch: 8192/' -e 's/digits {}/digits { train_samples: 65536 eval_samples: 8192 }/' "$jobs/mlp.txtpb" >"$scratch/mlp_8192.txtpb"
{ cat "$scratch/mlp_8192.txtpb"; echo "precision: BF16_MIXED"; echo 'init { match: "*.bias" fill: 0 } init { match: "*" kaiming_uniform {} }'; } >"$scratch/mlp_large.txtpb"

# Tolerances are relative to the loss: rounding differs, and grows with the steps; bf16 has 8 bits.
train linear linear 1e-4 "$jobs/linear.txtpb" dp=2
train mlp mlp 1e-3 "$jobs/mlp.txtpb" dp=2
train mlp_bf16 mlp 3e-2 "$scratch/bf16.txtpb" dp=2
mkdir "$out/data"
python3 "$root/test/e2e/write_tokens.py" "$out/data/transformer" 50 16
train transformer transformer 1e-3 "$jobs/transformer_tensor_parallel.txtpb" dp=1,tp=2
python3 "$root/test/e2e/conv_model.py" kinds "$scratch/conv.onnx"
sed 's/^global_batch:.*/global_batch: 12/' "$jobs/mlp.txtpb" >"$scratch/conv.txtpb"
{ cat "$scratch/conv.txtpb"; echo "precision: BF16_MIXED"; } >"$scratch/conv_bf16.txtpb"
train conv conv 1e-3 "$scratch/conv.txtpb" dp=2
train conv_bf16 conv 3e-2 "$scratch/conv_bf16.txtpb" dp=2
for schedule in gpipe 1f1b zero_bubble; do
  pipeline "mlp_pipeline_$schedule" 1e-3 "$jobs/mlp_pipeline_$schedule.txtpb"
done
compile mlp mlp_256 --job "$jobs/mlp.txtpb" --mesh dp=1
compile mlp mlp_8192 --job "$scratch/mlp_8192.txtpb" --mesh dp=1
compile mlp_large mlp_large --job "$scratch/mlp_large.txtpb" --mesh dp=1

# Bytes that each kernel reads and writes at least; 1 GiB and more, so that no cache holds them.
kernel elementwise $((3 * 4 * (1 << 27))) --elements $((1 << 27))
kernel softmax $((2 * 4 * (1 << 27))) --rows $((1 << 17)) --columns 1024
kernel cross-entropy $((4 * (1 << 28) + 12 * (1 << 16))) --rows $((1 << 16)) --columns 4096
kernel adamw $((7 * 4 * (1 << 26))) --elements $((1 << 26))

# Random programs over all ops; those that train, or have more than two devices, are left out.
"$tools/ashlar-fuzz" --target cuda --pack "$out/forward" --executable-every 1 --seeds 300 >/dev/null

cp "$tools/ashlar_conformance" "$tools/bench_cuda_matmul" "$tools/compare_npy" "$out/bin/"
find "$out" -type f -perm -u+x -exec strip {} + # debug information would be nine tenths of it
cp "$root/test/bench/mlp_torch.py" "$root/tools/gpu_check/run.sh" "$out/"
git -C "$root" rev-parse --short HEAD >"$out/VERSION" 2>/dev/null || echo unknown >"$out/VERSION"
echo "$out: $(du -sh "$out" | cut -f1); copy it to a machine with a GPU and run ./run.sh there"
