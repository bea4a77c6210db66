# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model with an If between layers, whose condition depends on the batch, or on parameters alone: then it always holds, or, with
`never`, does not. `select`: both branches are computed and Where selects. branches_model.py FILE.onnx batch|always|never [select]"""

import math
import random
import sys

from onnx_writer import FLOAT, body, constant, floats, graph_input, graph_output, node, parameter, write_model

WIDTH, INNER = 128, 64
random.seed(7)
kind, selects = sys.argv[2], "select" in sys.argv[3:]


def weight(name, *dims):
    bound = 1 / math.sqrt(dims[0])
    return parameter(name, list(dims), [random.uniform(-bound, bound) for _ in range(math.prod(dims))])


def number(name, value):
    return constant(name, FLOAT, floats([value]), [])


on_true = [node("MatMul", ["h", "then.w"], ["a"], "then/fc"), node("Tanh", ["a"], ["b"], "then/tanh")]
on_false = [node("MatMul", ["h", "else.down"], ["c"], "else/down"), node("Relu", ["c"], ["d"], "else/relu"),
            node("MatMul", ["d", "else.up"], ["e"], "else/up"), node("Add", ["e", "h"], ["f"], "else/add")]
if kind == "batch":  # about half of the batches
    condition = [number("usual", 0.069), node("ReduceMean", ["input"], ["mean"], keepdims=0), node("Greater", ["mean", "usual"], ["holds"])]
else:
    condition = [number("bound", 100.0 if kind == "always" else -100.0), node("ReduceMax", ["in.w"], ["most"], keepdims=0),
                 node("Less", ["most", "bound"], ["holds"])]
if selects:
    choice = [*on_true, *on_false, node("Where", ["holds", "b", "f"], ["chosen"])]
else:
    choice = [node("If", ["holds"], ["chosen"], "choice", then_branch=body("then", on_true, [], ["b"]),
                   else_branch=body("else", on_false, [], ["f"]))]
write_model(sys.argv[1], "branches", [
    node("MatMul", ["input", "in.w"], ["first"], "in"),
    node("Tanh", ["first"], ["h"], "tanh"),
    *condition,
    *choice,
    node("Gemm", ["chosen", "fc.w", "fc.b"], ["logits"], "fc"),
    weight("in.w", 784, WIDTH), weight("then.w", WIDTH, WIDTH), weight("else.down", WIDTH, INNER), weight("else.up", INNER, WIDTH),
    weight("fc.w", WIDTH, 10), parameter("fc.b", [10], [0.0] * 10),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
], opset=13)
