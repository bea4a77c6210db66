# SPDX-License-Identifier: Apache-2.0
"""Parts that measure: kernels, products, steps of whole models, PyTorch's steps of the same models."""

import json
import math
import random
import re
import statistics
import struct
import sys
import time

from attempt import Fault
from results import Row

# llm.c, scripts/run_gpt2_124M.sh: 524,288 tokens a step, about 300 ms a step on 8 x A100 80GB SXM; divided by 8.
LLM_C_TOKENS_PER_S = 524288 / 0.3 / 8
TORCH_AIM = {"mlp": 0.9, "mlp_large": 0.9, "gpt2_bf16": 1.0, "resnet50_bf16": 1.0}
# The staged batch is taken again in every step, so a step is measured and not the data set: PyTorch's peer has its batch on the device, too.
REPEAT = {"ASHLAR_REPEAT_BATCH": "1"}


def figure(attempt, what, value, detail, seconds=False):
    return Row("figure", f"{attempt.part.name}: {what}", "measured", detail, value, attempt.seconds() if seconds else None)


def number_before(unit, text):
    """The last number that stands before a unit; Fault when there is none."""
    found = re.findall(r"([0-9.]+) " + re.escape(unit), text)
    if not found:
        raise Fault("FAILED", f"it printed no number of {unit}")
    return float(found[-1])


def kernel(attempt, entry):
    """The share of the device's copy bandwidth that a kernel reaches."""
    text = attempt.run([attempt.context.program(entry["name"]), "--benchmark", entry["runs"]])
    us, copy = number_before("us a run", text), number_before("GB/s", text)
    share = entry["bytes"] / us / 1e3 / copy
    return [figure(attempt, "share of the copy bandwidth", share, f"aim >= 0.90; {us:.1f} us, copy {copy:.0f} GB/s", seconds=True)]


def products(attempt):
    """Our prepared products over cuBLASLt called by hand, and epilogues with auxiliary tensors over kernels of their own; the worst."""
    text = attempt.run([attempt.context.program("bench_cuda_matmul")])
    shares = [(float(words[-1]), line) for line in text.splitlines()[2:] if (words := line.split()) and re.fullmatch(r"\d+\.\d+", words[-1])]
    if not shares:
        raise Fault("FAILED", "it printed no product")
    worst, line = min(shares)
    found = [figure(attempt, "share of cuBLASLt by hand, worst", worst, f"aim >= 0.99; {' '.join(line.split())}", seconds=True)]
    apart = [(float(ratio[1]), line) for line in text.splitlines() if (ratio := re.search(r"([\d.]+) of a call and a kernel$", line))]
    if apart:
        slowest, line = max(apart)
        found.append(figure(attempt, "epilogue with auxiliary tensor over call and kernel, worst", slowest, f"aim <= 1; {' '.join(line.split())}"))
    return found


def write_npy(path, column):
    """A file of random numbers of a column: {"type": "<i8" or "|u1", "shape": [...], "below": N}."""
    count = math.prod(column["shape"])
    source = random.Random(path.name)
    header = f"{{'descr': '{column['type']}', 'fortran_order': False, 'shape': ({', '.join(map(str, column['shape']))},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as stream:
        stream.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        if column["type"] == "|u1":
            stream.write(source.randbytes(count))
        else:
            stream.write(struct.pack(f"<{count}q", *(source.randrange(column["below"]) for _ in range(count))))


def data_options(context, name, model):
    """Makes the model's data set, once, and returns the options that name it."""
    if not model.get("columns"):
        return []
    folder = context.scratch / f"data.{name}"
    with context.lock:
        if not folder.exists():
            folder.mkdir()
            for column, what in model["columns"].items():
                write_npy(folder / f"{column}_train.npy", what)
    return ["--data", folder]


