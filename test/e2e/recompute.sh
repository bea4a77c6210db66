# SPDX-License-Identifier: Apache-2.0
#
# What is computed again is what was computed: the losses are those of the program that keeps all, up to the rounding of other kernels, on a mesh, in the
# stages of a pipeline and with parameters that are stored split; and a process takes less by as much as was planned. AUTO makes as few copies as fit.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" transformer -o transformer.onnx
python3 "$(dirname "$0")/write_tokens.py" data 50 16

# part REPORT NAME: bytes of a part of what a rank takes, "all" of all of them; in a pipeline of each stage, the most.
part() {
  python3 - "$@" << 'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
stages = report["pipeline"]["stages"] if "pipeline" in report else [report]
of = [{p["name"]: p["bytes"] for p in stage["memory"]["parts"]} | {"all": stage["memory"]["bytes"]} for stage in stages]
print(max(parts.get(sys.argv[2], 0) for parts in of))
PYTHON
}

# passed NAME: the bytes that the stages of a plan pass on from forward to backward programs, of all stages together.
passed() {
  python3 - "$1" <<'PYTHON'
import json, sys
stages = json.load(open(sys.argv[1]))["pipeline"]["stages"]
print(sum(p["bytes"] for stage in stages for p in stage["memory"]["parts"] if p["name"] == "passed on"))
PYTHON
}

# train NAME RANKS MODEL OPTIONS...: compiles NAME.txtpb and trains eight steps.
train() {
  local name=$1 ranks=$2 model=$3
  shift 3
  "$tools/ashlarc" "$model" --job "$name.txtpb" --report "$name.json" -o "$name.program" "$@"
  mpirun -n "$ranks" "./$name.program" --data data --steps 8 --log-every 1 --threads 1 > "$name.log" || fail "$name does not run"
}

# sent NAME KIND: bytes of the collectives of a kind, as the plan counts them: "416.5 KB".
sent() {
  "./$1.program" --plan | sed -n "s/^collectives .* $2 a step, \(.*\) sent.*/\1/p"
}

# On a mesh of data and tensor parallelism, with what the all-reduces over tp gave kept: no byte more is sent.
grep -q recompute "$jobs/transformer_recompute.txtpb" || fail "the job computes nothing again"
{ cat "$jobs/transformer_recompute.txtpb"; echo 'sequence_parallel: OFF'; } > layers.txtpb # as a rule that keeps collectives has it anyway
sed '/recompute/d' layers.txtpb > whole.txtpb
sed 's/ recompute_comm: false//' layers.txtpb > comm.txtpb
for name in whole layers comm; do
  train $name 4 transformer.onnx
  expect_close whole.log $name.log 1e-5
done
expect_less "$(part layers.json temporaries)" $(($(part whole.json temporaries) * 6 / 10)) "temporaries with layers computed again"
expect_less "$(part comm.json temporaries)" "$(part whole.json temporaries)" "temporaries with sums over tp computed again"
[ "$(sent whole all_reduce)" = "$(sent layers all_reduce)" ] || fail "recompute_comm: false sends $(sent layers all_reduce), not $(sent whole all_reduce)"
[ "$(sent whole all_reduce)" != "$(sent comm all_reduce)" ] || fail "the sums over tp are not computed again"

# AUTO between the two takes no more than it may, and not much less; and with room for all it makes no copy.
least=$(part layers.json all)
most=$(part whole.json all)
limit=$(((least + most) / 2))
{ cat whole.txtpb; echo 'recompute: AUTO'; } > auto.txtpb
train auto 4 transformer.onnx --memory "${limit}B"
expect_close whole.log auto.log 1e-5
[ "$(part auto.json all)" -le $limit ] || fail "AUTO takes $(part auto.json all) bytes of $limit"
expect_less $((limit - (most - least) / 3)) "$(part auto.json all)" "what AUTO leaves unused"
cp auto.txtpb roomy.txtpb
train roomy 4 transformer.onnx --memory "${most}B"
[ "$(part roomy.json all)" = "$most" ] || fail "AUTO makes copies though all fits: $(part roomy.json all) of $most"
expect_same_losses whole.log roomy.log "AUTO with room for all is another program"

