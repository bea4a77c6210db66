#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the report and the picture of a pipeline agree with themselves and with each other.

    pipeline_report.py REPORT.json TIMELINE.svg STAGES MICRO_BATCHES
"""

import json
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"


def check_report(report, num_stages, micro_batches):
    """Returns the stages, once their numbers add up."""
    pipeline, stages = report["pipeline"], report["pipeline"]["stages"]
    assert [stage["stage"] for stage in stages] == list(range(num_stages)), stages
    assert pipeline["micro_batches"] == micro_batches
    begins = {}  # of the runs of each program
    for stage in stages:
        assert stage["ops"], stage
        total = stage["compute_ns"] + stage["receive_ns"] + stage["wait_ns"]
        assert abs(total - pipeline["step_ns"]) < 1e-3, (total, pipeline["step_ns"])
        assert abs(stage["bubble"] - stage["wait_ns"] / pipeline["step_ns"]) < 1e-9
        assert stage["memory"]["bytes"] == sum(part["bytes"] for part in stage["memory"]["parts"])
        assert stage["memory"]["bytes"] == stage["fixed_bytes"] + stage["slots"] * stage["slot_bytes"]
        programs = {program["name"]: program for program in stage["programs"]}
        assert abs(sum(each["runs"] * each["predicted_ns"] for each in programs.values()) - stage["compute_ns"]) < 1e-3
        time = 0
        for run in stage["runs"]:
            assert run["begin_ns"] - run["receive_ns"] >= time - 1e-3, (run, time)
            time = run["end_ns"]
            assert abs(time - run["begin_ns"] - programs[run["program"]]["predicted_ns"]) < 1e-3
            begins.setdefault((stage["stage"], run["program"]), []).append(run)
        assert time <= pipeline["step_ns"] + 1e-3
        for program in programs.values():
            assert program["runs"] in (1, micro_batches) and len(begins[stage["stage"], program["name"]]) == program["runs"]
        in_order = [each for each in report["programs"] if each["stage"] == stage["stage"]]
        assert {"init", "eval_step"} < {each["name"] for each in in_order}
        assert all(each["predicted_ns"] == programs[each["name"]]["predicted_ns"] for each in in_order if each["name"] in programs)
    assert abs(pipeline["bubble"] - sum(stage["bubble"] for stage in stages) / num_stages) < 1e-9
    assert report["memory"]["bytes"] == max(stage["memory"]["bytes"] for stage in stages)
    assert pipeline["crossings"], pipeline
    for crossing in pipeline["crossings"]:
        sent, received = begins[crossing["from"], crossing["sender"]], begins[crossing["to"], crossing["receiver"]]
        assert len(sent) == len(received) == crossing["messages"], crossing
        for one, other in zip(sent, received):  # nothing comes before it went
            assert one["micro_batch"] == other["micro_batch"]
            assert one["end_ns"] + crossing["time_ns"] <= other["begin_ns"] + 1e-3, (crossing, one, other)
    sends = [(each["stage"], to, each["program"], each["bytes"]) for each in report["sends"] for to in each["to"]]
    assert sorted(sends) == sorted((each["from"], each["to"], each["sender"], each["bytes"]) for each in pipeline["crossings"])
    assert all(", for " in each["cause"] and each["type"] for each in report["sends"]), report["sends"]
    assert all(0 <= variable["stage"] < num_stages for variable in report["variables"])
    assert all(0 <= each["stage"] < num_stages and each["program"] for each in report["collectives"])
    return stages


def check_picture(root, stages, messages):
    """The marks of the picture are those of the report, and lie inside it."""
    assert root.tag == SVG + "svg", root.tag
    width, height = (float(root.get(side)) for side in ("width", "height"))
    rows = [group for group in root.findall(SVG + "g") if group.get("class") == "stage"]
    assert len(rows) == len(stages)
    for row, stage in zip(rows, stages):
        marks = [mark for mark in row.findall(SVG + "rect") if mark.get("class") == "run"]
        assert len(marks) == len(stage["runs"]), (len(marks), len(stage["runs"]))
        idle = next(mark for mark in row.findall(SVG + "rect") if mark.get("class") == "idle")
        drawn = sum(float(mark.get("width")) for mark in row.findall(SVG + "rect") if mark is not idle)
        assert abs(1 - drawn / float(idle.get("width")) - stage["bubble"]) < 0.01, (drawn, idle.get("width"), stage["bubble"])
        for mark, run in zip(marks, stage["runs"]):
            title = mark.find(SVG + "title").text
            assert title.startswith(f"stage {stage['stage']}, {run['program']} of micro-batch {run['micro_batch']}: "), title
        assert f"waits {100 * stage['bubble']:.1f} %" in [text.text for text in row.findall(SVG + "text")]
    for mark in root.iter(SVG + "rect"):
        right = float(mark.get("x", 0)) + float(mark.get("width"))
        assert right <= width and float(mark.get("y", 0)) + float(mark.get("height")) <= height
    assert len([line for line in root.iter(SVG + "line") if line.get("class") == "message"]) == (messages if messages <= 400 else 0)
    legend = next(group for group in root.findall(SVG + "g") if group.get("class") == "legend")
    names = [text.text for text in legend.findall(SVG + "text")]
    assert set(names) == {program["name"] for stage in stages for program in stage["programs"]} | {"receives", "waits"}, names


def main():
    report_path, picture_path, num_stages, micro_batches = sys.argv[1:]
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    stages = check_report(report, int(num_stages), int(micro_batches))
    messages = sum(crossing["messages"] for crossing in report["pipeline"]["crossings"])
    check_picture(tree.parse(picture_path).getroot(), stages, messages)


if __name__ == "__main__":
    main()
