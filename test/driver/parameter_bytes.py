# SPDX-License-Identifier: Apache-2.0
"""The bytes of a parameter on a device, and those that its collectives send, by closed forms: parameter_bytes.py ASHLARC ASHLAR_SIM MODEL FOLDER

AdamW in BF16_MIXED with two micro-batches, on N devices, at each level of optimizer parallelism (docs/optimizer_parallel.md), from the tables of executables.
MODEL has dense layers fc2 and fc3 of 512 x 512."""

import json
import pathlib
import subprocess
import sys

ashlarc, simulator, model, folder = sys.argv[1:]
WIDTH = 512
# Bytes of each element on all devices, and bytes that N devices share: the narrow copy in bf16; the master, the moments and the sum of gradients in f32.
FORMS = {0: (18, 0), 1: (6, 12), 2: (2, 16), 3: (0, 18)}
RING = {"all_reduce": ("operand", 2), "reduce_scatter": ("operand", 1), "all_gather": ("result", 1)}  # times (n-1)/n of this tensor


def job(level, devices):
    levels = f"optimizer_parallel {{ level: {level} threshold_kb: 0 }}" if level > 0 else ""
    return "\n".join([
        "mode: SEMI_AUTO", f'mesh {{ axes {{ name: "dp" size: {devices} }} }}', 'rules { match: "input" layout: "[{dp}, {}]" }', "global_batch: 64", "accumulate: 2",
        'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }', "optimizer { adamw {} learning_rate: 0.001 }", "precision: BF16_MIXED", levels,
        'dataset { digits {} features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }', ""])


def compile_job(level, devices):
    """The report, and the memory of a rank by ashlar-sim."""
    base = pathlib.Path(folder) / f"level{level}_{devices}"
    base.with_suffix(".txtpb").write_text(job(level, devices))
    subprocess.run([ashlarc, model, "--job", base.with_suffix(".txtpb"), "--report", base.with_suffix(".json"), "-o", base], check=True)
    simulated = subprocess.run([simulator, base, "--json", "-"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(base.with_suffix(".json").read_text()), json.loads(simulated)["lines"][0]["memory"]


def bytes_of_type(text):
    """Of "128x784xbf16"."""
    *shape, element = text.split("x")
    size = {"bf16": 2, "f32": 4}[element]
    for extent in shape:
        size *= int(extent)
    return size


scalars, kinds = set(), set()
for devices in (2, 4, 8):
    for level, (whole, shared) in FORMS.items():
        report, tables = compile_job(level, devices)
        bytes_of = {variable["name"]: variable["bytes"] for variable in report["variables"]}
        for layer, elements in (("fc2.weight", WIDTH * WIDTH), ("fc3.weight", WIDTH * WIDTH), ("fc3.bias", WIDTH)):
            found = sum(size for name, size in bytes_of.items() if name == layer or name.startswith(layer + "."))
            assert found * devices == elements * (whole * devices + shared), f"level {level}, {devices} devices, {layer}: {found / elements} bytes an element"
        # The executable has room for these, and beside them for the counters of steps and sums of losses.
        trained = sum(variable["bytes"] for variable in report["variables"] if variable["trainable"])
        assert tables["parameters"] == trained, (tables, trained)
        scalars.add(tables["states"] - sum(bytes_of.values()) + trained)
        for each in report["collectives"]:
            if each["tensors"] == 1 and ("fc2" in each["cause"] or "fc3" in each["cause"]):
                tensor, times = RING[each["kind"]]
                assert each["bytes"] * devices == times * (devices - 1) * bytes_of_type(each[tensor]), each
                kinds.add(each["kind"])
assert len(scalars) == 1 and 0 < scalars.pop() < 64, scalars
assert kinds == set(RING), kinds