def step_ms(path, every):
    """Milliseconds of a step: the median between lines of the metrics, `every` steps apart, behind the first one, which hides start and capture."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if len(lines) < 2 or not all(isinstance(line.get("loss"), (int, float)) for line in lines):
        raise Fault("FAILED", f"{len(lines)} lines of metrics, or a loss that is no number")
    return statistics.median((b["seconds"] - a["seconds"]) * 1e3 / every for a, b in zip(lines, lines[1:]))


def rates(name, model, milliseconds):
    """Tokens or images a second, as a row's (what, value, detail)."""
    for unit in ("tokens", "images"):
        if model.get(unit):
            published = f"llm.c: {LLM_C_TOKENS_PER_S:.0f} on an A100, 1/8 of its 8" if name.startswith("gpt2") else ""
            return [(f"{unit}/s", model[unit] / milliseconds * 1e3, published)]
    return []


def step(attempt, name):
    """The step time of a model, and its tokens or images a second."""
    context, model = attempt.context, attempt.context.manifest["models"][name]
    metrics = context.results.logs / f"{attempt.part.name}.jsonl"
    metrics.unlink(missing_ok=True)
    text = attempt.run([context.program(model["program"]), "--steps", model["steps"], "--log-every", model["every"], "--metrics", metrics,
                        *data_options(context, name, model)], environment=REPEAT)
    milliseconds = context.step_ms[name] = step_ms(metrics, model["every"])
    rows = [figure(attempt, "ms", milliseconds, f"batch {model['batch']}, median of blocks of {model['every']} steps", seconds=True)]
    rows += [figure(attempt, *rate) for rate in rates(name, model, milliseconds)]
    if host := re.findall(r"([0-9.]+) us of the host", text):
        rows.append(figure(attempt, "host time of a step, us", float(host[-1]), "aim < 5"))
    return rows


def profile(attempt, name):
    """Times of all instructions, into the logs."""
    context, model = attempt.context, attempt.context.manifest["models"][name]
    text = attempt.run([context.program(model["program"]), "--steps", model["profile_steps"], "--log-every", 0, "--profile=all",
                        *data_options(context, name, model)], environment=REPEAT)
    number_before("us a step", text)
    return [Row("figure", attempt.part.name, "measured", f"{len(text.splitlines())} lines, logs.tgz: {attempt.log.name}", seconds=attempt.seconds())]


def start(attempt, name):
    """Seconds from the start of the process to the end of a first step."""
    context, model = attempt.context, attempt.context.manifest["models"][name]
    begin = time.monotonic()
    text = attempt.run([context.program(model["program"]), "--steps", 1, "--profile", *data_options(context, name, model)])
    seconds = time.monotonic() - begin
    line = next((line.strip() for line in text.splitlines() if "start" in line), "")
    return [figure(attempt, "to the end of the first step, s", seconds, f"aim < 1.5, ours < 0.3; {line}", seconds=True)]


def peers(attempt, names):
    """PyTorch's steps of the same models, all in one process: importing it takes longer than measuring. What it found before it hangs or dies
    counts."""
    context = attempt.context
    models = {name: context.manifest["models"][name]["peer"] for name in names}
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(context.scratch / "inductor"), "TRITON_CACHE_DIR": str(context.scratch / "triton")}
    fault = None
    try:
        attempt.run([sys.executable, context.folder / "torch_peers.py", json.dumps(models)], environment=cache, renewed=attempt.part.limit / len(names))
    except Fault as error:
        fault = error
    found = {line["peer"]: line for line in map(json.loads, (line for line in attempt.text().splitlines() if line.startswith('{"peer"')))}
    return [row for name in names for row in peer_rows(attempt, name, found.get(name), fault)]


def peer_rows(attempt, name, found, fault):
    """The rows of one peer: its step, and ours over it."""
    what, context = f"{attempt.part.name}: {name}", attempt.context
    if not found or "missing" in found:
        outcome = fault.outcome if fault and not found else "not run"
        return [Row("figure", what, outcome, found["missing"] if found else fault.detail if fault else "PyTorch printed nothing of it")]
    milliseconds = found["ms"]
    rows = [Row("figure", f"{what}, ms", "measured", found["way"], milliseconds, attempt.seconds())]
    rows += [Row("figure", f"{what}, {unit}", "measured", detail, value) for unit, value, detail in rates(name, context.manifest["models"][name], milliseconds)]
    if name in context.step_ms:
        rows.append(Row("figure", f"{what}, ours over PyTorch's", "measured", f"aim <= {TORCH_AIM[name]}", context.step_ms[name] / milliseconds))
    return rows
