# SPDX-License-Identifier: Apache-2.0
"""Models whose nodes are one chain. deep_graphs.py KIND NODES FILE, KIND: "steps" of a parameter that each node reads; "views" that move
elements; "products" with a parameter; "sources", in nn: sums of places, of which a convolution takes none, next to its result."""

import sys

from onnx_writer import FLOAT, INT64, bytes_of, graph_input, graph_output, node, parameter, tensor, write_model

WIDTH = 4


def initializer(name, values):
    return bytes_of(5, tensor(name, [len(values)], INT64, b"".join(v.to_bytes(8, "little", signed=True) for v in values)))


def chain(count, first, make):
    """Returns count nodes, each of the result of the one before; the last one's result is y."""
    names = [first] + [f"t{i}" for i in range(count - 1)] + ["y"]
    return [make(i, names[i], names[i + 1]) for i in range(count)]


def steps(count):
    ops = ["Mul", "Neg", "Add"]
    make = lambda i, x, y: node(ops[i % 3], [x] if i % 3 == 1 else [x, "w"], [y])
    return chain(count, "x", make) + [parameter("w", [WIDTH], [1, 1, 1, 1])], [WIDTH]


def views(count):
    def make(i, x, y):
        return node("Transpose", [x], [y], perm=[0, 2, 1]) if i % 3 == 1 else node("Reshape", [x, "matrix" if i % 3 == 0 else "row"], [y])

    shapes = [initializer("matrix", [-1, 2, 2]), initializer("row", [-1, WIDTH])]
    parts = [node("Mul", ["x", "w"], ["u"])] + chain(count // 3 * 3, "u", make) + shapes
    return parts + [parameter("w", [WIDTH], [1, 1, 1, 1])], [WIDTH]


def products(count):
    make = lambda i, x, y: node("Tanh", [x], [y]) if i % 2 else node("MatMul", [x, "w"], [y])
    return chain(count, "x", make) + [parameter("w", [WIDTH, WIDTH], [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])], [WIDTH]


def sources(count):
    lines = ["%z = nn.index [0, 1, 4, 12] : tensor<2x4x3x3xi64>", "%t0 = nn.cast %z : tensor<2x4x3x3xi64> -> tensor<2x4x3x3xf32>"]
    lines += [f"%t{i + 1} = nn.add %t{i}, %t{i} : tensor<2x4x3x3xf32>" for i in range(count)]
    lines += [f"%y = nn.conv %x, %w windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]"
              " : tensor<2x4x3x3xf32>, tensor<4x4x3x3xf32> -> tensor<2x4x3x3xf32>",
              f"%s = nn.add %y, %t{count} : tensor<2x4x3x3xf32>", "return %s : tensor<2x4x3x3xf32>"]
    head = "func.func @main(%x: tensor<2x4x3x3xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<2x4x3x3xf32> {"
    return "\n".join([head] + lines + ["}\n"])


kind, count, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if kind == "sources":
    with open(path, "w") as out:
        out.write(sources(count))
else:
    parts, shape = {"steps": steps, "views": views, "products": products}[kind](count)
    write_model(path, kind, parts + [graph_input("x", ["batch", WIDTH]), graph_output("y", ["batch"] + shape)])
