# SPDX-License-Identifier: Apache-2.0
#
# --init-from: a program starts from weights of others, by name, on any mesh, in any type of floats; what is not there or does not fit is one line.

. "$(dirname "$0")/common.sh"

rm -rf -- work && mkdir work
cd work
"$tools/ashlar-zoo" linear -o linear.onnx
echo 'global_batch: 4' > forward.txtpb
"$tools/ashlarc" linear.onnx --job forward.txtpb -o linear
"$tools/ashlarc" linear.onnx --job forward.txtpb --mesh dp=2 -o linear_2
"$tools/ashlarc" linear.onnx --job <(echo 'mode: SEMI_AUTO mesh { axes { name: "tp" size: 2 } } global_batch: 4 rules { match: "dense.weight" layout: "[{}, {tp}]" }') -o linear_tp
python3 - << 'PYTHON'
from npy_writer import write_npy
from safetensors_writer import write_safetensors
write_npy("x.npy", "f", (4, 2), [1, 2, 3, 4, 5, 6, 7, 8])
weight, bias = [0.5, -2], [0.25]
for kind in ("F32", "F64", "F16", "BF16"):
    write_safetensors(kind + ".safetensors", {"dense.weight": (kind, (1, 2), weight), "dense.bias": (kind, (1,), bias)})
# As a library of others may call them, between what the model has not.
write_safetensors("named.safetensors", {"model.step": ("I64", (), [7]), "model.h.0.bias": ("F32", (1,), bias), "model.h.0.weight": ("F16", (1, 2), weight),
                                        "model.head.weight": ("F32", (2, 2), [1, 2, 3, 4])})
write_safetensors("turned.safetensors", {"dense.weight": ("F32", (2, 1), weight), "dense.bias": ("F32", (1,), bias)})
write_safetensors("fewer.safetensors", {"dense.weight": ("F32", (1,), weight[:1]), "dense.bias": ("F32", (1,), bias)})
write_safetensors("more.safetensors", {"dense.weight": ("F32", (1, 2, 1), weight), "dense.bias": ("F32", (1,), bias)})
write_safetensors("whole.safetensors", {"dense.weight": ("I32", (1, 2), [1, 2]), "dense.bias": ("F32", (1,), bias)})
write_safetensors("less.safetensors", {"dense.weight": ("F32", (1, 2), weight), "dense.scale": ("F32", (1,), bias)})
write_safetensors("tenth.safetensors", {"dense.weight": ("F64", (1, 2), [0.1, 1e300]), "dense.bias": ("F64", (1,), [-0.0])})
write_npy("expected.npy", "f", (4, 1), [0.5 * i - 2 * (i + 1) + 0.25 for i in (1, 3, 5, 7)])
PYTHON

# Numbers by hand, for each type, on one rank, with a split batch, and with split weights.
for kind in F32 F64 F16 BF16; do
  ./linear --input input=x.npy --init-from $kind.safetensors > log
  grep -qE "^started from $kind.safetensors: 2 variables; rank 0 read [0-9]+ bytes of it in " log || { cat log >&2; fail "$kind is not told"; }
  "$tools/compare_npy" output.npy expected.npy 0 finite > /dev/null || fail "$kind: another output"
  for program in linear_2 linear_tp; do
    mpirun -n 2 ./$program --input input=x.npy --init-from $kind.safetensors > log
    "$tools/compare_npy" output.npy expected.npy 0 finite > /dev/null || fail "$kind: another output of $program"
  done
done
grep -qF "rank 0 read 4 bytes" log || { cat log >&2; fail "of two columns of BF16 and a bias a rank reads more than its own 4 bytes"; }

# Other names, and more than is wanted.
./linear --input input=x.npy --init-from named.safetensors --rename 'model.h.0.*=dense.*' > log
"$tools/compare_npy" output.npy expected.npy 0 finite > /dev/null || fail "renamed: another output"
grep -qxF "not used of named.safetensors: model.head.weight, model.step" log || { cat log >&2; fail "what is not used is not told"; }
run="./linear --input input=x.npy"
expect_error "error: named.safetensors is not of this program: variable dense.weight of the program is not in it, and 1 more; not used of it: model.h.0.bias, and 3 more; nothing of it fits; --rename FROM=TO gives its tensors other names" $run --init-from named.safetensors
expect_error "error: --rename h.*=dense.* renames nothing: no tensor in named.safetensors matches it, or an earlier --rename takes them" $run --init-from named.safetensors --rename 'h.*=dense.*'
expect_error "error: --rename makes one name, w, of model.h.0.bias and model.h.0.weight in named.safetensors" $run --init-from named.safetensors --rename 'model.h.*=w'
expect_error "error: --rename a.*=b.*.*: the new name has 2 of * and ?, the old one 1" $run --init-from named.safetensors --rename 'a.*=b.*.*'
expect_error "error: --rename a: expected FROM=TO" $run --init-from named.safetensors --rename a
expect_error "error: --rename without --init-from; add --init-from FILE" $run --rename a=b
expect_error "error: --init-partial without --init-from; add --init-from FILE" $run --init-partial

