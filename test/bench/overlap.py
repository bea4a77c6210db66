#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step time with and without communication beside computation, between two hosts with a slow link.

    overlap.py [--build BUILD] [--rate RATE] [--repeats R] [--gflops G]

Two ranks run in two network namespaces whose link has the rate RATE (as tc takes it; "500mbit" unless given; needs root), one core each. mlp --layers 8
--width 512 trains at levels 0, 1 and 3 of optimizer parallelism, compiled with and without --no-overlap; the two take turns. Printed: the medians,
what the overlap saves, what the schedule says can be hidden for a device of G GFLOP/s (60 unless given) and a link of 0.9 RATE, the share of it that is
saved, and what --profile measured of the collectives that overlap computation. Losses of both are compared.
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile

from measuring import ROOT, run

UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
GBIT = {"gbit": 1.0, "mbit": 1e-3}


def job_text(level, gbytes, gflops):
    return "\n".join([
        "mode: SEMI_AUTO", 'mesh { axes { name: "dp" size: 2 } }', 'rules { match: "input" layout: "[{dp}, {}]" }', "global_batch: 4096",
        'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }', "optimizer { adam {} learning_rate: 0.001 }",
        'dataset { digits { train_samples: 32768 eval_samples: 4096 } features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }', "epochs: 100000",
        f"optimizer_parallel {{ level: {level} }}" if level else "",
        f"machine {{ ranks_per_host: 1 inter_host {{ latency_us: 60 bandwidth_gb_per_s: {gbytes:.4f} }} device {{ gflop_per_s: {gflops} }} }}", ""])


def microseconds(number, unit):
    return float(number) * UNITS[unit]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--rate", default="500mbit")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--gflops", type=float, default=60)
    options = parser.parse_args()
    tools = pathlib.Path(options.build).resolve() / "bin"
    number, unit = re.fullmatch(r"([0-9.]+)(gbit|mbit)", options.rate).groups()
    gbytes = 0.9 * float(number) * GBIT[unit] / 8
    hosts = [sys.executable, ROOT / "test/hosts/lab.py", "--ranks", "1,1", "--rate", options.rate, "--"]
    print("| level | ms a step without | with | saved | can be hidden | share | profile: measured | expected |\n|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run([tools / "ashlar-zoo", "mlp", "--layers", 8, "--width", 512, "-o", "model.onnx"], folder)
        for level in (0, 1, 3):
            (folder / "job.txtpb").write_text(job_text(level, gbytes, options.gflops))
            run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "with"], folder)
            run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "--no-overlap", "-o", "without"], folder)
            planned = re.search(r"overlap +.*: ([0-9.]+) (\w+) of .* expected", run(["./with", "--plan"], folder)[1])
            hidden = microseconds(*planned.groups()) / 1e3
            times, losses = {"without": [], "with": []}, {}
            for _ in range(options.repeats):
                for program, found in times.items():
                    out = run([*hosts, f"./{program}", "--steps", options.steps, "--threads", 1], folder)[1]
                    found.append(float(re.search(r"\(([0-9.]+) us a step\)", out).group(1)) / 1e3)
                    losses.setdefault(program, re.findall(r"loss is ([^,]*)", out))
            if losses["with"] != losses["without"]:
                raise SystemExit(f"error: losses of level {level} differ: {losses}")
            out = run([*hosts, "./with", "--steps", options.steps, "--threads", 1, "--profile"], folder)[1]
            measured, expected = re.search(r"collectives: .*, (\d+) % hidden; expected .*, (\d+) % hidden", out).groups()
            without, beside = statistics.median(times["without"]), statistics.median(times["with"])
            print(f"| {level} | {without:.1f} | {beside:.1f} | {without - beside:.1f} | {hidden:.1f} | {(without - beside) / hidden:.2f} | {measured} % | {expected} % |", flush=True)


main()
