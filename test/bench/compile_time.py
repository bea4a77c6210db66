#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of compiling goes: CPU seconds of ashlarc, by stage, for networks whose layers are all of other sizes.

    compile_time.py [--build BUILD[,BUILD...]] [--torch-python PYTHON] [--only NAME,...] [--repeats N] [--keep FOLDER]

EfficientNet-B0, Swin-T (torchvision) and GhostNet (timm) on 224 x 224, with random weights, dropout and stochastic depth, as TorchScript's exporter writes them
for training; batch 16, cross entropy, SGD, the deterministic variant too. Several builds take turns. `more` is what a stage takes beyond the one before; the
least of N runs counts, in user and system time, so that other programs of the machine hardly disturb it. Exit status 77 where PYTHON cannot import what it
takes.

    compile_time.py --export NAME --folder FOLDER        writes NAME.onnx there
"""

import argparse
import pathlib
import sys
import tempfile

from measuring import ROOT, run, table

NAMES = ("efficientnet", "ghostnet", "swin")
STAGES = ("nn", "dist", "exec", "llvm", "obj", "exe")
JOB = """mode: DATA_PARALLEL
mesh { axes { name: "dp" size: 1 } }
global_batch: 16
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { sgd {} learning_rate: 0.01 }
dataset { npy {} features { column: "x" tensor: "x" } features { column: "label" tensor: "labels" } }
"""


def export(name, folder):
    import torch
    torch.manual_seed(1)
    if name == "ghostnet":
        import timm
        model = timm.create_model("ghostnet_100", drop_rate=0.2)
    else:
        import torchvision.models
        model = torchvision.models.efficientnet_b0() if name == "efficientnet" else torchvision.models.swin_t()
    torch.onnx.export(model.train(), (torch.randn(2, 3, 224, 224),), str(folder / f"{name}.onnx"), dynamo=False, opset_version=17, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "batch"}})


def measure(builds, name, folder, repeats):
    """Prints the table of one model."""
    from figures import cpu_seconds
    (folder / "job.txtpb").write_text(JOB)
    least = {}
    for _ in range(repeats):
        for stage in STAGES:
            for build in builds:
                command = [pathlib.Path(build).resolve() / "bin/ashlarc", f"{name}.onnx", "--job", "job.txtpb", "--emit", stage, "-o", f"{name}.{stage}"]
                least[build, stage] = min(cpu_seconds(command, folder), least.get((build, stage), float("inf")))
    rows = []
    for build in builds:
        run([pathlib.Path(build).resolve() / "bin/ashlarc", f"{name}.onnx", "--job", "job.txtpb", "--emit", "exec", "-o", f"{name}.exec"], folder)
        run([pathlib.Path(build).resolve() / "bin/ashlarc", f"{name}.onnx", "--job", "job.txtpb", "--emit", "llvm", "-o", f"{name}.llvm"], folder)
        kernels = (folder / f"{name}.exec").read_text().count("func.func @")
        bodies = (folder / f"{name}.llvm").read_text().count("define internal void @")
        before = 0
        for stage in STAGES:
            seconds = least[build, stage]
            rows.append([build, f"--emit {stage}", f"{seconds:.2f}", f"{seconds - before:.2f}", kernels, bodies])
            before = seconds
    table(f"{name}: CPU time of ashlarc, least of {repeats}", ["build", "up to", "s", "more", "kernels", "with code of their own"], rows)
    for file in folder.glob(f"{name}.*"):
        if file.suffix != ".onnx":
            file.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", default="")
    parser.add_argument("--export", default="")
    parser.add_argument("--folder", default="")
    options = parser.parse_args()
    if options.export:
        return export(options.export, pathlib.Path(options.folder))
    from torch_turns import skip_without
    skip_without(options.torch_python, "onnx", "timm", "torch", "torchvision")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.only.split(","):
            if not (folder / f"{name}.onnx").exists():
                run([options.torch_python, pathlib.Path(__file__).resolve(), "--export", name, "--folder", folder], folder)
            measure(options.build.split(","), name, folder, options.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
