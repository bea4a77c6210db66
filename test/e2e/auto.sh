# SPDX-License-Identifier: Apache-2.0
#
# Layouts that the compiler finds: the programs do what one rank does, a saved strategy is the same program, and a limit of memory is kept where data
# parallelism breaks it.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=1 -o one
./one --steps 30 --log-every 5 --threads 1 > one.log
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_auto.txtpb" --save-strategy strategy.txtpb --report auto.json -o auto
mpirun -n 8 ./auto --steps 30 --log-every 5 --threads 1 > auto.log
expect_close one.log auto.log 1e-4

# The step is predicted to take no longer than that of any other strategy, and what the search chose is proven to be the best.
python3 - <<'PYTHON' || fail "the report of the search is wrong"
import json
search = json.load(open("auto.json"))["search"]
steps = {each["name"]: each["step_ns"] for each in search["strategies"]}
assert set(steps) == {"propagation", "data parallel", "search"}, steps
assert steps[search["taken"]] == min(steps.values()), search
assert 0 < search["cost_ns"] == search["bound_ns"], search
PYTHON

# Of meshes that are equally fast the one of fewest axes is taken.
"$tools/ashlar-zoo" linear -o linear.onnx
{ echo 'mode: AUTO mesh { devices: 4 }'; cat "$jobs/linear.txtpb"; } > linear.txtpb
"$tools/ashlarc" linear.onnx --job linear.txtpb --explain > linear.explained
times=$(sed -n 's/.*outer=.,inner=[12]: \(.*\) a step predicted, .*/\1/p' linear.explained | sort | uniq -c)
[[ $times =~ ^\ *2\ [^$'\n']*$ ]] || fail "no two meshes are equally fast: $(cat linear.explained)"
grep -q '^meshes *outer=4,inner=1: .*; taken$' linear.explained || fail "another mesh is taken: $(cat linear.explained)"

# The rules that --explain prints, in mode SEMI_AUTO, lead to the same layouts of variables, inputs, outputs and all that has a name, and to
# other ones of as many tensors as it says. check_rules MODEL JOB
check_rules() {
  "$tools/ashlarc" "$1.onnx" --job "$2" --explain --report "$1.json" --save-strategy "$1.found" > "$1.explained"
  { sed 's/^mode: AUTO/mode: SEMI_AUTO/' "$2"; sed -n 's/^ *\(rules {.*}\)$/\1/p' "$1.explained"; } > "$1.rules.txtpb"
  "$tools/ashlarc" "$1.onnx" --job "$1.rules.txtpb" --save-strategy "$1.inferred"
  python3 - "$1" << 'PYTHON' || fail "the rules for $1 lead to other layouts than were found"
import json, re, sys

def layouts(path):
    """The layouts of variables, arguments and results, and those of ops, in their order; how many operands ops are told how to take."""
    named, ops, told, blocks = [], [], 0, []
    for line in open(path):
        line = line.strip()
        if line.endswith("{"):
            blocks.append(line[:-2])
        elif line == "}":
            blocks.pop()
        elif line.startswith("layout:"):
            (ops if "ops" in blocks else named).append(line)
        elif line.startswith("operands:"):
            told += line != 'operands: ""'
    assert not blocks and named and ops
    return named, ops, told

model = sys.argv[1]
report = json.load(open(model + ".json"))
search = report["search"]
assert search["rules"] and search["rules_are"] in ("shortest", "minimal"), search["rules_are"]
explained = open(model + ".explained").read()
for rule in search["rules"]:
    priority = f' priority: {rule["priority"]}' if rule["priority"] else ""
    assert f'rules {{ match: "{rule["match"]}" layout: "{rule["layout"]}"{priority} }}' in explained, rule
(found, found_ops, told), (inferred, inferred_ops, _) = layouts(model + ".found"), layouts(model + ".inferred")
assert found == inferred, [pair for pair in zip(found, inferred) if pair[0] != pair[1]]
assert len(found_ops) == len(inferred_ops)
others = told + sum(a != b for a, b in zip(found_ops, inferred_ops))
assert others == search["others"], (others, search["others"])
# What the choice was against: each block once. Step and memory are those of the programs.
blocks = [each["block"] for each in search["runners_up"]]
assert blocks and len(set(blocks)) == len(blocks), blocks
assert all(" instead of " in each["differs"] for each in search["runners_up"])
taken = {each["name"]: each for each in search["strategies"]}[search["taken"]]
assert taken["lowered"] and taken["step_ns"] == report["programs"][0]["predicted_ns"], (taken, report["programs"][0])
assert taken["bytes"] <= report["memory"]["bytes"], (taken, report["memory"])
PYTHON
}
check_rules mlp "$jobs/mlp_auto.txtpb"

