#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the table of rooms and tests in docs/howto/test.md: each room of arrows.py, unit test and script is in it, and what it names exists.

    test_map.py ROOT BUILD
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.argv, arguments = sys.argv[:1], sys.argv[1:]
from arrows import ARROWS


def rows(page):
    """Yields the names in backticks of each cell, a row at a time."""
    table = page.read_text().split("## Which tests cover a room")[1].split("\n## ")[0]
    for line in table.splitlines():
        if line.startswith("| `"):
            yield [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]


def main():
    root, build = pathlib.Path(arguments[0]), arguments[1]
    listing = subprocess.run(["ctest", "--test-dir", build, "-C", "Long", "-N"], stdout=subprocess.PIPE, text=True, check=True).stdout
    entries = set(re.findall(r"^ *Test *#\d+: (\S+)$", listing, re.M))
    lit = [path.relative_to(root / "test").as_posix() for suffix in ("mlir", "test") for path in (root / "test").rglob(f"*.{suffix}")]
    faults, rooms, named = [], [], set()
    for cells in rows(root / "docs/howto/test.md"):
        rooms += cells[0]
        for room in cells[0]:
            if not (root / room).is_dir():
                faults.append(f"{room} is no folder")
        for name in cells[1] + cells[3]:
            found = {entry for entry in entries if fnmatch.fnmatchcase(entry, name) or entry == f"e2e_{name}"}
            named |= found
            if not found:
                faults.append(f"{cells[0][0]}: no entry of CTest is named {name} or e2e_{name}")
        faults += [f"{cells[0][0]}: no lit file is in {name}" for name in cells[2] if not any(path.startswith(name) for path in lit)]
    faults += [f"room {room} has no row" for room in ARROWS if not any(f"{room}/".startswith(f"{listed}/") for listed in rooms)]
    unnamed = entries - named - {"lit"}
    faults += [f"entry {entry} has no row" for entry in sorted(unnamed) if not re.match(r"fuzz_frontend_build|runtime\.stages\.", entry)]
    print("\n".join(faults) if faults else f"{len(ARROWS)} rooms, {len(named)} entries")
    return 1 if faults else 0


sys.exit(main())
