# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model with Dropout in training mode: Gemm, Relu, Dropout(0.3), Gemm. dropout_model.py FILE.onnx"""

import random
import sys

from onnx_writer import BOOL, FLOAT, constant, floats, graph_input, graph_output, node, parameter, write_model

random.seed(3)
write_model(sys.argv[1], "dropout", [
    node("Gemm", ["input", "fc1.weight", "fc1.bias"], ["h"], "fc1", transB=1),
    node("Relu", ["h"], ["r"], "relu"),
    constant("ratio", FLOAT, floats([0.3])),
    constant("training", BOOL, b"\1"),
    node("Dropout", ["r", "ratio", "training"], ["d"], "dropout"),
    node("Gemm", ["d", "fc2.weight", "fc2.bias"], ["logits"], "fc2", transB=1),
    parameter("fc1.weight", [64, 784], [random.uniform(-0.05, 0.05) for _ in range(64 * 784)]),
    parameter("fc1.bias", [64], [0] * 64),
    parameter("fc2.weight", [10, 64], [random.uniform(-0.05, 0.05) for _ in range(640)]),
    parameter("fc2.bias", [10], [0] * 10),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
])
