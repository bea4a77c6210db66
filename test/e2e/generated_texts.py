#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares generated tokens and their logits with those of the model on the whole texts.

    generated_texts.py whole CONTEXT PROMPTS NEW    writes tokens.npy: prompts and the new tokens behind them, lines of ids, filled with 0
    generated_texts.py compare PROMPTS NEW LOGITS WHOLE    compares LOGITS with those of WHOLE at the positions of the new tokens
"""

import array
import ast
import sys

from npy_writer import write_npy


def read_lines(path):
    with open(path) as file:
        return [[int(token) for token in line.split()] for line in file]


def read_floats(path):
    """The shape and the elements of a .npy file of f32."""
    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["descr"] == "<f4", header
    values = array.array("f")
    values.frombytes(data[10 + length :])
    return header["shape"], values


def whole(context, prompts, new):
    rows = [prompt + tokens + [0] * (context - len(prompt) - len(tokens)) for prompt, tokens in zip(prompts, new)]
    write_npy("tokens.npy", "q", (len(rows), context), [token for row in rows for token in row])


def compare(prompts, new, logits_path, whole_path):
    (count, vocabulary), logits = read_floats(logits_path)
    (batch, context, _), all_logits = read_floats(whole_path)
    assert count == sum(len(tokens) for tokens in new), f"{count} rows of logits for {sum(map(len, new))} tokens"
    row, worst = 0, 0.0
    for text, (prompt, tokens) in enumerate(zip(prompts, new)):
        for number, token in enumerate(tokens):
            position = len(prompt) + number - 1
            begin = (text * context + position) * vocabulary
            mine = logits[row * vocabulary : (row + 1) * vocabulary]
            worst = max(worst, max(abs(a - b) for a, b in zip(mine, all_logits[begin : begin + vocabulary])))
            assert mine[token] == max(mine), f"text {text}, position {position}: token {token} is not the most likely one"
            row += 1
    print(f"{count} tokens, logits differ by {worst:.2e}")
    assert worst < 1e-5, "logits differ by more than 1e-5"


if __name__ == "__main__":
    if sys.argv[1] == "whole":
        whole(int(sys.argv[2]), read_lines(sys.argv[3]), read_lines(sys.argv[4]))
    else:
        compare(read_lines(sys.argv[2]), read_lines(sys.argv[3]), sys.argv[4], sys.argv[5])
