# SPDX-License-Identifier: Apache-2.0
#
# Time to compile is linear in the model. CPU time, so that other work on the machine hardly counts; a bound between n and n * n.

. "$(dirname "$0")/common.sh"

# Prints the CPU time of a command and its children. cpu_seconds COMMAND...
cpu_seconds() {
  local TIMEFORMAT='%U %S'
  { time "$@" > out.log 2>&1; } 2> time.log || { cat out.log >&2; fail "$* failed"; }
  awk 'END { print $1 + $2 }' time.log
}

# Eight times the nodes: 8 when linear, 64 when quadratic. Before kernels had bounds it was 29.
"$tools/ashlar-zoo" chain --nodes 500 -o short.onnx
"$tools/ashlar-zoo" chain --nodes 4000 -o long.onnx
short=$(cpu_seconds "$tools/ashlarc" short.onnx -o short)
long=$(cpu_seconds "$tools/ashlarc" long.onnx -o long)
expect_less "$long" "$(awk -v s="$short" 'BEGIN { print 16 * s }')" "4000 nodes against 16 times 500"

# Layers add tables and no code: 24 layers with initial values by rules, where each layer had added a part of one loop that took n * n.
cp "$jobs/transformer_tensor_parallel.txtpb" init.txtpb
echo 'init { match: "*" normal { std: 0.02 } }' >> init.txtpb
"$tools/ashlar-zoo" transformer --no-data --layers 3 -o short.onnx
"$tools/ashlar-zoo" transformer --no-data --layers 24 -o long.onnx
short=$(cpu_seconds "$tools/ashlarc" short.onnx --job init.txtpb -o short)
long=$(cpu_seconds "$tools/ashlarc" long.onnx --job init.txtpb -o long)
expect_less "$long" "$(awk -v s="$short" 'BEGIN { print 3 * s }')" "24 layers against 3 times 3"

# Ten billion parameters without data, for 64 ranks, everything split that can be: the compiler holds no parameter, and start needs room for
# none but a rank's own piece of it.
cat > giant.txtpb <<'JOB'
mode: SEMI_AUTO
mesh { axes { name: "dp" size: 64 } }
rules { match: "tokens" layout: "[{dp}, {}]" }
optimizer_parallel { level: 3 }
global_batch: 64
init { match: "*" normal { std: 0.02 } }
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { adamw {} learning_rate: 0.0001 }
dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }
JOB
"$tools/ashlar-zoo" transformer --no-data --layers 48 --width 4096 --heads 32 --sequence 1024 --vocabulary 50257 -o giant.onnx
python3 - "$tools/ashlarc" giant.onnx --job giant.txtpb -o giant --report giant.json << 'CHECK' || fail "10 billion parameters"
import json, resource, subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], check=True)
seconds, most = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
report = json.load(open("giant.json"))
held = sum(variable["bytes"] for variable in report["variables"])
at_start = next(program["temporary_bytes"] for program in report["programs"] if program["name"] == "init")
print(f"{seconds:.1f} s, {most / 1e9:.2f} GB; a rank holds {held / 1e9:.2f} GB, and {at_start} bytes more at start")
assert seconds < 20 and most < 4 << 30
assert held < 1.02 * 3 * 4 * 10.09e9 / 64 and at_start < 1 << 20
CHECK
