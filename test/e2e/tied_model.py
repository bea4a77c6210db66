# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model whose parameter "tied" is taken in three layers, with a skip over the middle one: tied_model.py FILE.onnx"""

import random
import sys

from onnx_writer import graph_input, graph_output, node, parameter, write_model

random.seed(4)


def uniform(count):
    return [random.uniform(-0.2, 0.2) for _ in range(count)]


write_model(sys.argv[1], "tied", [
    node("MatMul", ["input", "first"], ["h0"], "fc0"),
    node("Relu", ["h0"], ["r0"], "relu0"),
    node("MatMul", ["r0", "tied"], ["h1"], "fc1"),
    node("Relu", ["h1"], ["r1"], "relu1"),
    node("MatMul", ["r1", "tied"], ["h2"], "fc2"),
    node("Relu", ["h2"], ["r2"], "relu2"),
    node("Add", ["r2", "r0"], ["s"], "skip"),
    node("MatMul", ["s", "tied"], ["h3"], "fc3"),
    node("Relu", ["h3"], ["r3"], "relu3"),
    node("MatMul", ["r3", "last"], ["logits"], "fc4"),
    parameter("first", [784, 24], uniform(784 * 24)),
    parameter("tied", [24, 24], uniform(24 * 24)),
    parameter("last", [24, 10], uniform(24 * 10)),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
])
