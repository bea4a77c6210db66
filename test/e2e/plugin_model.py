# SPDX-License-Identifier: Apache-2.0
"""A net with the activation of examples/plugin, x tanh(e^x).

plugin_model.py model FILE.onnx      x (16, 4) -> output (16, 1), with the op demo.TanhExp
plugin_model.py spelled FILE.onnx    the same in ONNX's own ops
plugin_model.py data FOLDER          20 batches of x and target
plugin_model.py torch                the loss of each of 20 steps of SGD, learning rate 0.1, by PyTorch in f64: plugin_losses.txt
"""

import pathlib
import random
import struct
import sys

from npy_writer import write_npy
from onnx_writer import graph_input, graph_output, node, parameter, write_model

BATCH, STEPS, INPUTS, HIDDEN = 16, 20, 4, 8


def draw(seed, count, largest):
    generator = random.Random(seed)
    values = [generator.uniform(-largest, largest) for _ in range(count)]
    return list(struct.unpack("<%df" % count, struct.pack("<%df" % count, *values)))


PARAMETERS = {"fc1.weight": ((HIDDEN, INPUTS), 1.0), "fc1.bias": ((HIDDEN,), 0.5), "fc2.weight": ((1, HIDDEN), 1.0), "fc2.bias": ((1,), 0.5)}
VALUES = {name: draw(name, dims[0] * (dims[1] if len(dims) > 1 else 1), largest) for name, (dims, largest) in PARAMETERS.items()}
X, TARGET = draw("x", BATCH * STEPS * INPUTS, 2), draw("target", BATCH * STEPS, 1)


def model(path, is_spelled):
    spelled = [node("Exp", ["h"], ["e"]), node("Tanh", ["e"], ["t"]), node("Mul", ["h", "t"], ["a"])]
    activation = spelled if is_spelled else [node("TanhExp", ["h"], ["a"], domain="demo")]
    parts = [node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1), *activation, node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["output"], transB=1)]
    parts += [parameter(name, PARAMETERS[name][0], VALUES[name]) for name in PARAMETERS]
    parts += [graph_input("x", (BATCH, INPUTS)), graph_output("output", (BATCH, 1))]
    write_model(path, "plugin", parts, domains=() if is_spelled else ("demo",))


def data(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    write_npy(folder / "x_train.npy", "f", (BATCH * STEPS, INPUTS), X)
    write_npy(folder / "target_train.npy", "f", (BATCH * STEPS, 1), TARGET)


def train_by_torch():
    import torch

    w1, b1, w2, b2 = (torch.tensor(VALUES[name], dtype=torch.float64).reshape(PARAMETERS[name][0]).requires_grad_() for name in PARAMETERS)
    optimizer = torch.optim.SGD([w1, b1, w2, b2], lr=0.1)
    xs = torch.tensor(X, dtype=torch.float64).reshape(STEPS, BATCH, INPUTS)
    targets = torch.tensor(TARGET, dtype=torch.float64).reshape(STEPS, BATCH, 1)
    for x, target in zip(xs, targets):
        h = torch.nn.functional.linear(x, w1, b1)
        output = torch.nn.functional.linear(h * torch.tanh(torch.exp(h)), w2, b2)
        loss = torch.nn.functional.mse_loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("%.9g" % loss.item())


def main():
    if sys.argv[1] in ("model", "spelled"):
        model(sys.argv[2], sys.argv[1] == "spelled")
    elif sys.argv[1] == "data":
        data(sys.argv[2])
    else:
        train_by_torch()


main()
