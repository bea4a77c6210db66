# SPDX-License-Identifier: Apache-2.0
"""One Gemm and the losses that can be computed from it, and what --eval has to print for some samples, worked out one sample at a time.

evaluation_model.py model FILE.onnx       x (batch, 4) -> logits (batch, 3), log_probabilities; own_loss when FILE begins with "own",
                                          squared_loss, its square, when it begins with "own_squared"
evaluation_model.py data FOLDER COUNT     x, label, target for 24 samples to train and COUNT to evaluate
evaluation_model.py expect KIND COUNT     "LOSS" or "LOSS CORRECT" of those, for the loss of this name
"""

import math
import pathlib
import random
import struct
import sys

from npy_writer import write_npy
from onnx_writer import INT64, graph_input, graph_output, node, parameter, write_model


def in_f32(values):
    return list(struct.unpack("<%df" % len(values), struct.pack("<%df" % len(values), *values)))


def draw(seed, count, largest):
    generator = random.Random(seed)
    return in_f32([generator.uniform(-largest, largest) for _ in range(count)])


WEIGHT, BIAS = draw(1, 12, 3), draw(2, 3, 1)  # (3, 4), (3)


# Samples that differ much, so that one more or less shows in every digit.
def samples(split, count):
    x = draw(split + "x", 4 * count, 10)
    labels = [random.Random(split + str(i)).randrange(3) for i in range(count)]
    return [(x[4 * i : 4 * i + 4], labels[i], draw("%s target %d" % (split, i), 3, 20 * (i + 1))) for i in range(count)]


def model(path):
    parts = [node("Gemm", ["x", "weight", "bias"], ["logits"], transB=1), node("LogSoftmax", ["logits"], ["log_probabilities"])]
    parts += [parameter("weight", [3, 4], WEIGHT), parameter("bias", [3], BIAS), graph_input("x", ["batch", 4])]
    parts += [graph_output(name, ["batch", 3]) for name in ("logits", "log_probabilities")]
    if pathlib.Path(path).name.startswith("own"):
        parts += [node("SoftmaxCrossEntropyLoss", ["logits", "label"], ["own_loss"]), graph_input("label", ["batch"], INT64)]
        parts.append(graph_output("own_loss", []))
    if pathlib.Path(path).name.startswith("own_squared"):
        parts += [node("Mul", ["own_loss", "own_loss"], ["squared_loss"]), graph_output("squared_loss", [])]
    write_model(path, "evaluation", parts)


def data(folder, count):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    for split, size in (("train", 24), ("eval", count)):
        rows = samples(split, size)
        write_npy(folder / f"x_{split}.npy", "f", (size, 4), [value for x, _, _ in rows for value in x])
        write_npy(folder / f"label_{split}.npy", "q", (size,), [label for _, label, _ in rows])
        write_npy(folder / f"target_{split}.npy", "f", (size, 3), [value for _, _, target in rows for value in target])


def expect(kind, count):
    loss, correct = 0.0, 0
    for x, label, target in samples("eval", count):
        logits = [sum(a * b for a, b in zip(x, WEIGHT[4 * row : 4 * row + 4])) + BIAS[row] for row in range(3)]
        if kind == "mean_squared_error":
            loss += sum((a - b) ** 2 for a, b in zip(logits, target)) / 3
        else:
            loss += max(logits) + math.log(sum(math.exp(value - max(logits)) for value in logits)) - logits[label]
        correct += logits.index(max(logits)) == label
    print("%.7f" % (loss / count), *([] if kind in ("mean_squared_error", "model_output") else [correct]))


if sys.argv[1] == "model":
    model(sys.argv[2])
elif sys.argv[1] == "data":
    data(sys.argv[2], int(sys.argv[3]))
else:
    expect(sys.argv[2], int(sys.argv[3]))
