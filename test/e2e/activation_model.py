# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model of three dense layers on sequences, with a GELU and a Relu between: activation_model.py tanh|none FILE.onnx

The argument is the GELU's `approximate`. An image of 28 x 28 is a sequence of 7 rows of 112 numbers.
"""

import random
import struct
import sys

from onnx_writer import INT64, constant, graph_input, graph_output, node, parameter, write_model


def uniform(name, dims, fan_in):
    count = 1
    for size in dims:
        count *= size
    return parameter(name, dims, [random.uniform(-1, 1) * fan_in ** -0.5 for _ in range(count)])


def shape_of(name, *sizes):
    return constant(name, INT64, struct.pack("<%dq" % len(sizes), *sizes), [len(sizes)])


def main():
    approximate, path = sys.argv[1:]
    random.seed(5)
    write_model(path, "activations", [
        shape_of("rows_shape", 0, 7, 112),
        node("Reshape", ["input", "rows_shape"], ["rows"], "rows"),
        node("MatMul", ["rows", "up.weight"], ["up"], "up"),
        node("Add", ["up", "up.bias"], ["up_sum"], "up/add"),
        node("Gelu", ["up_sum"], ["gelu"], "gelu", approximate=approximate),
        node("MatMul", ["gelu", "down.weight"], ["down"], "down"),
        node("Add", ["down", "down.bias"], ["down_sum"], "down/add"),
        node("Relu", ["down_sum"], ["relu"], "relu"),
        node("MatMul", ["relu", "last.weight"], ["last"], "last"),
        node("Add", ["last", "last.bias"], ["last_sum"], "last/add"),
        shape_of("flat_shape", 0, 280),
        node("Reshape", ["last_sum", "flat_shape"], ["flat"], "flat"),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        uniform("up.weight", [112, 64], 112),
        uniform("up.bias", [64], 112),
        uniform("down.weight", [64, 72], 64),
        uniform("down.bias", [72], 64),
        uniform("last.weight", [72, 40], 72),
        uniform("last.bias", [40], 72),
        uniform("fc.weight", [10, 280], 280),
        uniform("fc.bias", [10], 280),
        graph_input("input", ["batch", 784]),
        graph_output("logits", ["batch", 10]),
    ], opset=20)


main()
