# SPDX-License-Identifier: Apache-2.0
#
# A plugin adds an op with sharding rule, gradient, scalar form and reference semantics, its ONNX op, and a pass (examples/plugin). A net with
# the op trains to PyTorch's numbers on one rank and on two, whichever way it is sharded; the pass makes the spelled-out net the same program.

. "$(dirname "$0")/common.sh"
source=$(dirname "$0")
plugin=$tools/../lib/tanhexp.so

python3 "$source/plugin_model.py" model plugin.onnx
python3 "$source/plugin_model.py" spelled spelled.onnx
python3 "$source/plugin_model.py" data data
write_job() {
  echo "$1 global_batch: 16 loss { mean_squared_error { prediction: \"output\" target: \"target\" } } optimizer { sgd {} learning_rate: 0.1 }
    dataset { npy {} shuffle: false features { column: \"x\" tensor: \"x\" } features { column: \"target\" tensor: \"target\" } }"
}
write_job '' > one.txtpb
write_job 'mode: DATA_PARALLEL mesh { axes { name: "dp" size: 2 } }' > dp.txtpb
write_job 'mode: SEMI_AUTO mesh { axes { name: "tp" size: 2 } } rules { match: "fc1.weight" layout: "[{tp}, {}]" }' > tp.txtpb

# expect_torch LOG: the 20 losses are PyTorch's, to the error of f32.
expect_torch() {
  paste <(losses "$1") "$source/plugin_losses.txt" | awk '{ d = $1 - $2; if (d < 0) d = -d; n += d <= 2e-6 * (1 + $2) } END { exit !(NR == 20 && n == 20) }' ||
    fail "$1: losses are not those of PyTorch: $(losses "$1" | tr '\n' ' ')"
}
for ranks in 1:one 2:dp 2:tp; do
  job=${ranks#*:}
  "$tools/ashlarc" plugin.onnx --job $job.txtpb --load-plugin "$plugin" -o $job
  mpirun -n "${ranks%:*}" ./$job --data data --log-every 1 > $job.log
  expect_torch $job.log
done

# The sharding rule takes the split of the hidden units through the op: the one sum is that of the second product.
"$tools/ashlarc" plugin.onnx --job tp.txtpb --load-plugin "$plugin" --emit dist -o tp.mlir
grep -q 'demo.tanhexp .* tensor<16x4xf32>' tp.mlir || fail "the op is not sharded"
[ "$(grep -c 'dist.all_gather' tp.mlir)" = 0 ] || fail "something is gathered for the op"

# Each tool and target has the op: the plan, the interpreter behind each pass, code for GPUs.
"$tools/ashlarc" plan plugin.onnx --job dp.txtpb --load-plugin "$plugin" > plan.txt
"$tools/ashlarc" plugin.onnx --job one.txtpb --load-plugin "$plugin" --emit nn -o one.mlir
"$tools/ashlarc" plugin.onnx --load-plugin "$plugin" --emit nn -o forward.mlir
"$tools/ashlar-opt" --load-plugin="$plugin" --pass-pipeline='builtin.module(ashlar-interpret{function=init,forward})' forward.mlir > interpreted.txt
grep -q . interpreted.txt || fail "the interpreter prints nothing"

# The pass finds the op where it is spelled out: the same program.
"$tools/ashlarc" spelled.onnx --job one.txtpb --load-plugin "$plugin" --emit nn -o spelled.mlir
cmp one.mlir spelled.mlir || fail "the spelled-out net is another program"
"$tools/ashlarc" spelled.onnx --job one.txtpb -o alone
./alone --data data --log-every 1 > alone.log
expect_torch alone.log

# expect_error TEXT COMMAND...: fails with one line, which has the text.
expect_error() {
  local text=$1 status=0
  shift
  "$@" > error.txt 2>&1 || status=$?
  [ $status != 0 ] || fail "$* succeeds"
  [ "$(wc -l < error.txt)" = 1 ] && grep -qF -- "$text" error.txt || fail "$*: not one line with \"$text\": $(cat error.txt)"
}
compile=("$tools/ashlarc" plugin.onnx --job one.txtpb -o none)
expect_error 'demo.TanhExp (node "a", opset 13); --load-plugin adds ops' "${compile[@]}"
expect_error 'plugin nowhere.so: there is no such file' "${compile[@]}" --load-plugin nowhere.so
expect_error 'plugin one.txtpb: ' "${compile[@]}" --load-plugin one.txtpb
expect_error 'imports the ONNX op demo.TanhExp, which the compiler or another plugin imports already' \
  "${compile[@]}" --load-plugin "$plugin" --load-plugin "$plugin"
echo 'int unrelated;' | clang-22 -x c -shared -fPIC - -o empty.so
expect_error 'plugin empty.so: exports no ashlarGetPluginInfo' "${compile[@]}" --load-plugin empty.so
expect_error 'plugin empty.so: exports no ashlarGetPluginInfo' "$tools/ashlar-opt" --load-plugin=empty.so forward.mlir
version='struct { unsigned version; const char *llvm; void *more[4]; } info = '
return='; void *ashlarGetPluginInfo(void) { return &info; }'
echo "$version{ 99, \"\" }$return" | clang-22 -x c -shared -fPIC - -o version.so
expect_error 'plugin version.so: is for version 99 of the plugin interface but this compiler has version 1; build it again' \
  "${compile[@]}" --load-plugin version.so
echo "$version{ 1, \"3.0\" }$return" | clang-22 -x c -shared -fPIC - -o llvm.so
expect_error 'plugin llvm.so: was built with LLVM 3.0 but this compiler with LLVM' "${compile[@]}" --load-plugin llvm.so
[ ! -e none ] || fail "a refused plugin leaves an executable"
