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
