# SPDX-License-Identifier: Apache-2.0
"""What the cases of job options work with: models of a few nodes, .npy files, compilations and runs, and numbers computed here from the
formulas in docs/, never by Ashlar's own interpreter. All values are chosen so that f32 holds them exactly unless a case says otherwise."""

import json
import math
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from npy_writer import write_npy
from onnx_writer import graph_input, graph_output, node, parameter, write_model

TIMEOUT_S = 120


class Skip(Exception):
    """A case that this machine cannot run, with the reason."""


def expect(found, expected, what):
    """Fails unless two values are equal. A NaN is equal to nothing."""
    if not found == expected:
        raise AssertionError(f"{what}: found {found}, expected {expected}")


def expect_near(found, expected, tolerance, what):
    """Fails unless two numbers, or two lists of numbers of one length, differ by at most `tolerance`."""
    if isinstance(expected, (list, tuple)):
        expect(len(found), len(expected), f"{what}: count")
        for i, (x, y) in enumerate(zip(found, expected)):
            expect_near(x, y, tolerance, f"{what}, number {i}")
    elif not abs(found - expected) <= tolerance:
        raise AssertionError(f"{what}: found {found}, expected {expected} within {tolerance}")


def f32(value):
    """Returns a number rounded to f32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


MASK = 0xFFFFFFFF


def philox(seed, stream, counter, index):
    """Returns the four words of docs/numbers.md: Philox4x32-10 as in the paper, key the seed, counter (index, counter, stream)."""
    words, key = [index & MASK, index >> 32, counter, stream], [seed & MASK, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [b >> 32 ^ words[1] ^ key[0], b & MASK, a >> 32 ^ words[3] ^ key[1], a & MASK]
        key = [key[0] + 0x9E3779B9 & MASK, key[1] + 0xBB67AE85 & MASK]
    return words


def stream_of(name):
    """Returns the stream of a variable: the FNV-1a hash of its name."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & MASK
    return value


def shuffled(seed, run_pass, count):
    """Returns the order of a pass: Fisher-Yates from the end, draw i from Philox index i of the stream "shuf"."""
    order = list(range(count))
    for i in range(count, 1, -1):
        words = philox(seed, 0x73687566, run_pass, i)
        draw = (words[0] << 32 | words[1]) % i
        order[i - 1], order[draw] = order[draw], order[i - 1]
    return order


class Log:
    """The output of a run. Every loss is a finite number, or the run is refused."""

    def __init__(self, text):
        self.text = text
        lines = re.findall(r"^epoch: (\d+) step: (\d+), loss is ([^,]*)", text, re.M)
        self.places = [(int(epoch), int(step)) for epoch, step, _ in lines]
        self.losses = [f32(float(loss)) for _, _, loss in lines]  # printed with as many digits as tell f32 numbers apart
        if not all(math.isfinite(loss) for loss in self.losses):
            raise AssertionError(f"losses that are no finite numbers: {self.losses}")

    @property
    def evaluation(self):
        """The loss of --eval."""
        found = re.search(r"^eval: loss is ([-+.e0-9]+)(,|$)", self.text, re.M)
        if not found:
            raise AssertionError(f"no evaluation in: {self.text}")
        return float(found.group(1))

    @property
    def steps(self):
        """How many steps the run says it trained."""
        return int(re.search(r"^trained (\d+) steps", self.text, re.M).group(1))


