# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model of two convolutions on images of 28 x 28, without and with padding and stride: spatial_model.py FILE.onnx"""

import random
import struct
import sys

from onnx_writer import INT64, constant, graph_input, graph_output, node, parameter, write_model

random.seed(11)


def weights(name, shape, fan_in):
    count = 1
    for size in shape:
        count *= size
    return parameter(name, shape, [random.uniform(-1, 1) * fan_in ** -0.5 for _ in range(count)])


def shape_of(name, *sizes):
    return constant(name, INT64, struct.pack("<%dq" % len(sizes), *sizes), [len(sizes)])


write_model(sys.argv[1], "spatial", [
    shape_of("image_shape", 0, 1, 28, 28),
    node("Reshape", ["input", "image_shape"], ["image"], "image"),
    # 28 x 28 -> 26 x 26
    node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1"),
    node("Relu", ["c1"], ["r1"], "relu1"),
    # 26 x 26 -> 13 x 13
    node("Conv", ["r1", "conv2.weight"], ["c2"], "conv2", strides=[2, 2], pads=[1, 1, 1, 1]),
    node("Relu", ["c2"], ["r2"], "relu2"),
    shape_of("flat_shape", 0, 338),
    node("Reshape", ["r2", "flat_shape"], ["flat"], "flat"),
    node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
    weights("conv1.weight", [4, 1, 3, 3], 9),
    weights("conv1.bias", [4], 9),
    weights("conv2.weight", [2, 4, 3, 3], 36),
    weights("fc.weight", [10, 338], 338),
    weights("fc.bias", [10], 338),
    graph_input("input", ["batch", 784]),
    graph_output("logits", ["batch", 10]),
])
