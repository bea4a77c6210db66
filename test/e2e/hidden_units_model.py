# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model that reads an image in 14 steps of two rows with one recurrent layer, whose last state is classified.
hidden_units_model.py FILE.onnx LSTM|GRU|RNN [0|1: linear_before_reset] [DIRECTION]"""

import math
import random
import sys

from onnx_writer import INT64, constant, graph_input, graph_output, node, parameter, write_model

KIND, LINEAR, DIRECTION = (sys.argv[2:] + ["0", "forward"][len(sys.argv) - 3:])[:3]
STEPS, ROW, HIDDEN, GATES = 14, 56, 32, {"LSTM": 4, "GRU": 3, "RNN": 1}[KIND]
BOTH = 2 if DIRECTION == "bidirectional" else 1
random.seed(5)


def weight(name, dims):
    return parameter(name, dims, [random.uniform(-1, 1) / math.sqrt(HIDDEN) for _ in range(math.prod(dims))])


def ints(name, values):
    return constant(name, INT64, b"".join(v.to_bytes(8, "little") for v in values), [len(values)])


attributes = {"linear_before_reset": int(LINEAR)} if KIND == "GRU" else {}
write_model(sys.argv[1], "hidden_units", [
    ints("steps", [0, STEPS, ROW]),
    ints("columns", [0, BOTH * HIDDEN]),
    node("Reshape", ["input", "steps"], ["batch_first"]),
    node("Transpose", ["batch_first"], ["rows"], perm=[1, 0, 2]),
    node(KIND, ["rows", "cell.w", "cell.r", "cell.b"], ["", "state"], "cell", hidden_size=HIDDEN, direction=DIRECTION, **attributes),
    node("Transpose", ["state"], ["of_sample"], perm=[1, 0, 2]),
    node("Reshape", ["of_sample", "columns"], ["h"]),
    node("Gemm", ["h", "fc.w", "fc.b"], ["logits"], "last"),
    weight("cell.w", [BOTH, GATES * HIDDEN, ROW]),
    weight("cell.r", [BOTH, GATES * HIDDEN, HIDDEN]),
    weight("cell.b", [BOTH, 2 * GATES * HIDDEN]),
    weight("fc.w", [BOTH * HIDDEN, 10]),
    weight("fc.b", [10]),
    graph_input("input", ["batch", STEPS * ROW]),
    graph_output("logits", ["batch", 10]),
])
