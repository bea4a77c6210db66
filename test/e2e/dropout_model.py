# SPDX-License-Identifier: Apache-2.0
#
# Writes an ONNX model with Dropout in training mode, by hand: Gemm, Relu, Dropout(0.3), Gemm. dropout_model.py FILE.onnx

import random
import struct
import sys


def varint(value):
    out = b""
    while True:
        low, value = value & 127, value >> 7
        out += bytes([low | (128 if value else 0)])
        if not value:
            return out


# Protobuf fields: an integer, and anything with a length.
def integer(number, value):
    return varint(number << 3) + varint(value)


def bytes_of(number, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


FLOAT, BOOL = 1, 9


def tensor(name, dims, data_type, data):
    return b"".join(integer(1, d) for d in dims) + integer(2, data_type) + bytes_of(8, name) + bytes_of(9, data)


def floats(values):
    return struct.pack("<%df" % len(values), *values)


def node(op, inputs, outputs, name, attributes=()):
    fields = b"".join(bytes_of(1, x) for x in inputs) + b"".join(bytes_of(2, x) for x in outputs)
    return bytes_of(1, fields + bytes_of(3, name) + bytes_of(4, op) + b"".join(bytes_of(5, a) for a in attributes))


def constant(name, data_type, data):
    return node("Constant", [], [name], name, [bytes_of(1, "value") + bytes_of(5, tensor("", [], data_type, data)) + integer(20, 4)])


def parameter(name, dims, values):
    return bytes_of(5, tensor(name, dims, FLOAT, floats(values)))


def value_info(name, dims):
    shape = b"".join(bytes_of(1, bytes_of(2, d) if isinstance(d, str) else integer(1, d)) for d in dims)
    return bytes_of(1, name) + bytes_of(2, bytes_of(1, integer(1, FLOAT) + bytes_of(2, shape)))


random.seed(3)
transposed = bytes_of(1, "transB") + integer(3, 1) + integer(20, 2)
graph = node("Gemm", ["input", "fc1.weight", "fc1.bias"], ["h"], "fc1", [transposed])
graph += node("Relu", ["h"], ["r"], "relu")
graph += constant("ratio", FLOAT, floats([0.3])) + constant("training", BOOL, b"\1")
graph += node("Dropout", ["r", "ratio", "training"], ["d"], "dropout")
graph += node("Gemm", ["d", "fc2.weight", "fc2.bias"], ["logits"], "fc2", [transposed])
graph += bytes_of(2, "dropout")
graph += parameter("fc1.weight", [64, 784], [random.uniform(-0.05, 0.05) for _ in range(64 * 784)])
graph += parameter("fc1.bias", [64], [0] * 64)
graph += parameter("fc2.weight", [10, 64], [random.uniform(-0.05, 0.05) for _ in range(640)])
graph += parameter("fc2.bias", [10], [0] * 10)
graph += bytes_of(11, value_info("input", ["batch", 784])) + bytes_of(12, value_info("logits", ["batch", 10]))
with open(sys.argv[1], "wb") as out:
    out.write(integer(1, 8) + bytes_of(7, graph) + bytes_of(8, bytes_of(1, "") + integer(2, 13)))
