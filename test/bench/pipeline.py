#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the schedules of a pipeline are worth, from traces of runs under mpirun: the share of bubble, and the bytes of activations.

    pipeline.py [--build BUILD] [--only bubble,memory] [--schedules GPIPE,...] [--unit US] [--steps N]

bubble: 2 and 4 stages, 8 micro-batches. The programs are compiled ones; in the place of their kernels stand timed waits (timed_programs.cpp) of one unit for a
forward pass and two for a backward pass, so a stage needs no core. ZERO_BUBBLE splits these in halves, but on stage 0, where nobody waits for the first. Share of bubble: of the time from the first program of a step to its last, what a stage is in
no program, the mean over stages; the median over N steps. Beside it what the plan of the same trace says, and the formulas: (p-1)/(m+p-1) for GPIPE and
ONE_F_ONE_B; ZERO_BUBBLE is idle for p-1 units where they are for 3(p-1), INTERLEAVED with v chunks for 3(p-1)/v.

memory: mlp of 8 layers of 1024 in 4 stages. Planned: slots times bytes of a slot, of each stage. Measured: the slots that the trace names; and the pages of its arena
that the process has touched, which /proc/PID/pagemap tells, less what of the arena is no slot: after training, and after evaluation, which has tensors of its own
in the slots. Fails when planned and measured differ by 2 %, or more micro-batches are in flight than the schedule allows.
"""

import argparse
import array
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

from measuring import MPI_ENV, ROOT, measure_parts, run, table

SCHEDULES = "GPIPE,ONE_F_ONE_B,ZERO_BUBBLE"
MICRO_BATCHES = 8
CHUNKS = 2  # of a stage, with INTERLEAVED
PAGE = os.sysconf("SC_PAGE_SIZE")
PHASES = ("forward", "backward", "weights")
JOB = """mode: DATA_PARALLEL
mesh {{ axes {{ name: "dp" size: 1 }} }}
pipeline {{ stages: {stages} micro_batches: {micro_batches} schedule: {schedule} {chunks} }}
global_batch: {batch}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ momentum {{ momentum: 0.9 }} learning_rate: 0.01 }}
dataset {{ digits {{ train_samples: {batch} eval_samples: {eval_samples} }} features {{ column: "image" tensor: "input" }} features {{ column: "label" tensor: "labels" }} }}
init {{ match: "*" normal {{ std: 0.03 }} }}
epochs: 100000
"""


class Trace:
    def __init__(self, path):
        trace = json.loads(path.read_text())
        self.facts, self.events = trace["otherData"], trace["traceEvents"]

    def programs(self, category):
        """{step: {rank: [slices of phases]}}; category "program" or "planned". With chunks a program is called "forward_0"."""
        steps = {}
        for event in self.events:
            if event["ph"] == "X" and event["cat"] == category and event["name"].split("_")[0] in PHASES:
                steps.setdefault(event["args"]["step"], {}).setdefault((event["pid"] - 1) // 2, []).append(event)
        return steps

    def bubble(self, category):
        """Share of the time in which a stage runs nothing, of each step."""
        shares = []
        for ranks in self.programs(category).values():
            slices = [event for events in ranks.values() for event in events]
            whole = max(event["ts"] + event["dur"] for event in slices) - min(event["ts"] for event in slices)
            shares.append(1 - sum(event["dur"] for event in slices) / (whole * len(ranks)))
        return statistics.median(shares)

    def slots(self, rank):
        """The slots that programs of a rank ran on."""
        return {event["args"]["slot"] for ranks in self.programs("program").values() for event in ranks[rank]}


class Bench:
    def __init__(self, options, folder):
        self.build, self.options, self.folder = pathlib.Path(options.build).resolve(), options, folder

    def compile(self, stages, schedule, batch, layers, width, *extra):
        tools = self.build / "bin"
        run([tools / "ashlar-zoo", "mlp", "--no-data", "--layers", layers, "--width", width, "-o", "mlp.onnx"], self.folder)
        (self.folder / "job.txtpb").write_text(JOB.format(stages=stages, schedule=schedule, chunks=f"chunks: {CHUNKS}" if schedule == "INTERLEAVED" else "", batch=batch, micro_batches=MICRO_BATCHES, eval_samples=4 * batch))
        run([tools / "ashlarc", "mlp.onnx", "--job", "job.txtpb", *extra], self.folder)

    def bubble(self):
        unit = self.options.unit
        rows = []
        for stages in (2, 4):
            for schedule in self.options.schedules.split(","):
                self.compile(stages, schedule, 8 * MICRO_BATCHES, 4 * stages, 64, "--emit", "obj", "-o", "timed.o")
                run(["c++", "timed.o", "-Wl,--wrap=ashlar_rt_main", self.build / "lib/libashlar_timed_programs.a", self.build / "lib/libashlar_rt.a", "-lz", "-lpthread",
                     "-ldl", "-lm", "-o", "timed"], self.folder)
                waits = {"forward": unit, "backward": unit if schedule == "ZERO_BUBBLE" else 2 * unit, "weights": unit, "0:weights": 2 * unit}
                for chunk in range(CHUNKS):
                    waits |= {f"forward_{chunk}": unit // CHUNKS, f"backward_{chunk}": 2 * unit // CHUNKS}
                # A line of the log after each step: no stage begins the next one before all have ended.
                run(["mpirun", "-n", stages, "./timed", "--threads", 1, "--log-every", 1, "--steps", self.options.steps + 2, "--trace", "trace.json", "--trace-steps",
                     f"3-{self.options.steps + 2}"], self.folder, ASHLAR_TIMED_US=",".join(f"{name}={us}" for name, us in waits.items()))
                trace = Trace(self.folder / "trace.json")
                idle = (stages - 1) * {"ZERO_BUBBLE": 1, "INTERLEAVED": 3 / CHUNKS}.get(schedule, 3)
                measured = trace.bubble("program")
                rows.append([stages, schedule, f"{100 * measured:.1f} %", f"{100 * trace.bubble('planned'):.1f} %", f"{100 * idle / (3 * MICRO_BATCHES + idle):.1f} %",
                             f"{3 * MICRO_BATCHES * measured / (1 - measured):.2f}", f"{idle:g}"])
        table(f"Share of bubble, {MICRO_BATCHES} micro-batches, timed waits of {unit} us a unit, median of {self.options.steps} steps, {os.cpu_count()} cores",
              ["stages", "schedule", "measured", "planned", "formula", "idle, units", "formula"], rows)
        return []

    def touched(self, job, arenas):
        """Bytes of its arena that each rank has touched so far, by rank; of those that are there."""
        found = {}
        for child in subprocess.run(["pgrep", "-P", str(job.pid)], stdout=subprocess.PIPE, text=True, check=False).stdout.split():
            try:
                rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", pathlib.Path(f"/proc/{child}/environ").read_bytes())
                window = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*/memfd:ashlar", pathlib.Path(f"/proc/{child}/maps").read_text(), re.M)
                if rank and window:
                    rank = int(rank.group(1))
                    begin = int(window.group(2), 16) - sum(arenas[rank:])  # the arenas are the end of the window
                    with open(f"/proc/{child}/pagemap", "rb") as pagemap:
                        pagemap.seek(8 * (begin // PAGE))
                        found[rank] = PAGE * sum(entry >> 63 for entry in array.array("Q", pagemap.read(8 * (arenas[rank] // PAGE))))
            except (FileNotFoundError, ProcessLookupError, ValueError):
                pass  # it has just ended
        return found

    def train(self, ranks):
        """Trains and evaluates. Returns the trace, and what each rank had touched when it was written, and at the end."""
        path = self.folder / "trace.json"
        path.unlink(missing_ok=True)
        with open(self.folder / "log", "w", encoding="utf-8") as log:
            job = subprocess.Popen(["mpirun", "-n", str(ranks), "./train", "--threads", "1", "--steps", "6", "--eval", "--trace", path.name], cwd=self.folder, stdout=log,
                                   stderr=log, env={**os.environ, **MPI_ENV})
        while not path.exists() and job.poll() is None:
            time.sleep(0.01)
        if job.poll() is not None:
            raise SystemExit(f"error: the training ended early:\n{(self.folder / 'log').read_text()}")
        trace = Trace(path)
        arenas = [-(-facts["arena_bytes"] // PAGE) * PAGE for facts in trace.facts["ranks"]]
        trained = self.touched(job, arenas)
        evaluated = dict(trained)
        while job.poll() is None:
            for rank, now in self.touched(job, arenas).items():
                evaluated[rank] = max(evaluated[rank], now)  # less of one that is about to end
            time.sleep(0.01)
        if job.returncode != 0 or len(trained) != ranks:
            raise SystemExit(f"error: {len(trained)} of {ranks} ranks were looked at:\n{(self.folder / 'log').read_text()}")
        return trace, trained, evaluated

    def memory(self):
        stages, rows, faults = 4, [], []
        for schedule in self.options.schedules.split(","):
            self.compile(stages, schedule, 256 * MICRO_BATCHES, 8, 1024, "-o", "train")
            trace, trained, evaluated = self.train(stages)
            for rank, facts in enumerate(trace.facts["ranks"]):
                planned = facts["slots"] * facts["slot_bytes"]
                named = len(trace.slots(rank)) * facts["slot_bytes"]
                rest = facts["arena_bytes"] - planned
                measured = evaluated[rank] - rest
                rows.append([schedule, rank, facts["slots"], f"{facts['slot_bytes'] / 1e6:.2f}", f"{planned / 1e6:.2f}", f"{named / 1e6:.2f}",
                             f"{(trained[rank] - rest) / 1e6:.2f}", f"{measured / 1e6:.2f}", f"{measured / planned:.3f}"])
                if named != planned or abs(measured - planned) > 0.02 * planned:
                    faults.append(f"{schedule}, stage {rank}: planned {planned}, slots used {named}, touched {measured}")
                most = {"ONE_F_ONE_B": stages - rank, "ZERO_BUBBLE": stages}.get(schedule, MICRO_BATCHES)
                if facts["slots"] > most:
                    faults.append(f"{schedule}, stage {rank}: {facts['slots']} slots, at most {most} expected")
        table(f"Activations, {stages} stages, {MICRO_BATCHES} micro-batches, in MB",
              ["schedule", "stage", "slots", "a slot", "planned", "slots used", "touched by training", "and evaluation", "of planned"], rows)
        return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--only", default="bubble,memory")
    parser.add_argument("--schedules", default=SCHEDULES)
    parser.add_argument("--unit", type=int, default=10000, help="microseconds of a forward pass")
    parser.add_argument("--steps", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_parts(Bench(options, pathlib.Path(folder)), options.only)


main()
