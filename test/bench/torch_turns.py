# SPDX-License-Identifier: Apache-2.0
"""What benches against PyTorch, and JAX, share. Ours and theirs take turns, so that a change of the machine's speed meets both, and must find the same losses: they
compute the same. Theirs are measured by a peer, a script which prints one line of JSON of what it found: {"peer": name and version, "ways": {way: {"ms": milliseconds a
step, "losses": of all steps} or {"missing": why it cannot be measured}}}."""

import json
import statistics
import subprocess
import sys

from measuring import run, table


def skip_without(python, *modules):
    """Ends the script with status 77 where `python` cannot import the modules."""
    if subprocess.run([python, "-c", f"import {', '.join(modules)}"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print(f"skipped: {python} cannot import {' and '.join(modules)}")
        sys.exit(77)


def ask_peer(command, folder):
    """Runs a peer; returns its name and version, and what it found of each way."""
    log = run(command, folder)[1]
    found = json.loads(next(line for line in reversed(log.splitlines()) if line.startswith('{"peer"')))
    return found["peer"], found["ways"]


def check_losses(tolerances, ours, way, theirs):
    """Ends the script where losses of the first steps are further apart than their relative tolerances."""
    for step, (tolerance, x, y) in enumerate(zip(tolerances, ours, theirs), 1):
        if not abs(x - y) <= tolerance * abs(y):
            sys.exit(f"error: the loss of step {step} is {x} here but {y} with {way}: the two do not compute the same")


def ratios_of(ours, theirs):
    """The median of the ratios turn by turn, and it and their range as cells of a table."""
    ratios = [x / y for x, y in zip(ours, theirs)]
    median = statistics.median(ratios)
    return median, [f"{median:.2f}", f"{min(ratios):.2f} - {max(ratios):.2f}"]


def compare(bench, turns, tolerances, title, aim):
    """Measures bench.ours(), milliseconds a step and losses, and bench.theirs(), what ask_peer() returns, `turns` times. Prints a table; of a turn the fastest way
    counts. Fails where the median of the ratios misses the aim. Where losses cannot be compared, there are no tolerances."""
    ours, theirs, missing = [], {}, {}
    for _ in range(turns):
        milliseconds, losses = bench.ours()
        ours.append(milliseconds)
        peer, ways = bench.theirs()
        for way, found in ways.items():
            if "missing" in found:
                missing[way] = found["missing"]
            else:
                check_losses(tolerances, losses, way, found["losses"])
                theirs.setdefault(way, []).append(found["ms"])
    for way, reason in missing.items():
        print(f"not measured: {way}: {reason}")
    if not theirs:
        sys.exit("error: no peer could be measured in any way")
    compared = next(iter(theirs))
    print("losses, ours and theirs:", *(f"{x:.6f}" for x in losses[:4]), "and", *(f"{x:.6f}" for x in ways[compared]["losses"][:4]))
    fastest = [min(turn) for turn in zip(*theirs.values())]
    rows = []
    for way, times in [*theirs.items(), ("the fastest of a turn", fastest)]:
        ratio, cells = ratios_of(ours, times)
        rows.append([way, f"{statistics.median(times):.1f}", f"{statistics.median(ours):.1f}", *cells])
    table(f"{title}, against {peer}; medians of {turns} turns", ["way", "ms", "ours, ms", "ours / theirs", "of turns"], rows)
    if ratio > aim:
        sys.exit(f"missed: {ratio:.2f} of the fastest peer's time, the aim is {aim}")
