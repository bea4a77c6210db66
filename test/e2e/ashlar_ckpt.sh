# SPDX-License-Identifier: Apache-2.0
#
# ashlar-ckpt on checkpoints that trainings wrote: list, show, verify, diff across meshes, convert; and what it says of damaged ones.

. "$(dirname "$0")/common.sh"

rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" mlp --width 64 -o mlp.onnx
# One is whole on every rank, the other cut into four pieces.
sed '/^epochs/d' "$jobs/mlp_adamw.txtpb" > adamw.txtpb
(sed 's/DATA_PARALLEL/SEMI_AUTO/' adamw.txtpb; echo 'optimizer_parallel { level: 3 threshold_kb: 0 } rules { match: "input" layout: "[{dp}, {}]" }') > level_3.txtpb
"$tools/ashlarc" mlp.onnx --job adamw.txtpb --mesh dp=2 -o two
"$tools/ashlarc" mlp.onnx --job level_3.txtpb --mesh dp=4 -o four
mpirun -n 2 ./two --threads 1 --steps 6 --save-every 3 --checkpoint-dir saved > log
mpirun -n 4 ./four --threads 1 --steps 6 --checkpoint-dir cut --save-parameters expected > log

# expect STATUS COMMAND...: what it prints is in out.
expect() {
  local expected=$1 status=0
  shift
  "$tools/ashlar-ckpt" "$@" > out 2> err || status=$?
  [ $status = "$expected" ] || { cat out err >&2; fail "ashlar-ckpt $* ends with $status, not $expected"; }
}

# expect_line TEXT: in what the last command printed.
expect_line() {
  grep -qxF -- "$1" out || { cat out >&2; fail "there is no line: $1"; }
}

# list and show.
mv saved/ashlar-1_3 saved/other-1_3
expect 0 list saved
[ "$(wc -l < out)" = 3 ] && grep -qE '^ashlar-1_6 +6  2 \(dp=2\) +[0-9]+  whole$' out || { cat out >&2; fail "list"; }
[ "$(sed -n 3p out | cut -d' ' -f1)" = other-1_3 ] || fail "the newest is not first"
expect 0 show cut/ashlar-1_6
expect_line "position  epoch 1, step 6; 6 steps done"
expect_line "ranks     4 (dp=4)"
grep -qE '^fc1.weight.moment1 +f32 +\[64x784\] +200704  fc1.weight$' out || { cat out >&2; fail "show"; }
! grep -q rank-0000 out || fail "show tells pieces unasked"
expect 0 show --pieces cut/ashlar-1_6
grep -qE '^  rank-00003.safetensors +\[48:64,0:784\] +50176  from byte [0-9]+ on$' out || { cat out >&2; fail "show --pieces"; }

