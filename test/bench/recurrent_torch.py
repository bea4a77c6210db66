#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of recurrent models, against PyTorch in turns: a language model of two LSTMs, and a tagger of two bidirectional GRUs.

    recurrent_torch.py [--build BUILD] [--torch-python PYTHON] [--models lm35,lm512,tagger] [--ranks 1,2,4] [--turns 3]

Both begin with the same weights and take the same batches; ours has the exported model. With one rank each has two threads, and a step has to take at most
AIM of PyTorch's time; with more ranks the losses of STEPS steps are compared alone. Exit status 77 where PYTHON cannot import torch and onnx.

    recurrent_torch.py --peer MODEL    exports the model, or trains it where it was exported; for PYTHON
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from measuring import ROOT, run, steps_of
from torch_turns import ask_peer, check_losses, compare, skip_without

AIM, STEPS, WARM_UP, TOLERANCE, RATE, BATCH = 0.7, 20, 5, 1e-4, 0.5, 20

# Kind, words of a sequence, width, words or tags that there are.
MODELS = {"lm35": ("lm", 35, 650, 10000), "lm512": ("lm", 512, 650, 1000), "tagger": ("tagger", 64, 256, 40)}
WORDS_OF_TAGGER = 5000

JOB = """mode: DATA_PARALLEL
mesh {{ axes {{ name: "dp" size: {ranks} }} }}
global_batch: {batch}
log_every: 1
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ sgd {{}} learning_rate: {rate} }}
dataset {{
  shuffle: false
  npy {{}}
  features {{ column: "words" tensor: "words" }}
  features {{ column: "labels" tensor: "labels" }}
}}
"""


def module_of(name):
    import torch
    kind, _, width, classes = MODELS[name]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(classes if kind == "lm" else WORDS_OF_TAGGER, width)
            cell = torch.nn.LSTM if kind == "lm" else torch.nn.GRU
            self.cells = cell(width, width, 2, batch_first=True, bidirectional=kind == "tagger")
            self.out = torch.nn.Linear(width * (1 if kind == "lm" else 2), classes)

        def forward(self, words):
            return self.out(self.cells(self.table(words))[0])

    torch.manual_seed(1)
    return Model().train()


def peer(name):
    """Exports the model with its data to the current folder; where it is there, trains it."""
    import numpy
    import torch
    torch.set_num_threads(2)
    model, (kind, length, _, classes) = module_of(name), MODELS[name]
    if not pathlib.Path("model.onnx").exists():
        random = numpy.random.default_rng(0)
        words = random.integers(0, classes if kind == "lm" else WORDS_OF_TAGGER, (STEPS * BATCH, length + 1))
        labels = words[:, 1:] if kind == "lm" else words[:, :-1] % classes
        for split in ("train", "eval"):
            numpy.save(f"words_{split}.npy", words[:, :-1])
            numpy.save(f"labels_{split}.npy", labels)
        torch.onnx.export(model, (torch.tensor(words[:BATCH, :-1]),), "model.onnx", input_names=["words"], output_names=["logits"], dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          dynamic_axes={"words": {0: "batch"}, "logits": {0: "batch"}})
        return
    words, labels = (torch.tensor(numpy.load(f"{what}_train.npy")) for what in ("words", "labels"))
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=RATE), []
    for step in range(STEPS):
        if step == WARM_UP:
            begin = time.perf_counter()
        batch = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(words[batch]).flatten(0, 1), labels[batch].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    milliseconds = (time.perf_counter() - begin) / (STEPS - WARM_UP) * 1e3
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "ways": {"eager": {"ms": milliseconds, "losses": losses}}}))


class Bench:
    def __init__(self, options, name, folder):
        self.options, self.name, self.folder = options, name, pathlib.Path(folder)
        self.peer = [options.torch_python, pathlib.Path(__file__).resolve(), "--peer", name]
        run(self.peer, folder)

    def compile(self, ranks):
        (self.folder / "job.txtpb").write_text(JOB.format(ranks=ranks, batch=BATCH, rate=RATE))
        return run([self.options.build.resolve() / "bin" / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", f"model{ranks}"], self.folder)[0]

    def train(self, ranks, threads):
        launch = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        run([*launch, f"./model{ranks}", "--data", ".", "--steps", STEPS, "--threads", threads, "--metrics", "metrics.jsonl"], self.folder)
        return steps_of(self.folder / "metrics.jsonl", WARM_UP)

    def ours(self):
        return self.train(1, 2)

    def theirs(self):
        return ask_peer(self.peer, self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--turns", default=3, type=int)
    parser.add_argument("--peer")
    options = parser.parse_args()
    if options.peer:
        return peer(options.peer)
    skip_without(options.torch_python, "torch", "onnx", "numpy")
    missed = []
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(options, name, folder)
            for ranks in map(int, options.ranks.split(",")):
                print(f"{name}: compiled for {ranks} ranks in {bench.compile(ranks):.2f} s")
                if ranks > 1:
                    check_losses([TOLERANCE] * STEPS, bench.train(ranks, 1)[1], "PyTorch", bench.theirs()[1]["eager"]["losses"])
                    continue
                try:
                    compare(bench, options.turns, [TOLERANCE] * STEPS, f"{name}: a training step", AIM)
                except SystemExit as fault:
                    if not str(fault).startswith("missed"):
                        raise
                    missed.append(f"{name}: {fault}")
    return sys.exit("; ".join(missed)) if missed else None


if __name__ == "__main__":
    sys.exit(main())
