# SPDX-License-Identifier: Apache-2.0
#
# A small GPT, split as Megatron does: the losses are those of one rank, on meshes that divide heads and vocabulary and on meshes that do not.

. "$(dirname "$0")/common.sh"

job=$jobs/transformer_tensor_parallel.txtpb

python3 "$(dirname "$0")/write_tokens.py" data 50 16
# With this seed no activation comes so close to the kink of a relu that rounding decides on which side it is: then losses part by 1e-5.
"$tools/ashlar-zoo" transformer --seed 2 -o transformer.onnx
sed '/^mode:/d; /^mesh {/,/^}/d; /^rules/d' "$job" > single.txtpb
"$tools/ashlarc" transformer.onnx --job single.txtpb -o single
./single --data data --eval --threads 1 --save-parameters single.parameters > single.log
grep -q "accuracy is 1.0000 (512 of 512)" single.log || fail "it does not learn to count: $(tail -1 single.log)"
# 4 heads and 50 words: 2 divides both, 3 and 4 do not divide the words, 3 does not divide the heads.
for mesh in dp=2,tp=2 dp=1,tp=3 dp=1,tp=4; do
  "$tools/ashlarc" transformer.onnx --job "$job" --mesh $mesh -o split
  mpirun -n "$(ranks_of split)" ./split --data data --eval --threads 1 --save-parameters $mesh.parameters > $mesh.log
  # Sums in another order: 2^-24 a term, grown by 80 steps of momentum.
  expect_close single.log $mesh.log 1e-3
  expect_same_parameters single.parameters $mesh.parameters 1e-3
done
# The sequence of 16 tokens is split too: evenly, and over 3, which divides nothing.
for mesh in dp=2,tp=2 dp=1,tp=3; do
  "$tools/ashlarc" transformer.onnx --job "$jobs/transformer_sequence_parallel.txtpb" --mesh $mesh -o sequence
  ranks=$(ranks_of sequence)
  mpirun -n "$ranks" ./sequence --data data --eval --threads 1 > sequence_$mesh.log
  expect_close single.log sequence_$mesh.log 1e-3
done

# In two stages, on hosts of four ranks each by the job: one value goes to the other host, in shards, 2x16x64 numbers of each pair.
{ cat "$jobs/transformer_3d.txtpb"
  echo "sequence_parallel: OFF"
  echo "machine { ranks_per_host: 4 adapters_per_host: 4 inter_host { latency_us: 10 bandwidth_gb_per_s: 0.1 } }"
} > hosts.txtpb
sed '/^mode:/d; /^mesh {/,/^}/d; /^rules.*layout:/d; /^rules.*comm_fusion/d; /^pipeline/d; /^optimizer_parallel {/,/^}/d; /^machine/d; /^sequence/d' \
  hosts.txtpb > whole.txtpb
"$tools/ashlarc" transformer.onnx --job whole.txtpb -o whole
./whole --data data --steps 16 --eval --log-every 1 --threads 1 > whole.log
"$tools/ashlarc" transformer.onnx --job hosts.txtpb -o staged
./staged --plan > staged.plan
grep -q "sends 4.1 KB to stage 1 a micro-batch" staged.plan || fail "it sends more than shards: $(grep sends staged.plan)"
mpirun -n 8 ./staged --data data --steps 16 --eval --log-every 1 --threads 1 > staged.log
expect_close whole.log staged.log 1e-3

# GPT-2's vocabulary on 8 ranks, and 6 heads on 4.
python3 "$(dirname "$0")/write_tokens.py" words 50257 8
"$tools/ashlar-zoo" transformer --layers 1 --width 24 --heads 6 --sequence 8 --vocabulary 50257 -o words.onnx
"$tools/ashlarc" words.onnx --job single.txtpb -o single
./single --data words --steps 4 --log-every 1 --threads 1 > single.log
for mesh in dp=1,tp=8 dp=1,tp=4; do
  "$tools/ashlarc" words.onnx --job "$job" --mesh $mesh -o split
  mpirun -n "$(ranks_of split)" ./split --data words --steps 4 --log-every 1 --threads 1 > $mesh.log
  expect_close single.log $mesh.log 1e-4
done