# A second compilation, and one with the saved strategy, end in the same executable.
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_auto.txtpb" -o again
cmp auto again || fail "two compilations differ"
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp_auto.txtpb" --load-strategy strategy.txtpb -o loaded
mpirun -n 8 ./loaded --steps 30 --log-every 5 --threads 1 > loaded.log
expect_same_losses auto.log loaded.log "the saved strategy is another program"

# The mesh is found, too: a program for four ranks, the same one from its saved strategy, and the fastest of what plan lists.
sed '/^mesh {/,/^}/d' "$jobs/mlp_auto.txtpb" > open.txtpb
"$tools/ashlarc" mlp.onnx --job open.txtpb --mesh 4 --report mesh.json --save-strategy mesh.txtpb -o found
[ "$(ranks_of found)" = 4 ] || fail "a program for 4 devices is for $(ranks_of found) ranks"
mpirun -n 4 ./found --steps 30 --log-every 5 --threads 1 > found.log
expect_close one.log found.log 1e-4
"$tools/ashlarc" mlp.onnx --job open.txtpb --mesh 4 --load-strategy mesh.txtpb -o loaded
cmp found loaded || fail "a saved strategy with its mesh is another program"
"$tools/ashlarc" plan mlp.onnx --job open.txtpb --mesh 4 --json meshes.json > meshes.txt
python3 - <<'PYTHON' || fail "plan and report of the search for a mesh disagree"
import json
report, plan = json.load(open("mesh.json"))["mesh_search"], json.load(open("meshes.json"))["meshes"]
assert report["looked_at"] == len(plan) and report["not_looked_at"] == 0, (report, len(plan))
assert [each["step_ns"] for each in report["meshes"]] == [each["step_ns"] for each in plan if "step_ns" in each]
steps = [each["step_ns"] for each in plan if "step_ns" in each]
assert steps == sorted(steps) and steps[0] < steps[-1], steps
assert {each.get("stages", 1) for each in plan} >= {1, 2, 4}, plan
for each in plan:
    devices = each.get("stages", 1)
    for axis in each["mesh"]:
        devices *= axis["size"]
    assert devices == each["devices"] == 4, each
PYTHON
expect_error "holds the layouts of 4 devices, and the job's mesh has 8" "$tools/ashlarc" mlp.onnx --job open.txtpb --mesh 8 --load-strategy mesh.txtpb -o loaded
expect_error "holds the layouts of a mesh, but not the mesh" "$tools/ashlarc" mlp.onnx --job open.txtpb --mesh 8 --load-strategy strategy.txtpb -o loaded
{ cat open.txtpb; echo 'accumulate: 2'; } > other.txtpb
expect_error "recompute the search found none, and the job has accumulate: 2; leave the job's own out" "$tools/ashlarc" mlp.onnx --job other.txtpb --mesh 4 --load-strategy mesh.txtpb -o loaded
expect_error "a device may hold 1.0 MB, and the smallest of" "$tools/ashlarc" mlp.onnx --job open.txtpb --mesh 4 --memory 1MB --search-effort 0.02 -o small

