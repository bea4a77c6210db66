# SPDX-License-Identifier: Apache-2.0
#
# The same model and job give the same bytes: in another folder, under other names, and from a strategy that the compiler saved.

. "$(dirname "$0")/common.sh"

rm -rf one two
mkdir -p one two/deeper
for job in "$jobs"/*.txtpb; do
  name=$(basename "$job" .txtpb)
  model=$(model_of "$name")
  # A strategy needs a mesh: jobs without one run on two devices here.
  mesh=()
  grep -q '^mesh' "$job" || mesh=(--mesh dp=2)
  "$tools/ashlar-zoo" $model -o one/model.onnx
  cp one/model.onnx two/deeper/other.onnx
  cp "$job" two/deeper/other.txtpb
  strategy=() # in mode HYBRID the layouts are in the model: there is none to save
  grep -q '^mode: HYBRID' "$job" || strategy=(--save-strategy one/strategy.txtpb)
  "$tools/ashlarc" one/model.onnx --job "$job" "${mesh[@]}" "${strategy[@]}" -o "one/$name"
  (cd two/deeper && TMPDIR=$PWD "$tools/ashlarc" other.onnx --job other.txtpb "${mesh[@]}" -o out)
  cmp "one/$name" two/deeper/out || fail "$name depends on where it is compiled"
  [ ${#strategy[@]} != 0 ] || continue
  "$tools/ashlarc" one/model.onnx --job "$job" "${mesh[@]}" --load-strategy one/strategy.txtpb -o one/loaded
  cmp "one/$name" one/loaded || fail "$name changes when its own strategy is loaded"
done
[ -e one/mlp ] && [ -e one/mlp_tensor_parallel ] || fail "no jobs were compiled"
