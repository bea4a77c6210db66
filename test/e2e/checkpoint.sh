# SPDX-License-Identifier: Apache-2.0
#
# A run that is resumed from a checkpoint ends as one that was never interrupted: with the same bits on the same mesh, with --deterministic on any
# number of ranks, else on another mesh, level of the optimizer or pipeline within rounding. Each byte of the state is in exactly one file.

. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pipeline_job.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx

# expect_resumed NAME CUT STEPS OPTIONS...: NAME was compiled. It saves after CUT of STEPS steps and goes on from there.
expect_resumed() {
  local name=$1 cut=$2 steps=$3 ranks
  shift 3
  ranks=$(ranks_of "$name")
  rm -rf whole cut resumed saved
  mpirun -n "$ranks" "./$name" --threads 1 --steps "$steps" --log-every 1 --save-parameters whole "$@" > whole.log
  mpirun -n "$ranks" "./$name" --threads 1 --steps "$cut" --log-every 1 --checkpoint-dir saved "$@" > cut.log
  mpirun -n "$ranks" "./$name" --threads 1 --steps "$steps" --log-every 1 --resume latest --checkpoint-dir saved --save-parameters resumed "$@" > resumed.log
  [ "$(losses cut.log | wc -l)" = "$cut" ] || fail "$name: not $cut losses before the checkpoint"
  cat <(losses cut.log) <(losses resumed.log) | cmp - <(losses whole.log) || fail "$name: the losses of the resumed run differ"
  diff -r whole resumed > /dev/null || fail "$name: the parameters of the resumed run differ"
}

# Shuffled data over two epochs, AdamW with its counters, a schedule, a norm over all gradients; each optimizer level; owners; a loss scale
# that grows; micro-batches; dropout; state that the forward pass moves.
sed '/^epochs/d; s/digits {}/digits { train_samples: 2560 }/' "$jobs/mlp_adamw.txtpb" > adamw.txtpb
for level in 1 2 3; do
  (sed 's/DATA_PARALLEL/SEMI_AUTO/' adamw.txtpb; echo "optimizer_parallel { level: $level } rules { match: \"input\" layout: \"[{dp}, {}]\" }") > level_$level.txtpb
done
cp "$jobs/mlp_grouping.txtpb" grouping.txtpb
sed '$a precision: F16_MIXED loss_scale { initial: 65536 growth_steps: 3 }' "$jobs/mlp.txtpb" > scale.txtpb
sed '$a accumulate: 4' adamw.txtpb > sums.txtpb
for name in adamw level_1 level_2 level_3 grouping scale sums; do
  "$tools/ashlarc" mlp.onnx --job $name.txtpb --mesh dp=2 -o $name
done
expect_resumed adamw 7 25 # an epoch has ten steps
for name in level_1 level_2 level_3 grouping scale sums; do
  expect_resumed $name 4 9
done
expect_resumed adamw 7 13 --deterministic
expect_resumed grouping 4 9 --deterministic # a rank plays four devices, of which each owns some parameters
# A resumed run tells the losses of the same steps as one that is not cut: here of each fifth one.
rm -rf saved
mpirun -n 2 ./adamw --threads 1 --steps 22 --log-every 5 > whole.log
mpirun -n 2 ./adamw --threads 1 --steps 7 --log-every 5 --checkpoint-dir saved > cut.log
mpirun -n 2 ./adamw --threads 1 --steps 22 --log-every 5 --resume latest --checkpoint-dir saved > resumed.log
[ "$(losses whole.log | wc -l)" = 4 ] || fail "22 steps have $(losses whole.log | wc -l) losses"
cat cut.log resumed.log | sed -n 's/^\(epoch: .*\);.*/\1/p' | cmp - <(sed -n 's/^\(epoch: .*\);.*/\1/p' whole.log) || fail "a resumed run tells the losses of other steps"
python3 "$(dirname "$0")/dropout_model.py" dropout.onnx
"$tools/ashlarc" dropout.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 -o dropout
expect_resumed dropout 3 8
for schedule in GPIPE ONE_F_ONE_B ZERO_BUBBLE; do
  pipeline_job 64 64 "$adamw" "pipeline { stages: 2 micro_batches: 4 schedule: $schedule }" > stages.txtpb
  "$tools/ashlarc" mlp.onnx --job stages.txtpb -o stages
  expect_resumed stages 3 7
