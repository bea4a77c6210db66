#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes sequences that count up in steps of 3: write_tokens.py DIR VOCABULARY SEQUENCE. Columns "tokens", and "next", each one token later."""

import pathlib
import struct
import sys


def write_npy(path, rows):
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    elements = [element for row in rows for element in row]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(elements)}q", *elements))


def main():
    folder, vocabulary, length = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(exist_ok=True)
    for split, samples in (("train", 128), ("eval", 32)):
        rows = [[(7 * sample + 3 * place) % vocabulary for place in range(length + 1)] for sample in range(samples)]
        write_npy(folder / f"tokens_{split}.npy", [row[:-1] for row in rows])
        write_npy(folder / f"next_{split}.npy", [row[1:] for row in rows])


main()