# In the two stages of a pipeline, each with a mesh: a micro-batch keeps less for its backward pass, with weights apart too.
for schedule in ONE_F_ONE_B ZERO_BUBBLE; do
  sed "s/micro_batches: 4/micro_batches: 4 schedule: $schedule/" "$jobs/transformer_3d.txtpb" > stages.txtpb
  { cat stages.txtpb; echo 'rules { match: "layer*" recompute: true }'; } > again.txtpb
  train stages 8 transformer.onnx
  train again 8 transformer.onnx
  expect_close stages.log again.log 1e-5
  expect_less "$(passed again.json)" $(($(passed stages.json) * 9 / 10)) "$schedule: what stages keep"
done

# AUTO for stages: for the one that takes most, here the first, which has all layers.
{ sed '/^pipeline/d' "$jobs/transformer_3d.txtpb"; echo 'pipeline { stages: 2 micro_batches: 4 schedule: ONE_F_ONE_B }
rules { match: "layer*" pipeline_stage: 0 } rules { match: "head*" pipeline_stage: 1 }'; } > first.txtpb
{ cat first.txtpb; echo 'recompute: AUTO'; } > auto_first.txtpb
train first 8 transformer.onnx
limit=$(($(part first.json all) - 150000))
train auto_first 8 transformer.onnx --memory "${limit}B"
expect_close first.log auto_first.log 1e-5
[ "$(part auto_first.json all)" -le $limit ] || fail "AUTO takes $(part auto_first.json all) bytes of $limit in stages"

# Where devices store a part of each parameter: gathered again for the backward pass, or kept.
sed '/recompute/d; /"\[{tp}\|{tp}\]/d; /"tp"/d; s/level: 2/level: 3/' layers.txtpb > level.txtpb
for gather in true false; do
  { cat level.txtpb; echo "rules { match: \"layer*\" recompute: true recompute_param_gather: $gather }"; } > $gather.txtpb
  train $gather 2 transformer.onnx
done
train level 2 transformer.onnx
for gather in true false; do
  expect_close level.log $gather.log 1e-5
done
python3 - << 'PYTHON' || fail "the gathers of parameters are not those that were asked for"
import collections, json
def gathers(name):
    members = (m for c in json.load(open(name + ".json"))["collectives"] if c["kind"] == "all_gather" for m in c["members"])
    return {m: n for m, n in collections.Counter(members).items() if m.startswith("parameter layer") and m.endswith(".weight")}
again, kept, plain = gathers("true"), gathers("false"), gathers("level")
assert len(again) >= 12 and again.keys() == kept.keys() == plain.keys(), (again, kept, plain)
assert set(again.values()) == {2}, again # once for copies and gradients together
assert set(kept.values()) == {1}, kept
PYTHON

# What a process has is what was planned: less by tens of megabytes.
"$tools/ashlar-zoo" transformer --layers 8 --width 128 --sequence 128 -o large.onnx
python3 "$(dirname "$0")/write_tokens.py" long 50 128
sed '/^mode/d; /^mesh/,/^}/d; /^rules/d; /^optimizer_parallel/,/^}/d' whole.txtpb > keep.txtpb
{ cat keep.txtpb; echo 'rules { match: "layer*" recompute: true }'; } > drop.txtpb
for name in keep drop; do
  "$tools/ashlarc" large.onnx --job $name.txtpb --report $name.json -o $name.program
  python3 "$(dirname "$0")/watch_memory.py" $name.program ./$name.program --data long --steps 2 --threads 1 > $name.bytes
done
python3 -c "
held, planned = $(cat keep.bytes) - $(cat drop.bytes), $(part keep.json all) - $(part drop.json all)
print(f'a process holds {held / 1e6:.1f} MB less, {planned / 1e6:.1f} MB planned')
assert planned > 40e6 and abs(held - planned) <= 0.05 * planned" || fail "less is held than planned, or more"
