# SPDX-License-Identifier: Apache-2.0
"""A model of images and small data sets of them.

images.py model FILE.onnx CHANNELS HEIGHT WIDTH   x (batch, channels, height, width) -> logits (batch, 10), two layers
images.py cifar10 FOLDER                          100 images to train in two files, 42 to evaluate
images.py npy FOLDER                              the same images as .npy files: bytes, channels last
"""

import pathlib
import random
import sys

from npy_writer import write_npy
from onnx_writer import graph_input, graph_output, node, parameter, write_model

BATCHES = {"data_batch_1": range(0, 64), "data_batch_2": range(64, 100), "test_batch": range(100, 142)}


def weights(name, count, largest):
    generator = random.Random(name)
    return [generator.uniform(-largest, largest) for _ in range(count)]


def model(path, channels, height, width):
    pixels = channels * height * width
    write_model(path, "images", [
        node("Flatten", ["x"], ["pixels"]), node("Gemm", ["pixels", "fc1.weight", "fc1.bias"], ["sum"], transB=1),
        node("Relu", ["sum"], ["hidden"]), node("Gemm", ["hidden", "fc2.weight", "fc2.bias"], ["logits"], transB=1),
        parameter("fc1.weight", [32, pixels], weights("1", 32 * pixels, pixels**-0.5)), parameter("fc1.bias", [32], [0] * 32),
        parameter("fc2.weight", [10, 32], weights("2", 320, 32**-0.5)), parameter("fc2.bias", [10], [0] * 10),
        graph_input("x", ["batch", channels, height, width]), graph_output("logits", ["batch", 10])])


# The class of an image and its planes: a blob whose place and color tell the class, and noise.
def image(number):
    generator, label = random.Random(number), number * 7 % 10
    planes = []
    for channel in range(3):
        for y in range(32):
            for x in range(32):
                near = abs(y - 4 - 5 * (label % 5)) < 5 and abs(x - 16) < 9 and channel == label % 3
                planes.append((200 if near else 60) + generator.randrange(40))
    return label, planes


def cifar10(folder):
    for name, numbers in BATCHES.items():
        records = [image(number) for number in numbers]
        (folder / f"{name}.bin").write_bytes(b"".join(bytes([label]) + bytes(planes) for label, planes in records))


def npy(folder):
    for split, numbers in (("train", range(100)), ("eval", range(100, 142))):
        records = [image(number) for number in numbers]
        pixels = [planes[channel * 1024 + i] for _, planes in records for i in range(1024) for channel in range(3)]
        write_npy(folder / f"image_{split}.npy", "B", (len(records), 32, 32, 3), pixels)
        write_npy(folder / f"label_{split}.npy", "B", (len(records),), [label for label, _ in records])


if sys.argv[1] == "model":
    model(sys.argv[2], *map(int, sys.argv[3:]))
else:
    target = pathlib.Path(sys.argv[2])
    target.mkdir(exist_ok=True)
    {"cifar10": cifar10, "npy": npy}[sys.argv[1]](target)
