#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the figures of docs/benchmarks.md as tables: compile time, layouts, linear, mlp against PyTorch, memory plans, MNIST.

    test/bench/figures.py [--build build] [--only compile,layouts,linear,mlp,memory,mnist] [--data DIR] [--torch-python PYTHON]

Each figure is the median of several runs. PyTorch is measured when PYTHON can import torch, in turns with ours (ours, theirs, ours, ...), so
that a change of the machine's speed meets both. MNIST needs --data DIR with the idx files. Times are wall clock.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

SECTIONS = ["compile", "layouts", "linear", "mlp", "memory", "mnist"]
MPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
# Loss of MindSpore's example, from its documentation.
MINDSPORE_CURVE = {10: 2.2922, 20: 2.2783, 30: 2.2538, 40: 2.1638, 50: 1.9843, 60: 1.6062, 70: 1.2097, 80: 0.9816, 90: 0.7723, 100: 0.6854}
ROOT = pathlib.Path(__file__).resolve().parents[2]
REPEATS = 5


def run(command, cwd):
    """Runs a command, returns (seconds, output); stops with its output when it fails."""
    start = time.perf_counter()
    done = subprocess.run([str(c) for c in command], cwd=cwd, env={**os.environ, **MPI_ENV}, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}")
    return seconds, done.stdout


