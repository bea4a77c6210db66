# SPDX-License-Identifier: Apache-2.0
"""What tests and benches of several hosts run: jobs of the zoo's MLP, compiled once each, and runs of them whose log is read while they go on."""

import json
import math
import pathlib
import re
import subprocess
import time

DATASET = '''dataset { digits { train_samples: 2048 eval_samples: 256 } features { column: "image" tensor: "input" transforms { rescale { scale: 0.00392156862745098 } } }
  features { column: "label" tensor: "labels" } }'''
BASE = f'''global_batch: 256 loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }} optimizer {{ momentum {{ momentum: 0.9 }} learning_rate: 0.02 }}
{DATASET} epochs: 100000 log_every: 1'''
ROWS = 'rules { match: "input" layout: "[{dp}, {}]" }'
PAIR = 'rules { match: "fc1.weight" layout: "[{tp}, {}]" } rules { match: "fc2.weight" layout: "[{}, {tp}]" }'  # columns, then rows


def mesh(**axes):
    return "mesh { " + " ".join(f'axes {{ name: "{name}" size: {size} }}' for name, size in axes.items()) + " }"


def data_parallel(ranks, level=0):
    """The job of replicas, whose optimizer works at a level of ZeRO."""
    return f"mode: SEMI_AUTO {mesh(dp=ranks)} {ROWS}" + (f" optimizer_parallel {{ level: {level} }}" if level else "")


def pipeline(stages, replicas):
    return f"mode: SEMI_AUTO {mesh(dp=replicas)} {ROWS} pipeline {{ stages: {stages} micro_batches: 8 schedule: ONE_F_ONE_B }}"


def tensor_parallel(replicas, parts):
    """Each layer in parts, on neighbouring ranks, and replicas of all."""
    return f"mode: SEMI_AUTO {mesh(dp=replicas, tp=parts)} {ROWS} {PAIR}"


class Programs:
    """Compiles jobs of one model into a folder."""

    def __init__(self, tools, folder, *shape):
        self.tools, self.folder = pathlib.Path(tools).resolve(), pathlib.Path(folder)
        self._run(self.tools / "ashlar-zoo", "mlp", *shape, "-o", "model.onnx")

    def _run(self, *command):
        done = subprocess.run([str(part) for part in command], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def compile(self, name, job, others=""):
        """Compiles a job, with other lines, under a name; returns the path of the program."""
        program = self.folder / name
        if not program.exists():
            program.with_suffix(".txtpb").write_text(f"{job}\n{BASE}\n{others}\n")
            self._run(self.tools / "ashlarc", "model.onnx", "--job", f"{name}.txtpb", "-o", name)
        return program

    def plan(self, program):
        return self._run(program, "--plan")


class Run:
    """A command that was started on a host of the lab: its log, and when it ends."""

    def __init__(self, lab, host, command, log, **environment):
        self.path, self.begin = pathlib.Path(log), time.monotonic()
        with open(log, "w") as file:
            self.process = lab.start(host, command, stdout=file, stderr=subprocess.STDOUT, env=environment)

    def log(self):
        return self.path.read_text(errors="replace")

    def lines(self, pattern):
        return [line for line in self.log().splitlines() if re.search(pattern, line)]

    def wait_for(self, pattern, seconds, count=1):
        """Waits until so many lines of the log match; fails after so many seconds, or when it ends before."""
        end = time.monotonic() + seconds
        while len(self.lines(pattern)) < count:
            if self.process.poll() is not None and len(self.lines(pattern)) < count:
                raise AssertionError(f"ends with {self.process.returncode} before {count} x \"{pattern}\":\n{self.log()[-2000:]}")
            if time.monotonic() > end:
                raise AssertionError(f"no {count} x \"{pattern}\" within {seconds} s:\n{self.log()[-2000:]}")
            time.sleep(0.05)

    def finish(self, seconds):
        """Waits for its end; returns the status. Fails, and kills it, when that takes longer."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still runs after {seconds} s:\n{self.log()[-2000:]}") from None


def losses(log):
    """The losses of a log, which must be finite."""
    found = [float(value) for value in re.findall(r"^epoch: .*, loss is ([^,]+)", log, re.M)]
    if not found or not all(map(math.isfinite, found)):
        raise AssertionError(f"no losses, or some are not finite: {found}:\n{log[-2000:]}")
    return found


def expect_close(expected, found, tolerance):
    """Fails unless two lists of finite losses are equally long, and agree within a relative tolerance."""
    if len(expected) != len(found):
        raise AssertionError(f"{len(found)} losses, not {len(expected)}")
    for number, (one, other) in enumerate(zip(expected, found), 1):
        if not abs(one - other) <= tolerance * abs(one):
            raise AssertionError(f"loss {number} is {other}, not {one}")


def step_milliseconds(metrics):
    """The milliseconds of each step but the first, of a file of --metrics with a line a step."""
    seconds = [json.loads(line)["seconds"] for line in metrics.read_text().splitlines() if line.endswith("}")]
    return [1e3 * (after - before) for before, after in zip(seconds, seconds[1:])]
