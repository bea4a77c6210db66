# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model of a loop whose body has work of all kinds: a convolution with more padding behind than in front, an attention, a norm, two
dense layers with a relu between them, and a mean over the samples. bodies_model.py FILE.onnx"""

import math
import random
import sys

from onnx_writer import INT64, body, constant, graph_input, graph_output, node, parameter, write_model

STEPS, WIDTH, INNER, TOKENS, SIZE, KEYS = 4, 64, 128, 7, 28, 16
random.seed(11)


def weight(name, *dims):
    bound = 1 / math.sqrt(math.prod(dims[:-1]))
    return parameter(name, list(dims), [random.uniform(-bound, bound) for _ in range(math.prod(dims))])


def ints(name, *values):
    return constant(name, INT64, b"".join(v.to_bytes(8, "little") for v in values), [len(values)])


step = body("step", [
    node("Reshape", ["row", "image"], ["picture"]),
    node("Conv", ["picture", "conv.w"], ["c"], "conv", strides=[2, 2], auto_pad="SAME_UPPER"),
    node("Reshape", ["c", "tokens"], ["seen"]),
    *[node("MatMul", ["seen", "attention." + name], [name], name) for name in "qkv"],
    node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
    node("MatMul", ["q", "kt"], ["scores"], "scores"),
    node("Softmax", ["scores"], ["shares"], "softmax", axis=-1),
    node("MatMul", ["shares", "v"], ["found"], "attention"),
    node("Reshape", ["found", "flat"], ["values"]),
    node("MatMul", ["values", "join.w"], ["joined"], "join"),
    node("Add", ["joined", "h"], ["sum"]),
    node("LayerNormalization", ["sum", "norm.w", "norm.b"], ["normed"], "norm", axis=-1),
    node("MatMul", ["normed", "up.w"], ["up"], "up"),
    node("Add", ["up", "up.b"], ["raised"]),
    node("Relu", ["raised"], ["active"], "relu"),
    node("MatMul", ["active", "down.w"], ["down"], "down"),
    node("ReduceMean", ["down"], ["mean"], "mean", axes=[0], keepdims=1),
    node("Sub", ["down", "mean"], ["centred"]),
    node("Add", ["normed", "centred"], ["outer"]),
    node("Tanh", ["outer"], ["next"]),
    node("Identity", ["next"], ["state"]),
], ["h", "row"], ["next", "state"])

write_model(sys.argv[1], "bodies", [
    ints("steps", 0, STEPS, 196),
    ints("image", 0, 1, 14, 14),
    ints("tokens", 0, TOKENS, SIZE),
    ints("flat", 0, TOKENS * KEYS),
    ints("first", 0),
    node("Reshape", ["input", "steps"], ["batch_first"]),
    node("Transpose", ["batch_first"], ["rows"], perm=[1, 0, 2]),
    node("Gather", ["rows", "first"], ["first_row"], axis=0),
    node("Squeeze", ["first_row", "first"], ["start_row"]),
    node("MatMul", ["start_row", "in.w"], ["start"], "in"),
    node("Scan", ["start", "rows"], ["last", "states"], num_scan_inputs=1, body=step),
    node("ReduceMean", ["states"], ["mean_state"], axes=[0], keepdims=0),
    node("Add", ["last", "mean_state"], ["features"]),
    node("Gemm", ["features", "fc.w", "fc.b"], ["logits"], "fc"),
    weight("in.w", 196, WIDTH),
    parameter("conv.w", [4, 1, 3, 3], [random.uniform(-1, 1) / 3 for _ in range(36)]),
    *[weight("attention." + name, SIZE, KEYS) for name in "qkv"],
    weight("join.w", TOKENS * KEYS, WIDTH),
    parameter("norm.w", [WIDTH], [1.0] * WIDTH),
    parameter("norm.b", [WIDTH], [0.0] * WIDTH),
    weight("up.w", WIDTH, INNER),
    weight("up.b", INNER),
    weight("down.w", INNER, WIDTH),
    weight("fc.w", WIDTH, 10),
    parameter("fc.b", [10], [0.0] * 10),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
], opset=17)
