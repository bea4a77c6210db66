# SPDX-License-Identifier: Apache-2.0
#
# Searches are bounded by work that they count: beside busy processes they find the same layouts and meshes as on a quiet machine, to the
# last byte. Only the safety net in seconds depends on the machine, and is reported when it ends a search.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" transformer --no-data --layers 2 --width 256 --heads 8 --sequence 128 --vocabulary 1024 -o model.onnx
cat > open.txtpb << 'EOF'
mode: AUTO
global_batch: 64
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { adamw {} learning_rate: 0.001 }
machine { preset: H100 }
dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }
init { match: "*" fill: 0.01 }
EOF
{ cat open.txtpb; echo 'mesh { axes { name: "dp" size: 4 } axes { name: "tp" size: 4 } }'; } > layouts.txtpb
{ cat layouts.txtpb; echo 'search: ILP'; } > integer.txtpb

# Searches, with so little effort that it ends before all is found. find_all FOLDER
find_all() {
  mkdir -p "$1"
  local job
  for job in layouts integer; do
    "$tools/ashlarc" model.onnx --job $job.txtpb --target cuda --search-effort 0.02 --save-strategy "$1/$job.strategy" --explain > "$1/$job.explained"
  done
  "$tools/ashlarc" plan model.onnx --job open.txtpb --mesh 16 --target cuda --search-effort 0.01 --json "$1/meshes.json" > "$1/meshes.txt"
}

find_all quiet
grep -q 'more were not looked at; a larger --search-effort does$' quiet/meshes.txt || fail "the effort bounds no search for a mesh"
grep -q 'no choices cost [0-9.]* % less' quiet/layouts.explained || fail "the effort bounds no search for layouts"
spinners=()
trap 'kill "${spinners[@]}" 2> /dev/null || true' EXIT
for _ in 1 2 3 4 5 6 7 8; do
  while :; do :; done &
  spinners+=($!)
done
find_all busy
kill "${spinners[@]}"
diff -r quiet busy || fail "a busy machine finds other layouts or meshes"
! grep -q 'the search stopped' quiet/* || fail "the clock ended a search that had all the time"

# More effort looks at more meshes, and finds no slower one.
"$tools/ashlarc" plan model.onnx --job open.txtpb --mesh 16 --target cuda --search-effort 0.04 --json more.json > /dev/null
python3 - << 'EOF' || fail "more effort finds less"
import json
few, more = (json.load(open(path)) for path in ("quiet/meshes.json", "more.json"))
assert len(few["meshes"]) < len(more["meshes"]), (len(few["meshes"]), len(more["meshes"]))
assert more["meshes"][0]["step_ns"] <= few["meshes"][0]["step_ns"], (few["meshes"][0], more["meshes"][0])
EOF

# The net: one line on stderr, one in each report.
stopped='the search stopped after 0.001 s (--search-seconds); another machine may find another result'
"$tools/ashlarc" plan model.onnx --job open.txtpb --mesh 16 --target cuda --search-seconds 0.001 --json net.json > net.txt 2> net.log
[ "$(cat net.log)" = "warning: $stopped" ] || { cat net.log >&2; fail "no warning that the clock ended a search for a mesh"; }
[ "$(tail -n 1 net.txt)" = "$stopped" ] || { cat net.txt >&2; fail "no line in the table that the clock ended the search"; }
grep -q '"stopped_after_s": 0.001,' net.json || fail "nothing in the JSON that the clock ended the search"
"$tools/ashlarc" model.onnx --job layouts.txtpb --target cuda --search-seconds 0.001 --explain --report layouts.json > net.txt 2> net.log
[ "$(cat net.log)" = "warning: $stopped" ] || { cat net.log >&2; fail "no warning that the clock ended a search for layouts"; }
grep -qF "$stopped" net.txt || { cat net.txt >&2; fail "--explain does not report that the clock ended the search"; }
python3 -c 'import json; assert json.load(open("layouts.json"))["search"]["stopped_after_s"] == 0.001' || fail "nothing in the report that the clock ended the search"
