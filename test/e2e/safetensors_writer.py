# SPDX-License-Identifier: Apache-2.0
"""Writes files of safetensors, without the package."""

import json
import struct

# Name of the format -> how struct packs an element. BF16 are the upper two bytes of f32.
PACKED = {"F32": "f", "F64": "d", "F16": "e", "I64": "q", "I32": "i"}


def write_safetensors(path, tensors):
    """Writes tensors, each (type, shape, elements in row-major order), under their names, in this order."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, shape, values) in tensors.items():
        if kind == "BF16":
            packed = b"".join(struct.pack("<f", value)[2:] for value in values)
        else:
            packed = struct.pack(f"<{len(values)}{PACKED[kind]}", *values)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
