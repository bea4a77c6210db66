#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless stdin has the lines that a page of docs prints as the output of a command. printed.py PAGE COMMAND < OUTPUT

A block of the page begins with `$ COMMAND` and ends at the next command or at the end of the indented text. `...` in a line stands for any text, a line of
it for any lines. All blocks of the command are compared. lit makes `ashlarc` in a command a path, which the page does not have.
"""

import re
import sys


def blocks(page, command):
    """Yields the lines of each block of a command, and the number of its first line."""
    lines = None
    for number, line in enumerate(page.split("\n") + [""], 1):
        indented = line.startswith("    ") or line == ""
        if lines is not None and (not indented or line.startswith("    $ ")):
            yield lines
            lines = None
        if line == f"    $ {command}":
            lines = []
        elif lines is not None and (line or lines):
            lines.append((number, line[4:].rstrip()))
    if lines is not None:
        yield lines


def missing(block, output):
    """Returns the first line of a block that the output does not have in its place, or None."""
    while block and block[-1][1] == "":
        block.pop()
    at, anywhere = 0, True
    for number, line in block:
        if line.strip() == "...":
            anywhere = True
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("...")))
        places = range(at, len(output)) if anywhere else range(at, min(at + 1, len(output)))
        at = next((place + 1 for place in places if pattern.fullmatch(output[place])), None)
        if at is None:
            return number, line
        anywhere = False
    return None


def main(path, command):
    output = [line.rstrip() for line in sys.stdin.read().split("\n")]
    with open(path, encoding="utf-8") as file:
        found = [block for block in blocks(file.read(), command) if block]
    if not found:
        sys.exit(f"{path} prints no output of `{command}`")
    for block in found:
        fault = missing(block, output)
        if fault:
            print("\n".join(output))
            sys.exit(f"{path}:{fault[0]}: `{command}` does not print this line, or not here: {fault[1]}")


main(sys.argv[1], re.sub(r"^\S*/(?=ashlar)", "", sys.argv[2]))
