#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it takes to simulate a step of a large job.

    simulate_large.py [--build BUILD] [--layers L] [--width W] [--fault FAULT]...

`ashlar-zoo transformer` of 112 layers without values, bf16, AdamW, compiled for H100 hosts of 8: 16 stages, each with a mesh of 48 x 8 devices (data x tensor
parallelism), 6144 ranks, 64 micro-batches. Fails when `ashlar-sim` takes 10 s of CPU time or more, or 2 GB, with the plan and with each fault.
"""

import argparse
import pathlib
import tempfile

from measuring import ROOT, run, table
from plan_large import SPLIT, measure

AIM_S, AIM_MB = 10.0, 2000
STAGES, DATA, TENSOR, MICRO_BATCHES = 16, 48, 8, 64


def job_text():
    return "\n".join([
        "mode: SEMI_AUTO", f'mesh {{ axes {{ name: "dp" size: {DATA} }} axes {{ name: "tp" size: {TENSOR} }} }}', 'rules { match: "tokens" layout: "[{dp}, {}]" }',
        *(f'rules {{ match: "{match}" layout: "{layout}" }}' for match, layout in SPLIT.items()), "precision: BF16_MIXED", "machine { preset: H100 }",
        f"pipeline {{ stages: {STAGES} micro_batches: {MICRO_BATCHES} }}", f"global_batch: {DATA * MICRO_BATCHES}",
        'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }', "optimizer { adamw { weight_decay: 0.1 } learning_rate: 0.0003 }",
        "optimizer_parallel { level: 1 }",
        'dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }',
        'init { match: "*norm*.weight" fill: 1 }', 'init { match: "*.bias" fill: 0 }', 'init { match: "*" normal { std: 0.02 } }', "epochs: 1", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--layers", type=int, default=112)
    parser.add_argument("--width", type=int, default=12288)
    parser.add_argument("--fault", action="append", default=["slow-rank=1717:1.5", "slow-link=inter_host:2"])
    options = parser.parse_args()
    tools, rows, faults = pathlib.Path(options.build).resolve() / "bin", [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job.txtpb").write_text(job_text())
        run([tools / "ashlar-zoo", "transformer", "--no-data", "--layers", options.layers, "--width", options.width, "--heads", 96, "--sequence", 2048,
             "--vocabulary", 51200, "-o", "model.onnx"], folder)
        seconds, cpu, memory = measure([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "--target", "cuda", "-o", "program"], folder)
        rows.append(["ashlarc", "", f"{seconds:.2f}", f"{cpu:.2f}", f"{memory:.0f}"])
        for fault in ["", *options.fault]:
            arguments = ["--fault", fault] if fault else []
            seconds, cpu, memory = measure([tools / "ashlar-sim", "program", "--json", "step.json", *arguments], folder)
            rows.append(["ashlar-sim", fault, f"{seconds:.2f}", f"{cpu:.2f}", f"{memory:.0f}"])
            if cpu >= AIM_S or memory >= AIM_MB:
                faults.append(f"{fault or 'the plan'}: {cpu:.2f} s of CPU time and {memory:.0f} MB, the aims are {AIM_S:.0f} and {AIM_MB}")
    table("Simulation of 6144 ranks", ["tool", "fault", "s", "CPU s", "MB"], rows)
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
