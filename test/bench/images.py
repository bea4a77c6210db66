#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what it takes to prepare images, and how long training steps wait for them, with all transforms from 32 x 32 to 224 x 224.

    images.py [--build BUILD] [--data CIFAR10_DIR | --images DIR] [--batch B] [--steps N]

The chain is that of ResNet-50 on CIFAR-10: crop, flip, resize, rescale, normalize by channel, hwc2chw. The model has two layers of 32 and 10: a step of
some GFLOP, far below a ResNet's. Prepared: the time on a core of the thread beside the training, as the kernel counts it, over the
images. Without --data it makes 1000 random images. With --images it decodes the files of a folder a class (train/<class>/*.jpg), takes random parts as
torchvision's RandomResizedCrop, and flips, rescales and normalizes them.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

from measuring import ROOT, run, table

sys.path.insert(0, str(ROOT / "test/e2e"))
from onnx_writer import graph_input, graph_output, node, parameter, write_model

SIDE = 224
JOB = """global_batch: {batch}
loss {{ model_output {{ tensor: "loss" }} }}
optimizer {{ sgd {{}} learning_rate: 1e-6 }}
dataset {{
  {source}
  repeat: 100000
  features {{
    column: "image" tensor: "x"
    {crop}
    transforms {{ random_horizontal_flip {{}} }}
    {resize}
    transforms {{ rescale {{ scale: 0.00392157 }} }}
    transforms {{ normalize {{ mean: [0.4914, 0.4822, 0.4465] std: [0.2023, 0.1994, 0.2010] }} }}
    transforms {{ hwc2chw {{}} }}
  }}
}}
"""


SIZE = f"height: {SIDE} width: {SIDE}"
CIFAR10 = {"source": "cifar10 {}", "crop": "transforms { random_crop { padding: 4 } }", "resize": f"transforms {{ resize {{ {SIZE} }} }}"}
FILES = {"source": f"images {{ {SIZE} }}", "crop": "", "resize": ""}


def write_dense(path, sizes):
    generator, parts, value = random.Random(1), [node("Flatten", ["x"], ["0"])], "0"
    inputs = 3 * SIDE * SIDE
    for i, outputs in enumerate(sizes, 1):
        parts += [node("Gemm", [value, f"w{i}"], [str(i)], transB=1)]
        parts += [parameter(f"w{i}", [outputs, inputs], [generator.uniform(-1, 1) / inputs for _ in range(outputs * inputs)])]
        inputs, value = outputs, str(i)
    parts += [node("ReduceMean", [value], ["loss"], keepdims=0), graph_input("x", ["batch", 3, SIDE, SIDE]), graph_output("loss", [])]
    write_model(path, "images", parts)


def watched(command, folder):
    """Runs a program; returns its output and the seconds that its threads but the first were on a core."""
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([str(part) for part in command], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    beside = {}
    while process.poll() is None:
        for thread in pathlib.Path(f"/proc/{process.pid}/task").glob("*"):
            try:
                if thread.name != str(process.pid):
                    beside[thread.name] = int((thread / "schedstat").read_text().split()[0]) * 1e-9
            except (OSError, IndexError):
                pass  # it has ended
        time.sleep(0.001)
    text = (folder / "log").read_text()
    if process.returncode != 0:
        raise SystemExit(f"error: the program exited with {process.returncode}:\n{text}")
    return text, sum(beside.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--images", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        given = options.images or options.data
        data = given.resolve() if given else folder
        if not given:
            generator = random.Random(2)
            (folder / "data_batch_1.bin").write_bytes(b"".join(bytes([i % 10]) + generator.randbytes(3072) for i in range(1000)))
        (folder / "job.txtpb").write_text(JOB.format(batch=options.batch, **(FILES if options.images else CIFAR10)))
        write_dense(folder / "model.onnx", [32, 10])
        run([options.build.resolve() / "bin/ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "program"], folder)
        command = ["./program", "--data", data, "--steps", options.steps, "--profile", "--threads", 1]
        text, beside = watched(command, folder)
    step = float(re.search(r"\(([0-9.]+) us a step", text)[1])
    wait, share = re.search(r"^data wait: ([0-9.]+) us a step, ([0-9.]+) %", text, re.M).groups()
    prepared = 1e6 * beside / (options.batch * (options.steps + 3))  # batches wait in three stages
    row = [f"{prepared:.1f}", f"{1e6 / prepared:.0f}", f"{step / 1e3:.2f}", f"{float(wait) / 1e3:.3f}", share]
    table(f"Images of {SIDE} x {SIDE}, batches of {options.batch}", ["us to prepare one", "a second and core", "ms a step", "ms waited for data", "%"], [row])


main()
