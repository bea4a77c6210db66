# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints of the cuda target, on the emulator: the same bits on the same mesh, and from one target to the other within rounding.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/emulator.sh"

sed 's/^global_batch:.*/global_batch: 64/; /^epochs/d; /^log_every/d' "$jobs/mlp_zero3.txtpb" | sed 's/momentum { momentum: 0.9 }/adamw {}/; s/0.02/0.002/' > mlp.txtpb
rm -rf saved moved
"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job mlp.txtpb --mesh dp=2 -o cpu
for ranks in 1 2; do
  "$tools/ashlarc" mlp.onnx --job mlp.txtpb --mesh dp=$ranks --target cuda --gpu-arch sm_90 -o cuda_$ranks
done

./on_emulator 2 mpirun -n 2 ./cuda_2 --steps 8 --log-every 1 --save-parameters whole > whole.log
./on_emulator 2 mpirun -n 2 ./cuda_2 --steps 3 --log-every 1 --save-every 2 --checkpoint-dir saved > cut.log
./on_emulator 2 mpirun -n 2 ./cuda_2 --steps 8 --log-every 1 --resume latest --checkpoint-dir saved --save-parameters resumed > resumed.log
cat <(losses cut.log) <(losses resumed.log) | cmp - <(losses whole.log) || fail "the losses of the resumed run differ"
diff -r whole resumed > /dev/null || fail "the parameters of the resumed run differ"
grep -q '"target": "cuda"' saved/ashlar-1_3/index.json || fail "the index does not name the target"

# The other target, another mesh, and back.
mpirun -n 2 ./cpu --steps 5 --resume saved/ashlar-1_3 --checkpoint-dir moved --log-every 1 > moved.log
./on_emulator 1 ./cuda_1 --steps 8 --resume latest --checkpoint-dir moved --log-every 1 --save-parameters back > back.log
cat <(grep ^epoch cut.log) <(grep ^epoch moved.log) <(grep ^epoch back.log) > joined.log
expect_close whole.log joined.log 1e-4
expect_same_parameters whole back 1e-4 # AdamW divides by roots of small numbers: rounding grows with the steps
