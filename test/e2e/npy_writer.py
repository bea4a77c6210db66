# SPDX-License-Identifier: Apache-2.0
"""Writes .npy files without a library."""

import pathlib
import struct


DESCR = {"e": "<f2", "f": "<f4", "d": "<f8", "b": "|i1", "B": "|u1", "h": "<i2", "H": "<u2", "i": "<i4", "I": "<u4", "q": "<i8",
         "Q": "<u8"}


# elements: flat; letter: how struct spells their type.
def write_npy(path, letter, shape, elements):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (DESCR[letter], "".join("%d, " % size for size in shape))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<%d%s" % (len(elements), letter), *elements)
    pathlib.Path(path).write_bytes(data)
