# SPDX-License-Identifier: Apache-2.0
"""Every pair of jobs that may resume from each other, by whole programs. resume_pairs.py TOOLS EMULATOR [--all]

A *way* is how a job splits model and step; a *training* is what it computes: optimizer, schedule, precision, dropout. One program a way and a
training. Each saves after two steps, and is resumed from there by others; the losses and parameters of the steps that follow are those of the
program of one device that was never interrupted.
"""

import itertools
import math
import os
import random
import shutil
import struct
import subprocess
import sys

from onnx_writer import BOOL, FLOAT, constant, floats, graph_input, graph_output, node, parameter, write_model

CUT, STEPS = 2, 4
WIDTH = 16
# Relative to 1 + |x|. Programs add up in other orders; AdamW and LAMB divide by roots of small numbers, so their rounding grows.
TOLERANCE = {"F32": 2e-4, "F16": 5e-3}

TOOLS, EMULATOR = sys.argv[1:3]

SPLIT_INPUT = 'mode: SEMI_AUTO mesh { axes { name: "dp" size: 2 } } rules { match: "input" layout: "[{dp}, {}]" }'
STAGES = "pipeline { stages: 2 micro_batches: %s }"

# Way -> ranks, lines of the job.
WAYS = {
    "plain": (1, ""),
    "accumulate": (1, "accumulate: 3"),
    "level_1": (2, SPLIT_INPUT + " optimizer_parallel { level: 1 threshold_kb: 0 }"),
    "level_2": (2, SPLIT_INPUT + " optimizer_parallel { level: 2 threshold_kb: 0 } accumulate: 3"),
    "level_3": (2, SPLIT_INPUT + " optimizer_parallel { level: 3 threshold_kb: 0 }"),
    "owners": (2, 'mode: DATA_PARALLEL mesh { axes { name: "dp" size: 2 } } optimizer_parallel {}'),
    "tensors": (2, 'mode: SEMI_AUTO mesh { axes { name: "tp" size: 2 } } rules { match: "fc1.weight" layout: "[{tp}, {}]" } '
                   'rules { match: "fc2.weight" layout: "[{}, {tp}]" }'),
    "gpipe": (2, STAGES % "3 schedule: GPIPE"),
    "one_f_one_b": (2, STAGES % "3"),
    "zero_bubble": (2, STAGES % "3 schedule: ZERO_BUBBLE"),
    "interleaved": (2, STAGES % "4 schedule: INTERLEAVED chunks: 2"),
    "auto": (2, "mode: AUTO mesh { devices: 2 }"),
    "cuda": (1, ""),
}

# The learning rate of all steps, or another one from the first step behind the cut on.
CONSTANT, DROPS = "", " schedule { piecewise { boundaries: %d values: 0.002 } }" % CUT

# Training -> optimizer, other lines of the job, rate of dropout. Those of one family resume from each other, in both directions. Of "draws"
# the parameters stay as they are, so that losses tell which numbers were drawn.
F16 = "precision: F16_MIXED loss_scale { initial: 1024 growth_steps: 3 }"
FAMILIES = {
    "adamw": {"adamw": ("adamw { weight_decay: 0.1 } learning_rate: 0.01", "", 0)},
    "sgd": {"sgd": ("sgd {} learning_rate: 0.05", "", 0), "sgd_drops": ("sgd {} learning_rate: 0.05" + DROPS, "", 0)},
    "momentum": {"momentum": ("momentum { momentum: 0.9 } learning_rate: 0.05", "", 0),
                 "momentum_drops": ("momentum { momentum: 0.9 } learning_rate: 0.05" + DROPS, "", 0)},
    "adam": {"adam": ("adam {} learning_rate: 0.01 clip_global_norm: 0.5", "", 0),
             "adam_drops": ("adam {} learning_rate: 0.01 clip_global_norm: 0.5" + DROPS, "", 0)},
    "lamb": {"lamb": ("lamb { weight_decay: 0.1 } learning_rate: 0.01", "", 0)},
    "draws": {"fixed": ("sgd {} learning_rate: 1e-30", "", 0), "draws": ("sgd {} learning_rate: 1e-30", "", 0.3)},
    "scaled": {"scaled": ("adamw {} learning_rate: 0.01", F16, 0), "scaled_drops": ("adamw {} learning_rate: 0.01" + DROPS, F16, 0)},
}

