# SPDX-License-Identifier: Apache-2.0
"""Writes y = x w with x (8, 2) and w (2, 1), whose parameter lies in a file beside the model: external_model.py MODEL.onnx DATA_FILE"""

import os
import sys

import onnx_writer as onnx

path, data = sys.argv[1:]
with open(data, "wb") as file:
    file.write(onnx.floats([0.5, 0.25]))
# TensorProto: dims 1, data_type 2, name 8, external_data 13 with key 1 and value 2, data_location 14 with EXTERNAL = 1.
location = onnx.bytes_of(13, onnx.bytes_of(1, "location") + onnx.bytes_of(2, os.path.basename(data)))
weight = onnx.integer(1, 2) + onnx.integer(1, 1) + onnx.integer(2, onnx.FLOAT) + onnx.bytes_of(8, "w") + location + onnx.integer(14, 1)
parts = [onnx.node("MatMul", ["x", "w"], ["y"]), onnx.bytes_of(5, weight), onnx.graph_input("x", [8, 2]), onnx.graph_output("y", [8, 1])]
onnx.write_model(path, "external", parts)
