#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text generation by a model of the sizes of GPT-2 124M with random weights, one text, two threads, against ONNX Runtime with a past, in turns.

    generate_ort.py [--build BUILD] [--torch-python PYTHON] [--turns 3] [--starts 20,900]

A token has to take at most AIM of ONNX Runtime's time, and the weights to be read at OF_BANDWIDTH of the rate at which torch sums a large tensor in the same run. The first WARM_UP tokens
do not count. Both take the most likely token; its logits are compared. ONNX Runtime's model takes keys and values as inputs and gives them longer by one position, as transformers exports
them; the tensors stay in the runtime. Exit status 77 where PYTHON cannot import torch, onnx and onnxruntime.

    generate_ort.py --export          writes whole.onnx, past.onnx; for PYTHON
    generate_ort.py --peer START      generates behind START tokens with ONNX Runtime; measures the memory
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
import tempfile
import time

from measuring import ROOT, run, table
from torch_turns import ask_peer, compare, skip_without

AIM, OF_BANDWIDTH, WARM_UP, NEW, TOLERANCE = 0.8, 0.8, 10, 110, 1e-4
LAYERS, HEADS, WIDTH, VOCABULARY, CONTEXT = 12, 12, 768, 50257, 1024


def module_of(with_past):
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x, past):
            batch, rows, _ = x.shape
            q, k, v = (part.reshape(batch, rows, HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.qkv(self.norms[0](x)).split(WIDTH, -1))
            if past is not None:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
            if past is None:
                scores = scores + torch.full((CONTEXT, CONTEXT), -torch.inf).triu(1)
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, rows, WIDTH)
            x = x + self.projection(y)
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh")), k, v

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
            self.norm = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, tokens, *past):
            places = torch.arange(CONTEXT) if not past else past[0].shape[2] + torch.arange(1)
            x, present = self.tokens(tokens) + self.positions(places), []
            for number, layer in enumerate(self.layers):
                x, k, v = layer(x, past[2 * number : 2 * number + 2] if past else None)
                present += [k, v]
            logits = self.head(self.norm(x))
            return (logits, *present) if with_past else logits

    torch.manual_seed(1)
    return Model().eval()


def export():
    import torch
    names = [f"{kind}{layer}" for layer in range(LAYERS) for kind in ("keys", "values")]
    past = tuple(torch.zeros(1, HEADS, 5, WIDTH // HEADS) for _ in names)
    with torch.no_grad():
        torch.onnx.export(module_of(False), (torch.zeros(1, CONTEXT, dtype=torch.int64),), "whole.onnx", input_names=["tokens"], output_names=["logits"],
                          dynamo=False)
        torch.onnx.export(module_of(True), (torch.zeros(1, 1, dtype=torch.int64), *past), "past.onnx", input_names=["tokens", *names],
                          output_names=["logits", *(f"new_{name}" for name in names)], dynamic_axes={name: {2: "past"} for name in names}, dynamo=False)


def prompt_of(start):
    return [(7919 * place + 13) % VOCABULARY for place in range(start)]


def peer(start):
    import numpy
    import onnxruntime
    import torch
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession("past.onnx", settings, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()][1:]
    past = {name: onnxruntime.OrtValue.ortvalue_from_numpy(numpy.zeros((1, HEADS, 0, WIDTH // HEADS), numpy.float32)) for name in names}
    prompt, largest = prompt_of(start), []
    token = prompt[0]
    for place in range(start - 1 + NEW):
        if place == start - 1 + WARM_UP:
            begin = time.perf_counter()
        inputs = {"tokens": onnxruntime.OrtValue.ortvalue_from_numpy(numpy.array([[token]])), **past}
        logits, *present = session.run_with_ort_values(None, inputs)
        past = dict(zip(names, present))
        row = logits.numpy()[0, 0]
        token = prompt[place + 1] if place + 1 < start else int(row.argmax())
        if place >= start - 1:
            largest.append(float(row.max()))
    milliseconds = (time.perf_counter() - begin) / (NEW - WARM_UP) * 1e3
    torch.set_num_threads(2)
    memory, seconds = torch.zeros(1 << 28), []
    for _ in range(5):
        began = time.perf_counter()
        memory.sum()
        seconds.append(time.perf_counter() - began)
    rate = memory.nbytes / statistics.median(seconds)
    print(json.dumps({"peer": f"ONNX Runtime {onnxruntime.__version__}", "ways": {"past": {"ms": milliseconds, "losses": largest, "rate": rate}}}))


class Bench:
    def __init__(self, options, start, folder):
        self.folder, self.start, self.times, self.rates = folder, start, [], []
        self.peer = [options.torch_python, pathlib.Path(__file__).resolve(), "--peer", start]
        (folder / "prompt.txt").write_text(" ".join(map(str, prompt_of(start))) + "\n")

    def seconds(self, new):
        log = run(["./generate", "--prompt", "prompt.txt", "--output", "new.txt", "--logits", "logits.npy", "--new-tokens", new, "--threads", 2, "--timing"],
                  self.folder)[1]
        prompts, seconds = re.search(r"prompts: \d+ tokens in ([\d.]+) s; generation: \d+ tokens in ([\d.]+) s", log).groups()
        print(f"prompt of {self.start}: {float(prompts):.3f} s; {new} tokens: {float(seconds):.3f} s")
        return float(seconds)

    def ours(self):
        warm_up = self.seconds(WARM_UP)  # with the order of the weights
        seconds = self.seconds(NEW) - warm_up
        data = (self.folder / "logits.npy").read_bytes()
        rows = memoryview(data[len(data) - 4 * NEW * VOCABULARY :]).cast("f")
        self.times.append(seconds / (NEW - WARM_UP) * 1e3)
        return self.times[-1], [max(rows[i * VOCABULARY : (i + 1) * VOCABULARY]) for i in range(4)]

    def theirs(self):
        name, ways = ask_peer(self.peer, self.folder)
        self.rates.append(ways["past"]["rate"])
        return name, ways


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--turns", default=3, type=int)
    parser.add_argument("--starts", default="20,900")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--peer", type=int)
    options = parser.parse_args()
    if options.export:
        return export()
    if options.peer:
        return peer(options.peer)
    skip_without(options.torch_python, "torch", "onnx", "onnxruntime")
    missed = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run([options.torch_python, pathlib.Path(__file__).resolve(), "--export"], folder)
        run([options.build.resolve() / "bin" / "ashlarc", "whole.onnx", "--generate", "-o", "generate"], folder)
        weights = 4 * (LAYERS * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH)  # bytes that a token reads; the tables of embeddings are not among them
        for start in map(int, options.starts.split(",")):
            bench = Bench(options, start, folder)
            try:
                compare(bench, options.turns, [TOLERANCE] * 4, f"a token behind {start} others", AIM)
            except SystemExit as fault:
                missed.append(str(fault))
            rate = weights / statistics.median(bench.times) * 1e3
            share = rate / statistics.median(bench.rates)
            table(f"weights read behind {start} tokens", ["GB/s", "of a sum of 1 GiB, GB/s", "share"], [[f"{rate / 1e9:.1f}",
                                                                                             f"{statistics.median(bench.rates) / 1e9:.1f}", f"{share:.2f}"]])
            if share < OF_BANDWIDTH:
                missed.append(f"weights are read at {share:.2f} of the bandwidth, the aim is {OF_BANDWIDTH}")
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
