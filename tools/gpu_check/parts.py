# SPDX-License-Identifier: Apache-2.0
"""The parts of a pack, and which of them make up run A and run B, in their order."""

import fnmatch
import pathlib
from dataclasses import dataclass, replace
from functools import partial
from typing import Callable

import checks
import figures

ONE_RANK_S, TWO_RANKS_S, FIGURE_S, PROBE_S, PEER_S, SANITIZER_S = 15, 40, 30, 25, 60, 40
GATE = "conformance.2"  # the part that lets two ranks meet, before all others of two ranks

# What tells most comes first: A is for the first minutes on a device, B for what A does not need.
RUNS = {
    "A": ("probe.*", "train.*.1.plain", "train.*.1.graph", "forward.*.1", "conformance.1", "kernel.*", "products", "gpt2_bf16.*", GATE, "train.mlp.2.*",
          "train.transformer.2.graph", "train.*_1f1b.2.graph"),
    "B": ("gpt2_bf16.step", "gpt2_f32.*", "resnet50_bf16.*", "mlp_large.*", "mlp.*", "start", "peers", GATE, "train.linear.2.*", "train.mlp_bf16.2.*", "train.conv*.2.*",
          "train.transformer.2.plain", "train.*_1f1b.2.plain", "forward.*.2", "sanitizer.*"),
}
BUDGETS = {"A": 270, "B": 380}  # seconds


@dataclass(frozen=True)
class Part:
    name: str
    kind: str  # check, probe or figure
    limit: int  # seconds
    action: Callable  # takes an Attempt, returns rows, raises Fault
    ranks: int = 1
    together: bool = False  # beside others: it measures no time
    program: str = ""  # of bin/, which has to be there


def train_parts(manifest):
    for entry in manifest["trains"]:
        for ranks in entry["ranks"]:
            for mode, options in (("plain", ["--no-graph"]), ("graph", [])):
                yield Part(f"train.{entry['name']}.{ranks}.{mode}", "check", ONE_RANK_S if ranks == 1 else TWO_RANKS_S,
                           partial(checks.train, entry=entry, options=options), ranks, together=ranks == 1, program=f"{entry['name']}.{ranks}")


def forward_parts(folder):
    for case in sorted((folder / "forward").glob("*/")):
        ranks = int((case / "ranks").read_text())
        yield Part(f"forward.{case.name}.{ranks}", "check", ONE_RANK_S if ranks == 1 else TWO_RANKS_S, partial(checks.forward, name=case.name), ranks,
                   together=ranks == 1)


def model_parts(manifest):
    for name, model in manifest["models"].items():
        yield Part(f"{name}.step", "figure", FIGURE_S, partial(figures.step, name=name), program=model["program"])
        if model.get("profile_steps"):
            yield Part(f"{name}.profile", "figure", FIGURE_S, partial(figures.profile, name=name), program=model["program"])
    if "mlp" in manifest["models"]:
        yield Part("start", "figure", ONE_RANK_S, partial(figures.start, name="mlp"), program=manifest["models"]["mlp"]["program"])
    if names := [name for name, model in manifest["models"].items() if model.get("peer")]:
        yield Part("peers", "figure", PEER_S * len(names), partial(figures.peers, names=names))


def forward_command(name):
    def command(context):
        folder = context.folder / "forward" / name
        return [folder / "program", *(word for file in sorted(folder.glob("in.*.npy")) for word in ("--input", f"{file.name[3:-4]}={file}"))]
    return command


def train_command(name):
    return lambda context: [context.program(name), "--steps", 2, "--no-graph"]


def sanitizer_parts(manifest, forwards):
    commands = {part.name: forward_command(part.name.split(".")[1]) for part in [part for part in forwards if part.ranks == 1][:3]}
    if any(entry["name"] == "mlp" for entry in manifest["trains"]):
        commands["train.mlp.1"] = train_command("mlp.1")
    for tool in ("memcheck", "racecheck"):
        for name, command in commands.items():
            yield Part(f"sanitizer.{tool}.{name}", "check", SANITIZER_S, partial(checks.sanitize, tool=tool, command=command), together=True)


def all_parts(folder, manifest):
    """All parts of a pack. Its `limits` hold for the parts that they name."""
    limits = manifest.get("limits", {})
    return [replace(part, limit=limits.get(part.name, part.limit)) for part in make_parts(folder, manifest)]


def make_parts(folder, manifest):
    forwards = list(forward_parts(pathlib.Path(folder)))
    kernels = [Part(f"kernel.{entry['name']}", "figure", ONE_RANK_S, partial(figures.kernel, entry=entry), program=entry["name"])
               for entry in manifest["kernels"]]
    return [
        *(Part(f"probe.{what}", "probe", PROBE_S, partial(checks.probe, name=program), program=program)
          for what, program in (("products", "bench_cuda_matmul"), ("convolutions", "bench_cuda_conv"), ("attention", "bench_cuda_attention"))),
        *train_parts(manifest), *forwards,
        *(Part(f"conformance.{ranks}", "check", limit, checks.conformance, ranks, together=ranks == 1, program="ashlar_conformance")
          for ranks, limit in ((1, ONE_RANK_S), (2, TWO_RANKS_S))),
        *kernels, Part("products", "figure", FIGURE_S, figures.products, program="bench_cuda_matmul"),
        *model_parts(manifest), *sanitizer_parts(manifest, forwards),
    ]


def runs_of(part):
    """The letters of the runs that a part belongs to."""
    return "".join(run for run, patterns in RUNS.items() if any(fnmatch.fnmatchcase(part.name, pattern) for pattern in patterns))


def select(parts, wanted):
    """The parts that runs and globs name, each once, in their order. Returns (parts, what names none). Parts of two ranks bring the gate along."""
    chosen, unknown = [], []
    for word in wanted:
        for pattern in RUNS.get(word, (word,)):
            found = [part for part in parts if fnmatch.fnmatchcase(part.name, pattern)]
            if not found and word not in RUNS:
                unknown.append(word)
            chosen += [part for part in found if part not in chosen]
    first = next((place for place, part in enumerate(chosen) if part.ranks > 1), None)
    if first is not None:
        gate = [part for part in parts if part.name == GATE]
        chosen = [part for part in chosen[:first] if part not in gate] + gate + [part for part in chosen[first:] if part not in gate]
    return chosen, unknown