# Layouts for the stages of a pipeline that the job has.
{ cat "$jobs/mlp_auto.txtpb"; echo 'pipeline { stages: 2 micro_batches: 8 }'; } > stages.txtpb
"$tools/ashlarc" mlp.onnx --job stages.txtpb --mesh dp=2 --explain -o stages > stages.txt
grep -q "^search  *propagation: " stages.txt || fail "nothing says how the layouts of stages were found"
mpirun -n 4 ./stages --steps 30 --log-every 5 --threads 1 > stages.log
expect_close one.log stages.log 1e-4

# A transformer: all layouts are found, with and without a limit, by both methods.
python3 "$(dirname "$0")/write_tokens.py" data 50 16
"$tools/ashlar-zoo" transformer --seed 2 --width 192 -o transformer.onnx
check_rules transformer "$jobs/transformer_auto.txtpb"
sed '/^mode:/d; /^mesh {/,/^}/d' "$jobs/transformer_auto.txtpb" > single.txtpb
"$tools/ashlarc" transformer.onnx --job single.txtpb -o single
./single --data data --steps 4 --log-every 1 --threads 1 > single.log
sed 's/^mode: AUTO/mode: DATA_PARALLEL/' "$jobs/transformer_auto.txtpb" > data_parallel.txtpb
expect_error "but the memory is 12.00 MB" "$tools/ashlarc" transformer.onnx --job data_parallel.txtpb --memory 12MB -o whole
for search in DYNAMIC_PROGRAMMING ILP; do
  { cat "$jobs/transformer_auto.txtpb"; echo "search: $search"; } > $search.txtpb
  "$tools/ashlarc" transformer.onnx --job $search.txtpb --memory 12MB --search-effort 0.2 -o limited
  mpirun -n 4 ./limited --data data --steps 4 --log-every 1 --threads 1 > $search.log
  expect_close single.log $search.log 1e-5 # sums in another order
done

# A convolutional network, with states and statistics.
"$tools/ashlar-zoo" resnet --expanded-loss -o resnet.onnx
check_rules resnet "$jobs/resnet50_auto.txtpb"

# What data parallelism fits is not refused: evaluation is laid out as the step, whose layouts the search finds.
"$tools/ashlar-zoo" lenet -o lenet.onnx
cat > lenet.txtpb << 'EOF'
mesh { axes { name: "a" size: 2 } axes { name: "b" size: 2 } }
global_batch: 64
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { adamw {} learning_rate: 0.01 }
dataset {
  digits { train_samples: 640 }
  features { column: "image" tensor: "input" transforms { rescale { scale: 0.0039 } } }
  features { column: "label" tensor: "labels" }
}
EOF
{ cat lenet.txtpb; echo 'mode: AUTO'; } > lenet_auto.txtpb
{ cat lenet.txtpb; echo 'mode: DATA_PARALLEL'; } > lenet_data.txtpb
for memory in 4.0MB 4.2MB 6MB; do
  "$tools/ashlarc" lenet.onnx --job lenet_auto.txtpb --memory $memory -o lenet || fail "LeNet does not fit $memory"
  mpirun -n 4 ./lenet --eval --steps 3 > lenet.log || fail "LeNet does not run within $memory"
done
"$tools/ashlarc" lenet.onnx --job lenet_auto.txtpb --report lenet.json
python3 - << 'EOF' || fail "evaluation of LeNet holds more than a step"
import json
programs = {program["name"]: program["temporary_bytes"] for program in json.load(open("lenet.json"))["programs"]}
assert 0 < programs["eval_step"] <= programs["train_step"], programs
EOF

# The deterministic variant, which nobody asked for, is left out where it alone does not fit.
"$tools/ashlarc" lenet.onnx --job lenet_data.txtpb --memory 4.2MB -o lenet 2> note.log || { cat note.log >&2; fail "LeNet does not fit without its deterministic variant"; }
grep -q '^note: lenet: the deterministic variant is left out: with 2 devices a rank it needs [0-9.]* MB, but the memory is 4.20 MB; ' note.log ||
  { cat note.log >&2; fail "no note tells of the variant"; }
