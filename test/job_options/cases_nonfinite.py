# SPDX-License-Identifier: Apache-2.0
"""A loss, or a norm of the gradients, that is not finite: what the run does about it."""

import glob
import math
import os
import re
from fractions import Fraction

from bench import expect, expect_near, graph_input, graph_output, node, parameter, product_job, product_model
from cases_optimizer import expected_weights
from registry import case

NAN, INF = math.nan, math.inf
# on_nonfinite: STOP has a status of its own, so that nobody starts such a run again.
STOPPED = 3


class Run:
    """What a run printed, with losses that need not be finite."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.losses = [float(loss) for loss in re.findall(r"^epoch: \d+ step: \d+, loss is ([^,]*)", out, re.M)]


def run(bench, job, *options, ranks=1, compile_options=(), environment=None, log_every=1):
    """Compiles and runs on the .npy files of the bench, with a log line a step."""
    bench.compile(job, *compile_options)
    command = ["./program", "--data", ".", "--log-every", str(log_every), *options]
    return Run(*bench.call(["mpirun", "--quiet", "-n", str(ranks), *command] if ranks > 1 else command, environment))


def samples(bench, xs, split="train", each=1):
    """Writes steps of one number, in `each` samples."""
    bench.npy(f"x_{split}", [x for x in xs for _ in range(each)], (len(xs) * each, 1))


def expect_stop(found, step, what, text):
    """Fails unless a run ended behind a step, with one line."""
    expect((found.status, len(found.err.splitlines())), (STOPPED, 1), f"{what}: status and lines of: {found.err}")
    if not found.err.startswith("error: ") or text not in found.err or "on_nonfinite: SKIP" not in found.err:
        raise AssertionError(f"{what}: \"{text}\" is not in: {found.err}")
    if step is not None:
        expect(len(found.losses), step, f"{what}: steps that were logged")


def checkpoints(bench, folder):
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(bench.path(folder), "ashlar-*")))


# Where an axis is split, the second rank of two holds padding only.
PLACES = (("alone", "", 1, 1, ()), ("two ranks", "", 1, 2, ("--mesh", "dp=2")),
          ("stages", "pipeline { stages: 2 micro_batches: 2 }", 2, 2, ()))


@case("on_nonfinite", "on_nonfinite=STOP")
def stop(bench):
    saving = ("--checkpoint-dir", "saved", "--save-every", "1", "--save-parameters", "parameters", "--export", "trained.onnx")
    for name, extra, batch, ranks, options in PLACES:
        two_products(bench)
        for bad in (NAN, INF, -INF):
            samples(bench, [1, 2, bad, 4, 2], each=batch)
            for job in (product_job(extra, batch=batch), product_job(extra, "on_nonfinite: STOP", batch=batch)):
                found = run(bench, job, ranks=ranks, compile_options=options)
                expect_stop(found, 3 if ranks == 1 or not extra else None, f"{name}, {bad}", "the loss of step 3 (epoch: 1 step: 3) is ")
        found = run(bench, product_job(extra, batch=batch), *saving, ranks=ranks, compile_options=options)
        expect_stop(found, None, f"{name}, saving", "the loss of step 3 ")
        expect(checkpoints(bench, "saved"), ["ashlar-1_1", "ashlar-1_2"], f"{name}: checkpoints")
        expect((os.listdir(bench.path("parameters")), os.path.exists(bench.path("trained.onnx"))), ([], False), f"{name}: files")
        resumed = run(bench, product_job(extra, batch=batch), "--checkpoint-dir", "saved", "--resume", "latest", ranks=ranks,
                      compile_options=options)
        expect_stop(resumed, None, f"{name}, resumed", "the loss of step 3 ")
        bench.ok(["rm", "-r", "saved", "parameters"])
    # The rank whose data are to blame.
    product_model(bench)
    samples(bench, [1, 2, 3, 1, 1, NAN])
    found = run(bench, product_job(batch=2), ranks=2, compile_options=("--mesh", "dp=2"))
    expect_stop(found, 3, "blame", 'rank 1: the loss of step 3 (epoch: 1 step: 3) is nan')
    if 'element 0 of its input "x" is infinite or nan' not in found.err:
        raise AssertionError(f"no input is named: {found.err}")
    # A micro-batch of several.
    found = run(bench, product_job("accumulate: 3", batch=3))
    expect_stop(found, 2, "accumulate", "the loss of step 2 ")


def two_products(bench):
    """The loss is the mean of x * w * v, with a product a stage."""
    bench.model(
        node("Mul", ["x", "w"], ["xw"]), node("Mul", ["xw", "v"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [1], [1.0]), parameter("v", [1], [1.0]), graph_input("x", ["batch", 1]), graph_output("loss", []))


def root_model(bench):
    """The loss is the mean of sqrt(x * w): where x is 0 it is 0, and its gradient 0 * inf."""
    bench.model(
        node("Mul", ["x", "w"], ["xw"]), node("Sqrt", ["xw"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [1], [1.0]), graph_input("x", ["batch", 1]), graph_output("loss", []))


@case()
def stop_at_gradients(bench):
    # The loss of the step is finite, the weight behind it is not: the next step finds it, and nothing is saved before.
    root_model(bench)
    samples(bench, [1, 0, 1])
    found = run(bench, product_job(), "--checkpoint-dir", "saved", "--save-every", "1", "--sync-checkpoint")
    expect_stop(found, 2, "a checkpoint", 'parameter "w" holds nan')
    expect(checkpoints(bench, "saved"), ["ashlar-1_1"], "checkpoints")
    expect_stop(run(bench, product_job()), 3, "the next step", "the loss of step 3 ")
    for option in (("--save-parameters", "parameters"), ("--export", "trained.onnx")):
        found = run(bench, product_job(), "--steps", "2", *option)
        expect_stop(found, 2, "behind the last step", 'parameter "w" holds nan')
        expect((os.path.exists(bench.path("parameters/w.npy")), os.path.exists(bench.path("trained.onnx"))), (False, False), "files")
    # The squares of a gradient are more than f32 holds. Its norm is looked at where gradients are clipped.
    product_model(bench)
    samples(bench, [1, 2.0**100, 1])
    clipped = product_job(optimizer="sgd {} learning_rate: 0.125 clip_global_norm: 1")
    expect_stop(run(bench, clipped), 2, "clipped", "the norm of the gradients of step 2 (epoch: 1 step: 2) is infinite or nan")
    expect_stop(run(bench, clipped, ranks=2, compile_options=("--mesh", "dp=2")), 2, "clipped", "the norm of the gradients of step 2 ")
    two_products(bench)
    samples(bench, [1, 2.0**100, 1], each=2)
    stages = clipped.replace("global_batch: 1", "global_batch: 2") + "pipeline { stages: 2 micro_batches: 2 }\n"
    expect_stop(run(bench, stages, ranks=2), None, "clipped in stages", "the norm of the gradients of step 2 ")
    # Of a loss scale such gradients are the daily work.
    product_model(bench)
    samples(bench, [1] * 4)
    found = run(bench, clipped + "precision: F16_MIXED loss_scale { initial: 262144 }\n")
    expect((found.status, len(found.losses)), (0, 4), f"a loss scale: {found.err}")
    if "3 updates left out so far" not in found.out:
        raise AssertionError(f"updates that a loss scale left out are not told: {found.out}")
    expect("-nan" in found.out, False, f"a sign of nan in {found.out}")


@case("on_nonfinite=SKIP")
def skip(bench):
    for optimizer, settings in (("sgd {} learning_rate: 0.125", {}), ("momentum { momentum: 0.5 } learning_rate: 0.125", {"momentum": 0.5})):
        for name, extra, batch, ranks, options in PLACES:
            two_products(bench)
            samples(bench, [1, NAN, 1], each=batch)
            job = product_job(extra, "on_nonfinite: SKIP", batch=batch, optimizer=optimizer)
            found = run(bench, job, ranks=ranks, compile_options=options)
            samples(bench, [1, 1], each=batch)
            plain = run(bench, product_job(extra, batch=batch, optimizer=optimizer), ranks=ranks, compile_options=options)
            expect((found.status, plain.status), (0, 0), f"{name}: status: {found.err}")
            expect([found.losses[0], found.losses[2]], plain.losses, f"{name}: losses")
            expect(len(re.findall(r"^1 update left out so far: ", found.out, re.M)), 1, f"{name}: told in {found.out}")
        product_model(bench)
        xs = [1, 2, INF, -1, NAN, 4, 2]
        samples(bench, xs)
        found = run(bench, product_job("on_nonfinite: SKIP", optimizer=optimizer))
        good = [x for x in xs if math.isfinite(x)]
        weights = [Fraction(loss) / Fraction(x) for loss, x in zip(found.losses, xs) if math.isfinite(x)]
        expect(weights, expected_weights(0.125, xs=good, **settings), "weights")
        expect("2 updates left out so far" in found.out, True, "told")
    # The loss is infinite, and no gradient is: 2^127 twice is more than f32 holds, the half of each is not.
    product_model(bench)
    samples(bench, [1, 1, 2.0**127, 2.0**127, 1, 1])
    for action, weight in (("SKIP", 1), ("CONTINUE", -1)):
        job = product_job(f"on_nonfinite: {action}", batch=2, optimizer=f"sgd {{}} learning_rate: {2.0**-126}")
        found = run(bench, job)
        expect((found.losses[1], found.losses[2]), (INF, weight), f"{action}: losses")
    # A gradient that is not finite where the loss is, and a norm where they are.
    root_model(bench)
    samples(bench, [1, 0, 1])
    plain = run(bench, product_job("on_nonfinite: SKIP"))
    samples(bench, [1, 1])
    expect(plain.losses[2], run(bench, product_job()).losses[1], "behind a bad gradient")
    product_model(bench)
    samples(bench, [1, 2.0**100, 1])
    found = run(bench, product_job("on_nonfinite: SKIP", optimizer="momentum { momentum: 0.5 } learning_rate: 0.125 clip_global_norm: 1"))
    expect_near(found.losses[2], 0.875, 1e-6, "behind a bad norm: with momentum an update by 0 moves the weight")
    expect(re.findall(r", gradient norm ([^;]*);", found.out), ["1", "inf", "1"], "the norm of a step that is left out")
    # One bad micro-batch leaves out the step.
    product_model(bench)
    samples(bench, [1, 1, 1, NAN, 1, 1])
    found = run(bench, product_job("accumulate: 2 on_nonfinite: SKIP", batch=2))
    expect((found.losses[0], found.losses[2]), (1, 0.875), "accumulate")
    # f16: the scale has its own steps to leave out; a loss that is NaN is one of them.
    samples(bench, [1, NAN, 1])
    found = run(bench, product_job("on_nonfinite: SKIP precision: F16_MIXED loss_scale { initial: 1024 }"))
    expect((found.losses[0], found.losses[2]), (1, 0.875), "with a loss scale")


@case("on_nonfinite=CONTINUE")
def go_on(bench):
    product_model(bench)
    samples(bench, [1, NAN, 1])
    found = run(bench, product_job("on_nonfinite: CONTINUE"), "--checkpoint-dir", "saved", "--save-every", "1", "--save-parameters", "parameters")
    expect((found.status, found.losses[0], [math.isnan(loss) for loss in found.losses[1:]]), (0, 1, [True, True]), "losses")
    expect(len(checkpoints(bench, "saved")), 3, "checkpoints")
    samples(bench, [1, NAN], "eval")
    samples(bench, [1, 1])
    for action, status in (("STOP", STOPPED), ("SKIP", 0), ("CONTINUE", 0)):
        job = product_job(f"on_nonfinite: {action}")
        found = run(bench, job, "--eval", "--save-parameters", "parameters")
        expect((found.status, "eval: loss is nan" in found.out), (status, True), f"evaluation with {action}: {found.err}")
        expect(os.path.exists(bench.path("parameters/w.npy")), True, "the parameters are finite")
    bench.refused(bench.compiler("on_nonfinite: SKIP\n", "-o", "refused"), "on_nonfinite is about training but the job has no loss; leave it out")


@case()
def nonfinite_on_cuda(bench):
    environment = bench.emulator()
    if environment is None:
        return
    product_model(bench)
    samples(bench, [1, 2, NAN, 4, 2])
    cuda = ("--target", "cuda")
    found = run(bench, product_job(), "--checkpoint-dir", "saved", "--save-every", "1", compile_options=cuda, environment=environment)
    expect_stop(found, 3, "cuda", "the loss of step 3 ")
    expect(checkpoints(bench, "saved"), ["ashlar-1_1", "ashlar-1_2"], "cuda: checkpoints")
    # Nothing is due: the loss is looked at while the next step runs.
    found = run(bench, product_job(), compile_options=cuda, environment=environment, log_every=0)
    expect_stop(found, 0, "cuda", "the loss of step 3 ")
    found = run(bench, product_job(), "--steps", "3", compile_options=cuda, environment=environment, log_every=0)
    expect_stop(found, 0, "cuda, in the last step", "the loss of step 3 ")
    found = run(bench, product_job("on_nonfinite: SKIP"), compile_options=cuda, environment=environment)
    weights = [Fraction(loss) / Fraction(x) for loss, x in zip(found.losses, [1, 2, NAN, 4, 2]) if x == x]
    expect(weights, expected_weights(0.125, xs=[1, 2, 4, 2]), "cuda: weights")
