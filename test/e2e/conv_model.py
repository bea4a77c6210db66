# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX model of convolutions on images of 28 x 28: conv_model.py kinds|spatial|resized FILE.onnx

kinds: of all kinds; spatial: two, without and with padding and stride; resized: a linear Resize between two.
"""

import random
import struct
import sys

from onnx_writer import INT64, constant, graph_input, graph_output, node, parameter, write_model


def weights(name, shape, fan_in):
    count = 1
    for size in shape:
        count *= size
    return parameter(name, shape, [random.uniform(-1, 1) * fan_in ** -0.5 for _ in range(count)])


def shape_of(name, *sizes):
    return constant(name, INT64, struct.pack("<%dq" % len(sizes), *sizes), [len(sizes)])


def kinds():
    random.seed(7)
    return [
        # 28 -> 14, more padding behind than in front
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1", strides=[2, 2], auto_pad="SAME_UPPER"),
        node("Relu", ["c1"], ["r1"], "relu1"),
        # groups and dilations: 14 x 14 -> 14 x 12
        node("Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", group=2, dilations=[2, 1], pads=[1, 0, 1, 0]),
        node("Relu", ["c2"], ["r2"], "relu2"),
        # depthwise: 14 x 12 -> 7 x 6
        node("Conv", ["r2", "conv3.weight"], ["c3"], "conv3", group=6, strides=[2, 2], pads=[1, 1, 0, 0]),
        # a block with a skip over it
        node("Conv", ["c3", "conv4.weight", "conv4.bias"], ["c4"], "block/conv", pads=[1, 1, 1, 1]),
        node("Add", ["c4", "c3"], ["s4"], "block/add"),
        node("Relu", ["s4"], ["r4"], "block/relu"),
        # 7 x 6 -> 14 x 12
        node("ConvTranspose", ["r4", "conv5.weight", "conv5.bias"], ["c5"], "conv5", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
        shape_of("flat_shape", 0, 504),
        node("Reshape", ["c5", "flat_shape"], ["flat"], "flat"),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        weights("conv1.weight", [6, 1, 5, 5], 25),
        weights("conv1.bias", [6], 25),
        weights("conv2.weight", [6, 3, 2, 3], 18),
        weights("conv2.bias", [6], 18),
        weights("conv3.weight", [6, 1, 3, 3], 9),
        weights("conv4.weight", [6, 6, 3, 3], 54),
        weights("conv4.bias", [6], 54),
        weights("conv5.weight", [6, 3, 3, 3], 54),
        weights("conv5.bias", [3], 54),
        weights("fc.weight", [10, 504], 504),
        weights("fc.bias", [10], 504),
    ]


def classes():
    """What follows c2, of 2 channels of 13 x 13, and the weights of such a model."""
    return [
        node("Relu", ["c2"], ["r2"], "relu2"),
        shape_of("flat_shape", 0, 338),
        node("Reshape", ["r2", "flat_shape"], ["flat"], "flat"),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        weights("conv1.weight", [4, 1, 3, 3], 9),
        weights("conv1.bias", [4], 9),
        weights("conv2.weight", [2, 4, 3, 3], 36),
        weights("fc.weight", [10, 338], 338),
        weights("fc.bias", [10], 338),
    ]


def spatial():
    random.seed(11)
    return [
        # 28 x 28 -> 26 x 26
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1"),
        node("Relu", ["c1"], ["r1"], "relu1"),
        # 26 x 26 -> 13 x 13
        node("Conv", ["r1", "conv2.weight"], ["c2"], "conv2", strides=[2, 2], pads=[1, 1, 1, 1]),
        *classes(),
    ]


def resized():
    random.seed(13)
    return [
        # 28 x 28 -> 26 x 26
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1"),
        # 26 x 26 -> 39 x 39
        shape_of("resized_sizes", 39, 39),
        node("Resize", ["c1", "", "", "resized_sizes"], ["r1"], "resize", mode="linear", axes=[2, 3]),
        # 39 x 39 -> 13 x 13
        node("Conv", ["r1", "conv2.weight"], ["c2"], "conv2", strides=[3, 3]),
        *classes(),
    ]


def main():
    name, path = sys.argv[1:]
    write_model(path, name, [
        shape_of("image_shape", 0, 1, 28, 28),
        node("Reshape", ["input", "image_shape"], ["image"], "image"),
        *{"kinds": kinds, "spatial": spatial, "resized": resized}[name](),
        graph_input("input", ["batch", 784]),
        graph_output("logits", ["batch", 10]),
    ])


main()
