# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model that reads an image in 14 steps of two rows: a Scan that smooths them by learned shares, an LSTM in both directions, and a
GRU, whose last state is classified. recurrent_model.py FILE.onnx [STEPS]: with another number of steps, which no image has."""

import math
import random
import sys

from onnx_writer import INT64, body, constant, graph_input, graph_output, node, parameter, write_model

STEPS, ROW, HIDDEN = int(sys.argv[2]) if len(sys.argv) > 2 else 14, 56, 12
random.seed(5)


def weight(name, dims):
    return parameter(name, dims, [random.uniform(-1, 1) / math.sqrt(HIDDEN) for _ in range(math.prod(dims))])


def ints(name, values):
    return constant(name, INT64, b"".join(v.to_bytes(8, "little") for v in values), [len(values)])


smooth = body("smooth", [
    node("Mul", ["before", "share"], ["kept"]),
    node("Add", ["kept", "row"], ["next"]),
    node("Identity", ["next"], ["smooth"]),
], ["before", "row"], ["next", "smooth"])

write_model(sys.argv[1], "recurrent", [
    ints("steps", [0, STEPS, ROW]),
    ints("first", [0]),
    node("Reshape", ["input", "steps"], ["batch_first"]),
    node("Transpose", ["batch_first"], ["rows"], perm=[1, 0, 2]),
    node("Gather", ["rows", "first"], ["first_row"], axis=0),
    node("Squeeze", ["first_row", "first"], ["start"]),
    node("Scan", ["start", "rows"], ["last", "smoothed"], num_scan_inputs=1, body=smooth),
    node("LSTM", ["smoothed", "lstm.w", "lstm.r", "lstm.b"], ["y"], "lstm", hidden_size=HIDDEN, direction="bidirectional"),
    node("Transpose", ["y"], ["steps_of_both"], perm=[0, 2, 1, 3]),
    ints("both", [0, 0, 2 * HIDDEN]),
    node("Reshape", ["steps_of_both", "both"], ["states"]),
    node("GRU", ["states", "gru.w", "gru.r", "gru.b"], ["", "state"], "gru", hidden_size=HIDDEN, linear_before_reset=1),
    node("Squeeze", ["state", "first"], ["h"]),
    node("Gemm", ["h", "fc.w", "fc.b"], ["logits"], "last"),
    parameter("share", [ROW], [0.5] * ROW),
    weight("lstm.w", [2, 4 * HIDDEN, ROW]),
    weight("lstm.r", [2, 4 * HIDDEN, HIDDEN]),
    weight("lstm.b", [2, 8 * HIDDEN]),
    weight("gru.w", [1, 3 * HIDDEN, 2 * HIDDEN]),
    weight("gru.r", [1, 3 * HIDDEN, HIDDEN]),
    weight("gru.b", [1, 6 * HIDDEN]),
    weight("fc.w", [HIDDEN, 10]),
    weight("fc.b", [10]),
    graph_input("input", ["batch", STEPS * ROW]),
    graph_output("logits", ["batch", 10]),
])
