#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's own examples of each op, those of its backend tests: which compile, and whether the programs compute what ONNX says.

    onnx_examples.py [--build BUILD] [--onnx-python PYTHON] [--only PATTERN] [--jobs N] [--verbose] [--page FILE [--check]]

The examples of the onnx package of PYTHON are compiled without a job and run: each one node or what its function expands to, and the small models stored there (simple,
pytorch-converted, pytorch-operator), converted to opset 13 where theirs is older than what is supported. All inputs of an example are inputs of
its model; where that is refused, as with axes that have to be known, all but the first, and then all, become initializers. Prints what came of each op: examples that
passed, within the tolerance of the example or 4 units in the last place of its largest element, that were refused, with one of the reasons, that differ on purpose
(OTHERWISE), and that are wrong; fails where one is wrong. Exit status 77 where PYTHON cannot import onnx. PATTERN is a regular expression that the name of an example
has to match.

--page FILE: tries the node examples with an op that runs a body (OPS_OF_PAGE) and no others, and writes their table into FILE, which is docs/onnx.md; with --check
it fails where the table there is another one. Exit status 77 where the page is about another version of onnx.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

from measuring import MPI_ENV, ROOT, table

PASSED, REFUSED, DIFFERS, WRONG = "passed", "refused", "otherwise", "wrong"

# Examples that compute something else on purpose, and why.
WHOLE = "align_corners counts elements of the result, as ONNX Runtime does; the example counts fractions of them"
RUNNING = "programs that do not train take the running statistics (docs/semantics.md)"
DRAWN = "other random numbers (docs/numbers.md)"
DROPPED = "programs that do not train drop nothing (docs/onnx.md)"
OTHERWISE = {
    **{"test_bernoulli" + form: DRAWN for form in ("", "_double", "_double_expanded", "_expanded", "_seed", "_seed_expanded")},
    **{"test_training_dropout" + form: DROPPED for form in ("", "_default", "_default_mask", "_mask")},
    "test_batchnorm_epsilon_training_mode": RUNNING,
    "test_batchnorm_example_training_mode": RUNNING,
    "test_maxunpool_export_with_output_shape": "indices count in the result, as in ONNX Runtime; the example counts them in a smaller one",
    "test_resize_downsample_scales_cubic_align_corners": WHOLE,
    "test_resize_downsample_scales_linear_align_corners": WHOLE,
}


# The ops whose examples are listed on a page, and the head of the table there.
OPS_OF_PAGE = ("GRU", "If", "LSTM", "Loop", "RNN", "Scan")
HEAD_OF_PAGE = "| op | its own examples: pass | in functions: pass | refused |\n|---|---|---|---|\n"


