#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every field that a job may set has an effect, and the right one: job_options.py TOOLS FOLDER [CASE...]

TOOLS holds ashlarc and test_job, which lists the fields that job.proto has and the compiler accepts; one without a case here fails, and so
does a case of a field that is not accepted. Each case compiles and runs small programs in a folder of its own below FOLDER and compares
with numbers computed by hand. The last line counts the cases."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import traceback

sys.dont_write_bytecode = True

import registry
from bench import Bench, Skip

import cases_data  # noqa: F401 each registers its cases
import cases_images  # noqa: F401
import cases_batch_norm  # noqa: F401 each registers its cases
import cases_data  # noqa: F401
import cases_files  # noqa: F401
import cases_loss  # noqa: F401
import cases_model  # noqa: F401
import cases_nonfinite  # noqa: F401
import cases_onnx  # noqa: F401
import cases_parameters  # noqa: F401
import cases_placement  # noqa: F401
import cases_optimizer  # noqa: F401
import cases_torch  # noqa: F401


# Target -> its file, from the folder of the tools.
NEEDED = {"ashlarc": "ashlarc", "ashlar_rt": "../lib/libashlar_rt.a", "test_job": "test_job"}


def require_targets(tools):
    """Ends with one line that names the targets, when a file of one is missing."""
    for file in NEEDED.values():
        path = os.path.normpath(os.path.join(tools, file))
        if not os.path.exists(path):
            raise SystemExit(f"error: {path} is not built; run ninja -C {os.path.dirname(tools)} {' '.join(NEEDED)}")


def accepted_fields(tools):
    """Returns the fields, and values of enums, that job.proto has and the compiler does not refuse."""
    run = subprocess.run([os.path.join(tools, "test_job"), "[.accepted]"], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    if run.returncode != 0:
        raise SystemExit(f"error: test_job [.accepted] ends with status {run.returncode}")
    fields = [line[len("accepted: "):] for line in run.stdout.splitlines() if line.startswith("accepted: ")]
    if not fields:
        raise SystemExit("error: test_job lists no accepted fields")
    return set(fields)


def compare(accepted):
    """Returns one line for each field without a case and each case without a field."""
    covered = {field for _, fields in registry.CASES for field in fields}
    return [f"field {field} is accepted but no case shows what it does; add one to test/job_options" for field in sorted(accepted - covered)] + [
        f"field {field} has a case but is not accepted" for field in sorted(covered - accepted)]


def run_case(tools, folder, function):
    """Returns "passed", "skipped" or "failed", and why."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        function(Bench(tools, folder))
    except Skip as reason:
        return "skipped", str(reason)
    except AssertionError as error:
        line = traceback.extract_tb(error.__traceback__)[1].lineno
        return "failed", f"line {line}: {error}"
    except Exception:  # pylint: disable=broad-except # whatever else a case raises is its failure too
        return "failed", traceback.format_exc()
    return "passed", ""


def main():
    tools, folder, wanted = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    require_targets(tools)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    accepted = accepted_fields(tools)
    missing = compare(accepted)
    # The comparison itself notices a field without a case, and a case without a field.
    if len(compare(accepted | {"new.field"})) != len(missing) + 1 or len(compare(accepted - {"seed"})) != len(missing) + 1:
        missing.append("the comparison of fields and cases does not notice a difference")
    for line in missing:
        print(f"FAILED: {line}")
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    unknown = set(wanted) - {function.__name__ for function, _ in registry.CASES}
    if unknown:
        raise SystemExit(f"error: no case is named {', '.join(sorted(unknown))}")
    chosen = [function for function, _ in registry.CASES if not wanted or function.__name__ in wanted]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        results = pool.map(lambda function: run_case(tools, os.path.join(folder, function.__name__), function), chosen)
        for function, (outcome, why) in zip(chosen, results):
            counts[outcome] += 1
            if outcome != "passed":
                print(f"{outcome}: {function.__name__}: {why}")
    counts["passed" if not missing else "failed"] += 1  # the comparison with job.proto
    print(f"cases: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(1 if counts["failed"] else 0)


main()
