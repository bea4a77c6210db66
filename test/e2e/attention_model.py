# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model with an attention over the rows of an image, its heads in pairs that share a key, and with noise in front of the
last layer. attention_model.py FILE.onnx"""

import math
import random
import sys

from onnx_writer import INT64, constant, graph_input, graph_output, node, parameter, write_model

ROWS, SIZE, HEADS, KEY_HEADS = 28, 8, 4, 2
random.seed(3)


def weight(name, rows, columns):
    return parameter(name, [rows, columns], [random.uniform(-1, 1) / math.sqrt(rows) for _ in range(rows * columns)])


def table(name, function):
    angles = [row / 30 ** (i / (SIZE // 2)) for row in range(ROWS) for i in range(SIZE // 2)]
    return parameter(name, [1, ROWS, SIZE // 2], [function(angle) for angle in angles])


def ints(name, values):
    return constant(name, INT64, b"".join(v.to_bytes(8, "little") for v in values), [len(values)])


write_model(sys.argv[1], "attention", [
    ints("image", [0, ROWS, 28]),
    ints("flat", [0, ROWS * HEADS * SIZE]),
    node("Reshape", ["input", "image"], ["rows"]),
    node("MatMul", ["rows", "wq"], ["q"], "query"),
    node("MatMul", ["rows", "wk"], ["k"], "key"),
    node("MatMul", ["rows", "wv"], ["v"], "value"),
    node("RotaryEmbedding", ["q", "cos", "sin"], ["rq"], "rotate_query", num_heads=HEADS),
    node("RotaryEmbedding", ["k", "cos", "sin"], ["rk"], "rotate_key", num_heads=KEY_HEADS),
    node("Attention", ["rq", "rk", "v"], ["a"], "attention", q_num_heads=HEADS, kv_num_heads=KEY_HEADS, is_causal=1, softcap=5.0),
    node("MatMul", ["a", "wo"], ["o"], "join"),
    node("RandomNormalLike", ["o"], ["n"], "noise", scale=0.1),
    node("Add", ["o", "n"], ["noisy"]),
    node("Reshape", ["noisy", "flat"], ["f"]),
    node("MatMul", ["f", "wl"], ["logits"], "last"),
    weight("wq", 28, HEADS * SIZE),
    weight("wk", 28, KEY_HEADS * SIZE),
    weight("wv", 28, KEY_HEADS * SIZE),
    weight("wo", HEADS * SIZE, HEADS * SIZE),
    weight("wl", ROWS * HEADS * SIZE, 10),
    table("cos", math.cos),
    table("sin", math.sin),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
], opset=23)
