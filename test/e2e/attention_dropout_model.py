# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model of an attention over the rows of an image as eager code has it in training: a product, a softmax, Dropout(0.2) and
a product, in two heads. attention_dropout_model.py FILE.onnx"""

import random
import sys

from onnx_writer import BOOL, FLOAT, INT64, constant, floats, graph_input, graph_output, node, parameter, write_model

ROWS, SIZE, HEADS = 28, 8, 2
random.seed(3)


def weight(name, rows, columns):
    return parameter(name, [rows, columns], [random.uniform(-1, 1) / rows ** 0.5 for _ in range(rows * columns)])


def ints(name, values):
    return constant(name, INT64, b"".join(v.to_bytes(8, "little") for v in values), [len(values)])


def heads(name):
    return [node("MatMul", ["rows", "w" + name], [name + "_joined"], name),
            node("Reshape", [name + "_joined", "apart"], [name + "_apart"]),
            node("Transpose", [name + "_apart"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]


write_model(sys.argv[1], "attention_dropout", [
    ints("image", [0, ROWS, 28]),
    ints("apart", [0, ROWS, HEADS, SIZE]),
    ints("flat", [0, ROWS * HEADS * SIZE]),
    constant("ratio", FLOAT, floats([0.2])),
    constant("training", BOOL, b"\1"),
    node("Reshape", ["input", "image"], ["rows"]),
    *heads("q"), *heads("k"), *heads("v"),
    node("MatMul", ["q", "k"], ["scores"], "scores"),
    node("Softmax", ["scores"], ["weights"], "softmax", axis=-1),
    node("Dropout", ["weights", "ratio", "training"], ["dropped"], "dropout"),
    node("MatMul", ["dropped", "v"], ["a"], "attention"),
    node("Transpose", ["a"], ["a_apart"], perm=[0, 2, 1, 3]),
    node("Reshape", ["a_apart", "flat"], ["f"]),
    node("MatMul", ["f", "wl"], ["logits"], "last"),
    weight("wq", 28, HEADS * SIZE),
    weight("wk", 28, HEADS * SIZE),
    weight("wv", 28, HEADS * SIZE),
    weight("wl", ROWS * HEADS * SIZE, 10),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
])
