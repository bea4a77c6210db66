# SPDX-License-Identifier: Apache-2.0
#
# ashlar-sim on executables: the step and every run are those of the compiler's own prediction, to the nanosecond, where nothing is shared; traces, faults,
# another machine, bad input.

. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
sim=$tools/ashlar-sim

# compile JOB [OPTION...]: the executable JOB and its report JOB.json.
compile() {
  local name=$1 model
  shift
  model=$(model_of "$name")
  # shellcheck disable=SC2086 # a name and its options
  "$tools/ashlar-zoo" $model -o "$name.onnx"
  "$tools/ashlarc" "$name.onnx" --job "$jobs/$name.txtpb" -o "$name" --report "$name.json" "$@"
}

# expect_line MESSAGE ARGUMENT...: ashlar-sim fails with this one line.
expect_line() {
  local message=$1
  shift
  "$sim" "$@" > out.log 2> error.log && fail "ashlar-sim $* did not fail"
  [ "$(cat error.log)" = "error: $message" ] || fail "ashlar-sim $* reports $(cat error.log), not $message"
  [ ! -s out.log ] || fail "ashlar-sim $* prints something before its error"
}

for name in linear mlp mlp_2d mlp_adamw mlp_zero1 mlp_zero3 mlp_hsdp mlp_tensor_parallel transformer_tensor_parallel transformer_sequence_parallel \
  mlp_pipeline_gpipe mlp_pipeline_1f1b mlp_pipeline_interleaved mlp_pipeline_zero_bubble transformer_3d; do
  compile "$name"
  "$sim" "$name" --json "$name.sim.json" > "$name.log"
  python3 "$here/check_simulation.py" "$name.json" "$name.sim.json" || fail "$name is not simulated as it was planned"
done

# Two micro-batches, whose data comes slowly: the second one of 128 samples is there after 128 ms, and takes 1.4 ms and the update.
compile mlp_zero2
"$sim" mlp_zero2 --json mlp_zero2.sim.json > mlp_zero2.log
python3 "$here/check_simulation.py" mlp_zero2.json mlp_zero2.sim.json 2 || fail "mlp_zero2 is not simulated as it was planned"
"$sim" mlp_zero2 --data-rate 1000 > data.log
grep -q "^step  *129\.[0-9] ms;" data.log || fail "slow data takes another time: $(cat data.log)"

# Four hosts of two ranks: messages between the stages, and sums over dp, go by the same adapters.
echo 'machine { ranks_per_host: 2 inter_host { latency_us: 5 bandwidth_gb_per_s: 1 } }' > hosts.txtpb
compile transformer_3d --machine hosts.txtpb
"$sim" transformer_3d --json shared.json > shared.log
python3 "$here/check_simulation.py" --shared transformer_3d.json shared.json || fail "stages do not share adapters: $(cat shared.log)"

# The line of --plan has the same number.
planned=$(./mlp_pipeline_1f1b --plan | sed -n 's/.*a step takes \([0-9.]* [a-z]*\) predicted.*/\1/p')
grep -q "^step  *$planned;" mlp_pipeline_1f1b.log || fail "--plan has $planned, ashlar-sim $(grep ^step mlp_pipeline_1f1b.log)"
python3 "$here/../driver/printed.py" "$jobs/../simulate.md" "ashlar-sim ./mlp" < mlp_pipeline_1f1b.log

# Symbols are not needed; the file is read only.
cp mlp_pipeline_1f1b stripped
strip stripped
chmod 400 stripped
"$sim" stripped --json - > stripped.json
cmp stripped.json mlp_pipeline_1f1b.sim.json || fail "a stripped executable is simulated otherwise"

