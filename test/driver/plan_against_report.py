# SPDX-License-Identifier: Apache-2.0
"""What ashlarc plan says of a job's own mesh against what --report says of the lowered program: plan_against_report.py PLAN.json REPORT.json RUNS

RUNS: the micro-batches of a step; 0 of a pipeline, whose step the report has. Both are the same numbers."""

import json
import sys

plan = json.load(open(sys.argv[1]))["meshes"]
report = json.load(open(sys.argv[2]))
joined = sum(program["joined"] for program in report["programs"])
runs = {"train_step": int(sys.argv[3]) - joined, "prepare": 1, "update": 1, "run": 1}
assert len(plan) == 1, plan
plan = plan[0]


def expect_same(name, found, wanted):
    assert found == wanted, f"{name}: {found} of plan, {wanted} of the report"


if "pipeline" in report:
    expect_same("step", plan["step_ns"], report["pipeline"]["step_ns"])
    expect_same("bubble", plan["bubble"], report["pipeline"]["bubble"])
else:
    def total(field):
        return sum((1 if program["joined"] else runs.get(program["role"], 0)) * program[field] for program in report["programs"])
    expect_same("step", plan["step_ns"], total("predicted_ns"))
    expect_same("exposed", plan["exposed_ns"], plan["step_ns"] - plan["compute_ns"])
    expect_same("bytes", plan["bytes_sent"], total("bytes"))
    assert (plan["bytes_sent"] > 0) == (plan["devices"] > 1) and "bubble" not in plan
expect_same("memory", plan["memory"]["parts"], report["memory"]["parts"])
assert plan["memory"]["bytes"] == sum(part["bytes"] for part in plan["memory"]["parts"])
assert plan["compute_ns"] > 0 and plan["communication_ns"] >= 0
