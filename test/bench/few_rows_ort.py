#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products of few rows with constant weights against ONNX Runtime's on the same file, on one thread of the CPU.

    few_rows_ort.py [--build BUILD] [--sizes 256,1024,2048x3072,4096] [--rows 1,2,...] [--turns N] [--flops F] [--types f32,u8s8]

x (rows, k) times w (k, n), w an initializer: MatMul in f32, or MatMulInteger of u8 and s8, which both sides have to compute to the bit. Ours and theirs take
turns, of which the least time counts. Prints a table of ratios; fails where one misses the aim. Runs under the python that calls it, which has to have onnx and
onnxruntime: exit status 77 where it does not.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import time

from measuring import ROOT, run, table

AIM = 1.1


def write_model(path, kind, rows, k, n, generator):
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    if kind == "f32":
        weights, x = (generator.standard_normal(shape).astype(numpy.float32) for shape in ((k, n), (rows, k)))
        types, op = (TensorProto.FLOAT, TensorProto.FLOAT), "MatMul"
    else:
        weights = generator.integers(-128, 128, (k, n)).astype(numpy.int8)
        x = generator.integers(0, 128, (rows, k)).astype(numpy.uint8)  # what no instruction cuts off
        types, op = (TensorProto.UINT8, TensorProto.INT32), "MatMulInteger"
    graph = helper.make_graph([helper.make_node(op, ["x", "w"], ["y"])], "product", [helper.make_tensor_value_info("x", types[0], [rows, k])],
                              [helper.make_tensor_value_info("y", types[1], [rows, n])], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return x


def measure(options, kind, rows, k, n):
    import numpy
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    tools = pathlib.Path(options.build).resolve() / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        x = write_model(folder / "model.onnx", kind, rows, k, n, numpy.random.default_rng(rows))
        numpy.save(folder / "x.npy", x)
        run([tools / "ashlarc", "model.onnx", "-o", "product"], folder)
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), settings, providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": x})[0]
        run(["./product", "--input", "x=x.npy", "--output", "y=y.npy", "--threads", 1], folder)
        found = numpy.load(folder / "y.npy")
        tolerance = 0 if kind != "f32" else 1e-4 * numpy.abs(expected).max()
        if numpy.abs(found - expected).max() > tolerance:
            sys.exit(f"error: {kind}, {rows} rows, {k} x {n}: the two do not compute the same")
        runs = max(20, int(options.flops / (2 * rows * k * n)))
        ours, theirs = [], []
        for _ in range(options.turns):
            text = run(["./product", "--benchmark", runs, "--threads", 1, "--input", "x=x.npy"], folder)[1]
            ours.append(float(re.search(r"([0-9.]+) us a run", text).group(1)))
            begin = time.perf_counter()
            for _ in range(runs):
                session.run(None, {"x": x})
            theirs.append((time.perf_counter() - begin) / runs * 1e6)
    return min(ours), min(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--sizes", default="256,1024,2048x3072,4096")
    parser.add_argument("--rows", default="1,2,4,8,12,16,20,24,28,32,64")
    parser.add_argument("--types", default="f32,u8s8")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--flops", type=float, default=1e10, help="of one turn")
    options = parser.parse_args()
    try:
        import numpy
        import onnx
        import onnxruntime
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    del numpy, onnx
    missed = []
    for kind in options.types.split(","):
        rows = []
        for size in options.sizes.split(","):
            k, n = map(int, (size.split("x") * 2)[:2])
            cells = []
            for count in map(int, options.rows.split(",")):
                ours, theirs = measure(options, kind, count, k, n)
                cells.append(f"{ours / theirs:.2f}")
                if not ours / theirs <= AIM:
                    missed.append(f"{kind}, {count} rows, {k} x {n}: {ours:.0f} us, ONNX Runtime {theirs:.0f}")
            rows.append([f"{k} x {n}", *cells])
        table(f"Our time / ONNX Runtime {onnxruntime.__version__}'s, {kind}, by rows; one thread, best of {options.turns} turns",
              ["weights", *options.rows.split(",")], rows)
    if missed:
        sys.exit(f"missed (the aim is {AIM}): " + "; ".join(missed))


if __name__ == "__main__":
    main()
