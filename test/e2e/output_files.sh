# SPDX-License-Identifier: Apache-2.0
#
# What an output may replace: no file that the run reads, no other output, nothing behind a symbolic link, no device. And what it looks like.

. "$(dirname "$0")/common.sh"

script=$(readlink -f "$(dirname "$0")/external_model.py")
classes_script=$(readlink -f "$(dirname "$0")/evaluation_model.py")
rm -rf -- work && mkdir work
cd work
python3 "$script" model.onnx weights.bin
echo 'mesh { axes { name: "dp" size: 1 } }' > job.txtpb
"$tools/ashlarc" model.onnx --job job.txtpb --save-strategy strategy.txtpb
"$tools/ashlarc" model.onnx --job job.txtpb -o program
inputs="model.onnx weights.bin job.txtpb strategy.txtpb"
md5sum $inputs > inputs.md5

# expect_refused OPTION PATH REASON: for each way to ask for more beside it, and without a file left behind.
expect_refused() {
  local before
  before=$(ls -A)
  for emit in nn obj exe; do
    local output="--emit $emit"
    [ "$1" = -o ] || output+=" -o other"
    expect_error "$3" "$tools/ashlarc" model.onnx --job job.txtpb --load-strategy strategy.txtpb --dump-phases dump $output "$1" "$2"
    [ "$(wc -l < error.log)" = 1 ] || { cat error.log >&2; fail "$1 $2: not one line"; }
    [ ! -e other ] || fail "$1 $2: other was written"
  done
  rm -rf dump
  [ "$(ls -A)" = "$before" ] || fail "$1 $2 left: $(ls -A)"
  md5sum --quiet -c inputs.md5 || fail "$1 $2 wrote to an input"
}
touch error.out error.log
mkdir folder

# However an input is spelled, and through links.
for input in $inputs; do
  ln $input hard
  ln -s $input soft
  for option in -o --report --save-strategy --annotate; do
    for path in $input ./$input folder/../$input "$PWD/$input" hard; do
      expect_refused $option "$path" "$option names $path, which is "
    done
    expect_refused $option soft "cannot write soft: it is a symbolic link"
  done
  rm hard soft
done
for name in 00-import 01-train 02-default-dist 03-default-exec; do # a phase that is written over an input
  mkdir phases
  ln model.onnx phases/$name.mlir
  expect_error "--dump-phases names phases/$name.mlir, which is the model model.onnx" \
    "$tools/ashlarc" model.onnx --job job.txtpb --dump-phases phases -o other
  rm -r phases
done
"$tools/ashlar-zoo" mlp -o mlp.onnx
md5sum mlp.onnx > mlp.md5
ln -s mlp.onnx soft
expect_error "--timeline names ./mlp.onnx, which is the model mlp.onnx" \
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" --timeline ./mlp.onnx
expect_error "cannot write soft: it is a symbolic link" "$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" --timeline soft
expect_error "error: --report and --timeline both name ./same; give each a file of its own" \
  "$tools/ashlarc" mlp.onnx --job "$jobs/mlp_pipeline_1f1b.txtpb" --report same --timeline ./same
rm soft
md5sum --quiet -c mlp.md5 || fail "the model was written to"
expect_error "error: -o and --report both name same; give each a file of its own" \
  "$tools/ashlarc" model.onnx --job job.txtpb --report same -o ./same
expect_error "error: -o and --dump-phases both name dump/00-import.mlir" "$tools/ashlarc" model.onnx --job job.txtpb --dump-phases dump -o dump/../dump/00-import.mlir
rm -rf dump
md5sum --quiet -c inputs.md5 || fail "an input was written to"

# Symbolic links are not followed, wherever they lead; folders, devices and sockets are not replaced. By the tools ...
echo mine > mine
ln -s mine link && ln -s nowhere dangling && mkfifo pipe
for path in link dangling /dev/stdout; do
  expect_refused -o $path "cannot write $path: it is a symbolic link"
  expect_error "it is a symbolic link" "$tools/ashlar-zoo" linear -o $path
done
expect_error "not a regular file" "$tools/ashlarc" model.onnx -o /dev/null
expect_error "not a regular file" "$tools/ashlarc" model.onnx --emit obj -o pipe
expect_error "not a regular file" "$tools/ashlar-zoo" linear -o folder
[ -c /dev/null ] || fail "/dev/null was replaced"
"$tools/ashlarc" model.onnx --emit nn -o /dev/null || fail "text does not go to /dev/null"
"$tools/ashlar-zoo" mlp -o /dev/null || fail "a model does not go to /dev/null"
[ -c /dev/null ] || fail "/dev/null was replaced"
timeout 10 cat pipe > piped &
"$tools/ashlarc" model.onnx --emit nn -o pipe
wait $!
"$tools/ashlarc" model.onnx --emit nn -o - > direct
cmp piped direct || fail "a pipe gets another text"
"$tools/ashlar-zoo" linear -o - > linear.onnx
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" -o linear

