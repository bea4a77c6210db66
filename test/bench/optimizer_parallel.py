#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what optimizer parallelism costs and saves: bytes of a rank and bytes sent, by level and number of ranks, and time of a step.

    test/bench/optimizer_parallel.py [--build build] [--layers 24] [--width 1024] [--only bytes,time,update]

The net is `ashlar-zoo mlp` with AdamW, and everything split that can be (threshold_kb: 0). Bytes are those that the compiler planned; P is the
size of the parameters, 4 bytes each. `bytes` fails where a rank holds more than 1 % beyond the formulas, padding aside: parameters P, or P / N at
level 3; state 2 P, or 2 P / N from level 1 on. Sent: 2 P (N - 1) / N at levels 0, 1 and 2, 3 P (N - 1) / N at level 3. Times are the best of
several runs, in turns, so that a change of the machine's speed meets all. `update` takes from --profile what rank 0 spends in the kernels that update
weights, and in cutting the pieces of parameters that these need, of a net of few large weights (the profile lists 20 instructions). More ranks share
the memory, and beyond the number of cores these, too: what level 1 gains is its time over that of level 0 on as many ranks; the elements that a rank
updates say what work there is.
"""

import argparse
import json
import math
import os
import pathlib
import re
import tempfile

from measuring import ROOT, measure_parts, run, table

JOB = """
mode: SEMI_AUTO
mesh {{ axes {{ name: "dp" size: {ranks} }} }}
rules {{ match: "input" layout: "[{{dp}}, {{}}]" }}
{level}
global_batch: {batch}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ adamw {{ weight_decay: 0.01 }} learning_rate: 0.0001 }}
"""
DIGITS = """dataset {{ digits {{ train_samples: {samples} }} features {{ column: "image" tensor: "input" transforms {{ rescale {{ scale: 0.0039 }} }} }}
          features {{ column: "label" tensor: "labels" }} }}
init {{ match: "*" normal {{ std: 0.03 }} }}
"""
STEPS, TURNS = 12, 5
UPDATE_LAYERS, UPDATE_WIDTH, UPDATE_BATCH = 3, 4096, 8
UPDATE_BYTES = 7 * 4  # of an element: parameter and two moments, read and written, and the gradient


class Bench:
    def __init__(self, args, folder):
        self.tools, self.args, self.folder = pathlib.Path(args.build).resolve() / "bin", args, folder
        self.model("mlp.onnx", args.layers, args.width)

    def model(self, name, layers, width):
        run([self.tools / "ashlar-zoo", "mlp", "--no-data", "--layers", layers, "--width", width, "-o", name], self.folder)

    def compile(self, ranks, level, batch, model="mlp.onnx"):
        """Compiles for a level; returns the program's name and its report."""
        name = f"level{level}_{ranks}"
        text = f"optimizer_parallel {{ level: {level} threshold_kb: 0 }}" if level else ""
        (self.folder / "job.txtpb").write_text((JOB + DIGITS).format(ranks=ranks, level=text, batch=batch, samples=batch * STEPS))
        run([self.tools / "ashlarc", model, "--job", "job.txtpb", "-o", name, "--report", "report.json"], self.folder)
        return name, json.loads((self.folder / "report.json").read_text())

    def bytes(self):
        rows, faults = [], []
        for ranks in (1, 2, 4, 8):
            for level in range(4):
                _, report = self.compile(ranks, level, 8)
                variables = report["variables"]
                held = {kind: sum(v["bytes"] for v in variables if v["trainable"] == kind and v["global"] != "i64") for kind in (True, False)}
                whole = 4 * sum(math.prod(int(n) for n in v["global"].split("x")[:-1]) for v in variables if v["trainable"])
                sent = next(program["bytes"] for program in report["programs"] if program["name"] == "train_step")
                expected = {True: whole / ranks if level == 3 else whole, False: 2 * whole / (ranks if level else 1)}
                passes = 3 if level == 3 else 2
                expected_sent = passes * whole * (ranks - 1) / ranks
                ratios = [held[True] / expected[True], held[False] / expected[False], sent / expected_sent if expected_sent else 1]
                if max(ratios) > 1.01:
                    faults.append(f"level {level} on {ranks} ranks: {ratios}")
                rows.append([ranks, level, *(f"{held[kind] / 1e6:.1f}" for kind in (True, False)), f"{sent / 1e6:.1f}", *(f"{r:.4f}" for r in ratios)])
        table(f"Bytes of a rank, {self.args.layers} layers of {self.args.width}, AdamW, in MB, and over the formulas",
              ["ranks", "level", "parameters", "state", "sent a step", "parameters", "state", "sent"], rows)
        return faults

    def time(self):
        """A step of each level on 2 ranks, against level 0 in the same turns."""
        programs = [self.compile(2, level, self.args.batch)[0] for level in range(4)]
        best = dict.fromkeys(programs, float("inf"))
        for _ in range(TURNS):
            for name in programs:
                log = run(["mpirun", "-n", 2, f"./{name}", "--steps", STEPS, "--threads", 1], self.folder)[1]
                best[name] = min(best[name], float(re.search(r"\(([0-9.]+) us a step\)", log).group(1)))
        table(f"Time of a step on 2 ranks, {self.args.layers} layers of {self.args.width}, AdamW, batch {self.args.batch}",
              ["level", "ms a step", "over level 0"],
              [[level, f"{best[name] / 1e3:.1f}", f"{best[name] / best[programs[0]]:.3f}"] for level, name in enumerate(programs)])
        return []

    def update(self):
        """The kernels that update weights, by level and number of ranks. What the collectives take is not in it: they send as much at both levels."""
        self.model("update.onnx", UPDATE_LAYERS, UPDATE_WIDTH)
        programs, best = {(ranks, level): self.compile(ranks, level, UPDATE_BATCH, "update.onnx") for ranks in (1, 2, 4) for level in (0, 1)}, {}
        for _ in range(TURNS):
            for key, (name, _) in programs.items():
                times = update_times(run(["mpirun", "-n", key[0], f"./{name}", "--steps", STEPS, "--threads", 1, "--profile"], self.folder)[1])
                best[key] = min(best.get(key, times), times, key=sum)
        rows = []
        for (ranks, level), (kernels, cuts) in best.items():
            elements = sum(v["bytes"] for v in programs[ranks, level][1]["variables"] if v["name"].endswith(".moment2")) / 4
            rows.append([ranks, level, f"{elements / 1e6:.2f}", f"{kernels:.2f}", f"{UPDATE_BYTES * elements / kernels / 1e6:.1f}", f"{cuts:.2f}",
                         f"{(kernels + cuts) / sum(best[ranks, 0]):.2f}"])
        table(f"Update of a rank, {UPDATE_LAYERS} layers of {UPDATE_WIDTH}, AdamW, one thread a rank, {os.cpu_count()} cores, best of {TURNS}",
              ["ranks", "level", "million elements", "kernels, ms", "GB/s", "cutting pieces, ms", "both, of level 0"], rows)
        return []


def update_times(log):
    """Returns the milliseconds of a step in kernels that update weights, and in cuts of pieces of weights, from a profile."""
    step = log[log.index("profile of train_step"):]
    steps = int(re.search(r": (\d+) runs", step).group(1))

    def total(instruction):
        return sum(float(us) * int(calls) for us, calls in re.findall(rf"([0-9.]+) us +(\d+) calls  {instruction} fc\d+\.weight$", step, re.M)) / steps / 1e3

    return total(r"loop_\d+"), total("slice")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--only", default="bytes,time,update")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_parts(Bench(args, pathlib.Path(folder)), args.only)


if __name__ == "__main__":
    main()
