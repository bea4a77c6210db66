# SPDX-License-Identifier: Apache-2.0
"""Batch normalization against PyTorch: losses, parameters, running statistics and evaluation of the net of batch_norm_net.py, whose numbers in
f64 test/bench/batch_norm_torch.py recorded."""

import json
import os
import struct

import batch_norm_net as net
from bench import expect, graph_input, graph_output, node, parameter
from onnx_writer import INT64, constant
from registry import case

# Of the largest number of a tensor. The input's mean is 1000 standard deviations: PyTorch in f32 is 1.3e-5 from f64.
TOLERANCE = 1e-6

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "batch_norm_numbers.json"), encoding="utf-8") as file:
    RECORDED = json.load(file)


def write_model(bench, options):
    trains = {"training_mode": 1} if options.get("population") else {}

    def norm(name, x, y):
        parts = [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        outputs = [y, f"{name}.mean_out", f"{name}.var_out"] if trains else [y]
        return node("BatchNormalization", [x, *parts], outputs, epsilon=net.EPSILON[name], momentum=1 - net.MOVES[name], **trains)

    width = net.HIDDEN // net.CHANNELS
    bench.model(
        constant("channels", INT64, struct.pack("<3q", -1, net.CHANNELS, width), [3]), norm("bn0", "x", "x0"), node("Gemm", ["x0", "fc1.weight", "fc1.bias"], ["h"], transB=1),
        node("Reshape", ["h", "channels"], ["h1"]), norm("bn1", "h1", "h2"), node("Tanh", ["h2"], ["h3"]), node("Flatten", ["h3"], ["h4"]),
        node("Gemm", ["h4", "fc2.weight", "fc2.bias"], ["logits"], transB=1),
        *[parameter(n, shape, net.FIRST[n]) for n, shape in net.SHAPES.items()],
        graph_input("x", ["batch", net.INPUTS]), graph_output("logits", ["batch", net.CLASSES]), opset=15, producer=options.get("producer", ""))


def train_here(bench, name, extra="", ranks=1, options=(), **model):
    """Trains the net as a case says, its model changed by `model`; returns all that is recorded of it that a run tells."""
    here = {**net.CASES[name], **model}
    write_model(bench, here)
    bench.npy("x_train", net.XS, (net.STEPS * net.BATCH, net.INPUTS))
    bench.npy("t_train", net.LABELS, kind="i4")
    bench.npy("x_eval", net.EVAL_XS, (net.EVAL, net.INPUTS))
    bench.npy("t_eval", net.EVAL_LABELS, kind="i4")
    job = f"""global_batch: {net.BATCH}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "t" }} }}
optimizer {{ momentum {{ momentum: {net.MOMENTUM} }} learning_rate: {net.LEARNING_RATE} }}
dataset {{ npy {{}} shuffle: false features {{ column: "x" tensor: "x" }} features {{ column: "t" tensor: "t" }} }}
{f'accumulate: {here["micro_batches"]}' if "micro_batches" in here else ""}
{f'frozen: "{here["frozen"]}.weight"' if "frozen" in here else ""}
{extra}
"""
    bench.compile(job, *options)
    log = bench.run("--data", ".", "--log-every", "1", "--eval", "--save-parameters", "parameters", ranks=ranks)
    return {"losses": log.losses, "evaluation": [log.evaluation], **{n: bench.read_npy(f"parameters/{n}") for n in net.SHAPES}}


def expect_recorded(name, found, what):
    for key, expected in RECORDED[name].items():
        expect(len(found[key]), len(expected), f"{what} {name}: count of {key}")
        allowed = TOLERANCE * max(abs(x) for x in expected) + (6e-5 if key == "evaluation" else 0)  # which is printed with 4 digits
        for i, (x, y) in enumerate(zip(found[key], expected)):
            expect(abs(x - y) <= allowed, True, f"{what} {name}: {key}[{i}] is {x}, PyTorch has {y}: within {allowed}")


DATA_PARALLEL = 'mode: DATA_PARALLEL mesh { axes { name: "dp" size: 4 } } '


@case()
def batch_norm_torch(bench):
    """One rank and four, the batch split and padded, and what is the same bits on any number of ranks."""
    expect(sorted(RECORDED), sorted(net.CASES), "recorded cases")
    for name in net.CASES:
        if name == "replicas":
            continue
        expect_recorded(name, train_here(bench, name), "one rank:")
        expect_recorded(name, train_here(bench, name, DATA_PARALLEL, ranks=4), "four ranks:")
    three = 'mode: DATA_PARALLEL mesh { axes { name: "dp" size: 3 } }'  # of which the last holds padding
    expect_recorded("module", train_here(bench, "module", three, ranks=3), "three ranks:")


@case()
def batch_norm_placement(bench):
    """Running statistics are moved once a micro-batch wherever the node is, and whatever of it is computed again or split."""
    two = 'mesh { axes { name: "dp" size: 2 } } '
    stages = "pipeline { stages: 2 micro_batches: 2 schedule: ONE_F_ONE_B }"  # whose micro-batches are those of accumulate
    split = 'mode: SEMI_AUTO ' + two + 'rules { match: "x" layout: "[{dp}, {}]" } '
    channels = 'mode: SEMI_AUTO mesh { axes { name: "tp" size: 2 } } rules { match: "fc1.weight" layout: "[{tp}, {}]" }'
    for what, extra, ranks, recorded in (
            ("stages", stages, 2, "accumulate"), ("split stages", "mode: DATA_PARALLEL " + two + stages, 4, "accumulate"),
            ("recompute", 'rules { match: "h*" recompute: true } rules { match: "x0" recompute: true }', 1, "module"),
            ("split parameters", split + "optimizer_parallel { level: 3 threshold_kb: 0 }", 2, "module"), ("split channels", channels, 2, "module")):
        expect_recorded(recorded, train_here(bench, "module", extra, ranks=ranks), what)


@case("batch_norm", "batch_norm=GLOBAL", "batch_norm=PER_REPLICA")
def batch_norm(bench):
    two = 'mode: DATA_PARALLEL mesh { axes { name: "dp" size: 2 } } '
    expect_recorded("replicas", train_here(bench, "replicas", two + "batch_norm: PER_REPLICA", ranks=2), "two replicas:")
    expect_recorded("module", train_here(bench, "module", two + "batch_norm: GLOBAL", ranks=2), "two ranks:")
    write_model(bench, {})
    job = """global_batch: 8 loss { softmax_cross_entropy { logits: "logits" labels: "t" } } optimizer { sgd {} learning_rate: 1 }
dataset { npy {} features { column: "x" tensor: "x" } features { column: "t" tensor: "t" } } batch_norm: PER_REPLICA """
    for extra, text in (("", "batch_norm PER_REPLICA is for mode DATA_PARALLEL, whose devices each hold samples of their own; this job has mode "
                             "STAND_ALONE"),
                        ('mesh { axes { name: "dp" size: 3 } }', "batch_norm PER_REPLICA needs as many samples on each of the 3 devices that split "
                                                                 "the batch, but global_batch is 8; choose a multiple of 3")):
        bench.refused(bench.compiler(job + extra, "-o", "program"), text)


@case("batch_norm_variance", "batch_norm_variance=TORCH", "batch_norm_variance=ONNX")
def batch_norm_variance(bench):
    """Nodes with and without training_mode, by torch and by others, and the job in their place: the variance's n / (n - 1) or not."""
    unbiased, population = "module", "training_mode"
    for what, extra, model, recorded in (
            ("inference form", "", {}, unbiased), ("training_mode", "", {"population": True}, population),
            ("training_mode of torch", "", {"population": True, "producer": "pytorch"}, unbiased),
            ("training_mode, TORCH", "batch_norm_variance: TORCH", {"population": True}, unbiased),
            ("training_mode of torch, ONNX", "batch_norm_variance: ONNX", {"population": True, "producer": "pytorch"}, population),
            ("inference form, ONNX", "batch_norm_variance: ONNX", {}, population)):
        expect_recorded(recorded, train_here(bench, "module", extra, **model), what)
    expect_recorded(unbiased, train_here(bench, "module", DATA_PARALLEL + "batch_norm_variance: TORCH", ranks=4, population=True), "four ranks:")
    bench.refused(bench.compiler("global_batch: 8 batch_norm_variance: ONNX", "-o", "program"),
                  "batch_norm_variance is about training but the job has no loss; leave it out")
