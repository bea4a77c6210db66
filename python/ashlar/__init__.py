# SPDX-License-Identifier: Apache-2.0
"""Compiles models by Ashlar, plans and runs them.

    import ashlar
    ashlar.compile("mlp.onnx", "mlp.txtpb", "mlp")
    result = ashlar.run("mlp", ranks=4, data="mnist", eval=True)
    print(result.metrics[-1]["loss"])

An executable is a program of its own: it runs without Python. Errors of the compiler and of executables are ashlar.Error, with their line.
"""

import json
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

__all__ = ["Error", "Result", "compile", "from_torch", "plan", "run", "version"]


class Error(RuntimeError):
    """An error of the compiler or of an executable; its text is the line that begins with "error:", without that word."""


class Result:
    """A finished run. `output`: the text that it printed; `metrics`: a dict for each logged step and evaluation (docs/runtime.md)."""

    def __init__(self, output, metrics):
        self.output = output
        self.metrics = metrics


def _tool(name):
    """Returns the path of a program: of ASHLAR_PREFIX, of this package, or on the PATH."""
    folders = [Path(os.environ["ASHLAR_PREFIX"]) / "bin"] if "ASHLAR_PREFIX" in os.environ else []
    folders.append(Path(__file__).parent / "prefix" / "bin")
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise Error(f"{name} is neither in {folders[-1]} nor on the PATH; install the package again, or set ASHLAR_PREFIX")
    return found


def _call(command):
    """Runs a command and returns its standard output."""
    process = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode != 0:
        lines = process.stderr.splitlines()
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        raise Error(errors[0] if errors else "\n".join(lines) or f"{command[0]} ended with status {process.returncode}")
    return process.stdout


def _arguments(options):
    """Returns {"save_every": 5, "eval": True, "init_from": None} as ["--save-every", "5", "--eval"]; lists repeat their option."""
    arguments = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                arguments.append(option)
            elif one is not None and one is not False:
                arguments.append(f"{option}={one}")
    return arguments


class _Inputs:
    """The files of a model and a job: their paths, or temporary files with their contents."""

    def __init__(self, model, job):
        self.folder = tempfile.TemporaryDirectory()
        self.model = model
        if hasattr(model, "SerializeToString"):  # an onnx.ModelProto
            self.model = Path(self.folder.name) / "model.onnx"
            self.model.write_bytes(model.SerializeToString())
        self.job = job
        if isinstance(job, str) and ("\n" in job or "{" in job):
            self.job = Path(self.folder.name) / "job.txtpb"
            self.job.write_text(job)

    def __enter__(self):
        return [self.model, *(["--job", self.job] if self.job is not None else [])]

    def __exit__(self, *_):
        self.folder.cleanup()


def version():
    """Returns the line of ashlarc --version."""
    return _call([_tool("ashlarc"), "--version"]).strip()


def compile(model, job=None, output="model", **options):
    """Compiles a model to an executable, and returns its path.

    model: the path of an ONNX file, or an onnx.ModelProto.
    job: the path of a job, or its text; None: the executable runs the model once.
    output: the file to write.
    options: options of ashlarc, as in mesh="dp=4", memory="24GB", report="r.json", debug_info=True.
    """
    with _Inputs(model, job) as inputs:
        _call([_tool("ashlarc"), *inputs, *_arguments(options), "-o", output])
    return str(output)


def plan(model, job, **options):
    """Returns the rows of ashlarc plan as dicts (docs/plan.md, "JSON"), the best mesh first.

    options: options of ashlarc plan, as in mesh=["dp=4", "dp=2,tp=2"], sweep=True, memory="24GB".
    """
    with _Inputs(model, job) as inputs:
        return json.loads(_call([_tool("ashlarc"), "plan", *inputs, *_arguments(options), "--json", "-"]))["meshes"]


def from_torch(module, example_inputs, job=None, output="model", onnx=None, input_names=None, output_names=None, **options):
    """Exports a torch.nn.Module and compiles it. Parameters keep their names, so rules of the job match "layers.0.weight".

    example_inputs: a tuple of tensors, or a dict of them by the names of forward()'s arguments; their first dim is the batch, which stays
        open. With one sample the exporter would fix it: give two or more.
    input_names, output_names: of the model's inputs and outputs, as the job names them.
    onnx: where the exported model stays; None: nowhere.
    The module is exported in the mode that it is in: for a training job, after module.train().
    job, output, options: as for compile(). Returns the path of the executable.
    """
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(onnx) if onnx is not None else Path(folder) / "model.onnx"
        batch = {0: torch.export.Dim("batch")}
        if isinstance(example_inputs, dict):
            inputs = {"args": (), "kwargs": example_inputs, "dynamic_shapes": {name: batch for name in example_inputs}}
        else:
            inputs = {"args": tuple(example_inputs), "dynamic_shapes": tuple(batch for _ in example_inputs)}
        with warnings.catch_warnings():  # a job trains what is exported
            warnings.filterwarnings("ignore", message="Exporting a model while it is in training mode")
            torch.onnx.export(module, f=str(path), input_names=input_names, output_names=output_names, dynamo=True, optimize=False,
                              external_data=False, verbose=False, **inputs)
        return compile(path, job, output, **options)


def run(executable, ranks=1, launcher=("mpirun", "--quiet"), **options):
    """Runs an executable and returns its Result.

    ranks: more than one are started by `launcher`, followed by -n RANKS.
    options: options of the executable, as in data="mnist", epochs=5, eval=True, checkpoint_dir="ckpt".
    """
    program = str(Path(executable).absolute())
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        command = [*launcher, "-n", ranks, program] if ranks > 1 else [program]
        keeps = "--metrics" in _call([program, "--help"]) and "metrics" not in options
        output = _call([*command, *_arguments(options), *(["--metrics", metrics] if keeps else [])])
        lines = metrics.read_text().splitlines() if metrics.exists() else []
    return Result(output, [json.loads(line) for line in lines])
