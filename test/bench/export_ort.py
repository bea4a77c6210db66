#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --export writes, beside what ONNX and ONNX Runtime say of it.

    export_ort.py [--build BUILD] [--ort-python PYTHON] [--only NAME,...] [--steps N]

Models of ashlar-zoo are trained for some steps on two ranks and exported. Of each: ONNX's checker takes it, with shapes inferred; it is the model that was
compiled but for the numbers of initializers, whose names, shapes and types are the same; these are, bit by bit, what --save-parameters wrote; and ONNX Runtime
computes with it what the program of the untrained model does that starts from it (--init-from), on the same input, within rounding. Fails
where one does not hold. Exit status 77 where PYTHON cannot import onnx and onnxruntime.

    export_ort.py --peer FOLDER     looks at what lies there: one line of JSON
"""

import argparse
import json
import pathlib
import random
import re
import sys
import tempfile

from measuring import ROOT, run, table

TOLERANCE = 1e-5  # of outputs, as a share of the largest: sums in another order
BATCH, RANKS = 4, 2

# Of each: what ashlar-zoo makes, the input and its shape behind the batch, the largest word of an input of words, and the data to train on.
MODELS = {
    "mlp": (["mlp"], "input", [784], 0),
    "lenet": (["lenet"], "input", [1, 28, 28], 0),
    "resnet": (["resnet", "--depth", "18", "--stem", "cifar", "--image", "32", "--classes", "10"], "input", [3, 32, 32], 0),
    "mobilenet": (["mobilenet", "--version", "2", "--classes", "10", "--image", "32"], "input", [3, 32, 32], 0),
    "transformer": (["transformer"], "tokens", [16], 50),
}

JOB = """mode: DATA_PARALLEL
mesh { axes { name: "dp" size: %d } }
global_batch: %d
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { sgd {} learning_rate: 0.05 }
dataset { npy {} repeat: 1000 features { column: "x" tensor: "%s" } features { column: "label" tensor: "labels" } }
"""


def peer(folder):
    """Compares as the head of this file says."""
    import numpy
    import onnx
    import onnxruntime
    onnx.checker.check_model(str(folder / "exported.onnx"), full_check=True)
    before, after = (onnx.load(str(folder / name), load_external_data=False) for name in ("model.onnx", "exported.onnx"))
    different, parameters = [], 0

    def facts(model):
        """The model without its numbers, and where the numbers of an initializer are."""
        data = {}
        for tensor in model.graph.initializer:
            data[tensor.name] = onnx.TensorProto()
            data[tensor.name].CopyFrom(tensor)
            for field in ("raw_data", "float_data", "external_data", "data_location"):
                tensor.ClearField(field)
        return model.SerializeToString(deterministic=True), data

    shape_after, initializers = facts(after)
    shape_before, _ = facts(before)
    for name, tensor in initializers.items():
        saved = folder / "parameters" / (name.replace("/", "_") + ".npy")
        if saved.exists():
            parameters += 1
            values = onnx.numpy_helper.to_array(tensor, base_dir=str(folder))
            expected = numpy.load(saved, mmap_mode="r")
            if values.dtype != expected.dtype or values.shape != expected.shape or values.tobytes() != expected.tobytes():
                different.append(name)
    names = [path.name for path in (folder / "parameters").iterdir()]
    session = onnxruntime.InferenceSession(str(folder / "exported.onnx"), providers=["CPUExecutionProvider"])
    inputs = {session.get_inputs()[0].name: numpy.load(folder / "input.npy")}
    theirs, ours = session.run(None, inputs)[0], numpy.load(folder / "logits.npy")
    print(json.dumps({
        "onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__, "same": shape_before == shape_after, "different": different,
        "parameters": parameters, "saved": len(names), "bytes": sum(path.stat().st_size for path in folder.glob("exported.onnx*")) +
        sum(path.stat().st_size for path in folder.glob("*.data")),
        "apart": float(abs(theirs - ours).max() / abs(theirs).max()) if theirs.shape == ours.shape else float("nan")}))


def look(options, name, folder):
    """Trains and exports a model. Returns the row of the table, and what does not hold."""
    from npy_writer import write_npy
    zoo, tensor, shape, words = MODELS[name]
    tools = pathlib.Path(options.build).resolve() / "bin"
    generator, elements = random.Random(1), 1
    for size in shape:
        elements *= size

    def write_samples(file, samples):
        values = [generator.randrange(words) if words else generator.gauss(0, 1) for _ in range(samples * elements)]
        write_npy(folder / file, "q" if words else "f", [samples, *shape], values)

    write_samples("x_train.npy", 2 * BATCH)
    write_samples("input.npy", BATCH)
    labels = [2 * BATCH, *(shape if words else [])]
    write_npy(folder / "label_train.npy", "q", labels, [generator.randrange(words or 10) for _ in range(2 * BATCH * (elements if words else 1))])
    (folder / "job.txtpb").write_text(JOB % (RANKS, BATCH, tensor))
    (folder / "forward.txtpb").write_text(f"global_batch: {BATCH}\n")
    run([tools / "ashlar-zoo", *zoo, "-o", "model.onnx"], folder)
    run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "train"], folder)
    run(["mpirun", "-n", RANKS, "./train", "--data", ".", "--steps", options.steps, "--export", "exported.onnx", "--save-parameters", "parameters"], folder)
    (folder / "train").unlink()
    run([tools / "ashlarc", "model.onnx", "--job", "forward.txtpb", "-o", "forward"], folder)
    log = run(["./forward", "--input", f"{tensor}=input.npy", "--output", "logits=logits.npy", "--init-from", "exported.onnx"], folder)[1]
    (folder / "forward").unlink()
    text = run([options.ort_python, pathlib.Path(__file__).resolve(), "--peer", folder], folder)[1]
    found = json.loads(next(line for line in text.splitlines() if line.startswith('{"onnxruntime"')))
    taken = int(re.search(r"started from exported.onnx: (\d+) variables", log).group(1))
    faults = [] if found["same"] else ["it is not the model that was compiled"]
    faults += [f"{tensor} is not what was saved" for tensor in found["different"]]
    if not found["parameters"] == found["saved"] == taken > 0:
        faults.append(f"{found['saved']} parameters were saved, {found['parameters']} of them are in the model, {taken} were taken from it")
    if not found["apart"] <= TOLERANCE:
        faults.append(f"outputs are {found['apart']:.1e} apart")
    return [name, found["parameters"], f"{found['bytes'] / 1e6:.1f}", f"{found['apart']:.1e}", found["onnx"], found["onnxruntime"]], faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--ort-python", default=sys.executable)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--peer", default="")
    options = parser.parse_args()
    if options.peer:
        return peer(pathlib.Path(options.peer))
    from torch_turns import skip_without
    skip_without(options.ort_python, "numpy", "onnx", "onnxruntime")
    sys.path.insert(0, str(ROOT / "test/e2e"))
    rows, faults = [], []
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            row, found = look(options, name, pathlib.Path(folder))
        rows.append(row)
        faults += [f"{name}: {fault}" for fault in found]
    table(f"Exported after {options.steps} steps, beside ONNX Runtime", ["model", "parameters", "MB", "outputs apart", "onnx", "onnxruntime"], rows)
    return "; ".join(faults) or 0  # an empty text would be a failure, too


if __name__ == "__main__":
    sys.exit(main())
