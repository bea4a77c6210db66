#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inference of ResNet against ONNX Runtime's on the same file and the same input, on the CPU.

    inference_ort.py [--build BUILD] [--ort-python PYTHON] [--depth D] [--image I] [--batches 1,8] [--threads T] [--turns N] [--runs R]

The model is `ashlar-zoo resnet` in f32 with running statistics as at the start. Both sides must find the same logits, or the script fails. Ours and theirs take
turns; a turn counts the median of its runs. Prints medians over the turns; fails where a ratio misses the aim. Exit status 77 where PYTHON cannot import
onnxruntime.

    inference_ort.py --peer MODEL.onnx ...     is the peer alone: one line of JSON
"""

import argparse
import array
import json
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

from measuring import ROOT, run, table

AIM, TOLERANCE, CLASSES = 0.9, 1e-4, 1000


def peer(options):
    import numpy
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(options.peer, settings, providers=["CPUExecutionProvider"])
    images = numpy.load("input.npy")
    logits = session.run(None, {"input": images})[0]
    seconds = []
    for _ in range(options.runs):
        begin = time.perf_counter()
        session.run(None, {"input": images})
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"onnxruntime": onnxruntime.__version__, "ms": statistics.median(seconds) * 1e3, "logits": logits.flatten().tolist()}))


def floats_of(path):
    """The elements of an .npy file of f32."""
    data = path.read_bytes()
    elements = array.array("f")
    elements.frombytes(data[10 + int.from_bytes(data[8:10], "little"):])
    return elements


def measure(options, batch, folder):
    from npy_writer import write_npy
    tools = pathlib.Path(options.build).resolve() / "bin"
    run([tools / "ashlar-zoo", "resnet", "--depth", options.depth, "--image", options.image, "--classes", CLASSES, "-o", "model.onnx"], folder)
    (folder / "job.txtpb").write_text(f"global_batch: {batch}\n")
    run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "forward"], folder)
    generator, shape = random.Random(1), (batch, 3, options.image, options.image)
    write_npy(folder / "input.npy", "f", shape, [generator.gauss(0, 1) for _ in range(batch * 3 * options.image * options.image)])
    run(["./forward", "--input", "input=input.npy", "--output", "logits=logits.npy", "--threads", options.threads], folder)
    logits, ours, theirs = floats_of(folder / "logits.npy"), [], []
    for _ in range(options.turns):
        text = run(["./forward", "--benchmark", options.runs, "--input", "input=input.npy", "--threads", options.threads], folder)[1]
        ours.append(float(re.search(r"forward: ([0-9.]+) us a run", text).group(1)) / 1e3)
        log = run([options.ort_python, __file__, "--peer", "model.onnx", "--threads", options.threads, "--runs", options.runs], folder)[1]
        found = json.loads(next(line for line in log.splitlines() if line.startswith('{"onnxruntime"')))
        theirs.append(found["ms"])
        scale = max(abs(value) for value in found["logits"])
        apart = max(abs(x - y) for x, y in zip(logits, found["logits"], strict=True)) / scale
        if not apart <= TOLERANCE:
            sys.exit(f"error: logits differ by {apart:.1e} of the largest: the two do not compute the same")
    ratios = [x / y for x, y in zip(ours, theirs)]
    return found["onnxruntime"], statistics.median(ours), statistics.median(theirs), ratios


def compare(options):
    rows, missed = [], []
    for batch in map(int, options.batches.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            version, ours, theirs, ratios = measure(options, batch, pathlib.Path(folder))
        median = statistics.median(ratios)
        rows.append([batch, f"{theirs:.1f}", f"{ours:.1f}", f"{median:.2f}", f"{min(ratios):.2f} - {max(ratios):.2f}"])
        if not median <= AIM:
            missed.append(f"batch {batch}: {median:.2f} of ONNX Runtime's time, the aim is {AIM}")
    table(f"Inference of ResNet-{options.depth} at {options.image} x {options.image}, {options.threads} threads, against ONNX Runtime {version}; medians of "
          f"{options.turns} turns", ["batch", "ONNX Runtime, ms", "ours, ms", "ours / theirs", "of turns"], rows)
    if missed:
        sys.exit("missed: " + "; ".join(missed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--ort-python", default=sys.executable)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--peer", default="")
    for name, default in (("depth", 50), ("image", 224), ("threads", 2), ("turns", 3), ("runs", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "test/e2e"))
    if options.peer:
        peer(options)
        return
    from torch_turns import skip_without
    skip_without(options.ort_python, "numpy", "onnxruntime")
    compare(options)


if __name__ == "__main__":
    main()
