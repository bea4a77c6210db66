#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts that mode AUTO finds against those of inference alone (search: PROPAGATION) and plain data parallelism: predicted and measured steps.

    auto.py [--build BUILD] [--machine F.txtpb] [--only NAME,...] [--ranks N,...] [--repeats R] [--seconds S]

--machine: a file with the job's `machine { ... }` as bench_gemm, bench_kernels and bench_all_reduce measure it; without it the defaults of the target predict. One
thread a rank. The three programs run in turns, R times about S seconds each: the ratio of AUTO to the better of the others, by their medians, is taken within each
turn, and its median printed with the least and the largest. Fails when a prediction is above 1, or a measured median of as many ranks as there are cores above 1.03.
"""

import argparse
import os
import pathlib
import statistics
import tempfile

from measuring import ROOT, table
from trainings import ADAMW, MOMENTUM, SGD, Trainings, images, mlp, rules, transformer

MOST = 1.03  # of the better of the others
MESHES = {2: "dp=2", 4: "dp=2,tp=2"}
# Name, model, batch, optimizer.
CASES = [
    ("mlp 3x512", mlp(3, 512), 256, SGD),
    ("mlp 3x512, batch 16", mlp(3, 512), 16, SGD),
    ("mlp 4x1024 adamw", mlp(4, 1024), 64, ADAMW),
    ("lenet", (["lenet"], None), 64, MOMENTUM),
    ("transformer 2x192", transformer(2, 192, 4, 16, 50), 16, ADAMW),
    ("transformer 4x256", transformer(4, 256, 8, 64, 1000), 8, ADAMW),
    ("resnet50", images("resnet", "--depth", 50, "--stem", "cifar"), 8, MOMENTUM),
    ("vgg11", images("vgg", "--depth", 11), 8, SGD),
]


def data_parallel(source, mesh):
    """A job's line: the batch of the input is split over all axes."""
    data = source[1]
    name, rank = (data[0], 1 + len(data[2])) if data else ("input", 4 if source[0][0] == "lenet" else 2)
    axes = ", ".join(axis.split("=")[0] for axis in mesh.split(","))
    return rules({name: f"[{{{axes}}}{', {}' * (rank - 1)}]"})


def case(trainings, options, name, source, batch, optimizer, ranks):
    """Returns the rows of a case, and the aims that it missed."""
    zoo, data = source
    mesh, model = MESHES[ranks], trainings.model(zoo)
    modes = {"auto": "mode: AUTO\n", "propagation": "mode: AUTO search: PROPAGATION\n", "data": data_parallel(source, mesh)}
    predicted, steps = {}, {}
    for mode, text in modes.items():
        job = trainings.job(mode, batch, text + optimizer, mesh, data)
        predicted[mode] = trainings.plan(model, job)["step_ns"] / 1e3
        trainings.compile(model, job, mode)
        steps[mode] = max(3, int(options.seconds * 1e6 / trainings.step_us(mode, ranks, 3, data)))
    load = os.getloadavg()[0]
    turns = [{mode: trainings.step_us(mode, ranks, steps[mode], data) for mode in modes} for _ in range(options.repeats)]
    medians = {mode: statistics.median(turn[mode] for turn in turns) for mode in modes}
    other = min("propagation", "data", key=medians.get)
    ratios = [turn["auto"] / turn[other] for turn in turns]
    foreseen, measured = predicted["auto"] / min(predicted["propagation"], predicted["data"]), statistics.median(ratios)
    row = [name, mesh, batch, *(f"{predicted[mode]:.0f}" for mode in modes), f"{foreseen:.3f}", *(f"{medians[mode]:.0f}" for mode in modes), f"{measured:.3f}",
           f"{min(ratios):.2f} - {max(ratios):.2f}", f"{load:.1f}"]
    print(" | ".join(map(str, row)), flush=True)
    missed = [f"{name} on {mesh} is predicted to take {foreseen:.3f}"] if foreseen > 1 else []
    if measured > MOST and ranks <= os.cpu_count():
        missed.append(f"{name} on {mesh} takes {measured:.3f}")
    return row, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--machine")
    parser.add_argument("--only", default="")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    wanted = [name for name in options.only.split(",") if name]
    rows, missed = [], []
    with tempfile.TemporaryDirectory() as folder:
        trainings = Trainings(options.build, pathlib.Path(folder), options.machine)
        for ranks in map(int, options.ranks.split(",")):
            for each in CASES:
                if not wanted or any(name in each[0] for name in wanted):
                    row, faults = case(trainings, options, *each, ranks)
                    rows.append(row)
                    missed += faults
    table("A step with layouts that were found, beside inference alone and data parallelism",
          ["case", "mesh", "batch", "predicted, us: auto", "propagation", "data", "auto / better", "measured, us: auto", "propagation", "data", "auto / better",
           "least - most", "load"], rows)
    if missed:
        raise SystemExit(f"missed: {'; '.join(missed)}; the aims are 1 predicted and {MOST} measured")


main()