# Two hosts of two ranks, with overlap: the same links by a file as in the job.
compile mlp_zero1 --machine hosts.txtpb
"$sim" mlp_zero1 --json planned.json > planned.log
python3 "$here/check_simulation.py" mlp_zero1.json planned.json || fail "a job on two hosts is not simulated as it was planned"
"$sim" mlp_zero1 --json given.json --machine hosts.txtpb > given.log
cmp planned.json given.json || fail "the machine of a file is another one"
grep -qx "machine      links of hosts.txtpb" given.log || fail "the machine is not named"
echo 'machine { ranks_per_host: 2 inter_host { latency_us: 5 bandwidth_gb_per_s: 0.1 } }' > slow.txtpb
"$sim" mlp_zero1 --machine slow.txtpb --json slow.json > slow.log
python3 - planned.json slow.json << 'END' || fail "slower links do not make the step longer"
import json, sys
planned, slow = (json.load(open(name))["step_ns"] for name in sys.argv[1:])
sys.exit(slow <= planned)
END

# Two pods of two hosts of a rank, with an uplink each: sums over four ranks go between pods, as planned, and longer than between hosts.
echo 'machine { ranks_per_host: 1 inter_host { latency_us: 5 bandwidth_gb_per_s: 1 } hosts_per_pod: 2 uplinks_per_pod: 1 inter_pod { latency_us: 8 } }' > pods.txtpb
compile mlp_zero1 --machine pods.txtpb
"$sim" mlp_zero1 --json planned_pods.json > planned.log
python3 "$here/check_simulation.py" mlp_zero1.json planned_pods.json || fail "a job in two pods is not simulated as it was planned"
"$sim" mlp_zero1 --json given.json --machine pods.txtpb > given.log
cmp planned_pods.json given.json || fail "the pods of a file are others"
sed 's/ hosts_per_pod.*} }/ }/' pods.txtpb > hosts_alone.txtpb
"$sim" mlp_zero1 --json hosts_alone.json --machine hosts_alone.txtpb > given.log
"$sim" mlp_zero1 --json slow_pods.json --fault slow-link=inter_pod:2 > fault.log
python3 - hosts_alone.json planned_pods.json slow_pods.json << 'END' || fail "uplinks do not make the step longer, or slow ones not longer still"
import json, sys
alone, pods, slow = (json.load(open(name))["step_ns"] for name in sys.argv[1:])
sys.exit(not alone < pods < slow)
END

# Stages of four ranks on three hosts of a pod and one of the next: messages between stages, and sums, use one uplink.
echo 'machine { ranks_per_host: 2 inter_host { latency_us: 5 bandwidth_gb_per_s: 1 } hosts_per_pod: 3 uplinks_per_pod: 1 inter_pod { latency_us: 8 } }' > pods.txtpb
compile transformer_3d --machine pods.txtpb
"$sim" transformer_3d --json shared.json > shared.log
python3 "$here/check_simulation.py" --shared transformer_3d.json shared.json || fail "stages do not share uplinks: $(cat shared.log)"

# A trace of the ranks that are asked for; each of the other ranks is left out.
"$sim" mlp_pipeline_1f1b --trace trace.json --ranks 0,3 > ranks.log
python3 "$here/check_simulation.py" --trace trace.json 0 3 || fail "the trace is not that of ranks 0 and 3"
[ "$(grep -c '^  [03] ' ranks.log)" = 2 ] || fail "--ranks has other lines: $(cat ranks.log)"
expect_error "error: --trace and --json both name ./same; give each a file of its own" "$sim" mlp_pipeline_1f1b --trace same --json ./same

# Faults.
"$sim" mlp_pipeline_1f1b --fault slow-rank=3:2 > fault.log
grep -q "^model .*; 4 ranks in 2 stages, 4 differ$" fault.log || fail "the slow rank is no class of its own: $(cat fault.log)"
grep -q "^step .*, +[0-9.]* % against $planned;" fault.log || fail "the slow rank costs nothing: $(cat fault.log)"
"$sim" mlp_pipeline_1f1b --fault lost-rank=3@120 --checkpoint-every 50 --checkpoint-seconds 10 --restart-seconds 300 --failures-per-day 24 > lost.log
grep -q "^lost         rank 3 in step 120: 19 steps again and a restart of 300 s" lost.log || fail "the loss has another price: $(cat lost.log)"
grep -q "rank 2 stops after .*: all_reduce .*, waits for rank 3$" lost.log || fail "nobody waits for the lost rank: $(cat lost.log)"
grep -q "^goodput .* with 24 failures a day" lost.log || fail "there is no goodput: $(cat lost.log)"

