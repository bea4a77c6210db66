#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it takes to plan and compile a large model in three dimensions, and that it does not grow with the number of micro-batches.

    plan_large.py [--build BUILD] [--layers L] [--width W] [--micro-batches M,M,...] [--schedules S,...] [--repeats R] [--only plan,stages]

`ashlar-zoo transformer` of 96 layers without values, AdamW, on 1024 ranks: 8 stages, each with a mesh of 16 x 8 devices (data x tensor parallelism), level 1
of optimizer parallelism, a sample a device in each micro-batch.

plan: `ashlarc --explain`, `--report` and `-o`, with 16 micro-batches and with 512. CPU is user and system time of the process and its children: other processes
of the machine hardly change it, and an idle machine needs no more seconds than that. Fails when the least of R runs of --explain or --report takes 10 s of CPU
time or more, or when the object has more bytes, or the plan takes more than 1.25 times as long, with the largest number of micro-batches than with the smallest.

stages: how much of the CPU time is behind each --emit, with the last number of micro-batches.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from measuring import MPI_ENV, ROOT, measure_parts, run, table

AIM_S, GROWTH = 10.0, 1.25
STAGES, DATA, TENSOR = 8, 16, 8
SPLIT = {"*.attention.query.weight": "[{}, {tp}]", "*.attention.key.weight": "[{}, {tp}]", "*.attention.value.weight": "[{}, {tp}]",
         "*.attention.projection.weight": "[{tp}, {}]", "*.mlp.up.weight": "[{}, {tp}]", "*.mlp.down.weight": "[{tp}, {}]",
         "embedding.weight": "[{tp}, {}]", "head.weight": "[{}, {tp}]"}


def job_text(schedule, micro_batches):
    return "\n".join([
        "mode: SEMI_AUTO", f'mesh {{ axes {{ name: "dp" size: {DATA} }} axes {{ name: "tp" size: {TENSOR} }} }}', 'rules { match: "tokens" layout: "[{dp}, {}]" }',
        *(f'rules {{ match: "{match}" layout: "{layout}" }}' for match, layout in SPLIT.items()),
        f"pipeline {{ stages: {STAGES} micro_batches: {micro_batches} schedule: {schedule} }}", f"global_batch: {DATA * micro_batches}",
        'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }', "optimizer { adamw { weight_decay: 0.1 } learning_rate: 0.0003 }",
        "optimizer_parallel { level: 1 }",
        'dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }',
        'init { match: "*norm*.weight" fill: 1 }', 'init { match: "*.bias" fill: 0 }', 'init { match: "*" normal { std: 0.02 } }', "epochs: 1", ""])


def measure(command, folder):
    """Runs a command whose stdout is not wanted; returns the seconds that it took, its CPU time, and its peak memory in MB. Ends with its errors when it fails."""
    with open(folder / "errors", "w+") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], cwd=folder, stdout=subprocess.DEVNULL, stderr=errors, env={**os.environ, **MPI_ENV})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"error: {' '.join(map(str, command))} exited with {process.returncode}:\n{errors.read()}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.bin = options, folder, pathlib.Path(options.build).resolve() / "bin"
        self.numbers = [int(number) for number in options.micro_batches.split(",")]
        run([self.bin / "ashlar-zoo", "transformer", "--no-data", "--layers", options.layers, "--width", options.width, "--heads", options.heads,
             "--sequence", options.sequence, "--vocabulary", options.vocabulary, "-o", "model.onnx"], folder)

    def times(self, job, *arguments):
        return [measure([self.bin / "ashlarc", "model.onnx", "--job", job, *arguments], self.folder) for _ in range(self.options.repeats)]

    def job(self, schedule, micro_batches):
        (self.folder / "job.txtpb").write_text(job_text(schedule, micro_batches))
        return "job.txtpb"

    def plan(self):
        rows, faults = [], []
        for schedule in self.options.schedules.split(","):
            planned, sizes = {}, {}
            for number in self.numbers:
                job = self.job(schedule, number)
                self.times(job, "--emit", "obj", "-o", "program.o")
                sizes[number] = (self.folder / "program.o").stat().st_size
                for name, arguments in (("--explain", ["--explain"]), ("--report", ["--report", "report.json"]), ("-o", ["-o", "program"])):
                    found = self.times(job, *arguments)
                    wall, cpu, memory = (statistics.median(column) for column in zip(*found))
                    least = min(each[1] for each in found)
                    rows.append([schedule, number, name, f"{wall:.2f}", f"{cpu:.2f}", f"{least:.2f}", f"{memory:.0f}", f"{sizes[number] / 1e6:.3f}"])
                    planned[name, number] = least
                    if name != "-o" and least >= AIM_S:
                        faults.append(f"{schedule}, {number} micro-batches: {name} takes {least:.2f} s of CPU time, the aim is {AIM_S:.0f}")
            few, many = min(self.numbers), max(self.numbers)
            if sizes[many] > sizes[few] * 1.001:
                faults.append(f"{schedule}: the object has {sizes[few]} bytes with {few} micro-batches but {sizes[many]} with {many}")
            if planned["--explain", many] > GROWTH * planned["--explain", few]:
                faults.append(f"{schedule}: --explain takes {planned['--explain', few]:.2f} s with {few} micro-batches but {planned['--explain', many]:.2f} s with {many}")
        table(f"{self.options.layers} layers of {self.options.width}, {STAGES} stages, {STAGES * DATA * TENSOR} ranks: ashlarc, medians of {self.options.repeats}",
              ["schedule", "micro-batches", "", "s", "CPU, s", "least CPU, s", "peak memory, MB", "object, MB"], rows)
        return faults

    def stages(self):
        rows = []
        for schedule in self.options.schedules.split(","):
            job, before = self.job(schedule, self.numbers[-1]), 0.0
            for stage in ("nn", "dist", "exec", "llvm", "obj", "exe"):
                cpu = statistics.median(each[1] for each in self.times(job, "--emit", stage, "-o", "out"))
                rows.append([schedule, f"--emit {stage}", f"{cpu:.2f}", f"{cpu - before:+.2f}", f"{(self.folder / 'out').stat().st_size / 1e6:.1f}"])
                before = cpu
        table("Up to each stage, with what it takes to write that down: CPU time", ["schedule", "up to", "s", "more than before", "MB written"], rows)
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--only", default="plan,stages")
    parser.add_argument("--schedules", default="ONE_F_ONE_B,ZERO_BUBBLE")
    parser.add_argument("--micro-batches", default="16,512")
    for name, default in (("layers", 96), ("width", 1024), ("heads", 16), ("sequence", 1024), ("vocabulary", 50304), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_parts(Bench(options, pathlib.Path(folder)), options.only)


if __name__ == "__main__":
    main()