# What does not fit, with both values; in part it is taken where that is asked for.
expect_error "error: turned.safetensors is not of this program: variable dense.weight is [2x1] there but [1x2] in the program; --rename FROM=TO gives its tensors other names, --init-partial loads only matching tensors" $run --init-from turned.safetensors
expect_error "error: fewer.safetensors is not of this program: variable dense.weight is [1] there but [1x2] in the program; " $run --init-from fewer.safetensors
expect_error "error: more.safetensors is not of this program: variable dense.weight is [1x2x1] there but [1x2] in the program; " $run --init-from more.safetensors
expect_error "error: whole.safetensors is not of this program: variable dense.weight is i32 there but f32 in the program; " $run --init-from whole.safetensors
expect_error "error: less.safetensors is not of this program: variable dense.bias of the program is not in it; not used of it: dense.scale; " $run --init-from less.safetensors
expect_error 'error: cannot open "none.safetensors": No such file or directory' $run --init-from none.safetensors
expect_error "error: x.npy is no safetensors file: a header of " $run --init-from x.npy
$run --init-from less.safetensors --init-partial > log
grep -qxF "left out: variable dense.bias of the program is not in it" log && grep -qxF "not used of less.safetensors: dense.scale" log || { cat log >&2; fail "what is left out is not told"; }
python3 - << 'PYTHON' || fail "the bias is not that of the model"
import struct
values = struct.unpack("<4f", open("output.npy", "rb").read()[-16:])
assert all(abs(value - (0.5 * i - 2 * (i + 1) + 0.02)) < 1e-5 for value, i in zip(values, (1, 3, 5, 7))), values
PYTHON
mkdir other && cp F64.safetensors other/F32.safetensors
expect_error "error: rank 1: --init-from of 2 tensors in 1 files holds other numbers (hash " mpirun -n 1 ./linear_2 --input input=x.npy --init-from F32.safetensors : -n 1 ./linear_2 --input input=x.npy --init-from other/F32.safetensors

# Rounded to the nearest: f64 to f32, beyond the largest to infinity; the sign of a zero stays.
sed '/^  repeat/d' "$jobs/linear.txtpb" > linear.txtpb
echo "on_nonfinite: CONTINUE" >> linear.txtpb
"$tools/ashlarc" linear.onnx --job linear.txtpb -o train
./train --steps 0 --init-from tenth.safetensors --save-parameters rounded > log
python3 - << 'PYTHON' || fail "f64 is rounded otherwise"
import struct
weight, bias = (open(f"rounded/dense.{name}.npy", "rb").read() for name in ("weight", "bias"))
assert weight[-8:] == struct.pack("<2f", 0.1, float("inf")) and bias[-4:] == struct.pack("<f", -0.0), (weight[-8:], bias[-4:])
PYTHON

# A training that starts from a file is that of a program compiled with its numbers, bit by bit, optimizer and all, whatever the file and the mesh.
"$tools/ashlar-zoo" mlp -o mlp.onnx
sed '/^epochs/d; /^log_every/d' "$jobs/mlp_adamw.txtpb" > job.txtpb
echo 'log_every: 1' >> job.txtpb
sed 's/DATA_PARALLEL/SEMI_AUTO/' job.txtpb > rules.txtpb
echo 'rules { match: "input" layout: "[{dp}, {}]" }' >> rules.txtpb
"$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=2 -o two
mpirun -n 2 ./two --threads 1 --steps 4 --export trained.onnx --checkpoint-dir saved --save-parameters expected > log
"$tools/ashlar-ckpt" convert saved/ashlar-1_4 -o trained.safetensors --parameters > log
"$tools/ashlarc" trained.onnx --job job.txtpb --mesh dp=2 -o inside
mpirun -n 2 ./inside --threads 1 --steps 3 --checkpoint-dir inside.saved > inside.log
for source in trained.onnx trained.safetensors saved/ashlar-1_4; do
  rm -rf from.saved
  mpirun -n 2 ./two --threads 1 --steps 3 --init-from $source --checkpoint-dir from.saved > from.log
  grep -qF "started from $source: 6 variables" from.log || { cat from.log >&2; fail "$source is not told"; }
  expect_same_losses inside.log from.log "from $source comes another training"
  "$tools/ashlar-ckpt" diff inside.saved/ashlar-1_3 from.saved/ashlar-1_3 > diff.log || { cat diff.log >&2; fail "from $source comes another state"; }