# Bad input: one line each.
expect_line "cannot open nothing: No such file or directory" nothing
expect_line "mlp.onnx is no compiled program: it is no ELF file; give an executable of ashlarc, compiled by this version" mlp.onnx
expect_line "$tools/ashlar-zoo is no compiled program: it has no note of ashlarc, or is older than ABI version 33; give an executable of ashlarc, compiled by this version" \
  "$tools/ashlar-zoo"
head -c 5000 mlp > short
expect_line "short is no compiled program: a segment lies outside of the file; give an executable of ashlarc, compiled by this version" short
python3 - << 'END'
data = open("mlp", "rb").read()
name = b"ashlar\0\0"
at = data.index(name + (35).to_bytes(8, "little"))
open("other", "wb").write(data[:at + len(name)] + (33).to_bytes(8, "little") + data[at + len(name) + 8:])
END
expect_line "other has ABI version 33 but this tool has 35; compile it again" other
expect_line "--ranks 2-4: the program has no rank 4; its 4 ranks are 0 to 3" mlp_pipeline_1f1b --ranks 2-4
expect_line '--ranks 3-1: "3-1" is no rank and no range of ranks; write all, or such as 0,8-15' mlp_pipeline_1f1b --ranks 3-1
expect_line "--fault slow-rank=9:2: the program has no rank 9; its 4 ranks are 0 to 3" mlp_pipeline_1f1b --fault slow-rank=9:2
expect_line "--fault slow-rank=1: has no factor of the time from 0.001 to 1000; write slow-rank=17:1.5" mlp_pipeline_1f1b --fault slow-rank=1
expect_line '--fault slow-link=inter_host:2: nothing goes over links of "inter_host"; there are "dp", "stages", "intra_host" and "inter_host"' \
  mlp_pipeline_1f1b --fault slow-link=inter_host:2
expect_line "--fault fire=1: there are slow-rank=RANK:FACTOR, slow-link=AXIS_OR_CLASS:FACTOR and lost-rank=RANK@STEP" mlp_pipeline_1f1b --fault fire=1
expect_line "--fault lost-rank=1@0: is not RANK@STEP with a step from 1 on, such as lost-rank=17@120" mlp_pipeline_1f1b --fault lost-rank=1@0
expect_line "--fault lost-rank=1@5: the run goes on from a checkpoint; give --checkpoint-seconds S" \
  mlp_pipeline_1f1b --fault lost-rank=1@5 --checkpoint-every 5 --restart-seconds 1
echo 'machine { ranks_per_host: 2 }' > lacking.txtpb
expect_line "lacking.txtpb: has no machine.inter_host, and 4 ranks are on hosts of 2; add inter_host { latency_us: 5 bandwidth_gb_per_s: 12 }" \
  mlp_pipeline_1f1b --machine lacking.txtpb
echo 'machine { ranks_per_host: 1 inter_host { latency_us: 5 } hosts_per_pod: 2 }' > lacking.txtpb
expect_line "lacking.txtpb: machine.hosts_per_pod is 2, but there is no machine.inter_pod; add inter_pod { latency_us: 14 bandwidth_gb_per_s: 48 }" \
  mlp_pipeline_1f1b --machine lacking.txtpb
expect_line '--fault slow-link=inter_pod:2: nothing goes over links of "inter_pod"; there are "dp", "stages", "intra_host" and "inter_host"' \
  mlp_pipeline_1f1b --fault slow-link=inter_pod:2
echo 'machine { preset: H100 }' > preset.txtpb
expect_line "preset.txtpb: machine.preset H100 is of GPUs, and the target of the executable is cpu; leave it out" mlp_pipeline_1f1b --machine preset.txtpb