done

# Another mesh: the checkpoint of four ranks of level 3 goes on everywhere. What a rank holds no part of it does not read.
rm -rf saved
"$tools/ashlarc" mlp.onnx --job level_3.txtpb --mesh dp=4 -o level_3_4
mpirun -n 4 ./level_3_4 --threads 1 --steps 12 --log-every 1 --save-parameters expected > whole.log
mpirun -n 4 ./level_3_4 --threads 1 --steps 5 --log-every 1 --checkpoint-dir saved > cut.log
(sed 's/^mode: .*/mode: SEMI_AUTO/; s/^mesh.*/mesh { axes { name: "dp" size: 2 } axes { name: "tp" size: 2 } }/' adamw.txtpb
 echo 'rules { match: "input" layout: "[{dp}, {}]" } rules { match: "fc1.weight" layout: "[{tp}, {}]" } rules { match: "fc2.weight" layout: "[{}, {tp}]" }') > tp.txtpb
"$tools/ashlarc" mlp.onnx --job tp.txtpb -o tp
(pipeline_job 256 64 "adamw" "pipeline { stages: 2 micro_batches: 4 }" | sed '/^optimizer/,/^}/d; /^dataset/,/^}/d; /^loss/d; /^global_batch/d; /^mode/d; /^epochs/d'
 sed '/^mode/d; /^mesh/d' adamw.txtpb; echo 'mode: SEMI_AUTO') > cut_stages.txtpb
"$tools/ashlarc" mlp.onnx --job cut_stages.txtpb -o cut_stages
"$tools/ashlarc" mlp.onnx --job adamw.txtpb --mesh dp=1 -o one
for name in one adamw level_1 level_2 level_3 tp cut_stages; do
  rm -rf resumed
  mpirun -n "$(ranks_of $name)" ./$name --threads 1 --steps 12 --log-every 1 --resume saved/ashlar-1_5 --save-parameters resumed > resumed.log
  grep -q "^resumed from saved/ashlar-1_5: 5 steps done" resumed.log || fail "$name does not say where it goes on"
  cat <(losses cut.log | sed 's/^/epoch: 1 step: 1, loss is /') <(grep ^epoch resumed.log) > joined.log
  expect_close whole.log joined.log 1e-4
  expect_same_parameters expected resumed 1e-5
done

# In deterministic mode there is no rounding: 4 ranks, then 2, then 1, then 4 again.
for ranks in 1 2 4; do
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp_zero3.txtpb" --mesh dp=$ranks -o zero_$ranks
done
rm -rf saved
mpirun -n 2 ./zero_2 --deterministic --threads 1 --steps 12 --save-parameters exact > whole.log
done=0
for ranks in 4 2 1 4; do
  done=$((done + 3))
  rm -rf resumed
  mpirun -n $ranks ./zero_$ranks --deterministic --threads 1 --steps $done --checkpoint-dir saved --resume latest --save-parameters resumed > resumed.log
done
diff -r exact resumed > /dev/null || fail "runs on 4, 2, 1 and 4 ranks end with other bits than one run"

# Each byte is written by exactly one rank, and all of them write: the files hold as much as the state and their headers.
python3 - saved/ashlar-1_12 << 'PYTHON'
import json, pathlib, struct, sys
folder = pathlib.Path(sys.argv[1])
index = json.loads((folder / "index.json").read_text())
sizes = {"F32": 4, "I64": 8}
state = 0
for tensor in index["tensors"]:
    elements = 1
    for size in tensor["shape"]:
        elements *= size
    state += elements * sizes[tensor["dtype"]]