def call(command, folder):
    done = subprocess.run([str(part) for part in command], cwd=folder, env={**os.environ, **MPI_ENV}, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.strip()


def stored_examples():
    """The examples that the package holds as files: models, and tensors of what goes in and comes out."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    def tensors(folder, which):
        files = sorted(folder.glob(f"{which}_*.pb"), key=lambda file: int(file.stem.rsplit("_", 1)[1]))
        return [onnx.load_tensor(file) for file in files]

    cases = [case for kind in ("simple", "pytorch-converted", "pytorch-operator") for case in load_model_tests(kind=kind)]
    for case in sorted(cases, key=lambda case: case.name):
        model, folder = onnx.load(pathlib.Path(case.model_dir) / "model.onnx"), pathlib.Path(case.model_dir) / "test_data_set_0"
        if max(domain.version for domain in model.opset_import if domain.domain == "") < 7:
            model = onnx.version_converter.convert_version(model, 13)
        known = {tensor.name for tensor in model.graph.initializer}  # old models list them as inputs, too
        inputs = [value for value in model.graph.input if value.name not in known]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        yield dataclasses.replace(case, model=model, data_sets=[(tensors(folder, "input"), tensors(folder, "output"))])


def models_of(case, inputs):
    """The model of an example as it is, then with all inputs but the first known, then with all."""
    import onnx
    import numpy
    for first in (len(inputs), 1, 0):
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        for value, data in list(zip(case.model.graph.input, inputs))[first:]:
            if not isinstance(data, (numpy.ndarray, numpy.generic)):
                return
            model.graph.initializer.append(onnx.numpy_helper.from_array(numpy.asarray(data), value.name))
        del model.graph.input[first:]
        yield model


def difference(found, expected, case):
    """How an output differs from the example's, "" where it does not."""
    import numpy
    precision = numpy.finfo(found.dtype).eps if numpy.issubdtype(found.dtype, numpy.floating) else 0
    if expected.dtype.name == "bfloat16":  # files have f32 in its place
        expected, precision = expected.astype(numpy.float32), 2 ** -7
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype} {list(found.shape)}, not {expected.dtype} {list(expected.shape)}"
    tolerances = {"rtol": case.rtol, "atol": case.atol, "equal_nan": True}
    if precision and found.size > 0:  # what the example has was computed with rounding, too
        largest = numpy.max(numpy.abs(expected), initial=0, where=numpy.isfinite(expected))
        tolerances["atol"] = max(case.atol, float(4 * precision * largest))
    wrong_at = ~numpy.isclose(found, expected, **tolerances)
    if not wrong_at.any():
        return ""
    at = numpy.unravel_index(numpy.argmax(wrong_at), found.shape)
    return f"{found[at]}, not {expected[at]}, at {[int(i) for i in at]}"


def run_program(case, model, inputs, expected, folder):
    """What is wrong with what the compiled program computes, "" where nothing is."""
    import numpy
    import onnx
    command = ["./program"]
    for value, data in zip(model.graph.input, inputs):
        numpy.save(folder / f"in{len(command)}.npy", data.astype(numpy.float32) if data.dtype.name == "bfloat16" else data)
        command += ["--input", f"{value.name}=in{len(command)}.npy"]
    wanted = [value.name for value in model.graph.output]
    for i, name in enumerate(wanted):
        command += ["--output", f"{name}=out{i}.npy"]
    code, text = call(command, folder)
    if code != 0:
        return f"the program exited with {code}: {text}"
    for i, name in enumerate(wanted):
        value = expected[i]
        value = onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else numpy.asarray(value)
        apart = difference(numpy.load(folder / f"out{i}.npy"), value, case)
        if apart:
            return f"{name} is {apart}"
    return ""


def try_example(options, case):
    """Returns what came of an example, and why."""
    import onnx
    inputs, expected = case.data_sets[0]
    inputs = [onnx.numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else data for data in inputs]
    reasons = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in models_of(case, inputs):
            onnx.save(model, folder / "model.onnx")
            code, text = call([pathlib.Path(options.build) / "bin/ashlarc", "model.onnx", "-o", "program"], folder)
            if code == 0:
                wrong = run_program(case, model, inputs, expected, folder)
                if case.name in OTHERWISE:
                    return (DIFFERS, wrong) if wrong else (WRONG, "passes; take it off OTHERWISE")
                return (WRONG, wrong) if wrong else (PASSED, "")
            if code != 1 or "\n" in text or "error: " not in text:
                return WRONG, f"ashlarc exited with {code}: {text}"
            reasons.append(text.split("error: ", 1)[1].removeprefix("model.onnx: "))
    return REFUSED, reasons[-1]


def ops_of(cases):
    """The op that each example is of; of one that a function was expanded to, that function; of a stored model its kind."""
    ops = {case.name: case.model.graph.node[-1] for case in cases if "_expanded" not in case.name}
    ops = {name: f"{node.domain}.{node.op_type}".lstrip(".") for name, node in ops.items()}
    kinds = {case.name: case.kind for case in cases if case.kind != "node"}
    return [kinds.get(case.name) or ops.get(case.name) or ops[case.name.split("_expanded")[0]] + ", expanded" for case in cases]


