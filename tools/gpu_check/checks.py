# SPDX-License-Identifier: Apache-2.0
"""Parts that pass or fail: programs whose results are known, and probes of what NVIDIA's libraries offer."""

import json
import math
import os
import shutil

from attempt import Fault
from results import Row

PROBES_BYTES = 150 << 10  # of each probe in probes.txt


def losses_of(path):
    """The losses of a file of metrics; NaN where one is no number, as they are written as null."""
    losses = [json.loads(line).get("loss") for line in path.read_text().splitlines() if line.strip()]
    return [loss if isinstance(loss, (int, float)) else math.nan for loss in losses]


def compare_losses(expected, found, tolerance):
    """Returns the text of a comparison, step by step, relative to the larger. Raises Fault when they disagree."""
    if len(expected) != len(found) or not found:
        raise Fault("FAILED", f"{len(found)} losses, not {len(expected)}")
    worst, step = -1.0, 0
    for number, (a, b) in enumerate(zip(expected, found), 1):
        if not (math.isfinite(a) and math.isfinite(b)):
            raise Fault("FAILED", f"step {number}: loss {b}, expected {a}")
        share = abs(a - b) / (tolerance * max(abs(a), abs(b), 1e-3))
        if share > worst:
            worst, step = share, number
    text = f"{len(found)} losses, worst at step {step}: {worst:.2g} of the allowance"
    if worst > 1:
        raise Fault("FAILED", f"{text}; {found[step - 1]}, expected {expected[step - 1]}")
    return text


def passed(attempt, detail=""):
    return [Row(attempt.part.kind, attempt.part.name, "passed", detail, seconds=attempt.seconds())]


def conformance(attempt):
    attempt.run([attempt.context.program("ashlar_conformance"), "cuda"], attempt.part.ranks)
    return passed(attempt)


def train(attempt, entry, options):
    """Trains, and compares the losses with those of the cpu target on one rank."""
    context, name, ranks = attempt.context, entry["name"], attempt.part.ranks
    metrics = context.results.logs / f"{attempt.part.name}.jsonl"
    data = ["--data", context.folder / entry["data"]] if entry.get("data") else []
    attempt.run([context.program(f"{name}.{ranks}"), "--steps", entry["steps"], "--log-every", 1, "--metrics", metrics, *data, *options], ranks)
    if not metrics.exists():
        raise Fault("FAILED", "it wrote no losses")
    return passed(attempt, compare_losses(losses_of(context.folder / "expected" / f"{name}.jsonl"), losses_of(metrics), entry["tolerance"]))


def forward(attempt, name):
    """Runs a forward program on its inputs, and compares every output with what the reference interpreter computed."""
    context = attempt.context
    folder, work = context.folder / "forward" / name, context.scratch / attempt.part.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    inputs = [word for file in sorted(folder.glob("in.*.npy")) for word in ("--input", f"{file.name[3:-4]}={file}")]
    attempt.run([folder / "program", *inputs], attempt.part.ranks, folder=work)
    tolerance = (folder / "tolerance").read_text().strip()
    outputs = sorted(folder.glob("out.*.npy"))
    for file in outputs:
        attempt.run([context.program("compare_npy"), file, work / file.name[4:], tolerance])
    shutil.rmtree(work)
    return passed(attempt, f"{len(outputs)} outputs")


def probe(attempt, name):
    """Tries combinations that a library may refuse. Refusals are no failure; a wrong number is."""
    context = attempt.context
    try:
        attempt.run([context.program(name), "--probe"])
    finally:
        text = attempt.text()
        with context.lock, open(context.results.out / "probes.txt", "a", encoding="utf-8") as stream:
            stream.write(f"== {name} --probe\n{text[:PROBES_BYTES]}\n")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    refused = [line for line in lines if "refused" in line.lower()]
    return passed(attempt, f"{len(lines)} lines, {len(refused)} refused" + (f": {'; '.join(refused[:3])}" if refused else ""))


def sanitizer(context):
    """Where compute-sanitizer is; None when this machine has none."""
    folders = [os.path.join(folder, "bin") for folder in [os.path.dirname(one) for one in context.processes.environment["LD_LIBRARY_PATH"].split(":")]]
    return shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin", *folders]))


def sanitize(attempt, tool, command):
    """Runs a program under compute-sanitizer."""
    context = attempt.context
    if not (program := sanitizer(context)):
        raise Fault("not run", "this machine has no compute-sanitizer")
    attempt.run([program, "--tool", tool, "--error-exitcode", 9, *command(context)])
    return passed(attempt)
