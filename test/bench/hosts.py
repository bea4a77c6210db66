#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainings on two hosts whose link has a rate and a delay, beside DistributedDataParallel over gloo, what the wire needs, and what the compiler predicts.

    hosts.py [--build BUILD] [--torch-python PYTHON] [--repeats R] [--only replicas,strategies] [--links 100mbit,1gbit,1gbit+0.02] [--congestion NAME]

Hosts are network namespaces of one machine (test/hosts/lab.py; needs root), one thread a rank. mlp of 4 layers, width 1024, batch 256, f32, momentum. A link
RATE+DELAY has DELAY seconds one way; the hosts' TCP has the congestion control of that name, or the machine's. Both sides take turns in one lab; printed are medians over R turns (3 unless given).

  MB a host      bytes that a host sends in a step, counted by the switch on a link without a rate: two runs of other lengths, so that starts do not count
  bytes / rate   the time of these bytes on the wire
  planned        the step time of `ashlarc plan` for that link, and the bytes that a host sends of `PROGRAM --plan`, without headers
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from links import Link
from measuring import ROOT, measure_parts, table

sys.path.insert(0, str(ROOT / "test/hosts"))
from lab import Lab, isolate
from programs import Programs, Run, data_parallel, losses, pipeline, step_milliseconds, tensor_parallel

SHAPE = ["--layers", 4, "--width", 1024]
WARM_UP, STEPS = 2, 5
SHORT, LONG = 2, 6  # steps of the runs that count bytes
PEER_BLOCKS = 3  # of mlp_torch.py, which takes 3 * steps behind a warm-up
LIMIT = 600  # seconds of a run
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6}