class Bench:
    """A folder of its own with the tools; files are named without it."""

    def __init__(self, tools, folder):
        self.tools, self.folder = tools, folder
        os.makedirs(folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def emulator(self):
        """Returns the environment in which programs of the cuda target find the emulator; nothing where that target was left out."""
        folder = os.path.join(self.tools, "..", "emulator")
        present = os.path.exists(os.path.join(folder, "libcuda.so.1"))
        return {"LD_LIBRARY_PATH": folder, "ASHLAR_EMULATOR_DEVICES": "1"} if present else None

    def call(self, command, environment=None):
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TIMEOUT_S, env={**os.environ, **(environment or {})})
        return done.returncode, done.stdout, done.stderr

    def ok(self, command, environment=None):
        status, out, err = self.call(command, environment)
        if status != 0:
            raise AssertionError(f"{' '.join(command)} ends with {status}: {err}")
        return out

    def refused(self, command, text):
        """Fails unless a command fails and says `text`."""
        status, _, err = self.call(command)
        if status == 0 or text not in err:
            raise AssertionError(f"{' '.join(command)} ends with {status} and does not say \"{text}\": {err}")

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def model(self, *parts, name="model", **options):
        """Writes model.onnx from its parts (see onnx_writer)."""
        write_model(self.path(f"{name}.onnx"), name, parts, **options)

    def compiler(self, job, *options, model="model", name="job"):
        """Writes the job and returns the command that compiles the model with it."""
        self.write(f"{name}.txtpb", job)
        return [os.path.join(self.tools, "ashlarc"), f"{model}.onnx", "--job", f"{name}.txtpb", *options]

    def compile(self, job, *options, model="model", output="program"):
        self.ok(self.compiler(job, *options, "-o", output, model=model))

    def emit(self, stage, job, *options, model="model"):
        """Returns the text of a stage."""
        return self.ok(self.compiler(job, *options, "--emit", stage, "-o", "-", model=model))

    def report(self, job, *options, model="model"):
        """Returns what --report says of the layouts and the collectives."""
        self.ok(self.compiler(job, *options, "--report", "report.json", model=model))
        return json.loads(self.read("report.json"))

    def run(self, *options, ranks=1, program="program", environment=None):
        """Runs a program on a number of ranks; logs every step unless the options say otherwise."""
        command = [f"./{program}", *options]
        if ranks > 1:
            command = ["mpirun", "-n", str(ranks), *command]
        return Log(self.ok(command, environment))

    def train(self, job, *options, ranks=1, compile_options=()):
        """Compiles and runs with a log line a step, on the data in the bench's folder where the job reads files."""
        self.compile(job, *compile_options)
        data = ["--data", "."] if any(source in job for source in ("npy {", "idx {", "cifar10 {", "tokens {", "npz {", "csv {", "images {")) else []
        return self.run(*data, "--log-every", "1", *options, ranks=ranks)

    def npy(self, name, values, shape=None, kind="f4"):
        """Writes NAME.npy; kind is NumPy's (f4, f8, i4, i8, u1)."""
        letter = {"f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B"}[kind]
        write_npy(self.path(name + ".npy"), letter, shape or (len(values),), values)

    def read_npy(self, name):
        """Returns the f32 elements of NAME.npy."""
        with open(self.path(name + ".npy"), "rb") as file:
            data = file.read()
        offset = 10 + struct.unpack("<H", data[8:10])[0]
        if b"'<f4'" not in data[:offset]:
            raise AssertionError(f"{name}.npy does not hold f32: {data[:offset]}")
        return list(struct.unpack(f"<{(len(data) - offset) // 4}f", data[offset:]))


# A model whose loss is the mean of x * w over the batch: the loss of a step with one x tells the weight, and the gradient is x.
def product_model(bench, weight=1.0):
    bench.model(
        node("Mul", ["x", "w"], ["y"]),
        node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [1], [weight]),
        graph_input("x", ["batch", 1]),
        graph_output("loss", []))


# A job that trains product_model on x_train.npy, one sample a step, in order; pieces can be replaced.
def product_job(*extra, batch=1, optimizer="sgd {} learning_rate: 0.125", dataset="npy {} shuffle: false"):
    return "\n".join([
        f"global_batch: {batch}",
        'loss { model_output { tensor: "loss" } }',
        f"optimizer {{ {optimizer} }}",
        f'dataset {{ {dataset} features {{ column: "x" tensor: "x" }} }}',
        *extra, ""])


# An optimizer that leaves a weight of 1 as it is, in f32: losses then are the samples themselves.
STILL = "sgd {} learning_rate: 1e-30"
