# SPDX-License-Identifier: Apache-2.0
#
# No pass goes along operands by calls of itself: chains of 4000 nodes compile on a stack of 256 KiB, 65 bytes a node and less than a call
# takes. The same commands on chains of 12 nodes show that all else fits that stack. LLVM does call itself along a kernel, whose size has a
# bound: executables are made of one job only, the others go as far as instruction tables.

. "$(dirname "$0")/common.sh"

stack_kb=256
train='global_batch: 8 loss { mean_squared_error { prediction: "y" target: "t" } } optimizer { momentum {} learning_rate: 0.001 }
dataset { npy {} features { column: "x" tensor: "x" } features { column: "t" tensor: "t" } }'
two='mode: SEMI_AUTO mesh { axes { name: "dp" size: 2 } } rules { match: "x" layout: "[{dp}, {}]" }'
echo 'global_batch: 8' > forward.txtpb
echo "$train" > plain.txtpb
echo "$train precision: BF16_MIXED" > narrow.txtpb
echo "$train $two optimizer_parallel { level: 3 } rules { match: \"*\" recompute: true }" > recompute.txtpb
echo "$train $two optimizer_parallel { level: 2 } pipeline { stages: 2 micro_batches: 2 }" > stages.txtpb
echo "$train mode: AUTO mesh { axes { name: \"dp\" size: 2 } }" > auto.txtpb

for nodes in 12 4000; do
  for kind in steps views products; do
    python3 "$(dirname "$0")/deep_graphs.py" $kind $nodes $kind.onnx
    (ulimit -s $stack_kb && "$tools/ashlarc" $kind.onnx --job forward.txtpb -o $kind.program) || fail "$nodes nodes of $kind are not compiled"
    for job in plain narrow recompute stages auto; do
      (ulimit -s $stack_kb && "$tools/ashlarc" $kind.onnx --job $job.txtpb --emit exec -o $kind.mlir --explain > /dev/null) ||
        fail "$nodes nodes of $kind are not compiled with $job.txtpb"
    done
  done
  python3 "$(dirname "$0")/deep_graphs.py" sources $nodes sources.mlir
  (ulimit -s $stack_kb && "$tools/ashlar-opt" sources.mlir --ashlar-assign-formats > /dev/null) || fail "$nodes places are not brought into an order"
done
