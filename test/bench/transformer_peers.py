#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of a transformer on the CPU, in bf16 or f32, against PyTorch and JAX, on one host.

    transformer_peers.py [--build BUILD] [--torch-python PYTHON] [--jax-python PYTHON] [--precision BF16_MIXED|F32] [--layers L] [--width W] [--heads H]
                         [--sequence S] [--vocabulary V] [--batch B] [--threads T] [--turns T] [--cpu-time]
    transformer_peers.py --peer FOLDER ...    PyTorch's side, as the bench starts it

The model is `ashlar-zoo transformer` with AdamW, parameters in f32, one process. Both start with the same parameters and train on the same one batch; losses are
compared to what roundings to bf16 allow. PyTorch does the four operations of attention one by one (`eager`) and as scaled_dot_product_attention (`attention`), the
latter also under torch.compile (`compiled`); JAX compiles the whole step (transformer_jax.py), with --jax-python. The fastest of a turn counts. Ours and theirs take
turns, so that a change of the machine's speed meets both. The first two steps are not timed, on any side.
--cpu-time counts the time of the processor, not of the clock: on a machine with other work, with one thread. Exit status 77 where PYTHON cannot import torch.
"""

import argparse
import json
import pathlib
import random
import resource
import sys
import tempfile
import time

from measuring import ROOT, run, steps_of
from torch_turns import ask_peer, compare, skip_without

sys.path.insert(0, str(ROOT / "test/e2e"))
from npy_writer import write_npy

WARM_UP, STEPS, AIM = 2, 4, 1.0
SIZES = (("layers", 6), ("width", 384), ("heads", 6), ("sequence", 256), ("vocabulary", 8000))
TOLERANCES = {"BF16_MIXED": [2e-3, 1e-2, 1e-2], "F32": [1e-5, 1e-3, 1e-3]}

JOB = """mode: DATA_PARALLEL
mesh {{ axes {{ name: "dp" size: 1 }} }}
global_batch: {batch}
precision: {precision}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ adamw {{ weight_decay: 0.01 }} learning_rate: 0.0001 }}
dataset {{ npy {{}} shuffle: false repeat: 100000 features {{ column: "tokens" tensor: "tokens" }} features {{ column: "next" tensor: "labels" }} }}
log_every: 1
"""


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, tools = options, folder, pathlib.Path(options.build).resolve() / "bin"
        sizes = [part for name, _ in SIZES for part in (f"--{name}", getattr(options, name))]
        run([tools / "ashlar-zoo", "transformer", *sizes, "-o", "model.onnx"], folder)
        generator, count = random.Random(1), options.batch * options.sequence
        for column in ("tokens", "next"):
            write_npy(folder / f"{column}_train.npy", "q", (options.batch, options.sequence), [generator.randrange(options.vocabulary) for _ in range(count)])
        (folder / "job.txtpb").write_text(JOB.format(batch=options.batch, precision=options.precision))
        run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "train"], folder)
        self.train(0, "--save-parameters", "init")

    def train(self, steps, *arguments):
        run(["./train", "--data", ".", "--steps", steps, "--threads", self.options.threads, *arguments], self.folder)

    def cpu_time(self, steps, *arguments):
        """Seconds of the processor that a run takes."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.train(steps, *arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def ours(self):
        seconds = self.cpu_time(WARM_UP + STEPS, "--metrics", "metrics.jsonl")
        milliseconds, losses = steps_of(self.folder / "metrics.jsonl", WARM_UP)
        return (seconds - self.cpu_time(WARM_UP)) / STEPS * 1e3 if self.options.cpu_time else milliseconds, losses

    def theirs(self):
        options = [f"--{name}={getattr(self.options, name)}" for name in ("layers", "heads", "batch", "threads", "precision")]
        options += ["--cpu-time"] if self.options.cpu_time else []
        script = pathlib.Path(__file__).resolve()
        name, ways = ask_peer([self.options.torch_python, script, "--peer", self.folder, *options], self.folder)
        if self.options.jax_python:
            options += [f"--warm-up={WARM_UP}", f"--steps={STEPS}"]
            jax, more = ask_peer([self.options.jax_python, script.with_name("transformer_jax.py"), self.folder, *options], self.folder)
            name, ways = f"{name} and {jax}", {**ways, **more}
        return name, ways


def peer(options):
    """PyTorch's side: prints what torch_turns.py reads."""
    import torch

    from stages_torch import Embedding, Head, Layer, Parameters, cannot_compile, cross_entropy
    from torch_peer import ADAMW, read_npy

    clock = time.process_time if options.cpu_time else time.perf_counter
    torch.set_num_threads(options.threads)
    tokens, labels = (read_npy(options.peer / f"{column}_train.npy") for column in ("tokens", "next"))
    found = {}
    for way in ("eager", "attention", "compiled"):
        if way == "compiled" and (fault := cannot_compile()):
            found[way] = {"missing": fault}
            continue
        parameters = Parameters(options.peer / "init")
        layers = [Layer(parameters, f"layer{layer}", options.heads, fused=way != "eager") for layer in range(options.layers)]
        module = torch.nn.Sequential(Embedding(parameters), *layers, Head(parameters))
        optimizer, losses = torch.optim.AdamW(module.parameters(), **ADAMW), []
        module = torch.compile(module) if way == "compiled" else module
        for number in range(WARM_UP + STEPS):
            if number == WARM_UP:
                begin = clock()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "BF16_MIXED"):
                logits = module(tokens)
            loss = cross_entropy(logits.float(), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found[way] = {"ms": (clock() - begin) / STEPS * 1e3, "losses": losses}
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "ways": found}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--jax-python")
    parser.add_argument("--precision", choices=TOLERANCES, default="BF16_MIXED")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--peer", type=pathlib.Path)
    for name, default in (*SIZES, ("batch", 8), ("threads", 2), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if options.peer:
        peer(options)
        return
    skip_without(options.torch_python, "torch")
    if options.jax_python:
        skip_without(options.jax_python, "jax")
    title = (f"A step in {options.precision} of {options.layers} layers of {options.width}, sequence {options.sequence}, batch {options.batch}, vocabulary "
             f"{options.vocabulary}, AdamW, {options.threads} thread(s){', CPU time' if options.cpu_time else ''}")
    with tempfile.TemporaryDirectory() as folder:
        compare(Bench(options, pathlib.Path(folder)), options.turns, TOLERANCES[options.precision], title, AIM)


main()
