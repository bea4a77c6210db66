#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes samples of ten numbers with the place of the largest one: write_rows.py DIR. Columns "x" and "label"."""

import pathlib
import random
import sys

from npy_writer import write_npy


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    generator = random.Random(1)
    for split, samples in (("train", 256), ("eval", 64)):
        rows = [[generator.gauss(0, 1) for _ in range(10)] for _ in range(samples)]
        write_npy(folder / f"x_{split}.npy", "f", (samples, 10), [x for row in rows for x in row])
        write_npy(folder / f"label_{split}.npy", "q", (samples,), [row.index(max(row)) for row in rows])


main()
