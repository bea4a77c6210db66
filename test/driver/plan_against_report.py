# SPDX-License-Identifier: Apache-2.0
"""What ashlarc plan says of a job's own mesh against what --report says of the lowered program: plan_against_report.py PLAN.json REPORT.json RUNS

RUNS: the micro-batches of a step; 0 of a pipeline, whose step the report has. Times agree within a fifth, memory within a tenth, bytes to the last one."""

import json
import sys

plan = json.load(open(sys.argv[1]))["meshes"]
report = json.load(open(sys.argv[2]))
joined = sum(program["joined"] for program in report["programs"])
runs = {"train_step": int(sys.argv[3]) - joined, "prepare": 1, "update": 1, "run": 1}
assert len(plan) == 1, plan
plan = plan[0]


def expect_close(name, found, wanted, share):
    assert wanted > 0 and abs(found - wanted) <= share * wanted, f"{name}: {found} of plan, {wanted} of the report"


if "pipeline" in report:
    expect_close("step", plan["step_ns"], report["pipeline"]["step_ns"], 0.2)
    assert abs(plan["bubble"] - report["pipeline"]["bubble"]) <= 0.02, (plan["bubble"], report["pipeline"]["bubble"])
else:
    def total(field):
        return sum((1 if program["joined"] else runs.get(program["role"], 0)) * program[field] for program in report["programs"])
    expect_close("step", plan["step_ns"], total("predicted_ns"), 0.2)
    assert plan["bytes_sent"] == total("bytes") > 0, (plan["bytes_sent"], total("bytes"))
    assert "bubble" not in plan
expect_close("memory", plan["memory"]["bytes"], report["memory"]["bytes"], 0.1)
assert plan["memory"]["bytes"] == sum(part["bytes"] for part in plan["memory"]["parts"])
# What does not depend on how values are ordered and fused agrees to the last byte.
of_plan, of_report = ({part["name"]: part["bytes"] for part in document["memory"]["parts"]} for document in (plan, report))
for name in ("parameters", "state", "inputs and outputs", "passed on", "batches", "synchronization buffers"):
    assert of_plan.get(name) == of_report.get(name), (name, of_plan, of_report)
assert 0 <= plan["exposed_ns"] <= plan["communication_ns"]
