#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A step with optimizer parallelism against PyTorch's: level 1 against ZeroRedundancyOptimizer, level 3 against FSDP2, on 2 ranks of one host.

    test/bench/optimizer_parallel_torch.py [--build build] [--torch-python PYTHON] [--layers 24] [--width 1024] [--batch 64] [--turns 5]

The net is `ashlar-zoo mlp` with AdamW in f32, one thread a rank; PyTorch's ranks talk over gloo (loopback), ours over shared memory. Both start
with the same parameters, train on the same one batch, and must find the same losses, or the script fails: they compute the same. Ours and theirs take
turns, so that a change of the machine's speed meets both. The first two steps are not timed, on either side. Prints medians over the turns, and the
median, least and largest of the ratios turn by turn; fails where a median misses the aim. Exit status 77 where PYTHON cannot import torch.
"""

import argparse
import pathlib
import random
import statistics
import sys
import tempfile

from measuring import ROOT, run, steps_of, table
from optimizer_parallel import JOB
from torch_turns import ask_peer, check_losses, ratios_of, skip_without

sys.path.insert(0, str(ROOT / "test/e2e"))
from npy_writer import write_npy

ONE_BATCH = """dataset {{ npy {{}} shuffle: false repeat: 1000 features {{ column: "x" tensor: "input" }} features {{ column: "label" tensor: "labels" }} }}
init {{ match: "*.weight" normal {{ std: {std} }} }}
init {{ match: "*" fill: 0 }}
log_every: 1
"""
RANKS, WARM_UP, STEPS = 2, 2, 8
# How far losses may be apart, relative: rounding alone makes PyTorch's in f32 and f64 differ by 2e-9 at first, by 2e-3 behind five updates.
TOLERANCES = [1e-6, 1e-2, 1e-2, 1e-2, 1e-2, 1e-2]
# Level, its peer in sharded_torch.py, and the aim of ours over theirs.
CASES = [(0, "DDP", None), (1, "DDP + ZeroRedundancyOptimizer", 0.6), (3, "FSDP2", 0.6)]


class Bench:
    def __init__(self, args, folder):
        self.tools, self.args, self.folder = pathlib.Path(args.build).resolve() / "bin", args, folder
        run([self.tools / "ashlar-zoo", "mlp", "--no-data", "--layers", args.layers, "--width", args.width, "-o", "mlp.onnx"], folder)
        generator, count = random.Random(1), args.batch
        write_npy(folder / "x_train.npy", "f", (count, 784), [generator.gauss(0, 1) for _ in range(count * 784)])
        write_npy(folder / "label_train.npy", "q", (count,), [generator.randrange(10) for _ in range(count)])
        for level, _, _ in CASES:
            self.compile(level)
        self.train(0, 0, "--save-parameters", "init")

    def compile(self, level):
        text = f"optimizer_parallel {{ level: {level} }}" if level else ""
        # Signals neither fade nor grow from layer to layer, so that the losses tell right from wrong.
        job = (JOB + ONE_BATCH).format(ranks=RANKS, level=text, batch=self.args.batch, std=(2 / self.args.width)**0.5)
        (self.folder / "job.txtpb").write_text(job)
        run([self.tools / "ashlarc", "mlp.onnx", "--job", "job.txtpb", "-o", f"level{level}"], self.folder)

    def train(self, level, steps, *options):
        run(["mpirun", "-n", RANKS, f"./level{level}", "--data", ".", "--steps", steps, "--threads", 1, *options], self.folder)

    def ours(self, level):
        """Milliseconds a step behind the warm-up, and the losses of all steps."""
        self.train(level, WARM_UP + STEPS, "--metrics", "metrics.jsonl")
        return steps_of(self.folder / "metrics.jsonl", WARM_UP)

    def theirs(self):
        sizes = [f"--{name}={value}" for name, value in (("ranks", RANKS), ("layers", self.args.layers), ("width", self.args.width), ("warm-up", WARM_UP),
                                                         ("steps", STEPS))]
        return ask_peer([self.args.torch_python, ROOT / "test/bench/sharded_torch.py", self.folder, *sizes], self.folder)


def measure(bench):
    """PyTorch's version, and of each case the milliseconds a step of each turn, ours and theirs."""
    times = {level: ([], []) for level, _, _ in CASES}
    for _ in range(bench.args.turns):
        found = {level: bench.ours(level) for level, _, _ in CASES}
        version, peers = bench.theirs()
        for level, way, _ in CASES:
            check_losses(TOLERANCES, found[level][1], f"{way}, level {level} here", peers[way]["losses"])
            times[level][0].append(found[level][0])
            times[level][1].append(peers[way]["ms"])
    return version, times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    for name, default in (("layers", 24), ("width", 1024), ("batch", 64), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    skip_without(args.torch_python, "torch")
    with tempfile.TemporaryDirectory() as folder:
        version, times = measure(Bench(args, pathlib.Path(folder)))
    rows, missed = [], []
    for level, way, aim in CASES:
        ours, theirs = times[level]
        ratio, cells = ratios_of(ours, theirs)
        rows.append([level, f"{statistics.median(ours):.1f}", way, f"{statistics.median(theirs):.1f}", *cells])
        if aim and ratio > aim:
            missed.append(f"level {level} takes {ratio:.2f} of {way}, the aim is {aim}")
    table(f"A step on {RANKS} ranks, {args.layers} layers of {args.width}, AdamW, batch {args.batch}, against PyTorch {version}; medians of {args.turns} turns",
          ["level", "ms", "PyTorch", "ms", "ours / theirs", "of turns"], rows)
    if missed:
        sys.exit("missed: " + "; ".join(missed))


main()