data = 0
for file in folder.glob("rank-*.safetensors"):
    with open(file, "rb") as stream:
        header = struct.unpack("<Q", stream.read(8))[0]
        names = json.loads(stream.read(header))
    assert len(names) > 1, f"{file} holds nothing"
    data += file.stat().st_size - 8 - header
assert data == state, f"the files hold {data} bytes, the state is {state}"
PYTHON

# How many stay, the name, and the count of steps from the very start; a run that has nothing left to do changes nothing.
(cat adamw.txtpb; echo 'checkpoint { prefix: "run" every_steps: 4 keep: 2 }') > kept.txtpb
"$tools/ashlarc" mlp.onnx --job kept.txtpb --mesh dp=2 -o kept
rm -rf saved
mpirun -n 2 ./kept --threads 1 --steps 11 --checkpoint-dir saved > kept.log
[ "$(ls saved | xargs)" = "run-1_8 run-2_1" ] || fail "with keep: 2 there are $(ls -A saved | xargs)"
mpirun -n 2 ./kept --threads 1 --steps 13 --checkpoint-dir saved --resume latest > kept.log
[ "$(ls -A saved | xargs)" = "run-2_2 run-2_3" ] || fail "behind step 11 there are $(ls -A saved | xargs)"
mkdir saved/.run-9_9.partial saved/.run-1_1.removed saved/.other-9_9.partial
mpirun -n 2 ./kept --threads 1 --steps 13 --checkpoint-dir saved --resume latest > kept.log
grep -q "trained 0 steps" kept.log || fail "a run that is through trains again"
[ "$(ls -A saved | xargs)" = ".other-9_9.partial run-2_2 run-2_3" ] || fail "what was left behind: $(ls -A saved | xargs)"
# A run that goes back: what it writes is newer than what is there of later steps. It stays, and is the latest.
rm -rf back
mpirun -n 2 ./kept --threads 1 --steps 24 --checkpoint-dir back > kept.log
[ "$(ls -A back | xargs)" = "run-2_10 run-3_4" ] || fail "there are $(ls -A back | xargs)"
mpirun -n 2 ./kept --threads 1 --steps 21 --checkpoint-dir back --resume back/run-2_10 > kept.log
[ "$(ls -A back | xargs)" = "run-3_1 run-3_4" ] || fail "a run that goes back leaves $(ls -A back | xargs)"
mpirun -n 2 ./kept --threads 1 --steps 22 --checkpoint-dir back --resume latest > kept.log
grep -qF "resumed from back/run-3_1: 21 steps done" kept.log || { cat kept.log >&2; fail "the latest is not what was written last"; }
[ "$(ls -A back | xargs)" = "run-3_1 run-3_2" ] || fail "what was written first is not removed first: $(ls -A back | xargs)"
# In the current folder, where the job alone asks for checkpoints.
mkdir -p here && (cd here && mpirun -n 2 ../kept --threads 1 --steps 4 > kept.log && [ -e run-1_4/index.json ]) || fail "no checkpoint in the current folder"
# A run that begins anew: what it writes takes the place of what is there. A step that is saved already is saved again, in its place.
mpirun -n 2 ./kept --threads 1 --steps 12 --checkpoint-dir saved --sync-checkpoint > kept.log
[ "$(grep -c '^saved saved/run-' kept.log)" = 3 ] && [ "$(ls -A saved | xargs)" = ".other-9_9.partial run-1_8 run-2_2" ] || fail "a second run leaves $(ls -A saved | xargs)"
mpirun -n 2 ./kept --threads 1 --steps 12 --checkpoint-dir saved --resume latest > kept.log
grep -qxF "saved saved/run-2_2" kept.log && [ "$(ls -A saved | xargs)" = ".other-9_9.partial run-1_8 run-2_2" ] || fail "a step is not saved again in its place"
