#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A step of a pipeline of two stages against PyTorch's torch.distributed.pipelining (1F1B) on the same transformer, on one host.

    pipeline_torch.py [--build BUILD] [--torch-python PYTHON] [--layers L] [--width W] [--heads H] [--sequence S] [--vocabulary V] [--batch B]
                      [--micro-batches M] [--ways eager,...] [--turns T]

The model is `ashlar-zoo transformer` with AdamW in f32; 2 stages of one rank and one thread each, ONE_F_ONE_B, cut in the middle of the layers on both sides.
PyTorch's ranks talk over gloo (loopback), ours over shared memory. Both start with the same parameters, train on the same one batch, and must find the same
losses, or the script fails: they compute the same. PyTorch does so in several ways (stages_torch.py), and the fastest of a turn counts; `compiled` has to be
asked for, since it compiles for minutes and was slower. Ours and theirs take turns, so that a change of the machine's speed meets both. The first two steps are
not timed, on either side. Prints medians over the turns, and the median, least and largest of the ratios turn by turn; fails where the median misses the aim.
Exit status 77 where PYTHON cannot import torch.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from figures import ROOT, run, table

sys.path.insert(0, str(ROOT / "test/e2e"))
from npy_writer import write_npy

STAGES, WARM_UP, STEPS, AIM = 2, 2, 8, 0.7
SIZES = (("layers", 4), ("width", 256), ("heads", 4), ("sequence", 64), ("vocabulary", 512))
# How far losses may be apart, relative: rounding alone parts them by 1e-7 at first, and AdamW divides by roots of tiny moments from then on.
TOLERANCES = [1e-6, 1e-4, 1e-3, 1e-3, 1e-3, 1e-3]
WAYS = "eager,attention"


def job_text(options):
    # The first stage has what no rule names ahead of the layers, the second what follows them.
    rules = [f'rules {{ match: "layer{layer}.*" pipeline_stage: {layer * STAGES // options.layers} }}' for layer in range(options.layers)]
    return "\n".join([
        "mode: DATA_PARALLEL", 'mesh { axes { name: "dp" size: 1 } }', *rules,
        f"pipeline {{ stages: {STAGES} micro_batches: {options.micro_batches} schedule: ONE_F_ONE_B }}", f"global_batch: {options.batch}",
        'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }', "optimizer { adamw { weight_decay: 0.01 } learning_rate: 0.0001 }",
        'dataset { npy {} shuffle: false repeat: 100000 features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }',
        "log_every: 1", ""])


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, tools = options, folder, pathlib.Path(options.build).resolve() / "bin"
        sizes = [part for name, _ in SIZES for part in (f"--{name}", getattr(options, name))]
        run([tools / "ashlar-zoo", "transformer", *sizes, "-o", "model.onnx"], folder)
        generator, count = random.Random(1), options.batch * options.sequence
        for column in ("tokens", "next"):
            write_npy(folder / f"{column}_train.npy", "q", (options.batch, options.sequence), [generator.randrange(options.vocabulary) for _ in range(count)])
        (folder / "job.txtpb").write_text(job_text(options))
        run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "train"], folder)
        self.train(0, "--save-parameters", "init")

    def train(self, steps, *arguments):
        run(["mpirun", "-n", STAGES, "./train", "--data", ".", "--steps", steps, "--threads", 1, "--metrics", "metrics.jsonl", *arguments], self.folder)
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]

    def ours(self):
        """Milliseconds a step behind the warm-up, and the losses of all steps."""
        lines = self.train(WARM_UP + STEPS)
        return (lines[-1]["seconds"] - lines[WARM_UP - 1]["seconds"]) / STEPS * 1e3, [line["loss"] for line in lines]

    def theirs(self):
        """PyTorch's version, and of each way the milliseconds a step and the losses, or why it cannot be measured."""
        options = [f"--{name}={getattr(self.options, name)}" for name in ("layers", "heads", "batch")]
        options += [f"--micro-batches={self.options.micro_batches}", f"--warm-up={WARM_UP}", f"--steps={STEPS}", f"--ways={self.options.ways}"]
        log = run([self.options.torch_python, ROOT / "test/bench/stages_torch.py", self.folder, *options], self.folder)[1]
        found = json.loads(next(line for line in reversed(log.splitlines()) if line.startswith('{"torch"')))
        return found["torch"], found["ways"]


def check_losses(ours, way, theirs):
    for step, (tolerance, x, y) in enumerate(zip(TOLERANCES, ours, theirs), 1):
        if not abs(x - y) <= tolerance * abs(y):
            sys.exit(f"error: the loss of step {step} is {x} here but {y} with PyTorch ({way}): the two do not compute the same")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--ways", default=WAYS)
    for name, default in (*SIZES, ("batch", 32), ("micro-batches", 8), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if subprocess.run([options.torch_python, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print(f"skipped: {options.torch_python} cannot import torch")
        sys.exit(77)
    ours, theirs, missing = [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        for _ in range(options.turns):
            each, losses = bench.ours()
            ours.append(each)
            version, ways = bench.theirs()
            for way, found in ways.items():
                if "missing" in found:
                    missing[way] = found["missing"]
                else:
                    check_losses(losses, way, found["losses"])
                    theirs.setdefault(way, []).append(found["ms"])
    print("losses, ours and theirs:", *(f"{x:.6f}" for x in losses[:4]), "and", *(f"{x:.6f}" for x in next(iter(ways.values()))["losses"][:4]))
    for way, reason in missing.items():
        print(f"not measured: {way}: {reason}")
    fastest = [min(turn) for turn in zip(*theirs.values())]
    rows = []
    for way, times in [*theirs.items(), ("the fastest of a turn", fastest)]:
        ratios = [x / y for x, y in zip(ours, times)]
        rows.append([way, f"{statistics.median(times):.1f}", f"{statistics.median(ours):.1f}", f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} - {max(ratios):.2f}"])
    table(f"A step of {STAGES} stages x 1 thread, 1F1B, {options.layers} layers of {options.width}, sequence {options.sequence}, batch {options.batch} in "
          f"{options.micro_batches} micro-batches, AdamW, against PyTorch {version}; medians of {options.turns} turns",
          ["PyTorch", "ms", "ours, ms", "ours / theirs", "of turns"], rows)
    ratio = statistics.median(x / y for x, y in zip(ours, fastest))
    if ratio > AIM:
        sys.exit(f"missed: {ratio:.2f} of PyTorch's time, the aim is {AIM}")


main()
