#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what recompute saves and costs on a transformer, on one rank: bytes of intermediate values, planned and measured, and time of a step.

    recompute.py [--build BUILD] [--layers L] [--width W] [--heads H] [--sequence S] [--vocabulary V] [--batch B] [--steps N] [--turns T] [--share X]

`ashlar-zoo transformer`, SGD, one thread, in three ways: nothing computed again; each layer (`rules { match: "layer*" recompute: true }`); and
`recompute: AUTO` with a --memory that leaves X of the bytes between the two (0.5 unless given).

Temporaries are those of --plan. Measured: the peak resident memory of the process. Values are initialised and pages touched in all ways alike, so what a way
needs less of it must be what it was planned to need less, or the script fails (2 % of the temporaries without recompute). Steps are timed in turns, so
that a change of the machine's speed meets all; medians of T turns of N steps, the first two of each not counted. Losses must agree within rounding (copies
are fused into other kernels than what they repeat). Fails where the rule misses its aims: 0.30 of the bytes, 1.33 of the time.
"""

import argparse
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

from measuring import MPI_ENV, ROOT, run, steps_of, table

sys.path.insert(0, str(ROOT / "test/e2e"))
from npy_writer import write_npy

BYTES, TIME = 0.30, 1.33  # the aims
WARM_UP = 2
TOLERANCE = 1e-4  # of losses, relative; seen: 4e-6 at the fifth step
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}
JOB = """mode: SEMI_AUTO
mesh {{ axes {{ name: "dp" size: 1 }} }}
rules {{ match: "tokens" layout: "[{{dp}}, {{}}]" }}
{recompute}
global_batch: {batch}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ sgd {{}} learning_rate: 0.01 }}
dataset {{ npy {{}} shuffle: false repeat: 100000 features {{ column: "tokens" tensor: "tokens" }} features {{ column: "next" tensor: "labels" }} }}
init {{ match: "*norm*.weight" fill: 1 }}
init {{ match: "*.bias" fill: 0 }}
init {{ match: "*" normal {{ std: 0.02 }} }}
log_every: 1
"""
NONE, RULE, AUTO = "none", "each layer", "AUTO"


def bytes_of(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.tools = options, folder, pathlib.Path(options.build).resolve() / "bin"
        sizes = [part for name in ("layers", "width", "heads", "sequence", "vocabulary") for part in (f"--{name}", getattr(options, name))]
        run([self.tools / "ashlar-zoo", "transformer", "--no-data", *sizes, "-o", "model.onnx"], folder)
        generator, shape = random.Random(1), (options.batch, options.sequence)
        for column in ("tokens", "next"):
            write_npy(folder / f"{column}_train.npy", "q", shape, [generator.randrange(options.vocabulary) for _ in range(shape[0] * shape[1])])
        self.programs, self.plans = {NONE: "none", RULE: "rule", AUTO: "auto"}, {}
        self.compile(NONE, "")
        self.compile(RULE, 'rules { match: "layer*" recompute: true }')
        most, least = self.plans[NONE], self.plans[RULE]
        limit = most["peak"] - (1 - options.share) * (most["temporaries"] - least["temporaries"])
        self.limit = f"{limit / 1e6:.0f}MB"
        self.compile(AUTO, "recompute: AUTO", "--memory", self.limit)

    def compile(self, way, text, *arguments):
        """Compiles a way, and reads the bytes of its plan."""
        (self.folder / "job.txtpb").write_text(JOB.format(recompute=text, batch=self.options.batch))
        run([self.tools / "ashlarc", "model.onnx", "--job", "job.txtpb", *arguments, "-o", self.programs[way]], self.folder)
        plan = run([f"./{self.programs[way]}", "--plan"], self.folder)[1]
        self.plans[way] = {"temporaries": bytes_of(re.search(r"([0-9.]+ \w+) temporaries", plan).group(1)),
                           "peak": bytes_of(re.search(r"^memory +([0-9.]+ \w+)", plan, re.MULTILINE).group(1))}

    def train(self, way):
        """Milliseconds a step behind the warm-up, peak resident bytes, and the losses."""
        command = [f"./{self.programs[way]}", "--data", ".", "--steps", str(WARM_UP + self.options.steps), "--threads", "1", "--metrics", "metrics.jsonl"]
        with open(self.folder / "log", "w+") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, env={**os.environ, **MPI_ENV})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                log.seek(0)
                raise SystemExit(f"error: {' '.join(command)} exited with {process.returncode}:\n{log.read()}")
        each, losses = steps_of(self.folder / "metrics.jsonl", WARM_UP)
        return each, usage.ru_maxrss * 1024, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--share", type=float, default=0.5)
    for name, default in (("layers", 24), ("width", 256), ("heads", 4), ("sequence", 64), ("vocabulary", 512), ("batch", 8), ("steps", 5), ("turns", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    times, resident, faults = {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        for _ in range(options.turns):
            losses = {}
            for way in bench.programs:
                each, peak, losses[way] = bench.train(way)
                times.setdefault(way, []).append(each)
                resident.setdefault(way, []).append(peak)
            if any(abs(x - y) > TOLERANCE * abs(y) for way in losses for x, y in zip(losses[way], losses[NONE])):
                sys.exit(f"error: the losses differ: {losses}")
    rows, planned = [], bench.plans[NONE]["temporaries"]
    for way in times:
        ratios = [x / y for x, y in zip(times[way], times[NONE])]
        temporaries, peak = bench.plans[way]["temporaries"], statistics.median(resident[way])
        saved, measured = planned - temporaries, statistics.median(resident[NONE]) - peak
        rows.append([f"{way}, --memory {bench.limit}" if way == AUTO else way, f"{temporaries / 1e6:.1f}", f"{temporaries / planned:.3f}", f"{peak / 1e6:.1f}", f"{saved / 1e6:.1f}",
                     f"{measured / 1e6:.1f}", f"{statistics.median(times[way]):.1f}", f"{statistics.median(ratios):.3f}", f"{min(ratios):.2f} - {max(ratios):.2f}"])
        if abs(saved - measured) > 0.02 * planned:
            faults.append(f"{way}: planned to save {saved / 1e6:.1f} MB, measured {measured / 1e6:.1f}")
        if way == RULE and (temporaries > BYTES * planned or statistics.median(ratios) > TIME):
            faults.append(f"{way}: {temporaries / planned:.2f} of the bytes (aim {BYTES}), {statistics.median(ratios):.2f} of the time (aim {TIME})")
    table(f"{options.layers} layers of {options.width}, sequence {options.sequence}, batch {options.batch}, 1 rank, 1 thread; medians of {options.turns} turns",
          ["computed again", "temporaries, MB", "of none", "resident, MB", "saved as planned, MB", "measured, MB", "ms a step", "of none", "of turns"], rows)
    if faults:
        sys.exit("missed: " + "; ".join(faults))


main()
