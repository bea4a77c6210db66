# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model of three loops in each other: the inner one over the steps of an image multiplies its state by a row of the outer loop and by
a row of the middle one. Both are rows of one parameter, or, with `copied`, of two that begin with the same numbers. nested_model.py FILE.onnx [copied]"""

import math
import random
import sys

from onnx_writer import INT64, body, constant, graph_input, graph_output, node, parameter, write_model

STEPS, WIDTH, LAYERS = 4, 64, 3
random.seed(3)


def weight(name, *dims):
    bound = 2.5 / math.sqrt(WIDTH)
    return parameter(name, list(dims), [random.uniform(-bound, bound) for _ in range(math.prod(dims))])


def ints(name, *values):
    return constant(name, INT64, b"".join(v.to_bytes(8, "little") for v in values), [len(values)])


inner = body("inner", [
    node("MatMul", ["h", "outer.w"], ["p"], "by_outer"),
    node("Tanh", ["p"], ["q"]),
    node("MatMul", ["h", "middle.w"], ["r"], "by_middle"),
    node("Sigmoid", ["r"], ["s"]),
    node("Mul", ["q", "s"], ["t"]),
    node("Add", ["t", "row"], ["sum"]),
    node("Tanh", ["sum"], ["next"]),
], ["h", "row"], ["next"])
middle = body("middle", [node("Scan", ["g", "rows"], ["last"], "inner", num_scan_inputs=1, body=inner)], ["g", "middle.w"], ["last"])
layers = "layers" if len(sys.argv) < 3 else "copy"
outer = body("outer", [node("Scan", ["f", layers], ["end"], "middle", num_scan_inputs=1, body=middle)], ["f", "outer.w"], ["end"])

random.seed(4)
parameters = [weight("in.w", 784 // STEPS, WIDTH), weight("fc.w", WIDTH, 10), parameter("fc.b", [10], [0.0] * 10)]
for name in {"layers", layers}:
    random.seed(5)
    parameters.append(weight(name, LAYERS, WIDTH, WIDTH))
write_model(sys.argv[1], "nested", [
    ints("steps", 0, STEPS, 784 // STEPS),
    node("Reshape", ["input", "steps"], ["batch_first"]),
    node("Transpose", ["batch_first"], ["images"], perm=[1, 0, 2]),
    node("MatMul", ["images", "in.w"], ["rows"], "in"),
    node("ReduceMean", ["rows"], ["start"], axes=[0], keepdims=0),
    node("Scan", ["start", "layers"], ["state"], "outer", num_scan_inputs=1, body=outer),
    node("Gemm", ["state", "fc.w", "fc.b"], ["logits"], "fc"),
    *parameters,
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
], opset=13)
