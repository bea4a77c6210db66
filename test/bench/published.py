#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Published training jobs of GPTs beside what Ashlar plans for them, without a GPU.

    published.py TABLE [--build BUILD] [--only NAME,...] [--micro-batches N] [--schedule SCHEDULE] [--job FIELDS] [--explain FILE]

TABLE has tabs between columns and a line for each job: name, heads, hidden, layers, tp, pp, dp, global_batch, sequence, vocabulary, gpu (a machine preset) and
published_s_per_step; others are ignored. A job becomes `ashlar-zoo transformer` of these sizes and a job as an expert writes it: rules for tensor
parallelism, micro-batches of a sample a device, ONE_F_ONE_B, AdamW, clipping, BF16_MIXED, level 1 of optimizer parallelism, 8 ranks a host.
--micro-batches and --schedule ("INTERLEAVED chunks: 4") replace these, which the table of the published jobs does not have. --job adds fields to each job;
--explain writes the plan of the last one.

A row has the predicted step beside the published one, and the bytes sent by a device of the stage that sends most beside an expert's count: each gradient reduced
once in f32, each parameter gathered once in bf16; of each micro-batch and layer two activations forward and two gradients backward summed over tp, of the
embedding one of each, of the loss the statistics of its rows; between stages a device's part of an activation and of its gradient. Fails when a step is more
than 10 % from the published one, the bytes are more than 2 % from the count, or a device needs 80 GB or more.

The job named llama3-405B needs no line of TABLE: the gain of INTERLEAVED over ONE_F_ONE_B on 512 GPUs (SCHEDULES below). Fails when it is more than 10 % from
the published one.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import tempfile

from measuring import ROOT, run, table

STEP, BYTES, MEMORY, GAIN = 0.10, 0.02, 80e9, 0.10
SPLIT = {"*.attention.query.weight": "[{}, {tp}]", "*.attention.key.weight": "[{}, {tp}]", "*.attention.value.weight": "[{}, {tp}]",
         "*.attention.projection.weight": "[{tp}, {}]", "*.mlp.up.weight": "[{}, {tp}]", "*.mlp.down.weight": "[{tp}, {}]",
         "embedding.weight": "[{tp}, {}]", "head.weight": "[{}, {tp}]"}
# Llama 3.1 405B on 512 H100s, pp 8, dp 8, tp 8, 32 sequences of 8192 tokens for each dp, all activations rematerialized: tokens a second and GPU as torchtitan's
# benchmarks/llama3_h100_202412_torchtitan.md has them (table 5; products in float8). By the defaults of its commit 9dec370: as many micro-batches as stages, and
# two chunks a stage.
LLAMA = ["--layers", 126, "--width", 16384, "--heads", 128, "--key-heads", 8, "--hidden", 53248, "--sequence", 8192, "--vocabulary", 128256]
SCHEDULES = {"ONE_F_ONE_B": 100, "INTERLEAVED chunks: 2": 128}
TOKENS = 32 * 8 * 8192 / 512  # of a step, for each GPU
NUMBERS = ("heads", "hidden", "layers", "tp", "pp", "dp", "global_batch", "sequence", "vocabulary")


def job_text(row, fields):
    micro_batches = row["micro_batches"] or row["global_batch"] // row["dp"]
    stages = f"pipeline {{ stages: {row['pp']} micro_batches: {micro_batches} schedule: {row['schedule']} }}"
    parts = stages if row["pp"] > 1 else f"accumulate: {micro_batches}"
    return "\n".join([
        "mode: SEMI_AUTO", f'mesh {{ axes {{ name: "dp" size: {row["dp"]} }} axes {{ name: "tp" size: {row["tp"]} }} }}',
        'rules { match: "tokens" layout: "[{dp}, {}]" }',
        *(f'rules {{ match: "{match}" layout: "{layout}" }}' for match, layout in SPLIT.items() if row["tp"] > 1), parts,
        f"global_batch: {row['global_batch']}", 'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }',
        "optimizer { adamw { weight_decay: 0.1 } learning_rate: 0.0003 clip_global_norm: 1 }", "precision: BF16_MIXED", "optimizer_parallel { level: 1 }",
        f"machine {{ preset: {row['gpu']} ranks_per_host: 8 }}",
        'dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }',
        *row.get("init", []), 'init { match: "*norm*.weight" fill: 1 }', 'init { match: "*" normal { std: 0.02 } }', "epochs: 1", fields, ""])


def parameters(row):
    """Elements of a device's parameters in a layer, and in the embedding and head."""
    width, tp = row["hidden"], row["tp"]
    layer = 12 * width * width / tp + (3 + 4) * width / tp + 2 * width + 4 * width
    return layer, row["vocabulary"] * width / tp, row["vocabulary"] * width / tp


def expert_bytes(row):
    """Bytes that a device of the stage that sends most sends in a step."""
    def ring(size):
        return (size - 1) / size

    layer, embedding, head = parameters(row)
    micro_batches, layers = row["global_batch"] / row["dp"], row["layers"] / row["pp"]
    activation = row["sequence"] * row["hidden"] * 2
    summed = 2 * ring(row["tp"]) * activation * micro_batches
    replicated = layers * layer
    first, last = replicated + embedding, replicated + head
    both = first + head
    data = [ring(row["dp"]) * (4 + 2) * count for count in ([both] if row["pp"] == 1 else [first, last])]
    tensor = 4 * layers * summed + summed
    between = 0 if row["pp"] == 1 else activation / row["tp"] * micro_batches
    middle = ring(row["dp"]) * 6 * replicated + 4 * layers * summed + 2 * between
    return max([each + tensor + between for each in data] + ([middle] if row["pp"] > 2 else []))


