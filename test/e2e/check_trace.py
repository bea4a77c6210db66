#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what --trace wrote.

    check_trace.py FILE --ranks N --steps A-B --programs PROGRAMS [--overlap] [--programs-only]

PROGRAMS: by stage, separated by ";": "forward=8,backward=8,update=1@7", how often each program runs in a step, and behind @ from which micro-batch on.
--overlap: programs of neighbouring stages must run at one time. --programs-only: of a GPU, which has no tracks but that of programs. Ends with an error that names the first thing that is wrong.
"""

import argparse
import collections
import json


def check(condition, text):
    if not condition:
        raise SystemExit(f"error: {text}")


def micro_batches(text):
    """Those of "2@7": 7 and 8."""
    count, _, first = text.partition("@")
    return range(int(first or 0), int(first or 0) + int(count))


def end(event):
    return event["ts"] + event["dur"]


class Trace:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.trace = json.load(file)
        self.facts = self.trace["otherData"]
        self.events = self.trace["traceEvents"]
        self.processes, self.threads = {}, {}
        for event in self.events:
            check(event["ph"] in ("X", "M", "s", "f"), f"an event of kind {event['ph']}")
            if event["ph"] == "M" and event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            if event["ph"] == "M" and event["name"] == "thread_name":
                check(event["tid"] not in self.threads, f"two tracks have the number {event['tid']}")
                self.threads[event["tid"]] = event["args"]["name"]
        self.slices = [event for event in self.events if event["ph"] == "X"]
        for event in self.slices:
            check(event["ts"] >= 0 and event["dur"] >= 0, f"it is before the trace or has a negative duration: {event}")
        self.clock_error = max(rank["clock_error_us"] for rank in self.facts["ranks"])

    def track(self, process, name):
        """Slices of a track, by time."""
        found = [event for event in self.slices if self.processes[event["pid"]] == process and self.threads[event["tid"]] == name]
        return sorted(found, key=lambda event: (event["ts"], end(event)))

    def check_tracks(self):
        """Slices of one track do not overlap."""
        tracks = collections.defaultdict(list)
        for event in self.slices:
            tracks[event["pid"], event["tid"]].append(event)
        for events in tracks.values():
            events.sort(key=lambda event: (event["ts"], end(event)))
            for one, other in zip(events, events[1:]):
                check(end(one) <= other["ts"] + 1e-6, f"two slices of one track overlap: {one} and {other}")

    def check_programs(self, ranks, steps, programs, programs_only):
        """Each program runs as often as the order of a step says, in the same order as planned, with all its instructions in it."""
        for rank in range(ranks):
            expected = programs[rank * len(programs) // ranks]
            runs = {kind: self.track(name, "programs") for kind, name in (("run", f"rank {rank}"), ("planned", f"rank {rank} planned"))}
            for kind, events in runs.items():
                counts = collections.Counter((event["name"], event["args"]["step"], event["args"]["micro_batch"]) for event in events)
                wanted = {(name, step, batch): 1 for name, batches in expected.items() for step in steps for batch in batches}
                check(counts == wanted, f"{kind} of rank {rank}: not each program once a micro-batch: {counts} for {wanted}")
            order = [[(e["name"], e["args"]["step"], e["args"]["micro_batch"]) for e in events] for events in runs.values()]
            check(order[0] == order[1], f"rank {rank} has another order than planned: {order}")
            slots = self.facts["ranks"][rank]["slots"]
            check(all(event["args"].get("slot", 0) < slots for event in runs["run"]), f"rank {rank} has {slots} slots but runs in another")
            check(sum(event["dur"] for event in runs["planned"]) > 0, f"nothing of rank {rank} takes time in the plan")
            if programs_only:
                check({self.threads[event["tid"]] for event in self.slices} == {"programs"}, "a GPU has other tracks than that of its programs")
                continue
            check(len(self.track(f"rank {rank}", "steps")) == len(steps), f"rank {rank} does not have {len(steps)} steps")
            instructions = self.track(f"rank {rank}", "instructions")
            check(len(instructions) >= len(runs["run"]), f"rank {rank} has only {len(instructions)} instructions in {len(runs['run'])} programs")
            at = 0
            for event in instructions:
                while at < len(runs["run"]) and end(runs["run"][at]) < event["ts"]:
                    at += 1
                check(at < len(runs["run"]) and runs["run"][at]["ts"] <= event["ts"] and end(event) <= end(runs["run"][at]) + 1e-6,
                      f"an instruction of rank {rank} lies in no program: {event}")
        check(sum(rank["lost_instructions"] + rank["lost_others"] for rank in self.facts["ranks"]) == 0, "something found no room")

    def check_messages(self, stages):
        """Each message has both ends and an arrow, and arrives after it was offered."""
        sends = [event for event in self.slices if event["cat"] == "send"]
        receives = [event for event in self.slices if event["cat"] == "receive"]
        check(bool(sends) == (stages > 1), f"{len(sends)} messages between {stages} stages")

        def key(event):
            mine = int(self.processes[event["pid"]].split()[1])
            ranks = (mine, event["args"]["to_rank"]) if event["cat"] == "send" else (event["args"]["from_rank"], mine)
            return (*ranks, event["args"]["channel"], event["args"]["step"], event["args"]["micro_batch"], event["args"]["bytes"])

        offered, arrived = (collections.defaultdict(list) for _ in range(2))
        for event in sends:
            offered[key(event)].append(event)
        for event in receives:
            arrived[key(event)].append(event)
        check(offered.keys() == arrived.keys(), f"sent but not received, or the other way round: {offered.keys() ^ arrived.keys()}")
        for message, events in offered.items():
            check(len(events) == len(arrived[message]) == 1, f"{message} is sent {len(events)} times")
            check(end(arrived[message][0]) >= events[0]["ts"] - 2 * self.clock_error, f"{message} arrives before it is sent")
            if self.clock_error == 0:
                check(abs(end(arrived[message][0]) - end(events[0])) < 2e-3, f"{message} is on its way until another time than it arrives")
        begins = {event["id"]: event for event in self.events if event["ph"] == "s"}
        ends = {event["id"]: event for event in self.events if event["ph"] == "f"}
        check(len(begins) == len(sends) and begins.keys() == ends.keys(), f"{len(begins)} arrows begin, {len(ends)} end, {len(sends)} messages")

    def check_overlap(self, ranks, stages):
        for stage in range(stages - 1):
            one, other = ([run for rank in range(ranks) if rank * stages // ranks == s for run in self.track(f"rank {rank}", "programs")]
                          for s in (stage, stage + 1))
            check(any(a["ts"] < end(b) and b["ts"] < end(a) for a in one for b in other), f"stages {stage} and {stage + 1} never run at one time")

    def check_clocks(self):
        for rank in self.facts["ranks"]:
            # Tests run on one host, whatever hosts they pretend: its clock is one.
            check(abs(rank["clock_offset_us"]) <= rank["clock_error_us"], f"the clock of rank {rank} is not that of this host")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--steps", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--programs-only", action="store_true")
    options = parser.parse_args()
    first, last = map(int, options.steps.split("-"))
    programs = [{name: micro_batches(count) for name, count in (entry.split("=") for entry in stage.split(","))} for stage in options.programs.split(";")]
    trace = Trace(options.file)
    check(len(trace.facts["ranks"]) == options.ranks and len(trace.processes) == 2 * options.ranks, f"processes {trace.processes}")
    check((trace.facts["first_step"], trace.facts["steps"]) == (first, last - first + 1), f"steps of {trace.facts}")
    trace.check_tracks()
    trace.check_programs(options.ranks, range(first, last + 1), programs, options.programs_only)
    trace.check_messages(len(programs))
    trace.check_clocks()
    if options.overlap:
        trace.check_overlap(options.ranks, len(programs))
    print(f"{len(trace.slices)} slices are as they should be")


main()
