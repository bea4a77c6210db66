# SPDX-License-Identifier: Apache-2.0
#
# Every job of docs/jobs compiles for the mesh it names and runs on that many ranks; what `ashlarc plan` says of it is what the program has.

. "$(dirname "$0")/common.sh"

python3 "$(dirname "$0")/write_tokens.py" data 50 16
python3 "$(dirname "$0")/write_rows.py" data
for job in "$jobs"/*.txtpb; do
  name=$(basename "$job" .txtpb)
  case $name in resnet50_*) continue ;; esac # train_resnet runs them with smaller images
  model=$(model_of "$name")
  # shellcheck disable=SC2086 # a name and its options
  "$tools/ashlar-zoo" $model -o "$name.onnx"
  "$tools/ashlarc" "$name.onnx" --job "$job" -o "$name" --report "$name.json"
  if ! grep -qE '^mode: HYBRID|mesh { devices:' "$job"; then # one device's program; else the plan lists many meshes
    "$tools/ashlarc" plan "$name.onnx" --job "$job" --json plan.json > plan.log
    runs=$(sed -n 's/^accumulate[a-z_]*: \([0-9]*\).*/\1/p' "$job")
    python3 "$(dirname "$0")/../driver/plan_against_report.py" plan.json "$name.json" "${runs:-1}" || fail "the plan of $name is not that of its program"
  fi
  ranks=$(ranks_of "$name")
  [ -n "$ranks" ] || fail "the plan of $name names no ranks"
  data=$(grep -q "npy {" "$job" && echo "--data data" || true)
  # shellcheck disable=SC2086 # an option and its value, or nothing
  mpirun -n "$ranks" "./$name" $data --steps 3 --log-every 1 > "$name.log"
  [ "$(losses "$name.log" | wc -l)" = 3 ] || fail "$name does not print 3 losses"
done
