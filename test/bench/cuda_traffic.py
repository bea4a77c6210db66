#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a training step moves on a GPU, read from the instruction table: no GPU is needed.

    cuda_traffic.py [--build BUILD] [--only gpt,resnet] [--kernels N] [--keep FOLDER]

A GPT of 12 layers of 768 (12 heads, 16 samples of 1024 tokens, vocabulary of 50304, AdamW, clipping) and ResNet-50 (256 images of 224 x 224, momentum), both
BF16_MIXED on one device. Prints bytes and launches by kind of instruction, and the N kernels that move most, with their blocks. Each operand of an instruction
counts once, whole. Exit status 1 when an aim is missed.
"""

import argparse
import collections
import math
import pathlib
import re
import sys
import tempfile

from measuring import ROOT, measure_parts, run, table

JOB = """mode: DATA_PARALLEL
mesh { axes { name: "dp" size: 1 } }
precision: BF16_MIXED
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
init { match: "*.bias" fill: 0 }
init { match: "*" normal { std: 0.02 } }
"""
GPT_JOB = JOB + """global_batch: 16
optimizer { adamw { weight_decay: 0.1 } learning_rate: 0.0006 clip_global_norm: 1 }
dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }
"""
RESNET_JOB = JOB + """global_batch: 256
optimizer { momentum { momentum: 0.9 weight_decay: 0.0001 } learning_rate: 0.1 }
dataset { npy {} features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }
"""
BITS = {"i1": 8, "i8": 8, "ui8": 8, "bf16": 16, "f16": 16, "i16": 16, "f32": 32, "i32": 32, "f64": 64, "i64": 64}
BUFFER = re.compile(r"<(?:\w+), \d+, memref<((?:\d+x)*)(\w+)>>")

Instruction = collections.namedtuple("Instruction", "kind name bytes blocks operands")


def bytes_of(shape, element):
    return math.prod(int(size) for size in shape.split("x") if size) * BITS[element] // 8


def instructions(listing, program):
    """Yields the instructions of a program of what `--emit exec` writes."""
    lines = iter(listing.splitlines())
    for line in lines:
        if f"exec.program @{program} " in line:
            break
    for line in lines:
        if line.strip() == "}":
            return
        op = re.match(r"\s*exec\.(\w+)(?: @(\w+))?", line)
        operands = [shape + element for shape, element in BUFFER.findall(line)]
        moved = sum(bytes_of(shape, element) for shape, element in BUFFER.findall(line))
        moved += bytes_of(*BUFFER.findall(line)[-1]) if " accumulate " in line else 0  # the result is read, too
        extent = re.search(r" extent (\d+) ", line)
        yield Instruction(op[1], op[2] or "", moved, int(extent[1]) if extent else 0, operands)


class Traffic:
    def __init__(self, build, folder, kernels):
        self.tools, self.folder, self.kernels = pathlib.Path(build).resolve() / "bin", folder, kernels

    def count(self, name, job, aims, zoo):
        """Prints the tables of one model; returns the aims that it missed."""
        model, listing, job_file = self.folder / f"{name}.onnx", self.folder / f"{name}.exec", self.folder / f"{name}.txtpb"
        job_file.write_text(job)
        run([self.tools / "ashlar-zoo", *zoo, "--no-data", "-o", model], self.folder)
        run([self.tools / "ashlarc", model, "--job", job_file, "--target", "cuda", "--emit", "exec", "-o", listing], self.folder)
        step = list(instructions(listing.read_text(), "train_step"))
        self.print_kinds(name, step)
        self.print_kernels(name, step)
        total, launches = sum(op.bytes for op in step), len(step)
        narrow = sorted({op.name for op in step if op.kind == "kernel" and op.bytes > 4e6 and op.blocks < 264})
        missed = []
        if total > aims[0] * 1e9:
            missed.append(f"{name}: {total / 1e9:.1f} GB, aim {aims[0]}")
        if launches > aims[1]:
            missed.append(f"{name}: {launches} launches, aim {aims[1]}")
        if narrow:
            missed.append(f"{name}: fewer than 264 blocks for more than 4 MB: {', '.join(narrow)}")
        return missed

    def print_kinds(self, name, step):
        counts, moved = collections.Counter(), collections.Counter()
        for op in step:
            kind = op.kind if op.kind != "kernel" else op.name.split("_")[0]
            counts[kind] += 1
            moved[kind] += op.bytes
        rows = [[kind, counts[kind], f"{moved[kind] / 1e9:.2f}"] for kind, _ in moved.most_common()]
        table(f"{name}: a step", ["instruction", "launches", "GB"], [*rows, ["all", len(step), f"{sum(moved.values()) / 1e9:.2f}"]])

    def print_kernels(self, name, step):
        kernels = collections.defaultdict(list)
        for op in step:
            if op.kind == "kernel":
                kernels[op.name].append(op)
        rows = []
        for kernel, ops in sorted(kernels.items(), key=lambda item: -sum(op.bytes for op in item[1]))[:self.kernels]:
            rows.append([kernel, len(ops), f"{sum(op.bytes for op in ops) / 1e9:.2f}", f"{ops[0].bytes / 1e6:.2f}", ops[0].blocks, " ".join(ops[0].operands)])
        table(f"{name}: kernels", ["kernel", "launches", "GB a step", "MB a launch", "blocks", "operands"], rows)

    def gpt(self):
        return self.count("gpt", GPT_JOB, (45, 600), ["transformer", "--layers", 12, "--width", 768, "--heads", 12, "--sequence", 1024, "--vocabulary", 50304])

    def resnet(self):
        return self.count("resnet", RESNET_JOB, (110, 700), ["resnet", "--depth", 50, "--image", 224, "--classes", 1000])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--only", default="gpt,resnet")
    parser.add_argument("--kernels", type=int, default=25)
    parser.add_argument("--keep", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        measure_parts(Traffic(options.build, folder, options.kernels), options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
