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
import pathlib
import random
import sys
import tempfile

from measuring import ROOT, run, steps_of
from torch_turns import ask_peer, compare, skip_without

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
        run(["mpirun", "-n", STAGES, "./train", "--data", ".", "--steps", steps, "--threads", 1, *arguments], self.folder)

    def ours(self):
        self.train(WARM_UP + STEPS, "--metrics", "metrics.jsonl")
        return steps_of(self.folder / "metrics.jsonl", WARM_UP)

    def theirs(self):
        options = [f"--{name}={getattr(self.options, name)}" for name in ("layers", "heads", "batch")]
        options += [f"--micro-batches={self.options.micro_batches}", f"--warm-up={WARM_UP}", f"--steps={STEPS}", f"--ways={self.options.ways}"]
        return ask_peer([self.options.torch_python, ROOT / "test/bench/stages_torch.py", self.folder, *options], self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--ways", default=WAYS)
    for name, default in (*SIZES, ("batch", 32), ("micro-batches", 8), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    skip_without(options.torch_python, "torch")
    title = (f"A step of {STAGES} stages x 1 thread, 1F1B, {options.layers} layers of {options.width}, sequence {options.sequence}, batch {options.batch} in "
             f"{options.micro_batches} micro-batches, AdamW")
    with tempfile.TemporaryDirectory() as folder:
        compare(Bench(options, pathlib.Path(folder)), options.turns, TOLERANCES, title, AIM)


main()
