# SPDX-License-Identifier: Apache-2.0
"""Compiles models by Ashlar, plans and runs them.

    import ashlar
    ashlar.compile("mlp.onnx", "mlp.txtpb", "mlp")
    result = ashlar.run("mlp", ranks=4, data="mnist", eval=True)
    print(result.metrics[-1]["eval_loss"])

An executable is a program of its own: it runs without Python. Errors of the compiler and of executables are ashlar.Error, with their line.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from numbers import Integral
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
    """Returns the path of a program: of ASHLAR_PREFIX, or else of this package, or on the PATH."""
    prefix = os.environ.get("ASHLAR_PREFIX")
    folder = Path(prefix or Path(__file__).parent / "prefix") / "bin"
    places = [folder] if prefix else [folder, *os.get_exec_path()]
    for found in filter(None, (shutil.which(name, path=str(place)) for place in places)):
        if os.path.realpath(found) != os.path.realpath(sys.argv[0]):  # the command of this package, which asks for the program
            return found
    if prefix:
        raise Error(f"ASHLAR_PREFIX is {prefix}, and {folder / name} is no program; correct it, or unset it")
    raise Error(f"{name} is neither in {folder} nor on the PATH; install the package again, or set ASHLAR_PREFIX")


def _call(command, text=None):
    """Runs a command, with a text as its standard input, and returns its standard output."""
    try:
        process = subprocess.run([str(part) for part in command], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Error(f"cannot start {command[0]}: {error.strerror}; name a program, and of several ranks an installed launcher") from None
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


def _compile(command, model, job, arguments):
    """Runs a command of ashlarc on the paths of a model and a job, or on their contents, and returns its standard output."""
    with tempfile.TemporaryDirectory() as folder:
        if hasattr(model, "SerializeToString"):  # an onnx.ModelProto
            outside = [tensor.name for tensor in model.graph.initializer if tensor.data_location == tensor.EXTERNAL]
            if outside:
                raise Error(f"{outside[0]} is in a file of external data, whose folder a ModelProto does not have; give the path of the "
                            "model, or load it together with its data")
            path = Path(folder) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            model = path
        text = None
        if isinstance(job, str) and ("\n" in job or "{" in job):
            job, text = "/dev/stdin", job  # files that it names are in the current folder
        inputs = [model, *(["--job", job] if job is not None else [])]
        return _call([_tool("ashlarc"), *command, *inputs, *arguments], text)


def version():
    """Returns the line of ashlarc --version."""
    return _call([_tool("ashlarc"), "--version"]).strip()


def compile(model, job=None, output="model", **options):
    """Compiles a model to an executable, and returns its path.

    model: the path of an ONNX file, or an onnx.ModelProto.
    job: the path of a job, or its text, which names files of the current folder; None: the executable runs the model once.
    output: the file to write.
    options: options of ashlarc, as in mesh="dp=4", memory="24GB", report="r.json", debug_info=True.
    """
    _compile([], model, job, [*_arguments(options), "-o", output])
    return str(output)


def plan(model, job, **options):
    """Returns the rows of ashlarc plan as dicts (docs/plan.md, "JSON"), the best mesh first.

    options: options of ashlarc plan, as in mesh=["dp=4", "dp=2,tp=2"], sweep=True, memory="24GB".
    """
    return json.loads(_compile(["plan"], model, job, [*_arguments(options), "--json", "-"]))["meshes"]


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


def run(executable, ranks=1, launcher=("mpirun",), **options):
    """Runs an executable and returns its Result.

    ranks: more than one are started by `launcher`, followed by -n RANKS.
    Result.metrics has the lines of the file that metrics="m.jsonl" names, by default of a temporary one.
    options: options of the executable, as in data="mnist", epochs=5, eval=True, checkpoint_dir="ckpt".
    """
    if not isinstance(ranks, Integral) or ranks < 1:
        raise Error(f"ranks is {ranks!r}; give a whole number from 1 on")
    program = str(Path(executable).absolute())
    command = [*launcher, "-n", ranks, program] if ranks > 1 else [program]
    with tempfile.TemporaryDirectory() as folder:
        given = {name for name, value in options.items() if value is not None and value is not False}
        only_exports = {"resume", "export"} <= given and not {"steps", "epochs"} & given
        if options.get("metrics") is None and not only_exports and "--metrics" in _call([program, "--help"]):
            options["metrics"] = Path(folder) / "metrics.jsonl"
        output = _call([*command, *_arguments(options)])
        metrics = Path(options.get("metrics") or folder)
        lines = metrics.read_text().splitlines() if metrics.is_file() else []
    return Result(output, [json.loads(line) for line in lines])
