# SPDX-License-Identifier: Apache-2.0
"""Compares a simulation with the compiler's prediction.

    check_simulation.py REPORT.json SIMULATION.json [RUNS]  --report of ashlarc, --json of ashlar-sim: one step, to the nanosecond; RUNS of train_step
    check_simulation.py --shared REPORT.json SIMULATION.json  a pipeline whose stages share links: at most a tenth longer than planned, no less
    check_simulation.py --trace TRACE.json RANK...          a trace of these ranks: tracks without overlapping slices, programs and messages
"""

import collections
import json
import sys


def find(node, key):
    """Yields the values of a key anywhere in a document."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from find(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from find(value, key)


def check_shared(report, simulation):
    pipeline = next(find(report, "pipeline"))
    assert pipeline["step_ns"] < simulation["step_ns"] < 1.1 * pipeline["step_ns"], f"{simulation['step_ns']} ns, planned {pipeline['step_ns']}"
    received = [(line["receiving_ns"], pipeline["stages"][line["stage"]]["receive_ns"]) for line in simulation["lines"]]
    assert all(now >= planned - 1 for now, planned in received) and any(now > 1.1 * planned for now, planned in received), received


def check_step(report, simulation, runs):
    pipelines = [each for each in find(report, "pipeline") if isinstance(each, dict)]
    if pipelines:
        planned = pipelines[0]["step_ns"]
        for stage, line in zip(pipelines[0]["stages"], simulation["lines"]):
            assert line["stage"] == stage["stage"]
            busy = line["compute_ns"] + line["collectives_ns"]
            assert abs(busy - stage["compute_ns"]) < 0.01, f"stage {line['stage']}: {busy} ns of programs, planned {stage['compute_ns']}"
            assert abs(line["receiving_ns"] - stage["receive_ns"]) <= 1, f"stage {line['stage']} receives {line['receiving_ns']}, planned {stage['receive_ns']}"
    else:
        times = {"prepare": 1, "train_step": runs, "update": 1}
        planned = sum(count * program["predicted_ns"] for programs in find(report, "programs") for program in programs
                      for name, count in times.items() if program["name"].startswith(name))
    assert planned > 0, "nothing is planned"
    assert abs(simulation["step_ns"] - planned) <= 1, f"a step of {simulation['step_ns']} ns, planned {planned}"
    assert sum(line["ranks_like_it"] for line in simulation["lines"]) == simulation["ranks"]


def check_trace(trace, ranks):
    names = {event["args"]["name"] for event in trace["traceEvents"] if event.get("name") == "process_name"}
    assert names == {f"rank {rank}" for rank in ranks}, names
    assert [each["rank"] for each in trace["otherData"]["ranks"]] == ranks
    tracks, kinds = collections.defaultdict(list), collections.Counter()
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            kinds[event["cat"]] += 1
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in tracks.values():
        slices.sort()
        for (_, end), (begin, _) in zip(slices, slices[1:]):
            assert begin >= end - 0.0011, "slices of a track overlap"
    assert kinds["program"] and kinds["kernel"] and kinds["product"] and kinds["send"] and kinds["receive"], kinds


if sys.argv[1] == "--trace":
    check_trace(json.load(open(sys.argv[2])), [int(rank) for rank in sys.argv[3:]])
elif sys.argv[1] == "--shared":
    check_shared(*(json.load(open(name)) for name in sys.argv[2:]))
else:
    check_step(*(json.load(open(name)) for name in sys.argv[1:3]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