def op_of_page(case):
    """The op for which an example is on the page, None where it is not."""
    return next((node.op_type for node in reversed(case.model.graph.node) if case.kind == "node" and node.op_type in OPS_OF_PAGE), None)


def page_table(results):
    """The table of the page, from triples of an example, what came of it, and why."""
    text = HEAD_OF_PAGE
    for op in OPS_OF_PAGE:
        counts, refused = [], collections.defaultdict(list)
        of_op = [result for result in results if op_of_page(result[0]) == op]
        for is_function in (False, True):
            part = [(case, outcome) for case, outcome, _ in of_op if ("_expanded" in case.name) == is_function]
            counts.append(f"{sum(outcome == PASSED for _, outcome in part)} of {len(part)}" if part else "")
        for case, outcome, why in of_op:
            if outcome == REFUSED:
                reason = re.sub(r'^node "[^"]*" \([^)]*\): ', "", why)
                reason = re.sub(r'^"[^"]*" is', "an output is", re.sub(r'^input "[^"]*": ', "an input ", reason))
                refused[reason.replace("|", "\\|")].append(f"`{case.name}`")
        reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in refused.items())
        text += f"| {op} | {counts[0]} | {counts[1]} | {reasons} |\n".replace("|  |", "| |").replace("|  |", "| |")
    return text


def update_page(options, results):
    """Writes the table into the page. Returns what is wrong there, "" where nothing is."""
    page = pathlib.Path(options.page)
    before, rest = page.read_text().split(HEAD_OF_PAGE)
    text = before + page_table(results) + rest[rest.index("\n\n") + 1 if rest.startswith("|") else 0:]
    if options.check:
        return "" if text == page.read_text() else f"{page}: the table of {', '.join(OPS_OF_PAGE)} is not what was found; run {__file__} --page {page}"
    page.write_text(text)
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--onnx-python", default=sys.executable)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--page", default="")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.onnx_python != sys.executable:
        os.execv(options.onnx_python, [options.onnx_python, __file__, *sys.argv[1:], "--onnx-python", options.onnx_python])
    try:
        import onnx
        from onnx.backend.test.case.node import collect_testcases
    except ImportError:
        print(f"skipped: {sys.executable} cannot import onnx")
        sys.exit(77)
    if options.check and f"onnx {onnx.__version__}:" not in pathlib.Path(options.page).read_text():
        print(f"skipped: {options.page} is not about onnx {onnx.__version__}")
        sys.exit(77)
    warnings.simplefilter("ignore")
    cases = [*collect_testcases(None), *stored_examples()]
    rows, faults, sums = collections.defaultdict(lambda: collections.defaultdict(list)), [], collections.Counter()
    chosen = [(op, case) for op, case in zip(ops_of(cases), cases)
              if re.search(options.only, case.name) and (not options.page or op_of_page(case))]
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda pair: try_example(options, pair[1]), chosen)
        for (op, case), (outcome, why) in zip(chosen, outcomes):
            rows[op][outcome].append(why)
            results.append((case, outcome, why))
            sums[outcome] += 1
            faults += [f"{case.name}: {why}"] if outcome == WRONG else []
            if options.verbose:
                print(f"{case.name}: {outcome} {why}")
    table(f"Examples of onnx {onnx.__version__}: {sums[PASSED]} passed, {sums[REFUSED]} refused, {sums[DIFFERS]} otherwise on purpose, {sums[WRONG]} wrong",
          ["op", PASSED, REFUSED, DIFFERS, WRONG, "refused because"],
          [[op, *(len(row[outcome]) for outcome in (PASSED, REFUSED, DIFFERS, WRONG)), (row[REFUSED] or [""])[0][:120]] for op, row in sorted(rows.items())])
    if options.page and not faults:
        faults = list(filter(None, [update_page(options, results)]))
    if faults:
        sys.exit("wrong:\n" + "\n".join(faults))


if __name__ == "__main__":
    main()