# What is run without --all: family -> ways of which every ordered pair is run, ways that are run in a ring, each with the next training of the
# family. "owners" is for optimizers with moments.
CHOICE = {
    "adamw": (list(WAYS), []),
    "sgd": ([], ["plain", "one_f_one_b", "accumulate", "level_3", "gpipe"]),
    "momentum": ([], ["one_f_one_b", "plain", "tensors", "cuda", "level_1"]),
    "adam": ([], ["plain", "interleaved", "level_2", "zero_bubble", "owners"]),
    "lamb": ([], ["plain", "owners", "one_f_one_b"]),
    "draws": ([], ["plain", "one_f_one_b", "cuda", "zero_bubble", "accumulate"]),
    "scaled": ([], ["plain", "one_f_one_b", "level_3", "cuda", "gpipe"]),
}


def fail(text):
    print("FAILED: " + text, file=sys.stderr)
    sys.exit(1)


def write_dense(path, rate):
    random.seed(3)
    sizes, nodes, last = [784, WIDTH, WIDTH, WIDTH, 10], [], "input"
    for layer, (inputs, outputs) in enumerate(zip(sizes, sizes[1:]), 1):
        name, out = "fc%d" % layer, "logits" if layer + 1 == len(sizes) else "h%d" % layer
        nodes += [node("Gemm", [last, name + ".weight", name + ".bias"], [out], name, transB=1),
                  parameter(name + ".weight", [outputs, inputs], [random.uniform(-1, 1) * 2 / math.sqrt(inputs) for _ in range(outputs * inputs)]),
                  parameter(name + ".bias", [outputs], [0] * outputs)]
        last = out
        if out != "logits":
            nodes.append(node("Relu", [out], ["r" + out], "relu%d" % layer))
            last = "r" + out
        if layer in (1, 2) and rate > 0:
            nodes.append(node("Dropout", [last, "ratio", "training"], ["d" + out], "dropout%d" % layer))
            last = "d" + out
    if rate > 0:
        nodes += [constant("ratio", FLOAT, floats([rate])), constant("training", BOOL, b"\1")]
        nodes = nodes[-2:] + nodes[:-2]
    write_model(path, "dense", nodes + [graph_input("input", ["batch", 784]), graph_output("logits", ["batch", 10])])


