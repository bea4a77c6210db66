# SPDX-License-Identifier: Apache-2.0
#
# --export writes the model that the program was compiled from, with the trained parameters: byte by byte the same where nothing was trained, and
# a program compiled from it goes on with the parameters that it was exported with.

. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)

chmod -f 755 parameters_folder || true
rm -rf none link.onnx folder.onnx file.onnx parameters_folder ./*.saved parameters* again*
"$tools/ashlar-zoo" mlp -o mlp.onnx
sed '/^epochs/d; /^log_every/d' "$jobs/mlp_adamw.txtpb" > job.txtpb
"$tools/ashlarc" mlp.onnx --job job.txtpb --mesh dp=2 -o mlp
mpirun -n 2 ./mlp --steps 0 --export same.onnx > same.log
cmp mlp.onnx same.onnx || fail "the model is another one though nothing was trained"

# expect_exported NAME MODEL JOB RANKS: what NAME exports has its parameters, and is otherwise as long as MODEL.
expect_exported() {
  local name=$1 model=$2 job=$3 ranks=$4
  rm -rf parameters again
  mpirun -n "$ranks" "./$name" --threads 1 --steps 5 --export "out_$name.onnx" --save-parameters parameters --checkpoint-dir "$name.saved" > "$name.log"
  ! cmp -s "$model" "out_$name.onnx" || fail "$name exports what it began with"
  "$tools/ashlarc" "out_$name.onnx" --job "$job" --mesh dp=1 -o again_$name
  ./again_$name --steps 0 --save-parameters again > again.log
  diff -r parameters again > /dev/null || fail "$name: a program compiled from what it exports has other parameters"
  # From the checkpoint alone: no step, and no data.
  mpirun -n "$ranks" "./$name" --export from.onnx --resume "$name.saved/ashlar-1_5" > from.log
  cmp "out_$name.onnx" from.onnx || fail "$name: from the checkpoint comes another model"
  ! grep -q "^trained" from.log || fail "$name: --export with --resume trains"
}
expect_exported mlp mlp.onnx job.txtpb 2
(sed 's/DATA_PARALLEL/SEMI_AUTO/' job.txtpb; echo 'optimizer_parallel { level: 3 } rules { match: "input" layout: "[{dp}, {}]" }') > zero.txtpb
"$tools/ashlarc" same.onnx --job zero.txtpb --mesh dp=4 -o zero
expect_exported zero same.onnx zero.txtpb 4
# Stages: each parameter comes from the stage that has it.
"$tools/ashlarc" same.onnx --job <(sed 's/DATA_PARALLEL/SEMI_AUTO/' job.txtpb; echo 'pipeline { stages: 2 micro_batches: 4 } rules { match: "input" layout: "[{dp}, {}]" }') --mesh dp=1 -o stages
expect_exported stages same.onnx job.txtpb 2
# Running statistics, and channels last inside.
"$tools/ashlar-zoo" resnet --depth 18 --stem cifar --image 32 --classes 10 -o resnet.onnx
python3 - << 'PYTHON'
from npy_writer import write_npy
write_npy("images_train.npy", "f", (16, 3, 32, 32), [(i * 7 % 23 - 11) / 11 for i in range(16 * 3 * 32 * 32)])
write_npy("labels_train.npy", "q", (16,), [i % 10 for i in range(16)])
PYTHON
cat > resnet.txtpb << 'JOB'
mesh { axes { name: "dp" size: 2 } }
global_batch: 8
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { sgd {} learning_rate: 0.01 }
dataset { npy {} repeat: 100 features { column: "images" tensor: "input" } features { column: "labels" tensor: "labels" } }
JOB
"$tools/ashlarc" resnet.onnx --job resnet.txtpb -o resnet
rm -rf parameters again
mpirun -n 2 ./resnet --threads 1 --data . --steps 3 --export trained.onnx --save-parameters parameters > resnet.log
"$tools/ashlarc" trained.onnx --job resnet.txtpb --mesh dp=1 -o again_resnet
./again_resnet --data . --steps 0 --save-parameters again > again.log
diff -r parameters again > /dev/null || fail "resnet: a program compiled from what it exports has other parameters"
ls parameters > names.log
grep -q running_var names.log || fail "resnet has no running statistics"

# Data in another file moves into the model.
python3 "$here/external_model.py" external.onnx weights.bin
cat > external.txtpb << 'JOB'
global_batch: 8
loss { mean_squared_error { prediction: "y" target: "target" } }
optimizer { sgd {} learning_rate: 0.1 }
dataset { regression {} features { column: "x" tensor: "x" } features { column: "z" tensor: "target" } }
JOB
"$tools/ashlarc" external.onnx --job external.txtpb -o external
./external --steps 4 --export inside.onnx --save-parameters parameters.external > external.log
rm weights.bin
"$tools/ashlarc" inside.onnx --job external.txtpb -o inside
./inside --steps 0 --save-parameters again.external > inside.log
diff -r parameters.external again.external > /dev/null || fail "data that came from another file are not in the model"

# What cannot be written.
for option in --eval "--metrics no" "--tensorboard no" "--log-dir no" "--save-parameters no" "--data no" "--trace no" "--checkpoint-dir no" "--save-every 3"; do
  expect_error "error: ${option% *} but --export with --resume alone trains nothing" ./external --export no --resume none $option
done
[ ! -e no ] || fail "a refused export writes files"
expect_error "error: --export: there is no checkpoint to export" ./external --export x.onnx --resume latest --checkpoint-dir none
# Before the first step: what was trained would be lost.
ln -s elsewhere link.onnx
mkdir -p folder.onnx parameters_folder/w.npy
touch file.onnx
chmod 555 parameters_folder
cannot_write() {
  expect_error "error: cannot write $1: $2" ./external --steps 3 --log-every 1 "${@:3}"
  ! grep -qE '^(epoch|trained)' error.out || fail "cannot write $1: a step is done all the same"
}
for path in no/such/x.onnx no/; do
  cannot_write $path "No such file or directory" --export $path
done
cannot_write link.onnx "it is a symbolic link" --export link.onnx
cannot_write folder.onnx "it is there and not a regular file" --export folder.onnx
cannot_write file.onnx/x.onnx "Not a directory" --export file.onnx/x.onnx
long=$(printf 'x%.0s' $(seq 300)).onnx
cannot_write "$long" "File name too long" --export "$long"
cannot_write parameters_folder/w.npy "it is there and not a regular file" --save-parameters parameters_folder
[ -z "$(find . -name '.ashlar-*')" ] || fail "something is left behind"
