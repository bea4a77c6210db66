# SPDX-License-Identifier: Apache-2.0
"""Trainings that benches predict and measure: models of the zoo, jobs for them, and what a step takes."""

import array
import json
import pathlib
import re
import resource

from measuring import run

DIGITS = 'dataset { digits { train_samples: SAMPLES eval_samples: 256 } features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }'
NPY = 'dataset { npy {} features { column: "x" tensor: "INPUT" } features { column: "y" tensor: "labels" } }'
LOSS = 'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }'
ADAMW, MOMENTUM, SGD = "optimizer { adamw {} learning_rate: 0.0001 }", "optimizer { momentum {} learning_rate: 0.0001 }", "optimizer { sgd {} learning_rate: 0.0001 }"


# A model: what ashlar-zoo makes it of, and its data as .npy: (name of the input, code of its type as module array has it, shape of a sample, shape of
# a sample's labels, number of classes); None: digits.
def mlp(layers, width):
    return ["mlp", "--layers", layers, "--width", width], None


def transformer(layers, width, heads, sequence, vocabulary):
    zoo = ["transformer", "--layers", layers, "--width", width, "--heads", heads, "--sequence", sequence, "--vocabulary", vocabulary]
    return zoo, ("tokens", "q", (sequence,), (sequence,), vocabulary)


def images(*zoo, side=32):
    return [*zoo, "--image", side], ("input", "f", (3, side, side), (), 10)


def rules(layouts):
    """A job's lines: layouts of tensors, by name."""
    return "mode: SEMI_AUTO\n" + "".join(f'rules {{ match: "{match}" layout: "{layout}" }}\n' for match, layout in layouts.items())


def write_npy(path, code, shape, values):
    """A .npy file of `values` repeated; code: as module array has it."""
    kind = {"f": "<f4", "q": "<i8"}[code]
    header = str({"descr": kind, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    count = 1
    for size in shape:
        count *= size
    data = array.array(code, (values * (count // len(values) + 1))[:count])
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data.tobytes())


class Trainings:
    """Makes, plans and runs trainings in a folder. `machine`: a file with the job's `machine { ... }`, or None for the defaults of the target."""

    def __init__(self, build, folder, machine=None):
        self.bin, self.folder = pathlib.Path(build).resolve() / "bin", folder
        self.models = {}
        self.machine = pathlib.Path(machine).read_text() if machine else ""

    def calibrate(self, ranks):
        """The `machine { ... }` that so many ranks measure."""
        path = self.folder / f"machine{ranks}.txtpb"
        run([self.bin / "ashlarc", "--calibrate", path, "--ranks", ranks], self.folder)
        return path.read_text()

    def model(self, zoo):
        """The path of a model."""
        key = tuple(map(str, zoo))
        if key not in self.models:
            self.models[key] = self.folder / f"model{len(self.models)}.onnx"
            run([self.bin / "ashlar-zoo", *zoo, "-o", self.models[key]], self.folder)
        return self.models[key]

    def job(self, name, batch, text, mesh, data):
        """Writes a job, and the data of four steps. mesh: "dp=2,tp=2"."""
        if data:
            tensor, code, sample, label, classes = data
            values = [number % classes for number in range(97)] if code == "q" else [number % 7 / 7 - 0.5 for number in range(97)]
            for column, kind, shape, numbers in (("x", code, sample, values), ("y", "q", label, [number % min(classes, 10) for number in range(97)])):
                write_npy(self.folder / f"{column}_train.npy", kind, (4 * batch, *shape), numbers)
            dataset = NPY.replace("INPUT", tensor)
        else:
            dataset = DIGITS.replace("SAMPLES", str(4 * batch))
        axes = " ".join('axes { name: "%s" size: %s }' % tuple(axis.split("=")) for axis in mesh.split(","))
        path = self.folder / f"{name}.txtpb"
        path.write_text("\n".join([f"mesh {{ {axes} }}", f"global_batch: {batch}", LOSS, text, dataset, "epochs: 1000000", self.machine]))
        return path

    def plan(self, model, job):
        """What ashlarc plan says of the job's mesh."""
        return json.loads(run([self.bin / "ashlarc", "plan", model, "--job", job, "--json", "-"], self.folder)[1])["meshes"][0]

    def compile(self, model, job, program):
        run([self.bin / "ashlarc", model, "--job", job, "-o", program], self.folder)

    def step_us(self, program, ranks, steps, data):
        """Microseconds of a step of one run, a thread a rank."""
        prefix = ["mpirun", "-n", ranks] if ranks > 1 else []
        arguments = ["--data", self.folder] if data else []
        out = run([*prefix, f"./{program}", "--steps", steps, "--threads", 1, *arguments], self.folder)[1]
        return float(re.search(r"\(([0-9.]+) us a step\)", out).group(1))

    def step_processor_us(self, program, steps, data):
        """Microseconds of a processor that a step of one rank takes, user and system: those of 3 n steps less those of n, by 2 n."""
        arguments = ["--data", self.folder] if data else []

        def used(count):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run([f"./{program}", "--steps", count, "--threads", 1, *arguments], self.folder)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return (used(3 * steps) - used(steps)) / (2 * steps) * 1e6
