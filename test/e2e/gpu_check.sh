# SPDX-License-Identifier: Apache-2.0
#
# From tools/gpu-check.sh to the table, on the emulator: a small pack is made, unpacked and run; what is wrong in it or in the machine shows. The
# runner's own promises (limits, budget, signals, outputs) are test/gpu_check/runner_test.py's.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"
root=$(dirname "$0")/../..
export LD_LIBRARY_PATH=$emulator

# run STATUS OUT PART...: the runner with this exit status.
run() {
  local status=0 wanted=$1 out=$2
  shift 2
  python3 pack/run.py "$@" --out "$out" > "$out.log" 2>&1 || status=$?
  [ "$status" = "$wanted" ] || { cat "$out.log"; fail "the run $out has exit status $status, not $wanted"; }
}

# expect OUT PART OUTCOME [TEXT]: fails unless the part has this outcome, and TEXT in its detail.
expect() {
  python3 - "$@" << 'PYTHON' || fail "$1: $2 is not \"$3\" with \"${4:-}\""
import json
import sys

out, part, outcome, *text = sys.argv[1:]
rows = [row for row in json.load(open(f"{out}/results.json"))["results"] if row["name"] == part]
print(rows)
sys.exit(not (len(rows) == 1 and rows[0]["outcome"] == outcome and all(words in rows[0]["detail"] for words in text)))
PYTHON
}

rm -rf pack good bad
"$root/tools/gpu-check.sh" -o pack.tar.xz --gpu-arch sm_90 --small > pack.log 2>&1 || { cat pack.log; fail "gpu-check.sh failed"; }
python3 -c "import tarfile; tarfile.open('pack.tar.xz').extractall('pack')"

# What takes long on the emulator is played: products and kernels of GiB.
cat > pack/bin/bench_cuda_matmul << 'SCRIPT'
#!/bin/bash
[ "$*" = --probe ] && { echo "refused: f16 x f16 -> f32 TN, sums of B"; echo "1 refused of 2"; exit 0; }
printf 'device\nproduct m x n x k type ours hand TFLOP/s share\nsquare 8 x 8 x 8 f32 1.0 1.0 1.0 0.995\nsquare 9 x 9 x 9 f32 1.0 1.0 1.0 0.980\n'
SCRIPT
printf '#!/bin/bash\necho "8 right, 0 refused, 0 wrong"\n' > pack/bin/bench_cuda_attention
printf '#!/bin/bash\necho "forward: 8.00 us a run, median of 3; a copy of 1 bytes within the GPU: 2.0 GB/s"\n' > pack/bin/softmax
chmod +x pack/bin/softmax
rm -f pack/bin/bench_cuda_conv

python3 pack/run.py --list > list.log
grep -qE '^ +15 +A +1 +train.mlp.1.graph$' list.log || fail "--list lacks a part"
run 0 good A mlp.step start 'forward.*' train.linear.2.graph
expect good libcuda.so.1 passed "device: Ashlar emulator"
for part in train.linear.1.plain train.mlp.1.graph train.conv.1.plain train.mlp.2.plain train.mlp_pipeline_1f1b.2.graph train.linear.2.graph \
  conformance.1 conformance.2; do
  expect good $part passed
done
grep -q '^| check | forward.seed_[0-9]*.1 | passed |' good/table.md || fail "no forward program for one rank passed"
grep -q '^| check | forward.seed_[0-9]*.2 | passed |' good/table.md || fail "no forward program for two ranks passed"
expect good probe.products passed "refused: f16 x f16"
expect good probe.attention passed
expect good probe.convolutions "not run" "bin/bench_cuda_conv is missing"
expect good "products: share of cuBLASLt by hand, worst" measured "9 x 9 x 9"
expect good "kernel.softmax: share of the copy bandwidth" measured
expect good "gpt2_bf16.step: ms" measured
expect good "gpt2_bf16.step: tokens/s" measured llm.c
expect good "mlp.step: ms" measured
expect good "start: to the end of the first step, s" measured
expect good gpt2_bf16.profile measured gpt2_bf16.profile.log
tar xzf good/logs.tgz
grep -q 'attention_gradients layer0.attention' logs/gpt2_bf16.profile.log || fail "the profile does not name the instructions"
grep -q 'holds the device' logs/holder.log || fail "nothing held the device"
[ "$(ls good | tr '\n' ' ')" = "env.txt logs.tgz probes.txt results.json table.md " ] || fail "other files came back: $(ls good)"

# Faults: a wrong loss; NCCL fails, so two ranks do not meet; cuDNN does not load.
sed -i '3s/"loss": [0-9.]*/"loss": 9/' pack/expected/linear.jsonl
mkdir -p broken
ln -sf "$emulator"/lib{ashlar_emulator.so,cuda.so.1,cublasLt.so.13,nccl.so.2} broken/
head -c 4096 /dev/zero > broken/libcudnn.so.9
LD_LIBRARY_PATH=$(pwd)/broken ASHLAR_EMULATOR_NCCL_FAIL=1 run 1 bad train.linear.1.plain train.conv.1.plain train.mlp.1.plain train.mlp.2.plain
expect bad train.linear.1.plain FAILED "worst at step 3"
expect bad libcudnn.so.9 FAILED "invalid ELF header"
expect bad train.conv.1.plain FAILED "libcudnn.so.9"
expect bad train.mlp.1.plain passed
expect bad conformance.2 FAILED
expect bad train.mlp.2.plain "not run" "NCCL: not run, conformance.2: FAILED"
