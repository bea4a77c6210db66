# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model with an attention over 24 rows of an image, whose mask hides every third row from all others by a number that bf16
has. masked_attention_model.py FILE.onnx"""

import math
import random
import sys

from onnx_writer import FLOAT, INT64, constant, floats, graph_input, graph_output, node, parameter, write_model

ROWS, SIZE, HEADS = 24, 8, 4
random.seed(3)


def weight(name, rows, columns):
    return parameter(name, [rows, columns], [random.uniform(-1, 1) / math.sqrt(rows) for _ in range(rows * columns)])


def ints(name, values):
    return constant(name, INT64, b"".join(v.to_bytes(8, "little") for v in values), [len(values)])


write_model(sys.argv[1], "masked_attention", [
    ints("image", [0, 28, 28]),
    ints("first", [0]),
    ints("last", [ROWS]),
    ints("dim", [1]),
    ints("heads", [0, ROWS, HEADS, SIZE]),
    ints("joined", [0, ROWS, HEADS * SIZE]),
    constant("scale", FLOAT, floats([0.25])),
    ints("flat", [0, ROWS * HEADS * SIZE]),
    constant("mask", FLOAT, floats([-8192.0 if row % 3 == 2 else 0.0 for row in range(ROWS)]), [1, 1, 1, ROWS]),
    node("Reshape", ["input", "image"], ["whole"]),
    node("Slice", ["whole", "first", "last", "dim"], ["rows"]),
    node("MatMul", ["rows", "wq"], ["q"], "query"),
    node("MatMul", ["rows", "wk"], ["k"], "key"),
    node("MatMul", ["rows", "wv"], ["v"], "value"),
    *(step for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])) for step in (
        node("Reshape", [name, "heads"], [f"{name}h"]), node("Transpose", [f"{name}h"], [f"{name}t"], perm=order))),
    node("MatMul", ["qt", "kt"], ["products"], "products"),
    node("Mul", ["products", "scale"], ["scaled"]),
    node("Add", ["scaled", "mask"], ["scores"]),
    node("Softmax", ["scores"], ["weights"], "softmax", axis=-1),
    node("MatMul", ["weights", "vt"], ["mixed"], "mix"),
    node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
    node("Reshape", ["turned", "joined"], ["a"]),
    node("MatMul", ["a", "wo"], ["o"], "join"),
    node("Reshape", ["o", "flat"], ["f"]),
    node("MatMul", ["f", "wl"], ["logits"], "last"),
    weight("wq", 28, HEADS * SIZE),
    weight("wk", 28, HEADS * SIZE),
    weight("wv", 28, HEADS * SIZE),
    weight("wo", HEADS * SIZE, HEADS * SIZE),
    weight("wl", ROWS * HEADS * SIZE, 10),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
], opset=17)
