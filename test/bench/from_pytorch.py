#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of docs/howto/from_pytorch.md in order, and compares what they leave with PyTorch.

    from_pytorch.py [--build BUILD] [--torch-python PYTHON]

Losses of the steps, trained weights and running statistics, and outputs in ONNX Runtime and of an executable for inference have to agree within 1e-5 of the largest number.
Exit status 77 where PYTHON cannot import torch, onnx and onnxruntime.

    from_pytorch.py --run        runs the blocks in the current folder, with the tools on PATH
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from measuring import MPI_ENV, ROOT

PAGE = ROOT / "docs" / "howto" / "from_pytorch.md"
TOLERANCE = 1e-5


def blocks():
    return re.findall(r"^```(python|sh)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


def expect_near(found, expected, what):
    import numpy
    found, expected = numpy.asarray(found, numpy.float64), numpy.asarray(expected, numpy.float64)
    error = numpy.abs(found - expected).max() / numpy.abs(expected).max() if found.shape == expected.shape else float("nan")
    print(f"{what}: {error:.1e}")
    if not error <= TOLERANCE:
        sys.exit(f"error: {what} differ: {found.ravel()[:4]} and {expected.ravel()[:4]}, of shapes {found.shape} and {expected.shape}")


def run():
    names = {}
    for language, text in blocks():
        if language == "python":
            exec(compile(text, str(PAGE), "exec"), names)  # pylint: disable=exec-used
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True)
    import numpy
    import torch
    logs = "".join(pathlib.Path(name).read_text() for name in ("first.log", "rest.log"))
    expect_near([float(loss) for loss in re.findall(r"^epoch: \d+ step: \d+, loss is ([^,]+)", logs, re.M)], names["losses"], "losses of four steps")
    reference = names["reference"]
    for name, value in reference.state_dict().items():
        if name in names["weights"]:
            expect_near(names["weights"][name], value.numpy(), name)
    if len(names["weights"]) < len(list(reference.parameters())):
        sys.exit(f"error: the trained model has {sorted(names['weights'])} only")
    names["model"].eval()
    with torch.no_grad():
        outputs = names["model"](torch.tensor(names["images"][:4])).numpy()
    expect_near(names["outputs"], outputs, "outputs in ONNX Runtime")
    numpy.save("image.npy", names["images"][:4])
    subprocess.run(["ashlarc", "trained.onnx", "--batch", "4", "-o", "run"], check=True)
    subprocess.run(["./run", "--input", "image=image.npy", "--output", "logits=logits.npy"], check=True, stdout=subprocess.DEVNULL)
    expect_near(numpy.load("logits.npy"), outputs, "outputs of the executable")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--run", action="store_true")
    options = parser.parse_args()
    if options.run:
        return run()
    if subprocess.run([options.torch_python, "-c", "import torch, onnx, onnxruntime, onnxscript"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print(f"{options.torch_python} cannot import torch, onnx, onnxscript and onnxruntime")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = f"{options.build.resolve() / 'bin'}:{os.environ['PATH']}"
        return subprocess.run([options.torch_python, str(pathlib.Path(__file__).resolve()), "--run"], cwd=folder,
                              env={**os.environ, **MPI_ENV, "PATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
