#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks and measures the cuda target on a machine with a GPU: runs the parts of a pack that tools/gpu-check.sh made (docs/gpu.md).

    python3 run.py A|B|PART... [--budget SECONDS] [--out DIR] [--jobs N]
    python3 run.py --list

A and B are runs of several parts; a PART is a name or a glob (train.mlp.*). Needs a driver, the libraries of NVIDIA's wheels or of the system,
and python3 alone; PyTorch for the peers' times. DIR gets table.md, results.json, env.txt, probes.txt and logs.tgz; the table is printed last.
Exit status 0 when no check failed, 1 when one did or what is asked for does not exist, 128 + N when signal N ended it.
"""

import argparse
import concurrent.futures
import datetime
import itertools
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import background
import libraries
import parts as pack_parts
from attempt import Attempt, Context, Fault
from processes import Processes, Stopped
from results import Results, Row, write_whole

RESERVE_S = 3  # of the budget, for the end
LEAST_S = 2  # with less left no part starts


class Signalled(Exception):
    """A signal asks the runner to end."""

    def __init__(self, number, _):
        super().__init__(f"signal {number}")
        self.number = number
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)


def raise_signalled(number, frame):
    raise Signalled(number, frame)


def reason_not_to_run(context, part, budget):
    """Why a part cannot start; None when it can."""
    if context.deadline - time.monotonic() < LEAST_S:
        return f"the budget of {budget} s is spent"
    if part.program and not context.program(part.program).exists():
        return f"bin/{part.program} is missing in this pack"
    if part.ranks > 1 and part.name != pack_parts.GATE and context.ranks_meet != "passed":
        return f"NCCL: not run, {pack_parts.GATE}: {context.ranks_meet or 'not run'}"
    return None


def run_part(context, part, budget):
    """Runs a part, and records its rows, whatever happens in it."""
    attempt = Attempt(context, part)
    try:
        if reason := reason_not_to_run(context, part, budget):
            raise Fault("not run", reason)
        rows = part.action(attempt)
    except Fault as fault:
        rows = [Row(part.kind, part.name, fault.outcome, fault.detail, seconds=attempt.seconds())]
    except Stopped:
        return  # recorded where the runner ends
    except Exception as error:  # a fault of the runner, or numbers that it cannot read: the other parts go on
        rows = [Row(part.kind, part.name, "FAILED", f"the runner: {type(error).__name__}: {error}", seconds=attempt.seconds())]
    if part.name == pack_parts.GATE:
        context.ranks_meet = rows[0].outcome
    if not part.together:
        context.results.write_logs()
    context.results.add(rows, part.name)
    for row in rows:
        print(f"{time.monotonic() - context.results.begin:6.1f} {row.outcome:8} {row.name} {'' if row.value is None else f'{row.value:.4g}'} "
              f"{'' if row.outcome == 'passed' else row.detail[:160]}", flush=True)


def run_parts(context, chosen, budget, jobs):
    """Runs parts one by one, neighbours that may run together `jobs` at a time. They run in threads, so that a signal reaches this one."""
    for together, group in itertools.groupby(chosen, key=lambda part: part.together):
        with concurrent.futures.ThreadPoolExecutor(jobs if together else 1) as pool:
            try:
                for done in [pool.submit(run_part, context, part, budget) for part in group]:
                    done.result()
            except Signalled as signalled:
                context.results.leave_out(f"ended by {signalled}")  # first: little time may be left
                context.processes.stop()
                pool.shutdown(cancel_futures=True)
                raise
        context.results.write_logs()


def prepare(options, folder, manifest, results, scratch):
    """Looks at the machine, writes env.txt, and returns what the parts share."""
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries.library_path()}
    loaded = libraries.load_all(environment)
    gpu = libraries.has_gpu(loaded)
    results.facts = {"device": libraries.device_of(loaded) or "no device", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%F %T UTC"),
                     "version": f"Ashlar {manifest['version']}", "parts": " ".join(options.wanted), "budget": f"{options.budget} s"}
    context = Context(folder, manifest, Processes(environment), results, scratch, gpu, results.begin + options.budget - RESERVE_S)
    programs = sorted((folder / "bin").glob("*.1")) or sorted((folder / "bin").iterdir())
    write_whole(results.out / "env.txt", libraries.describe(programs[0], environment, loaded))
    missing = {True: "FAILED", False: "not run"}  # NVML is only nvidia-smi's
    results.add([Row("library", soname, "passed" if loads else missing[gpu and soname != "libnvidia-ml.so.1"], text)
                 for soname, (loads, text) in loaded.items()])
    return context


def run(options, folder, manifest, chosen, scratch):
    """Runs the chosen parts; returns the exit status."""
    out, logs = options.out.resolve(), scratch / "logs"
    logs.mkdir()
    out.mkdir(parents=True, exist_ok=True)
    for name in ("table.md", "results.json", "env.txt", "probes.txt", "logs.tgz"):
        (out / name).unlink(missing_ok=True)  # of another run
    results = Results(out, logs, [part.name for part in chosen])
    context, status = None, None
    try:
        context = prepare(options, folder, manifest, results, scratch)
        if context.gpu:
            background.start(context, any(part.name == "peers" for part in chosen))
        run_parts(context, chosen, options.budget, options.jobs)
    except Signalled as signalled:
        results.leave_out(f"ended by {signalled}")
        status = 128 + signalled.number
    if context:
        context.processes.stop()
    results.finish()
    print(f"\n{results.printed()}", flush=True)
    return status or (1 if results.counts()["FAILED"] else 0)


def list_parts(parts, folder):
    print("limit s  run  ranks  part")
    for part in parts:
        missing = f"  (bin/{part.program} is missing)" if part.program and not (folder / "bin" / part.program).exists() else ""
        print(f"{part.limit:7}  {pack_parts.runs_of(part):3}  {part.ranks:5}  {part.name}{missing}")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", metavar="A|B|PART")
    parser.add_argument("--budget", type=int, help="seconds for all; default: 270 for A, 380 for B, 300 for parts")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check-results"))
    parser.add_argument("--jobs", type=int, default=4, help="checks at a time (4)")
    parser.add_argument("--list", action="store_true", help="print the parts with their limits, and end")
    options = parser.parse_args()
    if not options.wanted and not options.list:
        parser.error("name a run or parts; --list lists them")
    options.budget = options.budget or sum(pack_parts.BUDGETS.get(word, 0) for word in options.wanted) or 300
    return options


def main():
    options = read_options()
    folder = pathlib.Path(__file__).resolve().parent
    manifest = json.loads((folder / "pack.json").read_text())
    parts = pack_parts.all_parts(folder, manifest)
    if options.list:
        list_parts(parts, folder)
        return 0
    chosen, unknown = pack_parts.select(parts, options.wanted)
    if unknown:
        print(f"error: this pack has no part {', '.join(unknown)}; --list lists them", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, raise_signalled)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="ashlar-gpu-check-"))
    try:
        return run(options, folder, manifest, chosen, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
