#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes sequences that count up in steps of 3: write_tokens.py DIR VOCABULARY SEQUENCE. Columns "tokens", and "next", each one token later."""

import pathlib
import sys

from npy_writer import write_npy


def main():
    folder, vocabulary, length = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(exist_ok=True)
    for split, samples in (("train", 128), ("eval", 32)):
        rows = [[(7 * sample + 3 * place) % vocabulary for place in range(length + 1)] for sample in range(samples)]
        write_npy(folder / f"tokens_{split}.npy", "q", (samples, length), [token for row in rows for token in row[:-1]])
        write_npy(folder / f"next_{split}.npy", "q", (samples, length), [token for row in rows for token in row[1:]])


main()