def table(title, header, rows):
    print(f"\n### {title}\n\n| " + " | ".join(map(str, header)) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


class Bench:
    def __init__(self, options, folder):
        self.bin = pathlib.Path(options.build).resolve() / "bin"
        self.options = options
        self.folder = pathlib.Path(folder)

    def model(self, name, *zoo):
        path = self.folder / f"{name}.onnx"
        run([self.bin / "ashlar-zoo", *zoo, "-o", path], self.folder)
        return path

    def compile(self, model, job, out, *extra):
        return run([self.bin / "ashlarc", model, "--job", ROOT / "docs/jobs" / job, *extra, "-o", self.folder / out], self.folder)[0]

    @staticmethod
    def launch(ranks, program, *arguments):
        prefix = ["mpirun", "-n", ranks] if ranks > 1 else []
        return [*prefix, program, *arguments]

    @staticmethod
    def step_us(output):
        return float(re.search(r"\(([0-9.]+) us a step\)", output).group(1))

    def compile_time(self):
        rows = []
        for name, zoo in [("mlp", ["mlp"])] + [(f"mlp --layers {n} --width 512", ["mlp", "--layers", n, "--width", 512]) for n in (25, 50, 100, 200)]:
            model = self.model("compile", *zoo)
            seconds = [self.compile(model, "mlp.txtpb", "compiled", "--mesh", "dp=2") for _ in range(REPEATS)]
            rows.append([name, f"{model.stat().st_size / 1e6:.1f}", f"{statistics.median(seconds):.2f}"])
        table("Compile time: ashlarc, whole process", ["model", "ONNX, MB", "s, median"], rows)

    def layouts(self):
        """Inference, planning and partitioning of a transformer whose every matrix is split, on 64 x 8 x 2 devices: what --emit dist takes
        beyond --emit nn. The programs are three: initial values, training step, evaluation."""
        job = (ROOT / "docs/jobs/transformer_tensor_parallel.txtpb").read_text().replace("{tp}", "{tp, z}").replace("global_batch: 16", "global_batch: 256")
        (self.folder / "layouts.txtpb").write_text(job + 'init { match: "*" normal { std: 0.02 } }\n')
        rows = []
        for layers in (12, 24, 48, 96):
            model = self.model("layouts", "transformer", "--layers", layers, "--width", 4096, "--heads", 32, "--sequence", 128, "--vocabulary", 50257, "--no-data")
            seconds = {stage: [] for stage in ("nn", "dist")}
            for _ in range(REPEATS):
                for stage, list_of in seconds.items():
                    command = [self.bin / "ashlarc", model, "--job", "layouts.txtpb", "--mesh", "dp=64,tp=8,z=2", "--emit", stage, "-o", f"layouts.{stage}"]
                    list_of.append(run(command, self.folder)[0])
            text = (self.folder / "layouts.dist").read_text()
            nn, dist = (statistics.median(seconds[stage]) for stage in ("nn", "dist"))
            rows.append([layers, 6 * layers, text.count(" dist.all_reduce"), f"{nn:.2f}", f"{dist:.2f}", f"{dist - nn:.2f}"])
        table("Layouts: transformer on dp=64, tp=8, z=2, one core", ["layers", "matrices", "collectives", "to nn, s", "to dist, s", "infer, plan, partition, s"], rows)

    def linear(self):
        model = self.model("linear", "linear")
        rows = []
        for ranks in (1, 2):
            self.compile(model, "linear.txtpb", "linear", "--mesh", f"dp={ranks}")
            runs = [run(self.launch(ranks, "./linear", "--steps", 2000), self.folder) for _ in range(REPEATS)]
            rows.append([ranks, f"{statistics.median(s for s, _ in runs):.3f}", f"{statistics.median(self.step_us(o) for _, o in runs):.2f}"])
        table("linear: global batch 16, 2000 steps, Momentum", ["ranks", "whole process, s", "step, us"], rows)

    def torch_step_us(self, ranks):
        """Step time of the same net in PyTorch, or None without it."""
        python = self.options.torch_python
        if subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            return None
        script = ROOT / "test/bench/mlp_torch.py"
        threads = os.cpu_count() // ranks
        _, output = run([python, script, "--ranks", ranks, "--threads", max(1, threads)], self.folder)
        return self.step_us(output)

    def mlp(self):
        model = self.model("mlp", "mlp")
        rows = []
        _, products = run([self.bin / "bench_gemm"], self.folder)
        peak = float(re.search(r"peak of one core: ([0-9.]+) GFLOP/s", products).group(1))
        flops = 3 * 2 * 256 * (784 * 512 + 512 * 512 + 512 * 10) - 2 * 256 * 784 * 512
        for ranks in (1, 2):
            threads = max(1, os.cpu_count() // ranks)
            self.compile(model, "mlp.txtpb", "mlp", "--mesh", f"dp={ranks}")
            ours, theirs = [], []
            for _ in range(REPEATS):
                _, output = run(self.launch(ranks, "./mlp", "--steps", 1000, "--log-every", 0, "--threads", threads), self.folder)
                ours.append(self.step_us(output))
                peer = self.torch_step_us(ranks)
                if peer is not None:
                    theirs.append(peer)
            us = statistics.median(ours)
            ratio = statistics.median(o / t for o, t in zip(ours, theirs)) if theirs else None
            share = 100 * flops / us / 1e3 / (peak * ranks * threads)
            rows.append([f"{ranks} x {threads}", f"{us:.0f}", f"{flops / us / 1e3:.0f}", f"{share:.0f} %", f"{statistics.median(theirs):.0f}" if theirs else "not installed",
                         f"{ratio:.2f}" if ratio else ""])
        table(f"mlp: global batch 256, f32, SGD; peak of one core {peak:.0f} GFLOP/s",
              ["ranks x threads", "step, us", "GFLOP/s", "of the cores' peak", "PyTorch step, us", "ours / PyTorch"], rows)

    def memory(self):
        rows = []
        for name, zoo, job in [("mlp", ["mlp"], "mlp.txtpb"), ("mlp --layers 100 --width 512", ["mlp", "--layers", 100, "--width", 512], "mlp.txtpb"),
                               ("linear", ["linear"], "linear.txtpb")]:
            model = self.model("memory", *zoo)
            self.compile(model, job, "memory", "--mesh", "dp=2")
            _, plan = run(["./memory", "--plan"], self.folder)
            arena = re.search(r"memory +([0-9.]+ \S+)", plan).group(1)
            rows.append([name, arena, re.search(r"this one is ([0-9.]+) times", plan).group(1)])
        table("Memory plan: peak against the largest live set", ["model, dp=2", "arena a device", "times the lower bound"], rows)

    def mnist(self):
        if not self.options.data:
            print("\n### MNIST\n\nnot measured: no --data DIR")
            return
        model = self.model("mlp", "mlp")
        self.compile(model, "mlp_mindspore.txtpb", "mnist", "--mesh", "dp=2")
        _, output = run(self.launch(2, "./mnist", "--data", self.options.data, "--epochs", 1, "--log-every", 10), self.folder)
        curve = dict(re.findall(r"epoch: 1 step: (\d+), loss is ([0-9.]+)", output))
        rows = [["ours"] + [f"{float(curve[str(step)]):.4f}" for step in MINDSPORE_CURVE], ["MindSpore"] + list(MINDSPORE_CURVE.values())]
        table("MNIST, docs/jobs/mlp_mindspore.txtpb: loss by step", ["step"] + list(MINDSPORE_CURVE), rows)
        self.compile(model, "mlp.txtpb", "mnist", "--mesh", "dp=2")
        _, output = run(self.launch(2, "./mnist", "--data", self.options.data, "--epochs", 5, "--log-every", 0, "--eval"), self.folder)
        print("\nMNIST, docs/jobs/mlp.txtpb, 5 epochs: " + re.search(r"eval: .*", output).group(0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--data")
    parser.add_argument("--torch-python", default="python3")
    options = parser.parse_args()
    if options.data:
        options.data = str(pathlib.Path(options.data).resolve())
    wanted = options.only.split(",")
    for name in wanted:
        if name not in SECTIONS:
            parser.error(f"unknown section {name}; there are {', '.join(SECTIONS)}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        methods = {"compile": bench.compile_time, "layouts": bench.layouts, "linear": bench.linear, "mlp": bench.mlp, "memory": bench.memory, "mnist": bench.mnist}
        for name in wanted:
            methods[name]()


if __name__ == "__main__":
    main()