# ... and by executables.
python3 -c 'from npy_writer import write_npy; write_npy("x.npy", "f", (8, 2), range(16))'
ln x.npy hard.npy
for path in x.npy ./x.npy folder/../x.npy hard.npy; do
  expect_error "--output y names $path, which is the file of --input x" ./program --input x=x.npy --output y=$path
  expect_error "--trace names $path, which is the file of --input x" ./program --input x=x.npy --trace $path
done
ln program own
cp linear linear.copy
for path in linear ./linear folder/../linear; do
  expect_error "--metrics names $path, which is this executable" ./linear --steps 1 --metrics $path
done
expect_error "--output y names own, which is this executable" ./program --input x=x.npy --output y=own
cmp linear linear.copy || fail "an executable is replaced by its metrics"
mkdir -p data && python3 "$classes_script" data data 4
python3 "$classes_script" model classes.onnx
echo 'global_batch: 4 loss { softmax_cross_entropy { logits: "logits" labels: "label" } } optimizer { sgd {} learning_rate: 0.01 }
dataset { npy {} features { column: "x" tensor: "x" } features { column: "label" tensor: "label" } }' > classes.txtpb
"$tools/ashlarc" classes.onnx --job classes.txtpb -o classes
md5sum data/* > data.md5
for path in data/x_train.npy data/label_eval.npy; do # of a split that is not read, too
  for option in --metrics --export --trace; do
    expect_error "$option names $path, which is a file of --data" ./classes --data data --steps 1 $option $path
  done
done
md5sum --quiet -c data.md5 || fail "an output replaces data"
mkdir outputs
for pair in "--metrics --export" "--trace --export" "--trace --metrics"; do # in the order in which they are compared
  set -- $pair
  expect_error "error: $1 and $2 both name ./outputs/same; give each a file of its own" ./linear --steps 1 $1 ./outputs/same $2 ./outputs/same
done
for option in --metrics --export --trace; do
  expect_error "both name new/worker_0.log; give each a file of its own" ./linear --steps 1 --log-dir new $option new/worker_0.log
  expect_error "both name new/dense.weight.npy; give each a file of its own" ./linear --steps 1 --save-parameters new $option new/dense.weight.npy
  expect_error "both name new; give each a file of its own" ./linear --steps 1 --tensorboard new $option new
done
[ ! -e new ] && [ -z "$(ls -A outputs)" ] || fail "refused outputs leave files"
for path in link dangling; do
  expect_error "cannot write $path: it is a symbolic link" ./program --input x=x.npy --output y=$path
  expect_error "cannot write $path: it is a symbolic link" ./linear --steps 1 --metrics $path
  mkdir logs && ln -s ../$path logs/worker_0.log
  expect_error "cannot write logs/worker_0.log: it is a symbolic link" ./linear --steps 1 --log-dir logs
  rm -r logs
done
expect_error "not a regular file" ./program --input x=x.npy --output y=/dev/null
expect_error "not a regular file" ./linear --steps 1 --metrics folder
./linear --steps 1 --metrics /dev/null > log || fail "--metrics /dev/null"
[ -c /dev/null ] || fail "/dev/null was replaced"
timeout 10 cat pipe > piped &
./linear --steps 2 --log-every 1 --metrics pipe > log
wait $!
[ "$(wc -l < piped)" = 2 ] || fail "a pipe gets other metrics"
[ "$(cat mine)" = mine ] || fail "what a link leads to was written to"
[ ! -e nowhere ] || fail "what a dangling link leads to was written"

# What is replaced is not written to: whoever has it open, or by another name, keeps it. Permissions follow from the umask.
for command in "$tools/ashlarc model.onnx -o out" "$tools/ashlarc model.onnx --emit obj -o out" "$tools/ashlarc model.onnx --emit nn -o out" \
  "$tools/ashlarc model.onnx --job job.txtpb --report out" "$tools/ashlarc model.onnx --job job.txtpb --save-strategy out" \
  "$tools/ashlarc model.onnx --job job.txtpb --annotate out" "$tools/ashlarc mlp.onnx --job $jobs/mlp_pipeline_1f1b.txtpb --timeline out" "$tools/ashlar-zoo linear -o out" "./program --input x=x.npy --output y=out" \
  "./linear --steps 1 --metrics out"; do
  for mask in 022 077 027 000; do
    rm -f out other
    echo old > other && chmod 600 other && ln other out
    (umask $mask && $command > log) || fail "$command"
    [ "$(cat other)" = old ] || fail "$command writes to the file that it replaces"
    bits=666
    [ "$command" != "$tools/ashlarc model.onnx -o out" ] || bits=777
    expected=$(printf '%o' $((0$bits & ~0$mask)))
    [ "$(stat -c %a out)" = "$expected" ] || fail "$command under umask $mask has the permissions $(stat -c %a out), not $expected"
  done
done
[ -z "$(find . -name '.ashlar-*')" ] || fail "left behind: $(find . -name '.ashlar-*')"
