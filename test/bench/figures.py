#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the figures of docs/benchmarks.md as tables: compile time, layouts, mesh axes, linear, mlp and micro-batches against PyTorch, memory plans,
MNIST.

    test/bench/figures.py [--build build] [--only compile,stages,chains,giant,resnets,layouts,axes,linear,mlp,micro_batches,memory,mnist] [--data DIR]
                          [--torch-python PYTHON] [--rate 1gbit]

Each figure is the median of several runs. PyTorch is measured when PYTHON can import torch, in turns with ours (ours, theirs, ours, ...), so
that a change of the machine's speed meets both. MNIST needs --data DIR with the idx files. Times are wall clock, but for those called CPU
time, user and system together: other processes of the machine hardly change them. `chains`, `giant` and `resnets` fail when they miss
their aim.
"""

import argparse
import json
import os
import pathlib
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile

from measuring import ROOT, run, table
from torch_turns import check_losses

sys.path.insert(0, str(ROOT / "test/e2e"))
from npy_writer import write_npy

SECTIONS = ["compile", "stages", "chains", "giant", "resnets", "layouts", "axes", "linear", "mlp", "micro_batches", "memory", "mnist"]
# Loss of MindSpore's example, from its documentation.
MINDSPORE_CURVE = {10: 2.2922, 20: 2.2783, 30: 2.2538, 40: 2.1638, 50: 1.9843, 60: 1.6062, 70: 1.2097, 80: 0.9816, 90: 0.7723, 100: 0.6854}
REPEATS = 5


def cpu_seconds(command, cwd):
    """Runs a command, returns the CPU time of it and its children; stops with its output when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(command, cwd)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def gradient_bytes(report):
    """The bytes of gradients that a rank of each stage sends in a step, from a report of ashlarc."""
    stages = report["pipeline"]["stages"]
    runs = {(stage["stage"], program["name"]): program["runs"] for stage in stages for program in stage["programs"]}
    return [sum(sent["bytes"] * runs[sent["stage"], sent["program"]] for sent in report["collectives"]
                if sent["stage"] == stage["stage"] and sent["cause"].startswith("gradient of")) for stage in stages]


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

    def stages(self):
        """Where the time of compiling mlp goes: what each stage takes beyond the one before."""
        model = self.model("stages", "mlp")
        rows, before = [], 0
        stages = [("nothing: --help", ["--help"])] + [(f"--emit {stage}", ["--job", ROOT / "docs/jobs/mlp.txtpb", "--mesh", "dp=2", "--emit", stage, "-o", "stages.out"])
                                                      for stage in ("nn", "dist", "exec", "llvm", "obj", "exe")]
        for name, options in stages:
            seconds = statistics.median(cpu_seconds([self.bin / "ashlarc", model, *options], self.folder) for _ in range(2 * REPEATS + 1))
            rows.append([name, f"{seconds:.3f}", f"{seconds - before:+.3f}"])
            before = seconds
        table("Stages of compiling mlp, both variants: CPU time", ["up to", "s", "more than before"], rows)

    def chains(self):
        """Chains of n element-wise nodes: 10 times the nodes may take 14 times as long."""
        rows, times = [], {}
        for nodes in (2000, 4000, 8000, 20000):
            model = self.model("chain", "chain", "--nodes", nodes)
            times[nodes] = statistics.median(cpu_seconds([self.bin / "ashlarc", model, "-o", "chain"], self.folder) for _ in range(3))
            kernels = run([self.bin / "ashlarc", model, "--emit", "exec", "-o", "-"], self.folder)[1].count("func.func @")
            rows.append([nodes, kernels, f"{times[nodes]:.2f}", f"{1e6 * times[nodes] / nodes:.0f}"])
        table("Chains: ashlarc, CPU time", ["nodes", "kernels", "s", "us a node"], rows)
        if times[20000] > 14 * times[2000]:
            raise SystemExit(f"error: 20000 nodes take {times[20000]:.2f} s of CPU time, 2000 take {times[2000]:.2f} s: that is not linear")

    def giant(self):
        """A transformer of 175 billion parameters on dp=128 x tp=8, initial values by rules: compiled in 6 s of CPU time."""
        aim = 6
        job = (ROOT / "docs/jobs/transformer_tensor_parallel.txtpb").read_text().replace("global_batch: 16", "global_batch: 1024")
        (self.folder / "giant.txtpb").write_text(job + 'init { match: "*" normal { std: 0.02 } }\n')
        rows = []
        for layers in (12, 24, 48, 96):
            model = self.model("giant", "transformer", "--layers", layers, "--width", 12288, "--heads", 96, "--sequence", 2048, "--vocabulary", 50304, "--no-data")
            command = [self.bin / "ashlarc", model, "--job", "giant.txtpb", "--mesh", "dp=128,tp=8"]
            seconds = statistics.median(cpu_seconds([*command, "-o", "giant"], self.folder) for _ in range(3))
            kernels = run([*command, "--emit", "exec", "-o", "-"], self.folder)[1].count("func.func @")
            rows.append([layers, kernels, f"{seconds:.2f}"])
        table("Transformer of width 12288 on dp=128, tp=8: ashlarc, CPU time", ["layers", "kernels", "s"], rows)
        if seconds > aim:
            raise SystemExit(f"error: 96 layers take {seconds:.2f} s of CPU time, the aim is {aim} s")

    def resnets(self):
        """Residual networks with the job of CIFAR-10 for 8 ranks: ResNet-50 in 5 s of CPU time, and a layer costs the same in all of them."""
        aim, rows, per_layer = 5, [], {}
        for depth in (18, 34, 50, 101, 152):
            model = self.model("resnet", "resnet", "--expanded-loss", "--depth", depth)
            command = [self.bin / "ashlarc", model, "--job", ROOT / "docs/jobs/resnet50_cifar10.txtpb"]
            seconds = statistics.median(cpu_seconds([*command, "-o", "resnet"], self.folder) for _ in range(3))
            text = run([*command, "--emit", "exec", "-o", "-"], self.folder)[1]
            per_layer[depth] = seconds / depth
            rows.append([depth, text.count("exec.conv "), text.count("func.func @"), f"{seconds:.2f}", f"{1e3 * seconds / depth:.0f}"])
            if depth == 50 and seconds > aim:
                raise SystemExit(f"error: ResNet-50 takes {seconds:.2f} s of CPU time, the aim is {aim} s")
        table("ResNets on 224 x 224, 8 ranks: ashlarc, CPU time", ["depth", "convolutions", "kernels", "s", "ms a layer"], rows)
        if per_layer[152] > 1.4 * per_layer[50]:
            raise SystemExit(f"error: a layer of 152 takes {1e3 * per_layer[152]:.0f} ms, one of 50 takes {1e3 * per_layer[50]:.0f} ms: that is not linear")

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

    def axes(self):
        """CPU time to the program of one device, by the number of mesh axes of size 2: mlp with its batch over all axes; mlp with rules that split each
        tensor over other axes; a transformer with mixed rules. Of the axes in the rules only those of the mesh stay."""
        mlp_job, tf_job = ((ROOT / "docs/jobs" / name).read_text() for name in ("mlp.txtpb", "transformer_tensor_parallel.txtpb"))
        batch = "global_batch: 1024"
        mixed = [("input", "[{a, b, c}, {d}]"), ("fc1.weight", "[{d, e, f}, {g, h}]"), ("fc2.weight", "[{j, i, a}, {f, b, e, c}]"), ("fc3.weight", "[{b}, {c, d, a}]")]
        rules = [("tokens", "[{a, b, c, d, e}, {}]"), ("*.query.weight", "[{}, {b, i}]"), ("*.key.weight", "[{}, {c, d, h}]"), ("*.value.weight", "[{}, {e, f}]"),
                 ("*.projection.weight", "[{g, c}, {}]"), ("*.up.weight", "[{}, {h, b, j}]"), ("*.down.weight", "[{j, a}, {}]"), ("embedding.weight", "[{b, i}, {}]"),
                 ("head.weight", "[{}, {c, d, h}]")]
        models = [self.model("mlp", "mlp"), self.model("mlp", "mlp"), self.model("transformer", "transformer")]
        rows = []
        for count in range(5, 11):
            names = "abcdefghij"[:count]

            def kept(layout):
                return re.sub(r"\{([^}]*)\}", lambda dim: "{" + ", ".join(a for a in dim.group(1).split(", ") if a in names) + "}", layout)

            def with_rules(text, pairs):
                rules = "".join(f'rules {{ match: "{match}" layout: "{kept(layout)}" }}\n' for match, layout in pairs)
                return "mode: SEMI_AUTO\n" + rules + text[text.index("global_batch"):]

            jobs = [mlp_job, with_rules(mlp_job, mixed), with_rules(tf_job, rules)]
            times = []
            for model, job in zip(models, jobs):
                (self.folder / "axes.txtpb").write_text(re.sub(r"global_batch: \d+", batch, job))
                command = [self.bin / "ashlarc", model, "--job", "axes.txtpb", "--mesh", ",".join(f"{a}=2" for a in names), "--emit", "dist", "-o", "axes.dist"]
                times.append(statistics.median(cpu_seconds(command, self.folder) for _ in range(REPEATS)))
            rows.append([count, *(f"{t:.2f}" for t in times)])
        table("Mesh axes of size 2: ashlarc --emit dist, CPU time", ["axes", "mlp, data parallel, s", "mlp, mixed rules, s", "transformer, mixed rules, s"], rows)

    def linear(self):
        model = self.model("linear", "linear")
        rows = []
        for ranks in (1, 2):
            self.compile(model, "linear.txtpb", "linear", "--mesh", f"dp={ranks}")
            runs = [run(self.launch(ranks, "./linear", "--steps", 2000), self.folder) for _ in range(REPEATS)]
            rows.append([ranks, f"{statistics.median(s for s, _ in runs):.3f}", f"{statistics.median(self.step_us(o) for _, o in runs):.2f}"])
        table("linear: global batch 16, 2000 steps, Momentum", ["ranks", "whole process, s", "step, us"], rows)

    def has_torch(self):
        python = self.options.torch_python
        return subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def torch_step_us(self, ranks, *options):
        """Step time of the same net in PyTorch, or None without it."""
        python = self.options.torch_python
        if not self.has_torch():
            return None
        script = ROOT / "test/bench/mlp_torch.py"
        threads = os.cpu_count() // ranks
        _, output = run([python, script, "--ranks", ranks, "--threads", max(1, threads), *options], self.folder)
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

    def micro_batches(self):
        shape = ["--layers", 5, "--width", 1024]
        model = self.model("wide", "mlp", *shape)
        ways = [("one host", ["mpirun", "-n", 2], [], "")]
        if self.options.rate:
            ways.append((f"two hosts, {self.options.rate}", [sys.executable, ROOT / "test/hosts/lab.py", "--ranks", "1,1", "--rate", self.options.rate, "--"],
                         ["--master", "10.213.77.1"], "machine { ranks_per_host: 1 }"))
        rows = []
        for name, launcher, peer_options, machine in ways:
            steps = 20 if peer_options else 50
            for parts in (1, 4):
                job = re.sub(r"global_batch: \d+", "global_batch: 256", (ROOT / "docs/jobs/mlp.txtpb").read_text())
                (self.folder / "parts.txtpb").write_text(f"{job}accumulate: {parts}\n{machine}\n")
                self.compile(model, self.folder / "parts.txtpb", "parts", "--mesh", "dp=2")
                ours, theirs = [], []
                for _ in range(3 if peer_options else REPEATS):
                    _, output = run([*launcher, "./parts", "--steps", steps, "--log-every", 0, "--threads", 1], self.folder)
                    ours.append(self.step_us(output))
                    if self.has_torch():
                        options = ["--ranks", 2, "--threads", 1, *shape, "--accumulate", parts, "--steps", steps]
                        prefix = launcher if peer_options else []
                        _, output = run([*prefix, self.options.torch_python, ROOT / "test/bench/mlp_torch.py", *options, *peer_options], self.folder)
                        theirs.append(self.step_us(output))
                ratio = statistics.median(o / t for o, t in zip(ours, theirs)) if theirs else None
                rows.append([name, parts, f"{statistics.median(ours):.0f}", f"{statistics.median(theirs):.0f}" if theirs else "not installed", f"{ratio:.2f}" if ratio else ""])
        table("Micro-batches: mlp of 5 layers, width 1024, global batch 256, SGD, 2 ranks",
              ["ranks on", "micro-batches", "step, us", "PyTorch step, us", "ours / PyTorch"], rows)
        self.pipelined_micro_batches(model, shape)

    def compile_stages(self, model, batch, parts, way):
        """Compiles a pipeline of two stages x dp=2 that trains on one batch, with a way of gradient_sync as its name. Returns the report."""
        generator = random.Random(1)
        write_npy(self.folder / "image_train.npy", "f", (batch, 784), [generator.gauss(0, 1) for _ in range(batch * 784)])
        write_npy(self.folder / "label_train.npy", "q", (batch,), [generator.randrange(10) for _ in range(batch)])
        job = re.sub(r"global_batch: \d+", f"global_batch: {batch}", (ROOT / "docs/jobs/mlp.txtpb").read_text())
        data = 'npy {} shuffle: false repeat: 100000 features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" }'
        stages = f"pipeline {{ stages: 2 micro_batches: {parts} schedule: ONE_F_ONE_B }}"
        (self.folder / "stages.txtpb").write_text(f"{job[:job.index('dataset {')]}dataset {{ {data} }}\n{stages}\ngradient_sync: {way}\nlog_every: 1\n")
        self.compile(model, self.folder / "stages.txtpb", way, "--mesh", "dp=2", "--report", self.folder / "report.json")
        return json.loads((self.folder / "report.json").read_text())

    def pipelined_micro_batches(self, model, shape):
        """Two stages x dp=2, all on this host. Ours and PyTorch's train on one batch from the same parameters, cut at the same layer, and must find the same
        losses."""
        batch, parts, ranks, steps = 256, 8, 4, 30
        reports = {way: self.compile_stages(model, batch, parts, way) for way in ("STEP", "MICRO_BATCH")}
        cut = sum(op.startswith("fc") for op in reports["STEP"]["pipeline"]["stages"][0]["ops"])
        run(self.launch(ranks, "./STEP", "--data", ".", "--steps", 0, "--threads", 1, "--save-parameters", "init"), self.folder)
        peer = [self.options.torch_python, ROOT / "test/bench/mlp_torch.py", "--ranks", ranks, "--threads", 1, *shape, "--batch", batch, "--accumulate", parts,
                "--steps", steps, "--cut", cut, "--folder", self.folder]
        ours, theirs = {way: [] for way in reports}, []
        for _ in range(REPEATS):
            for way, times in ours.items():
                _, output = run(self.launch(ranks, f"./{way}", "--data", ".", "--steps", steps, "--threads", 1, "--metrics", f"{way}.jsonl"), self.folder)
                times.append(self.step_us(output))
            if self.has_torch():
                _, output = run(peer, self.folder)
                theirs.append(self.step_us(output))
                peer_losses = [float(loss) for loss in re.search(r"losses: (.*)", output).group(1).split()]
                for way in ours:
                    losses = [json.loads(line)["loss"] for line in (self.folder / f"{way}.jsonl").read_text().splitlines()]
                    check_losses([1e-6] * len(peer_losses), losses, way, peer_losses)
        rows = []
        for way, times in ours.items():
            ratio = statistics.median(o / t for o, t in zip(times, theirs)) if theirs else None
            rows.append([way, " and ".join(f"{sent / 1e6:.2f}" for sent in gradient_bytes(reports[way])), f"{statistics.median(times):.0f}",
                         f"{statistics.median(theirs):.0f}" if theirs else "not installed", f"{ratio:.2f}" if ratio else ""])
        table(f"Micro-batches of a pipeline: the same mlp, 2 stages x dp=2, 1F1B, {parts} micro-batches, {ranks} ranks of one thread on {os.cpu_count()} cores",
              ["gradient_sync", "gradients sent by a rank of each stage, MB a step", "step, us", "PyTorch step, us", "ours / PyTorch"], rows)

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
    parser.add_argument("--rate", help="micro_batches also between two network namespaces, with a link of this rate, as tc takes it (needs root)")
    options = parser.parse_args()
    if options.data:
        options.data = str(pathlib.Path(options.data).resolve())
    wanted = options.only.split(",")
    for name in wanted:
        if name not in SECTIONS:
            parser.error(f"unknown section {name}; there are {', '.join(SECTIONS)}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        methods = {"compile": bench.compile_time, "stages": bench.stages, "chains": bench.chains, "giant": bench.giant, "resnets": bench.resnets, "layouts": bench.layouts, "axes": bench.axes, "linear": bench.linear, "mlp": bench.mlp, "micro_batches": bench.micro_batches, "memory": bench.memory, "mnist": bench.mnist}
        for name in wanted:
            methods[name]()


if __name__ == "__main__":
    main()
