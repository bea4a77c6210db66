# SPDX-License-Identifier: Apache-2.0
#
# A model whose logits are large trains with a piece of them at a time: to the losses of smaller batches a rank, whose logits are whole, and
# in less memory than the logits take; also where the vocabulary is sharded, so that ranks exchange numbers of each row.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" transformer --layers 1 --width 32 --heads 2 --sequence 256 --vocabulary 8192 -o model.onnx
python3 "$(dirname "$0")/write_tokens.py" data 8192 256
cat > job.txtpb <<'END'
mode: DATA_PARALLEL
mesh { axes { name: "dp" size: 1 } }
global_batch: 16
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { adamw {} learning_rate: 0.01 }
dataset {
  npy {}
  features { column: "tokens" tensor: "tokens" }
  features { column: "next" tensor: "labels" }
}
epochs: 1
END

# 16 samples have 128 MiB of logits: two blocks. The samples of four ranks have 32 MiB each.
"$tools/ashlarc" model.onnx --job job.txtpb -o one --explain > one.txt
"$tools/ashlarc" model.onnx --job job.txtpb --mesh dp=4 -o four --explain > four.txt
"$tools/ashlarc" model.onnx --job job.txtpb --emit exec -o one.mlir
count=$(grep -c 'exec.gemm .* n 8192 .*accumulate\|exec.gemm .* m 8192 .*accumulate' one.mlir || true)
[ "$count" -eq 1 ] || fail "$count products are added up for the gradient of the head, not 1"
temporaries() { # MB
  sed -n 's/.* a rank: .*[,:] \([0-9.]*\) MB temporaries.*/\1/p' "$1"
}
expect_less "$(temporaries one.txt)" 100 "logits exist whole"

./one --data data --steps 4 --log-every 1 > one.log
mpirun -n 4 ./four --data data --steps 4 --log-every 1 > four.log
expect_close one.log four.log 1e-4 # sums over rows in another order

# Half of the vocabulary a rank, so that logits have 64 MiB: two blocks, with a maximum and a sum of their rows each.
{
  sed '/^mode:/d; /^mesh/d' job.txtpb
  echo 'mode: SEMI_AUTO mesh { axes { name: "tp" size: 2 } }'
  echo 'rules { match: "embedding.weight" layout: "[{tp}, {}]" } rules { match: "head.weight" layout: "[{}, {tp}]" }'
} > sharded.txtpb
"$tools/ashlarc" model.onnx --job sharded.txtpb -o sharded --explain > sharded.txt
count=$(grep -c '^[0-9]*\. all_reduce .* over tp .*; 8x256' sharded.txt || true)
[ "$count" -eq 4 ] || fail "blocks have $count collectives, not 4"
expect_less "$(temporaries sharded.txt)" 80 "pieces of logits exist whole"
mpirun -n 2 ./sharded --data data --steps 4 --log-every 1 > sharded.log
expect_close one.log sharded.log 1e-4
