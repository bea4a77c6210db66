# SPDX-License-Identifier: Apache-2.0
"""ONNX models written by hand, as protobuf's wire format: for tests that want a model of a few known nodes without a library."""

import struct

FLOAT, INT8, INT64, BOOL = 1, 3, 7, 9


def varint(value):
    out = b""
    value &= (1 << 64) - 1
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


def floats(values):
    return struct.pack("<%df" % len(values), *values)


def tensor(name, dims, data_type, data):
    return b"".join(integer(1, d) for d in dims) + integer(2, data_type) + bytes_of(8, name) + bytes_of(9, data)


# The body of a node: nodes, and names of inputs and outputs.
class Body(bytes):
    pass


def body(name, nodes, inputs, outputs):
    return Body(b"".join(nodes) + bytes_of(2, name) + b"".join(bytes_of(11, bytes_of(1, i)) for i in inputs) +
                b"".join(bytes_of(12, bytes_of(1, o)) for o in outputs))


# Attributes of a node, by the type of the value: int, float, str, a list of either, a body, or bytes, a tensor.
def attribute(name, value):
    if isinstance(value, Body):
        fields = bytes_of(6, value) + integer(20, 5)
    elif isinstance(value, int):
        fields = integer(3, value) + integer(20, 2)
    elif isinstance(value, float):
        fields = varint(2 << 3 | 5) + struct.pack("<f", value) + integer(20, 1)
    elif isinstance(value, str):
        fields = bytes_of(4, value) + integer(20, 3)
    elif isinstance(value, bytes):
        fields = bytes_of(5, value) + integer(20, 4)
    elif isinstance(value[0], str):
        fields = b"".join(bytes_of(9, x) for x in value) + integer(20, 8)
    else:
        fields = b"".join(integer(8, x) for x in value) + integer(20, 7)
    return bytes_of(1, name) + fields


# `notes`: what an exporter says of the node, by key (metadata_props).
def node(op, inputs, outputs, name="", domain="", notes=None, **attributes):
    fields = b"".join(bytes_of(1, x) for x in inputs) + b"".join(bytes_of(2, x) for x in outputs)
    fields += bytes_of(3, name or outputs[0]) + bytes_of(4, op)
    fields += b"".join(bytes_of(5, attribute(key, value)) for key, value in attributes.items())
    fields += b"".join(bytes_of(9, bytes_of(1, key) + bytes_of(2, value)) for key, value in (notes or {}).items())
    return bytes_of(1, fields + (bytes_of(7, domain) if domain else b""))


def constant(name, data_type, data, dims=()):
    return node("Constant", [], [name], name, value=tensor("", dims, data_type, data))


# A parameter of the graph, with its first value.
def parameter(name, dims, values):
    return bytes_of(5, tensor(name, dims, FLOAT, floats(values)))


def value_info(name, dims, data_type=FLOAT):
    shape = b"".join(bytes_of(1, bytes_of(2, d) if isinstance(d, str) else integer(1, d)) for d in dims)
    return bytes_of(1, name) + bytes_of(2, bytes_of(1, integer(1, data_type) + bytes_of(2, shape)))


def graph_input(name, dims, data_type=FLOAT):
    return bytes_of(11, value_info(name, dims, data_type))


def graph_output(name, dims, data_type=FLOAT):
    return bytes_of(12, value_info(name, dims, data_type))


# Writes a model of nodes, parameters, inputs and outputs; `domains` are those of other ops than ONNX's.
def write_model(path, name, parts, opset=13, domains=(), producer=""):
    graph = b"".join(parts) + bytes_of(2, name)
    imports = bytes_of(8, bytes_of(1, "") + integer(2, opset)) + b"".join(bytes_of(8, bytes_of(1, d) + integer(2, 1)) for d in domains)
    with open(path, "wb") as out:
        out.write(integer(1, 8) + (bytes_of(2, producer) if producer else b"") + bytes_of(7, graph) + imports)