# diff: the same bits, however they are cut; else where and how much. A rate this small changes nothing, in whatever order gradients are added.
sed 's/learning_rate: .*/learning_rate: 1e-30/; /^epochs/d' "$jobs/mlp.txtpb" > still.txtpb
(sed '/^mode/d; /^mesh/d' still.txtpb; echo 'mode: SEMI_AUTO mesh { axes { name: "tp" size: 4 } }
rules { match: "fc1.weight" layout: "[{tp}, {}]" } rules { match: "fc2.weight" layout: "[{}, {tp}]" }') > split.txtpb
"$tools/ashlarc" mlp.onnx --job still.txtpb --mesh dp=1 -o still
"$tools/ashlarc" mlp.onnx --job split.txtpb -o split
./still --threads 1 --steps 2 --checkpoint-dir still.saved > log
mpirun -n 4 ./split --threads 1 --steps 2 --checkpoint-dir split.saved > log
expect 0 show --pieces split.saved/ashlar-1_2
grep -qE '^  rank-00001.safetensors +\[0:64,16:32\] ' out || { cat out >&2; fail "fc2.weight is not cut into columns"; }
expect 0 diff still.saved/ashlar-1_2 split.saved/ashlar-1_2
grep -qE '^([0-9]+) of \1 common tensors are equal, bit by bit$' out || { cat out >&2; fail "diff of equal ones"; }
expect 1 diff saved/ashlar-1_6 cut/ashlar-1_6
grep -qE '^fc1.weight: [0-9]+ of 50176 elements differ, most by [0-9.]+e-0[6-9] at \[[0-9]+,[0-9]+\]: -?[0-9.e-]+ and -?[0-9.e-]+$' out || { cat out >&2; fail "diff of rounding"; }
expect 1 diff saved/ashlar-1_6 saved/other-1_3
expect_line "steps done: 6 in saved/ashlar-1_6, 3 in saved/other-1_3"
expect_line "ashlar.updates: 1 of 1 elements differ, most by 3 at []: 6 and 3"
expect_line "0 of 19 common tensors are equal, bit by bit"
"$tools/ashlar-zoo" mlp --width 32 -o narrow.onnx
"$tools/ashlarc" narrow.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o narrow
./narrow --deterministic --threads 1 --steps 1 --checkpoint-dir narrowed > log
expect 1 diff narrowed/ashlar-1_1 saved/ashlar-1_6
expect_line "fc1.weight: f32 [32x784] in narrowed/ashlar-1_1, f32 [64x784] in saved/ashlar-1_6"
expect_line "fc1.weight.moment2: only in saved/ashlar-1_6"
expect 1 diff saved/ashlar-1_6 narrowed/ashlar-1_1
expect_line "fc1.weight.moment2: only in saved/ashlar-1_6"

# convert: what --save-parameters wrote, and all of the state. Memory is not that of the checkpoint.
expect 0 convert cut/ashlar-1_6 -o parameters.safetensors --parameters
expect 0 convert cut/ashlar-1_6/ -o all.safetensors
python3 - << 'PYTHON' || fail "convert"
import json, pathlib, struct

def read(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    assert header.pop("__metadata__")["steps_done"] == "6"
    found, end = {}, 0
    for name, entry in header.items():
        begin, last = entry["data_offsets"]
        assert begin == end, name
        end = last
        found[name] = data[8 + length + begin:8 + length + last]
    assert end == len(data) - 8 - length
    return header, found

header, found = read("parameters.safetensors")
expected = {path.stem: path.read_bytes() for path in pathlib.Path("expected").glob("*.npy")}
assert len(expected) == 6 and sorted(expected) == sorted(found), sorted(found)
for name, npy in expected.items():
    start = 10 + struct.unpack("<H", npy[8:10])[0]
    assert npy[start:] == found[name], name
assert header["fc1.weight"]["shape"] == [64, 784] and header["fc1.weight"]["dtype"] == "F32"
header, everything = read("all.safetensors")
assert len(everything) == 19 and all(everything[name] == found[name] for name in found)
assert struct.unpack("<q", everything["ashlar.updates"]) == (6,) and header["ashlar.updates"]["shape"] == []
PYTHON
cp all.safetensors before
for path in cut/ashlar-1_6/rank-00001.safetensors cut/../cut/ashlar-1_6/index.json; do
  expect 2 convert cut/ashlar-1_6 -o "$path"
  grep -qF "error: -o names $path, which is a file of the checkpoint" err || { cat err >&2; fail "convert over its input"; }
done

# verify: nothing, one range, another file, an index.
expect 0 verify cut/ashlar-1_6 saved/*
[ "$(cat out)" = "3 of 3 whole; $((3 * $("$tools/ashlar-ckpt" show cut/ashlar-1_6 | sed -n 's/^tensors .*, \([0-9]*\) bytes.*/\1/p'))) bytes verified" ] || { cat out >&2; fail "verify"; }
cp -r cut damaged
offset=$("$tools/ashlar-ckpt" show --pieces cut/ashlar-1_6 | sed -n '/^fc1.weight /,$s/^  rank-00002.*\[32:48,0:784\].* byte \([0-9]*\) on$/\1/p' | sed -n 1p)
printf 'X' | dd of=damaged/ashlar-1_6/rank-00002.safetensors bs=1 seek=$((offset + 77)) conv=notrunc status=none
expect 1 verify damaged/ashlar-1_6 saved/ashlar-1_6
expect_line "damaged/ashlar-1_6/rank-00002.safetensors is damaged: bytes $offset to $((offset + 50175)), of fc1.weight, have other checksums than in index.json"
[ "$(wc -l < out)" = 2 ] && grep -q '^1 of 2 whole; ' out || { cat out >&2; fail "one damaged range"; }
expect 2 diff damaged/ashlar-1_6 saved/ashlar-1_6
[ "$(wc -l < err)" = 1 ] && grep -q "^error: damaged/ashlar-1_6/rank-00002.safetensors is damaged: bytes $offset to " err || { cat err >&2; fail "diff of a damaged one"; }
expect 2 convert damaged/ashlar-1_6 -o all.safetensors
cmp before all.safetensors && [ -z "$(find . -name '.ashlar-*')" ] || fail "convert leaves what it could not end"
truncate -s -1 damaged/ashlar-1_6/rank-00000.safetensors
expect 1 verify damaged/ashlar-1_6
grep -q "^damaged/ashlar-1_6/rank-00000.safetensors has .* but index.json records .*; the checkpoint is damaged$" out || { cat out >&2; fail "a file that was cut"; }
expect 0 list damaged
grep -qE '^ashlar-1_6 .* not whole: damaged/ashlar-1_6/rank-00000.safetensors has ' out || { cat out >&2; fail "list of a damaged one"; }
rm damaged/ashlar-1_6/index.json
expect 1 verify damaged/ashlar-1_6
expect 2 show damaged/ashlar-1_6
[ "$(wc -l < err)" = 1 ] && grep -q "^error: cannot open .*a checkpoint is a folder with an index.json$" err || { cat err >&2; fail "show of none"; }

# Usage, and a full disk.
expect 2 list nowhere
expect 0 list expected
expect_line "no checkpoint in expected"
expect 2 convert cut/ashlar-1_6
expect 2 list
expect 2 burn cut/ashlar-1_6
expect 0 --help
status=0
"$tools/ashlar-ckpt" show cut/ashlar-1_6 > /dev/full 2> err || status=$?
[ $status = 2 ] && grep -q "^error: cannot write all of standard output: No space left on device$" err || fail "a full disk: $status, $(cat err)"
