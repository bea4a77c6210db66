#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What checkpoints cost (docs/checkpoints.md).

    checkpoint.py [--build BUILD] [--parts saving,resharding] [--folder DIR] [--turns N]

saving: a step of mlp --layers 24 --width 1024 on two ranks, with a checkpoint beside training every 50 steps, with one that is waited for, and
without, in turns. resharding: a checkpoint of 4 GB of 8 ranks read by 6, cold, as a share of what dd reads of the same files. Fails where an
aim is missed. DIR (default: a temporary folder) is on the disk that is measured.
"""

import argparse
import pathlib
import re
import statistics
import tempfile

from measuring import ROOT, measure_parts, run, steps_of, table

SAVING_AIM, DISK_AIM = 1.05, 0.8
STEPS, EVERY, WARM_UP = 150, 50, 10
JOB = """mode: SEMI_AUTO
mesh {{ axes {{ name: "dp" size: {ranks} }} }}
global_batch: {batch}
rules {{ match: "input" layout: "[{{dp}}, {{}}]" }}
{more}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ momentum {{ momentum: 0.9 }} learning_rate: 0.001 }}
dataset {{ digits {{ train_samples: {samples} }} repeat: 1000
  features {{ column: "image" tensor: "input" transforms {{ rescale {{ scale: 0.004 }} }} }}
  features {{ column: "label" tensor: "labels" }} }}
log_every: 1
"""


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.tools = options, folder, pathlib.Path(options.build).resolve() / "bin"

    def compile(self, name, ranks, batch, more=""):
        (self.folder / f"{name}.txtpb").write_text(JOB.format(ranks=ranks, batch=batch, samples=batch * 16, more=more))
        run([self.tools / "ashlarc", "model.onnx", "--job", f"{name}.txtpb", "-o", name], self.folder)

    def train(self, name, ranks, *arguments):
        return run(["mpirun", "-n", ranks, f"./{name}", "--threads", 1, *arguments], self.folder)[1]

    def saving(self):
        run([self.tools / "ashlar-zoo", "mlp", "--layers", 24, "--width", 1024, "-o", "model.onnx"], self.folder)
        self.compile("saving", 2, 256)
        ways = {"none": [], "beside training": ["--checkpoint-dir", "saved", "--save-every", EVERY],
                "waited for": ["--checkpoint-dir", "saved", "--save-every", EVERY, "--sync-checkpoint"]}
        times = {way: [] for way in ways}
        for _ in range(self.options.turns):
            for way, arguments in ways.items():
                run(["rm", "-rf", "saved"], self.folder)
                self.train("saving", 2, "--steps", STEPS, "--metrics", "metrics.jsonl", *arguments)
                times[way].append(steps_of(self.folder / "metrics.jsonl", WARM_UP)[0])
        ratios = {way: [ours / none for ours, none in zip(times[way], times["none"])] for way in ways}
        table(f"A step of mlp --layers 24 --width 1024 on 2 ranks, a checkpoint every {EVERY} steps; medians of {self.options.turns} turns",
              ["checkpoints", "ms a step", "of that without", "of turns"],
              [[way, f"{statistics.median(times[way]):.1f}", f"{statistics.median(ratios[way]):.3f}", f"{min(ratios[way]):.3f} - {max(ratios[way]):.3f}"]
               for way in ways])
        cost = statistics.median(ratios["beside training"])
        return [] if cost <= SAVING_AIM else [f"saving beside training makes a step {cost:.3f} as long, the aim is {SAVING_AIM}"]

    def resharding(self):
        run([self.tools / "ashlar-zoo", "mlp", "--layers", 9, "--width", 8192, "--no-data", "-o", "model.onnx"], self.folder)
        more = 'optimizer_parallel { level: 3 } init { match: "*.weight" uniform { low: -0.01 high: 0.01 } } init { match: "*" fill: 0 }'
        for ranks in (8, 6):
            self.compile(f"ranks_{ranks}", ranks, 24, more)
        self.train("ranks_8", 8, "--steps", 1, "--checkpoint-dir", "large")
        files = sorted((self.folder / "large/ashlar-1_1").glob("rank-*"))
        state = sum(file.stat().st_size for file in files)
        forget = ["dd", "iflag=nocache", "count=0", "status=none"]
        shares, seconds, read, own = [], [], 0, 0
        for _ in range(self.options.turns):
            for file in files:
                run([*forget, f"if={file}"], self.folder)
            disk = sum(run(["dd", f"if={file}", "of=/dev/null", "bs=4M", "status=none"], self.folder)[0] for file in files)
            for file in files:
                run([*forget, f"if={file}"], self.folder)
            text = self.train("ranks_6", 6, "--steps", 1, "--resume", "large/ashlar-1_1")
            found = re.search(r"read (\d+) bytes of it for (\d+) of its own in ([\d.]+) s", text)
            read, own = int(found[1]), int(found[2])
            seconds.append(float(found[3]))
            shares.append(disk / seconds[-1])
        share = statistics.median(shares)
        table(f"{state / 1e9:.2f} GB of 8 ranks read by 6, cold; medians of {self.options.turns} turns", ["", ""],
              [["resumed in, s", f"{statistics.median(seconds):.2f}"], ["of dd's speed", f"{share:.2f}"],
               ["rank 0 read for a byte of its own", f"{read / own:.4f}"], ["a sixth of the state for a byte of its own", f"{state / 6 / own:.4f}"]])
        return [] if share >= DISK_AIM else [f"resharding runs at {share:.2f} of dd's speed, the aim is {DISK_AIM}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--parts", default="saving,resharding")
    parser.add_argument("--folder")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure_parts(Bench(options, pathlib.Path(folder)), options.parts)


if __name__ == "__main__":
    main()