mpirun -n 4 ./lenet --eval --steps 3 > lenet.log || fail "LeNet does not run without its deterministic variant"
expect_error "--deterministic: the variant was left out: with 2 devices a rank it needs" mpirun -n 4 ./lenet --deterministic
{ cat lenet_data.txtpb; echo 'deterministic {}'; } > lenet_asked.txtpb
expect_error "error: lenet: the deterministic program, 2 devices a rank, needs" "$tools/ashlarc" lenet.onnx --job lenet_asked.txtpb --memory 4.2MB -o lenet
"$tools/ashlarc" lenet.onnx --job lenet_data.txtpb --memory 6MB -o lenet 2> note.log && [ ! -s note.log ] || { cat note.log >&2; fail "a variant that fits is not there"; }

# Gradients of micro-batches are summed once a step, and the search counts them so: two layers of a GPT, 64 GPUs, against the rules that an expert writes.
"$tools/ashlar-zoo" transformer --no-data --layers 2 --width 4096 --heads 32 --sequence 4096 --vocabulary 50304 -o gpt.onnx
cat > gpt.txtpb << 'JOB'
mesh { axes { name: "dp" size: 32 } axes { name: "tp" size: 2 } }
accumulate: 8
global_batch: 256
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { adamw { weight_decay: 0.1 } learning_rate: 0.0003 clip_global_norm: 1 }
precision: BF16_MIXED
optimizer_parallel { level: 1 }
machine { preset: H100 }
dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }
init { match: "*norm*.weight" fill: 1 }
init { match: "*.bias" fill: 0 }
init { match: "*" normal { std: 0.02 } }
JOB
{ cat gpt.txtpb; echo "mode: AUTO"; } > gpt_auto.txtpb
{ cat gpt.txtpb; echo 'mode: SEMI_AUTO rules { match: "tokens" layout: "[{dp}, {}]" }'
  for columns in '*.attention.query' '*.attention.key' '*.attention.value' '*.mlp.up' head; do echo "rules { match: \"$columns.weight\" layout: \"[{}, {tp}]\" }"; done
  for rows in '*.attention.projection' '*.mlp.down' embedding; do echo "rules { match: \"$rows.weight\" layout: \"[{tp}, {}]\" }"; done; } > gpt_rules.txtpb
for mesh in dp=32,tp=2 dp=8,tp=8; do
  for job in gpt_auto gpt_rules; do
    "$tools/ashlarc" plan gpt.onnx --job "$job.txtpb" --mesh $mesh --target cuda --json "$job.json" > "$job.plan"
  done
  python3 - << 'PYTHON' || fail "$mesh: the search is slower than the rules of an expert"
import json
found, rules = (json.load(open(f"gpt_{name}.json"))["meshes"][0]["step_ns"] for name in ("auto", "rules"))
assert found <= rules, (found, rules)
PYTHON
done

# What moves in each micro-batch besides is not counted once: where the job asks for a sum in each micro-batch, the search finds no faster step.
"$tools/ashlar-zoo" transformer --layers 1 --width 512 --sequence 32 --heads 8 --no-data -o small.onnx
{ sed '/^mesh\|^accumulate\|^global_batch\|^precision\|^optimizer_parallel\|^machine/d' gpt.txtpb
  echo 'mode: AUTO mesh { axes { name: "dp" size: 8 } } accumulate: 8 global_batch: 64'; } > small_auto.txtpb
{ cat small_auto.txtpb; echo 'gradient_sync: MICRO_BATCH'; } > small_each.txtpb
for job in small_auto small_each; do "$tools/ashlarc" plan small.onnx --job "$job.txtpb" --json "$job.json" > "$job.plan"; done
python3 - << 'PYTHON' || fail "the search is slower where it may do more"
import json
free, each = (json.load(open(f"small_{name}.json"))["meshes"][0]["step_ns"] for name in ("auto", "each"))
assert free <= each, (free, each)
PYTHON

# A limit that nothing keeps is told with what the smallest strategy takes.
expect_error "the smallest strategy that was found" "$tools/ashlarc" transformer.onnx --job "$jobs/transformer_auto.txtpb" --memory 4MB --search-effort 0.1 -o small