done
"$tools/ashlarc" mlp.onnx --job <(cat rules.txtpb; echo 'optimizer_parallel { level: 3 }') --mesh dp=4 -o zero
"$tools/ashlarc" mlp.onnx --job <(sed '/^mesh/d' rules.txtpb; echo 'mesh { axes { name: "dp" size: 1 } axes { name: "tp" size: 3 } } rules { match: "fc1.weight" layout: "[{tp}, {}]" } rules { match: "fc2.weight" layout: "[{}, {tp}]" }') -o tensor
"$tools/ashlarc" mlp.onnx --job <(cat rules.txtpb; echo 'pipeline { stages: 2 micro_batches: 4 }') --mesh dp=1 -o stages
"$tools/ashlarc" mlp.onnx --job <(cat job.txtpb; echo 'optimizer_parallel {}') --mesh dp=2 -o owners
for program in "zero 4" "tensor 3" "stages 2" "owners 2"; do
  read -r name ranks <<< "$program"
  for source in trained.onnx trained.safetensors saved/ashlar-1_4; do
    rm -rf parameters
    mpirun -n "$ranks" "./$name" --threads 1 --steps 0 --init-from $source --save-parameters parameters > log
    diff -r expected parameters > /dev/null || fail "$name from $source has other parameters"
  done
  mpirun -n "$ranks" "./$name" --threads 1 --steps 3 --init-from trained.safetensors > "$name.log"
  expect_close inside.log "$name.log" 1e-4
done

# Files of each type, longer than what is converted at once, on every mesh: numbers that all types hold.
python3 - << 'PYTHON'
from npy_writer import write_npy
from safetensors_writer import write_safetensors
shapes = {"fc1.weight": (512, 784), "fc1.bias": (512,), "fc2.weight": (512, 512), "fc2.bias": (512,), "fc3.weight": (10, 512), "fc3.bias": (10,)}
values = {}
for place, (name, shape) in enumerate(shapes.items()):
    count = shape[0] * (shape[1] if len(shape) == 2 else 1)
    values[name] = [((i + 40 * place) % 251 - 125) / 64 for i in range(count)]
    write_npy(f"typed.{name}.npy", "f", shape, values[name])
for kind in ("F32", "F64", "F16", "BF16"):
    write_safetensors(f"typed.{kind}.safetensors", {name: (kind, shape, values[name]) for name, shape in shapes.items()})
PYTHON
mkdir typed
for file in typed.*.npy; do
  mv "$file" "typed/${file#typed.}"
done
for program in "two 2" "zero 4" "tensor 3" "stages 2"; do
  read -r name ranks <<< "$program"
  for kind in F32 F64 F16 BF16; do
    rm -rf parameters
    mpirun -n "$ranks" "./$name" --threads 1 --steps 0 --init-from typed.$kind.safetensors --save-parameters parameters > log
    expect_same_parameters typed parameters 0
  done
done

# With --resume latest the weights are for a run that has no checkpoint yet.
mpirun -n 2 ./two --threads 1 --steps 2 --init-from trained.onnx --checkpoint-dir later --resume latest > log
grep -qxF "no checkpoint in later: the run starts from trained.onnx" log && grep -qF "started from trained.onnx: 6 variables" log || { cat log >&2; fail "the first run does not start from the weights"; }
mpirun -n 2 ./two --threads 1 --steps 3 --init-from trained.onnx --checkpoint-dir later --resume latest > log
grep -qF "resumed from later/ashlar-1_2: 2 steps done" log && ! grep -qF "started from" log || { cat log >&2; fail "the second run does not go on"; }
"$tools/ashlar-ckpt" diff inside.saved/ashlar-1_3 later/ashlar-1_3 > diff.log || { cat diff.log >&2; fail "two runs make another state than one"; }
expect_error "error: --init-from trained.onnx and --resume saved/ashlar-1_4: a run starts from weights or goes on from a checkpoint; " ./two --init-from trained.onnx --resume saved/ashlar-1_4

# Weights that a convolution orders for its kernel once are ordered as they are now; running statistics come along.
"$tools/ashlar-zoo" resnet --depth 18 --stem cifar --image 32 --classes 10 -o resnet.onnx
python3 - << 'PYTHON'
from npy_writer import write_npy
write_npy("images_train.npy", "f", (8, 3, 32, 32), [(i * 7 % 23 - 11) / 11 for i in range(8 * 3 * 32 * 32)])
write_npy("images.npy", "f", (4, 3, 32, 32), [(i * 5 % 19 - 9) / 9 for i in range(4 * 3 * 32 * 32)])
write_npy("labels_train.npy", "q", (8,), [i % 10 for i in range(8)])
PYTHON
cat > resnet.txtpb << 'JOB'
global_batch: 8
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { sgd {} learning_rate: 0.01 }
dataset { npy {} repeat: 100 features { column: "images" tensor: "input" } features { column: "labels" tensor: "labels" } }
JOB
"$tools/ashlarc" resnet.onnx --job resnet.txtpb -o resnet
./resnet --data . --steps 2 --export resnet_trained.onnx > log
"$tools/ashlarc" resnet.onnx --job forward.txtpb -o forward
"$tools/ashlarc" resnet_trained.onnx --job forward.txtpb -o forward_inside
./forward_inside --input input=images.npy --output logits=inside.npy
./forward --input input=images.npy --output logits=before.npy
./forward --input input=images.npy --output logits=from.npy --init-from resnet_trained.onnx > log
cmp inside.npy from.npy || fail "a forward program with weights of a file computes otherwise than one compiled with them"
! cmp -s before.npy from.npy || fail "the weights of a file change nothing"