def machine(link, ranks):
    return f"machine {{ {link.fields(ranks)} }}"


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tools = pathlib.Path(options.build).resolve() / "bin"
        self.programs = Programs(self.tools, folder, *SHAPE)
        self.links = [Link(text) for text in options.links.split(",")]

    def run(self, lab, ranks, *command):
        """Runs a job with so many ranks on each host; returns its log."""
        run = Run(lab, 0, lab.mpirun([ranks] * len(lab.hosts), *command), self.folder / "run.log")
        if run.finish(LIMIT) != 0:
            raise SystemExit(f"error: {' '.join(map(str, command))} failed:\n{run.log()}")
        return run.log()

    def train(self, lab, ranks, program, steps):
        """Trains; returns the milliseconds of each step but the first. The losses must be finite."""
        metrics = self.folder / "metrics.jsonl"
        losses(self.run(lab, ranks, program, "--steps", steps, "--threads", 1, "--metrics", metrics))
        return step_milliseconds(metrics)

    def peer(self, lab, ranks, steps):
        """Trains in PyTorch; returns the milliseconds of a step."""
        out = self.run(lab, ranks, self.options.torch_python, ROOT / "test/bench/mlp_torch.py", "--ranks", ranks * len(lab.hosts), "--threads", 1, *SHAPE, "--steps",
                       steps, "--master", lab.address(0))
        return float(re.search(r"\(([0-9.]+) us a step\)", out).group(1)) / 1e3

    def megabytes(self, train, short, long, steps):
        """MB a step that a host sends: of train(short) and train(long), which has so many steps more."""
        counts = []
        with Lab(2) as lab:
            for length in (short, long):
                before = lab.sent(0)
                train(lab, length)
                counts.append(lab.sent(0) - before)
        return (counts[1] - counts[0]) / steps / 1e6

    def planned(self, program, ranks):
        """The step time in ms as the compiler predicts it, and the MB that a host sends by the program's plan: in collectives, and as one stage's so many ranks."""
        done = subprocess.run([self.tools / "ashlarc", "plan", "model.onnx", "--job", f"{program.name}.txtpb", "--json", "-"], cwd=self.folder, stdout=subprocess.PIPE, check=True)
        (mesh,) = json.loads(done.stdout)["meshes"]
        plan = subprocess.run([program, "--plan"], stdout=subprocess.PIPE, text=True, check=True).stdout
        bytes_of = lambda pattern: [float(number) * UNITS[unit] for number, unit in re.findall(rf"([0-9.]+) ([KM]?B) {pattern}", plan.replace("sends ", ""))]
        messages = bytes_of("a step; at most")
        return mesh["step_ns"] / 1e6, (sum(bytes_of("by each host")) + ranks * max(messages, default=0)) / 1e6

    def replicas(self):
        """Data parallelism, beside DistributedDataParallel."""
        rows, has_peer = [], self.options.torch_python is not None
        for ranks in (1, 2, 4):
            programs = [self.programs.compile(f"replicas_{ranks}_{number}", data_parallel(2 * ranks), machine(link, ranks)) for number, link in enumerate(self.links)]
            ours = self.megabytes(lambda lab, steps: self.train(lab, ranks, programs[0], steps), SHORT, LONG, LONG - SHORT)
            theirs = self.megabytes(lambda lab, steps: self.peer(lab, ranks, steps), 1, 3, 2 * PEER_BLOCKS) if has_peer else None
            for link, program in zip(self.links, programs):
                times, peers = [], []
                with Lab(2, rate=link.rate, delay=link.delay, congestion=self.options.congestion) as lab:
                    for _ in range(self.options.repeats):
                        times.append(statistics.median(self.train(lab, ranks, program, WARM_UP + STEPS)[WARM_UP - 1:]))
                        if has_peer:
                            peers.append(self.peer(lab, ranks, 2))
                step, sent = self.planned(program, ranks)
                rows.append([link.name, ranks, f"{ours:.2f}", f"{1e9 * ours / link.bytes_a_second:.0f}", f"{statistics.median(times):.0f}", f"{step:.0f}", f"{sent:.2f}",
                             *([f"{statistics.median(peers):.0f}", f"{theirs:.2f}", f"{statistics.median(a / b for a, b in zip(times, peers)):.2f}"] if peers else ["not installed", "", ""])])
        table("Data parallelism on two hosts: mlp 4 x 1024, batch 256; ms a step",
              ["link", "ranks a host", "MB a host", "bytes / rate", "Ashlar", "planned", "planned MB a host", "DDP, gloo", "its MB a host", "Ashlar / DDP"], rows)
        return []

    def strategies(self):
        """Other strategies with two ranks a host."""
        cut = 'rules { match: "fc2" pipeline_stage: 0 } rules { match: "fc3" pipeline_stage: 1 }'  # by cost it depends on the link
        jobs = {f"ZeRO {level}": data_parallel(4, level) for level in (1, 2, 3)}
        jobs |= {"2 stages, one a host, 8 micro-batches": f"{pipeline(2, 2)} {cut}", "tp=2 within, dp=2 between hosts": tensor_parallel(2, 2)}
        rows = []
        for number, (name, job) in enumerate(jobs.items()):
            for link_number, link in enumerate(self.links):
                program = self.programs.compile(f"strategy_{number}_{link_number}", job, machine(link, 2))
                megabytes = self.megabytes(lambda lab, steps: self.train(lab, 2, program, steps), SHORT, LONG, LONG - SHORT)
                with Lab(2, rate=link.rate, delay=link.delay, congestion=self.options.congestion) as lab:
                    times = [statistics.median(self.train(lab, 2, program, WARM_UP + STEPS)[WARM_UP - 1:]) for _ in range(self.options.repeats)]
                step, sent = self.planned(program, 2)
                rows.append([name, link.name, f"{megabytes:.2f}", f"{1e9 * megabytes / link.bytes_a_second:.0f}", f"{statistics.median(times):.0f}", f"{step:.0f}", f"{sent:.2f}"])
        table("Strategies on two hosts of two ranks: mlp 4 x 1024, batch 256; ms a step",
              ["strategy", "link", "MB a host", "bytes / rate", "Ashlar", "planned", "planned MB a host"], rows)
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", help="a Python with PyTorch; without it there are no peers")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="replicas,strategies")
    parser.add_argument("--links", default="100mbit,1gbit,1gbit+0.02")
    parser.add_argument("--congestion")
    options = parser.parse_args()
    isolate()
    with tempfile.TemporaryDirectory() as folder:
        measure_parts(Bench(options, pathlib.Path(folder)), options.only)


main()
