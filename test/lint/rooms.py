#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the rooms of the tree to their size, and docs/overview.md to the tree.

    rooms.py ROOT

A folder of product code has at most 30 files of its own; a .cpp file has at most 500 lines, or says at its top why it is longer ("Longer than 500 lines:"); a
function has at most 80. Code is in the namespace of its room, or of a room above it. The overview names each room and each pass, and each room has its row in arrows.py.
"""

import pathlib
import re
import sys

from arrows import ARROWS

MOST_FILES, MOST_LINES, MOST_OF_A_FUNCTION = 30, 500, 80
# What all rooms share has no namespace of its own; the tensors of an op's reference semantics are those of the interpreter. A plugin names one
# type of ours.
NAMESPACES = {"dialects/support/": {"", "reference"}, "compiler/plugin/plugin.h": {""}, "tools/version.h": {"tools"}}
TOPS = ("compiler", "dialects", "passes", "runtime", "tools")
# The first line of a function as clang-format leaves it: its parameters end with the line.
FUNCTION = re.compile(r"( *)(?!.*(\b(return|if|for|while|switch|else|do|struct|class|enum|union|extern)\b|\[[&=]).*\{$).*\)( const)?( noexcept)?( override)?( \{| : .*\{)$")


def functions(lines):
    """Yields the first line, counted from 1, and the length of each function."""
    for at, line in enumerate(lines):
        found = FUNCTION.fullmatch(line)
        if not found or len(found[1]) > 4:
            continue
        end = next((other for other in range(at + 1, len(lines)) if lines[other] == found[1] + "}"), at)
        yield at + 1, end - at + 1


def check_sizes(root, folder, faults):
    own = [path for path in folder.iterdir() if path.is_file()]
    room = folder.relative_to(root).as_posix()
    if len(own) > MOST_FILES:
        faults.append(f"{room}: {len(own)} files, at most {MOST_FILES} are a room")
    for path in sorted(own):
        if path.suffix not in (".cpp", ".h"):
            continue
        name, lines = path.relative_to(root).as_posix(), path.read_text().splitlines()
        hasReason = any("Longer than 500 lines:" in line for line in lines[:20])
        if path.suffix == ".cpp" and len(lines) > MOST_LINES and not hasReason:
            faults.append(f"{name}: {len(lines)} lines; split it, or say at its top why it is longer than {MOST_LINES}")
        for first, length in functions(lines):
            if length > MOST_OF_A_FUNCTION:
                faults.append(f"{name}:{first}: a function of {length} lines, at most {MOST_OF_A_FUNCTION}")


def check_namespaces(root, folder, faults):
    parts = folder.relative_to(root).parts
    known = {part.removeprefix("ashlar_") for part in parts[1:]} | ({"rt"} if parts[0] == "runtime" else set())
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".cpp", ".h")):
        name = path.relative_to(root).as_posix()
        special = set().union(*(names for place, names in NAMESPACES.items() if name.startswith(place)))
        for namespace in re.findall(r"^namespace ashlar(?:::(\w+))?", path.read_text(), re.M):
            if namespace not in known | special:
                faults.append(f"{name}: namespace ashlar{'::' * bool(namespace)}{namespace} is not that of its room")


def check_picture(overview, faults):
    """The picture of the overview: a line includes lines below it only. Rooms are those of two folders; rooms inside them belong to them."""
    picture = re.search(r"^All arrows point down.*?\n\n(.*?)\n\n", overview, re.M | re.S)[1].splitlines()
    heights = {room: height for height, line in enumerate(reversed(picture)) for room in line.split()}
    rooms = {"/".join(room.split("/")[:2]) for room in ARROWS}
    if heights.keys() != rooms:
        faults.append(f"docs/overview.md: the picture and arrows.py differ in {', '.join(sorted(heights.keys() ^ rooms))}")
        return
    for room, targets in ARROWS.items():
        upper = "/".join(room.split("/")[:2])
        for lower in rooms - {upper}:
            if any(f"{lower}/".startswith(f"{target}/") or target.startswith(f"{lower}/") for target in targets) and heights[upper] <= heights[lower]:
                faults.append(f"docs/overview.md: in the picture {upper} is not above {lower}, which it may include")


def main():
    root, faults = pathlib.Path(sys.argv[1]), []
    overview = (root / "docs/overview.md").read_text()
    for top in TOPS:
        folders = sorted({path.parent for path in (root / top).rglob("*") if path.suffix in (".cpp", ".h", ".td")})
        for folder in folders:
            check_sizes(root, folder, faults)
            check_namespaces(root, folder, faults)
            room = folder.relative_to(root).as_posix()
            if not any(room == known or room.startswith(known + "/") for known in ARROWS):
                faults.append(f"{room}: not in arrows.py")
    check_picture(overview, faults)
    for room in ARROWS:
        if not (root / room).is_dir():
            faults.append(f"arrows.py: {room} is no folder")
        if f"`{room}`" not in overview:
            faults.append(f"docs/overview.md: does not name the room `{room}`")
    for passes in sorted((root / "passes").rglob("passes.td")):
        for flag in re.findall(r'def \w+ : Pass<"([\w-]+)"', passes.read_text()):
            if not re.search(rf"-{flag}\b(?!-)", overview):
                faults.append(f"docs/overview.md: does not name the pass -{flag} of {passes.relative_to(root)}")
        if not (root / f"docs/reference/passes_{passes.parent.name}.md").is_file():
            faults.append(f"docs/reference: has no page of {passes.parent.relative_to(root)}; run tools/update_docs.sh")
    for name, symbol in re.findall(r"`([\w/]+\.\w+)`: `(\w+(?:::\w+)?)`", overview):
        found = root / name
        if not found.is_file() or symbol.split("::")[-1] not in found.read_text():
            faults.append(f"docs/overview.md: there is no {symbol} in {name}")
    print("\n".join(faults) if faults else "rooms are as docs/overview.md has them")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
