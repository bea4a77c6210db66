# SPDX-License-Identifier: Apache-2.0
"""What benches share: how commands are run, what the metrics of a training say, how figures and missed aims are printed."""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}


def run(command, folder, **environment):
    """Runs a command, returns (seconds, output); stops with its output when it fails."""
    start = time.perf_counter()
    done = subprocess.run([str(part) for part in command], cwd=folder, env={**os.environ, **MPI_ENV, **environment}, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}")
    return seconds, done.stdout


def steps_of(metrics, warm_up):
    """Milliseconds a step behind the warm-up, and the losses of all steps, from a file of metrics with a line a step."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return (lines[-1]["seconds"] - lines[warm_up - 1]["seconds"]) / (len(lines) - warm_up) * 1e3, [line["loss"] for line in lines]


def table(title, header, rows):
    print(f"\n### {title}\n\n| " + " | ".join(map(str, header)) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    sys.stdout.flush()


def measure_parts(bench, names):
    """Calls the methods of a bench; each returns the aims that it missed. Ends the script with these, if any."""
    missed = [fault for name in names.split(",") for fault in getattr(bench, name)()]
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))
