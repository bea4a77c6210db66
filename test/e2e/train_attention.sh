# SPDX-License-Identifier: Apache-2.0
#
# An attention with noise behind it: training does not depend on the mesh, be samples split or heads, more ways than there are keys for them.
# And what draws without a job: by --seed, the same in every run.

. "$(dirname "$0")/common.sh"

python3 "$(dirname "$0")/attention_model.py" attention.onnx
for ranks in 1 2; do
  "$tools/ashlarc" attention.onnx --job "$jobs/mlp.txtpb" --mesh dp=$ranks -o attention_$ranks
  mpirun -n $ranks ./attention_$ranks --steps 20 --log-every 5 --threads 1 > $ranks.log
  expect_close 1.log $ranks.log 1e-4
done
./attention_1 --steps 20 --log-every 5 --threads 1 --seed 5 > seed.log
expect_other_losses 1.log seed.log "the seed does not change the noise"

(
  sed 's/DATA_PARALLEL/SEMI_AUTO/' "$jobs/mlp.txtpb"
  echo 'rules { match: "input" layout: "[{dp}, {}]" } rules { match: "wo" layout: "[{tp}, {}]" }'
  for weight in wq wk wv; do echo "rules { match: \"$weight\" layout: \"[{}, {tp}]\" }"; done
) > heads.txtpb
for mesh in dp=1,tp=2 dp=2,tp=2 dp=1,tp=4; do
  "$tools/ashlarc" attention.onnx --job heads.txtpb --mesh $mesh -o heads
  ranks=2
  [ $mesh = dp=1,tp=2 ] || ranks=4
  mpirun -n $ranks ./heads --steps 20 --log-every 5 --threads 1 > $mesh.log
  expect_close 1.log $mesh.log 1e-4
done

# A rank has its own keys, whose results combine, or its own rows, which see the keys up to their place in the sequence.
keys='rules { match: "rk" layout: "[{}, {cp}, {}]" } rules { match: "v" layout: "[{}, {cp}, {}]" }'
(sed 's/DATA_PARALLEL/SEMI_AUTO/' "$jobs/mlp.txtpb"; echo "$keys") > keys.txtpb
(sed 's/DATA_PARALLEL/SEMI_AUTO/' "$jobs/mlp.txtpb"; echo 'rules { match: "rq" layout: "[{}, {cp}, {}]" }') > rows.txtpb
for job in keys rows; do
  "$tools/ashlarc" attention.onnx --job $job.txtpb --mesh dp=1,cp=2 -o $job
  mpirun -n 2 ./$job --steps 20 --log-every 5 --threads 1 > $job.log
  expect_close 1.log $job.log 1e-4
  "$tools/ashlarc" attention.onnx --job $job.txtpb --mesh dp=1,cp=2 --emit exec -o $job.exec
  grep -q 'exec.attention .*positions' $job.exec || fail "scores of $job are in memory"
done

# A split of heads and samples stays: the only sum over tp is that of the last product, and nothing is gathered, but for sequences that are sharded.
{ cat heads.txtpb; echo 'sequence_parallel: OFF'; } > replicated.txtpb
"$tools/ashlarc" attention.onnx --job replicated.txtpb --mesh dp=2,tp=2 --emit dist -o heads.mlir
[ "$(grep -c 'dist.all_reduce .* over \["tp"\]' heads.mlir)" = 2 ] || fail "other collectives over tp than one in train_step and one in eval_step"
! grep -q 'dist.all_gather\|dist.all_to_all\|dist.permute' heads.mlir || fail "something is gathered"

echo 'global_batch: 4' > job.txtpb
python3 -c 'from npy_writer import write_npy; write_npy("x.npy", "f", (4, 784), [i % 7 / 8 for i in range(4 * 784)])'
"$tools/ashlarc" attention.onnx --job job.txtpb -o forward
for run in first second; do ./forward --input input=x.npy --output logits=$run.npy; done
cmp first.npy second.npy || fail "two runs draw differently"
"$tools/ashlarc" attention.onnx --job job.txtpb --mesh dp=2 -o forward_2
mpirun -n 2 ./forward_2 --input input=x.npy --output logits=ranks.npy
cmp first.npy ranks.npy || fail "two ranks draw differently"
./forward --input input=x.npy --output logits=seed.npy --seed 5
! cmp -s first.npy seed.npy || fail "the seed does not change the noise"