def plan(model, job, options, folder):
    ashlarc = pathlib.Path(options.build).resolve() / "bin"
    run([ashlarc / "ashlar-zoo", *model, "--no-data", "-o", "model.onnx"], folder)
    (folder / "job.txtpb").write_text(job)
    found = subprocess.run([ashlarc / "ashlarc", "plan", "model.onnx", "--job", "job.txtpb", "--target", "cuda", "--json", "-"], cwd=folder, text=True,
                           stdout=subprocess.PIPE, check=True)
    if options.explain:
        _, text = run([ashlarc / "ashlarc", "model.onnx", "--job", "job.txtpb", "--target", "cuda", "--explain"], folder)
        pathlib.Path(options.explain).write_text(text)
    return json.loads(found.stdout)["meshes"][0]


def compare_schedules(options):
    """Prints the steps of the Llama in both schedules; returns what is missed."""
    lines, steps = [], []
    for schedule, published in SCHEDULES.items():
        row = {"tp": 8, "pp": 8, "dp": 8, "global_batch": 256, "micro_batches": 8, "schedule": schedule, "gpu": "H100"}
        with tempfile.TemporaryDirectory() as folder:
            fields = 'rules { match: "*.mlp.gate.weight" layout: "[{}, {tp}]" } rules { match: "layer*" recompute: true }\n' + options.job
            mesh = plan(["llama", *LLAMA], job_text(row, fields), options, pathlib.Path(folder))
        steps.append(mesh["step_ns"] / 1e9)
        lines.append([schedule, published, f"{TOKENS / published:.1f}", f"{steps[-1]:.1f}", f"{mesh['compute_ns'] / 1e9:.1f}", f"{mesh['exposed_ns'] / 1e9:.1f}",
                      f"{100 * mesh['bubble']:.1f} %", f"{mesh['memory']['bytes'] / 1e9:.1f}"])
    table("Llama 3.1 405B, two schedules", ["schedule", "published, tokens/s a GPU", "published step, s", "planned step in bf16, s", "computing, s", "exposed, s",
                                            "waiting", "memory, GB"], lines)
    published, planned = SCHEDULES["INTERLEAVED chunks: 2"] / SCHEDULES["ONE_F_ONE_B"], steps[0] / steps[1]
    print(f"gain: {planned:.3f} planned, {published:.2f} published, ratio {planned / published:.3f}")
    return [f"llama3-405B: gain {planned:.2f}, published {published:.2f}"] if abs(planned / published - 1) > GAIN else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--only")
    parser.add_argument("--micro-batches", type=int)
    parser.add_argument("--schedule", default="ONE_F_ONE_B")
    parser.add_argument("--job", default="")
    parser.add_argument("--explain")
    options = parser.parse_args()
    with open(options.table, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    lines, missed = [], []
    for row in rows:
        if options.only and row["name"] not in options.only.split(","):
            continue
        row.update({name: int(row[name]) for name in NUMBERS}, micro_batches=options.micro_batches, schedule=options.schedule,
                   init=['init { match: "*.bias" fill: 0 }'])
        model = ["transformer", "--layers", row["layers"], "--width", row["hidden"], "--heads", row["heads"], "--sequence", row["sequence"],
                 "--vocabulary", row["vocabulary"]]
        with tempfile.TemporaryDirectory() as folder:
            mesh = plan(model, job_text(row, options.job), options, pathlib.Path(folder))
        published, step = float(row["published_s_per_step"]), mesh["step_ns"] / 1e9
        sent, expert, memory = mesh["bytes_sent"], expert_bytes(row), mesh["memory"]
        largest = max(memory["parts"], key=lambda part: part["bytes"])
        lines.append([row["name"], f"{published:.2f}", f"{step:.2f}", f"{step / published:.2f}", f"{mesh['compute_ns'] / 1e9:.2f}",
                      f"{mesh['exposed_ns'] / 1e9:.2f}", f"{sent / 1e9:.2f}", f"{expert / 1e9:.2f}", f"{sent / expert:.2f}", f"{memory['bytes'] / 1e9:.1f}",
                      f"{largest['bytes'] / 1e9:.1f} {largest['name']}"])
        missed += [f"{row['name']}: {text}" for text, is_missed in (
            (f"step {step / published:.2f} of the published one", abs(step / published - 1) > STEP),
            (f"bytes {sent / expert:.2f} of the expert's", abs(sent / expert - 1) > BYTES),
            (f"{memory['bytes'] / 1e9:.1f} GB a device", memory["bytes"] >= MEMORY)) if is_missed]
    if lines:
        table("Published jobs and their plans", ["job", "published, s", "planned, s", "ratio", "computing, s", "exposed, s", "sent, GB", "expert, GB", "ratio",
                                                 "memory, GB", "most of it, GB"], lines)
    if not options.only or "llama3-405B" in options.only.split(","):
        missed += compare_schedules(options)
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
