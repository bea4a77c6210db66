# SPDX-License-Identifier: Apache-2.0
#
# A Scan, an LSTM in both directions and a GRU: all their parameters learn, and training does not depend on the number of ranks. Samples
# stay split through all steps: ranks only send gradients.

. "$(dirname "$0")/common.sh"

python3 "$(dirname "$0")/recurrent_model.py" recurrent.onnx
"$tools/ashlarc" recurrent.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o 1 2> warnings.txt
! grep "is not trained" warnings.txt || fail "a parameter is not trained"
./1 --plan > plan.txt
grep -q '^parameters   9 tensors' plan.txt || fail "other parameters than those of the model: $(grep ^parameters plan.txt)"
./1 --steps 200 --log-every 50 --threads 1 > 1.log
"$tools/ashlarc" recurrent.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 -o 2
mpirun -n 2 ./2 --steps 200 --log-every 50 --threads 1 > 2.log
expect_close 1.log 2.log 1e-4
losses 1.log | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < 0.8 * first) }' || fail "the loss does not fall: $(losses 1.log)"

"$tools/ashlarc" recurrent.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 --emit dist -o 2.mlir
! grep 'dist.all_gather\|dist.all_to_all\|dist.permute' 2.mlir || fail "states or inputs of steps are sent"
[[ $(grep -c 'nn.repeat' 2.mlir) -ge 8 ]] || fail "loops are written out: $(grep -c 'nn.repeat' 2.mlir) are left"

# Computed again in segments: the same losses, with fewer bytes.
{ cat "$jobs/mlp.txtpb"; echo 'rules { match: "*" recompute: true }'; } > segments.txtpb
for ranks in 1 2; do
  "$tools/ashlarc" recurrent.onnx --job segments.txtpb --mesh dp=$ranks -o segments$ranks
  mpirun -n $ranks ./segments$ranks --steps 100 --log-every 50 --threads 1 > segments.log
  head -n 2 1.log > first.log
  expect_close first.log segments.log 1e-4
done
temporaries() { sed -n '/^memory/s/.* \([0-9.]*\) MB temporaries.*/\1/p' "$1"; }
./segments1 --plan > segments.txt
awk -v all="$(temporaries plan.txt)" -v some="$(temporaries segments.txt)" 'BEGIN { exit !(some != "" && some < 0.95 * all) }' ||
  fail "segments have $(temporaries segments.txt) MB of temporaries, without them it is $(temporaries plan.txt)"

# AUTO does so with as few loops as fit: none with much memory, else the largest ones first. `ashlarc plan` finds the same.
{ cat "$jobs/mlp.txtpb"; echo 'recompute: AUTO'; } > auto.txtpb
bytes() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["memory"]["bytes"])' "$1"; }
for job in mlp segments auto; do
  [ $job = mlp ] && file="$jobs/mlp.txtpb" || file=$job.txtpb
  limit=()
  if [ $job = auto ]; then
    limit=(--memory "$((($(bytes mlp.json) + $(bytes segments.json)) / 2))B")
  fi
  "$tools/ashlarc" recurrent.onnx --job "$file" --mesh dp=1 ${limit[@]+"${limit[@]}"} --report $job.json -o $job.program
done
[ "$(bytes segments.json)" -lt "$(bytes auto.json)" ] && [ "$(bytes auto.json)" -lt "$(bytes mlp.json)" ] ||
  fail "AUTO takes $(bytes auto.json) bytes, between $(bytes segments.json) and $(bytes mlp.json)"
./auto.program --steps 100 --log-every 50 --threads 1 > auto.log
expect_close first.log auto.log 1e-4
"$tools/ashlarc" recurrent.onnx --job auto.txtpb --mesh dp=1 --memory "$(bytes mlp.json)B" --report roomy.json -o roomy
[ "$(bytes roomy.json)" = "$(bytes mlp.json)" ] || fail "with $(bytes mlp.json) bytes a program of $(bytes roomy.json) is chosen"

# So does a search for the mesh, which forecasts the job without recompute first.
{ sed '/^mode/d; /^mesh/d' "$jobs/mlp.txtpb"; echo 'mode: AUTO'; } > open.txtpb
"$tools/ashlarc" plan recurrent.onnx --job open.txtpb --mesh 1 "${limit[@]}" --json open.json > open.txt
python3 - <<'PYTHON' || fail "a search for the mesh computes no loop again in segments"
import json
meshes = json.load(open("open.json"))["meshes"]
assert any(each["fits"] and each["recompute"] and each["micro_batches"] == 1 for each in meshes), meshes
PYTHON

# Code does not depend on the number of steps.
python3 "$(dirname "$0")/recurrent_model.py" long.onnx 4096
"$tools/ashlarc" long.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o long
awk -v short="$(stat -c %s 1)" -v long="$(stat -c %s long)" 'BEGIN { exit !(long < 1.1 * short) }' ||
  fail "4096 steps take $(stat -c %s long) bytes, 14 take $(stat -c %s 1)"
