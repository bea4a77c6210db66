#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step time with and without fused collectives: no ids, an id a layer, one id, and AUTO_BUCKETS.

    comm_fusion.py [--build BUILD] [--ranks N] [--repeats R] [--rate RATE] [--hosts 1,2]

Runs dense-layers (10 x 10) and mlp --layers 24 (width 64 and 512) under mpirun on one host, and, with --rate (as tc takes it, "1gbit"), half of
the ranks each in two network namespaces whose link has that rate (as root, with ip and tc); --hosts 2 leaves out the first. The variants take turns,
so that what else the machine does hits all alike; the medians and the least times are printed, and the ratios of both to those without fusion. Losses
of all variants are compared: of these nets they are equal digit by digit. Between hosts each message waits for both ranks
to have a core: where other work takes the cores that is most of the time, so only an idle machine tells what fusion saves.
"""

import argparse
import pathlib
import re
import statistics
import sys
import tempfile

from measuring import ROOT, run

# Of each: ashlar-zoo's options, logits, data, layers, and the steps of a run on one host and between two.
MODELS = {
    "dense-layers": (["dense-layers"], "output", "rows", ["layer1", "layer2", "layer3"], (40000, 1000)),
    "mlp --layers 24 --width 64": (["mlp", "--layers", "24", "--width", "64"], "logits", "digits", [f"fc{i}" for i in range(1, 25)], (600, 60)),
    "mlp --layers 24 --width 512": (["mlp", "--layers", "24", "--width", "512"], "logits", "digits", [f"fc{i}" for i in range(1, 25)], (40, 8)),
}


def job_text(logits, data, ranks, machine, fusion):
    dataset = ('npy {} features { column: "x" tensor: "input" } features { column: "label" tensor: "labels" }' if data == "rows" else
               'digits {} features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" }')
    return "\n".join([
        "mode: DATA_PARALLEL", f'mesh {{ axes {{ name: "dp" size: {ranks} }} }}', "global_batch: 32",
        f'loss {{ softmax_cross_entropy {{ logits: "{logits}" labels: "labels" }} }}', "optimizer { sgd {} learning_rate: 0.01 }",
        f"dataset {{ {dataset} }}", "epochs: 100000", machine, fusion, ""])


def fusions(layers):
    return {
        "none": "",
        "an id a layer": "\n".join(f'rules {{ match: "{layer}.*" comm_fusion: {number} }}' for number, layer in enumerate(layers, 1)),
        "one id": 'rules { match: "*" comm_fusion: 1 }',
        "AUTO_BUCKETS": "comm_fusion { all_reduce { mode: AUTO_BUCKETS } }",
    }


def measure(bench, title, launch, machine, hosts):
    print(f"\n### {title}\n\n| model | fusion | all-reduces a step | us a step, median of {bench.repeats} | of none | least | of none |\n|---|---|---|---|---|---|---|", flush=True)
    for model, (zoo, logits, data, layers, steps) in MODELS.items():
        run([bench.bin / "ashlar-zoo", *zoo, "-o", "model.onnx"], bench.folder)
        times, counts, losses = {}, {}, {}
        for number, (name, fusion) in enumerate(fusions(layers).items()):
            (bench.folder / "job.txtpb").write_text(job_text(logits, data, bench.ranks, machine, fusion))
            run([bench.bin / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", f"program{number}"], bench.folder)
            plan = run([f"./program{number}", "--plan"], bench.folder)[1]
            counts[name] = int(re.search(r"collectives +(\d+) all_reduce", plan).group(1))
            times[name] = []
        for _ in range(bench.repeats):
            for number, name in enumerate(times):
                options = ["--steps", steps[hosts - 1], "--threads", 1] + (["--data", bench.folder / "rows"] if data == "rows" else [])
                out = run([*launch, f"./program{number}", *options], bench.folder)[1]
                times[name].append(float(re.search(r"\(([0-9.]+) us a step\)", out).group(1)))
                losses.setdefault(name, re.findall(r"loss is ([^,]*)", out))
        if any(found != losses["none"] for found in losses.values()):
            raise SystemExit(f"error: losses of {model} differ: {losses}")
        base, fastest = statistics.median(times["none"]), min(times["none"])
        for name, found in times.items():
            median, least = statistics.median(found), min(found)
            print(f"| {model} | {name} | {counts[name]} | {median:.0f} | {median / base:.2f} | {least:.0f} | {least / fastest:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rate", help="also between two network namespaces, with a link of this rate (needs root)")
    parser.add_argument("--hosts", choices=["1", "2", "1,2"], help="default: one, and two with --rate")
    bench = parser.parse_args()
    hosts = bench.hosts or ("1,2" if bench.rate else "1")
    if ("2" in hosts) != (bench.rate is not None):
        parser.error("--hosts 2 and --rate need each other: the link between two hosts has a rate")
    bench.bin = pathlib.Path(bench.build).resolve() / "bin"
    with tempfile.TemporaryDirectory() as folder:
        bench.folder = pathlib.Path(folder)
        run([sys.executable, ROOT / "test/e2e/write_rows.py", "rows"], bench.folder, PYTHONDONTWRITEBYTECODE="1")
        if "1" in hosts:
            measure(bench, f"One host, {bench.ranks} ranks", ["mpirun", "-n", bench.ranks], "", hosts=1)
        if "2" in hosts:
            half = bench.ranks // 2
            launcher = [sys.executable, ROOT / "test/hosts/lab.py", "--ranks", f"{half},{bench.ranks - half}", "--rate", bench.rate, "--"]
            measure(bench, f"Two hosts, {half} and {bench.ranks - half} ranks, {bench.rate}", launcher,
                    f"machine {{ ranks_per_host: {half} }}", hosts=2)


main()