class Program:
    """A training in a way, compiled when it is asked for."""

    def __init__(self, way, training, optimizer, lines, rate):
        self.way, self.training, self.name = way, training, training + "." + way
        self.ranks, more = WAYS[way]
        model = "dropout.onnx" if rate > 0 else "dense.onnx"
        with open(self.name + ".txtpb", "w") as job:
            job.write("%s %s\nglobal_batch: 12 optimizer { %s }\n" % (more, lines, optimizer) +
                      'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }\n'
                      'dataset { digits { train_samples: 240 } '
                      'features { column: "image" tensor: "input" transforms { rescale { scale: 0.0039 } } } '
                      'features { column: "label" tensor: "labels" } }\n')
        self.tolerance = TOLERANCE["F16" if "F16" in lines else "F32"]
        target = ["--target", "cuda", "--gpu-arch", "sm_90"] if way == "cuda" else []
        subprocess.run([TOOLS + "/ashlarc", model, "--job", self.name + ".txtpb", "-o", self.name] + target, check=True)

    def command(self, *options):
        start = ["mpirun", "--bind-to", "none", "-n", str(self.ranks)] if self.ranks > 1 else []
        threads = ["--threads", "1"] if self.way != "cuda" else []
        return start + ["./" + self.name, "--log-every", "1"] + threads + list(options)

    def start(self, *options):
        environment = dict(os.environ)
        if self.way == "cuda":
            environment.update(LD_LIBRARY_PATH=EMULATOR, ASHLAR_EMULATOR_DEVICES="1")
        return subprocess.run(self.command(*options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, *options):
        done = self.start(*options)
        if done.returncode != 0:
            fail("%s %s: %s" % (self.name, " ".join(options), done.stderr))
        losses = [float(line.split(" is ")[1].split(",")[0]) for line in done.stdout.splitlines() if line.startswith("epoch: ")]
        if not all(math.isfinite(loss) for loss in losses):
            fail("%s %s: losses %s" % (self.name, " ".join(options), losses))
        return losses

    def save(self):
        shutil.rmtree("saved." + self.name, ignore_errors=True)
        self.run("--steps", str(CUT), "--checkpoint-dir", "saved." + self.name)
        return "saved.%s/ashlar-1_%d" % (self.name, CUT)


def read_parameters(folder):
    """Name -> numbers of the .npy files of f32 in a folder."""
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        begin = 10 + struct.unpack_from("<H", data, 8)[0]
        if b"'<f4'" not in data[:begin]:
            fail("%s/%s is not of f32" % (folder, name))
        found[name] = struct.unpack_from("<%df" % ((len(data) - begin) // 4), data, begin)
    if not found:
        fail(folder + " has no parameters")
    return found


def are_close(found, wanted, tolerance):
    return len(found) == len(wanted) and all(abs(a - b) <= tolerance * (1 + abs(b)) for a, b in zip(found, wanted))


class Bench:
    def __init__(self):
        self.programs, self.saved, self.references, self.pairs = {}, {}, {}, 0

    def program(self, family, training, way):
        key = (training, way)
        if key not in self.programs:
            self.programs[key] = Program(way, training, *FAMILIES[family][training])
        return self.programs[key]

    def checkpoint(self, program):
        if program.name not in self.saved:
            self.saved[program.name] = program.save()
        return self.saved[program.name]

    # What a training gives on one device when nothing interrupts it: losses behind the cut, and parameters.
    def reference(self, family, training):
        if training not in self.references:
            folder = "whole." + training
            shutil.rmtree(folder, ignore_errors=True)
            losses = self.program(family, training, "plain").run("--steps", str(STEPS), "--save-parameters", folder)
            self.references[training] = losses[CUT:], read_parameters(folder)
        return self.references[training]

    def check(self, family, writer, reader):
        shutil.rmtree("resumed", ignore_errors=True)
        what = "%s resumed by %s" % (writer.name, reader.name)
        losses = reader.run("--steps", str(STEPS), "--resume", self.checkpoint(writer), "--save-parameters", "resumed")
        wanted, parameters = self.reference(family, reader.training)
        if not are_close(losses, wanted, reader.tolerance):
            fail("%s: losses %s, not %s" % (what, losses, wanted))
        found = read_parameters("resumed")
        if sorted(found) != sorted(parameters):
            fail("%s: parameters %s, not %s" % (what, sorted(found), sorted(parameters)))
        for name, numbers in found.items():
            if not are_close(numbers, parameters[name], reader.tolerance):
                fail("%s: %s is another one, most by %g" % (what, name, max(abs(a - b) for a, b in zip(numbers, parameters[name]))))
        self.pairs += 1

    def refuse(self, writer, reader, text):
        done = reader.start("--steps", str(STEPS), "--resume", self.checkpoint(writer))
        if done.returncode == 0 or text not in done.stderr:
            fail("%s resumed by %s: status %d, and not \"%s\" but %s" % (writer.name, reader.name, done.returncode, text, done.stderr))


def fits(family, way):
    if way == "cuda" and not os.path.exists(EMULATOR + "/libcuda.so.1"):
        return False
    return way != "owners" or family in ("adamw", "lamb", "scaled")


def main():
    write_dense("dense.onnx", 0)
    write_dense("dropout.onnx", 0.3)
    bench = Bench()
    for family, trainings in FAMILIES.items():
        pairwise, ring = CHOICE[family] if "--all" not in sys.argv else ([], [])
        if "--all" in sys.argv:
            all_programs = [bench.program(family, training, way) for training in trainings for way in WAYS if fits(family, way)]
            pairs = list(itertools.product(all_programs, all_programs))
        else:
            own = [bench.program(family, next(iter(trainings)), way) for way in pairwise if fits(family, way)]
            pairs = list(itertools.permutations(own, 2))
            turns = itertools.cycle(trainings)
            ring = [bench.program(family, next(turns), way) for way in ring if fits(family, way)]
            ring += [bench.program(family, training, "plain") for training in trainings if ring]
            pairs += [(ring[i - 1], ring[i]) for i in range(len(ring))] + [(ring[i], ring[i - 1]) for i in range(len(ring))]
        for writer, reader in pairs:
            bench.check(family, writer, reader)
    # Another optimizer, or loss scale, is another state.
    stages = {training: bench.program(family, training, "one_f_one_b")
              for family, training in (("sgd", "sgd_drops"), ("momentum", "momentum"), ("adamw", "adamw"), ("scaled", "scaled_drops"))}
    text = "; its optimizer and loss scale have the state %s, the program's %s; "
    moments = "ashlar.updates, moment1, moment2"
    scale = "ashlar.good_steps, ashlar.loss_scale, "
    for one, other, in_one, in_other in (("sgd_drops", "momentum", "none", "momentum"), ("momentum", "adamw", "momentum", moments),
                                         ("adamw", "scaled_drops", moments, scale + moments)):
        bench.refuse(stages[one], stages[other], text % (in_one, in_other))
        bench.refuse(stages[other], stages[one], text % (in_other, in_one))
    print("%d programs, %d pairs" % (len(bench.programs), bench.pairs))


main()
