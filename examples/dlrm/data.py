# SPDX-License-Identifier: Apache-2.0
"""Writes clicks: data.py DIR TABLES ROWS SAMPLES. Columns "dense" (8 numbers), "sparse" (a category of each table), "click" (0 or 1).

Each category has a hidden value in -1 .. 1. A click is likely where the sum of the products of values of neighbouring tables, and of two
numbers, is positive: the model has to find pairs of categories.
"""

import math
import pathlib
import random
import sys

from npy_writer import write_npy

folder, tables, rows, samples = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
folder.mkdir(exist_ok=True)
hidden = random.Random(1)
values = [[hidden.choice((-1, 1)) for _ in range(rows)] for _ in range(tables)]
for split, count in (("train", samples), ("eval", 2048)):
    draw = random.Random(split)
    dense, sparse, clicks = [], [], []
    for _ in range(count):
        numbers = [draw.gauss(0, 1) for _ in range(8)]
        # Few categories are frequent, as words and products are.
        categories = [int(rows * draw.random() ** 3) for _ in range(tables)]
        own = [values[table][category] for table, category in enumerate(categories)]
        score = sum(a * b for a, b in zip(own[::2], own[1::2])) + numbers[0]
        dense += numbers
        sparse += categories
        clicks.append(int(draw.random() < 1 / (1 + math.exp(-4 * score))))
    write_npy(folder / f"dense_{split}.npy", "f", (count, 8), dense)
    write_npy(folder / f"sparse_{split}.npy", "i", (count, tables), sparse)
    write_npy(folder / f"click_{split}.npy", "i", (count,), clicks)
