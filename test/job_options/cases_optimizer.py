# SPDX-License-Identifier: Apache-2.0
"""Optimizer and loss scale: the weight of each step, exactly."""

import re
from fractions import Fraction

from bench import expect, expect_near, graph_input, graph_output, node, parameter, product_job, product_model
from registry import case

XS = [1, 2, -1, 4, 2]


def weights_of(bench, optimizer, xs=None, weight=1.0):
    """Returns the weight ahead of each step: loss / x."""
    xs = xs or XS
    bench.npy("x_train", xs, (len(xs), 1))
    product_model(bench, weight)
    log = bench.train(product_job(optimizer=optimizer))
    expect(len(log.losses), len(xs), "steps")
    return [Fraction(loss) / Fraction(x) for loss, x in zip(log.losses, xs)]


def expected_weights(rate, decay=0, momentum=0, nesterov=False, xs=None, weight=1):
    """The formulas of docs/semantics.md, in exact arithmetic."""
    w, v, weights = Fraction(weight), Fraction(0), []
    rate, decay, momentum = Fraction(rate), Fraction(decay), Fraction(momentum)
    for x in xs or XS:
        weights.append(w)
        g = x + decay * w
        v = momentum * v + g
        w -= rate * (g + momentum * v if nesterov else v)
    return weights


@case("optimizer.learning_rate", "optimizer.sgd.weight_decay")
def sgd(bench):
    expect(weights_of(bench, "sgd {} learning_rate: 0.0859375"), expected_weights(0.0859375), "sgd")
    expect(weights_of(bench, "sgd { weight_decay: 0.5 } learning_rate: 0.125"), expected_weights(0.125, decay=0.5), "with decay")
    expect(weights_of(bench, "sgd { weight_decay: 1 } learning_rate: 1"), expected_weights(1, decay=1), "factors of 1")


@case("optimizer.schedule.step.gamma", "optimizer.clip_global_norm")
def logged(bench):
    # The gradient is x, so its norm before clipping is |x|; the learning rate halves after each two steps. By the step, and by its two micro-batches.
    xs = [1, 2, -4, 8, 0.5]
    for extra, batch in (("", 1), ("accumulate: 2", 2)):
        bench.npy("x_train", [x for x in xs for _ in range(batch)], (len(xs) * batch, 1))
        product_model(bench)
        optimizer = "sgd {} learning_rate: 0.5 schedule { step { size: 2 gamma: 0.5 } } clip_global_norm: 1"
        log = bench.train(product_job(extra, optimizer=optimizer, batch=batch))
        found = re.findall(r"^epoch: .*, lr ([^,]*), gradient norm ([^;]*); ", log.text, re.M)
        expect([(float(rate), float(norm)) for rate, norm in found], [(0.5, 1), (0.5, 2), (0.25, 4), (0.25, 8), (0.125, 0.5)], f"log {extra}")
    log = bench.train(product_job(optimizer="sgd {} learning_rate: 0.125", batch=2))
    expect(re.findall(r", (lr [^;]*); ", log.text), ["lr 0.125"] * len(xs), "a constant rate, gradients as they are")


@case("optimizer.momentum.momentum", "optimizer.momentum.weight_decay", "optimizer.momentum.nesterov")
def momentum(bench):
    expect(weights_of(bench, "momentum { momentum: 0.5 } learning_rate: 0.125"), expected_weights(0.125, momentum=0.5), "momentum")
    expect(weights_of(bench, "momentum { momentum: 0 } learning_rate: 0.125"), expected_weights(0.125), "momentum 0")
    expect(weights_of(bench, "momentum { momentum: 0.5 nesterov: true } learning_rate: 0.125"),
           expected_weights(0.125, momentum=0.5, nesterov=True), "nesterov")
    expect(weights_of(bench, "momentum { momentum: 0.25 weight_decay: 0.5 } learning_rate: 0.125"),
           expected_weights(0.125, decay=0.5, momentum=0.25), "with decay")
    expect(weights_of(bench, "momentum { momentum: 0.25 weight_decay: 0.5 nesterov: true } learning_rate: 0.125"),
           expected_weights(0.125, decay=0.5, momentum=0.25, nesterov=True), "nesterov with decay")
    # The default of 0.9 is no dyadic number: the second update is 0.1 x 0.9 of the first beside its own.
    found = weights_of(bench, "momentum {} learning_rate: 0.0625", xs=[1, 1, 1])
    expect([float(w) for w in found[:2]], [1, 0.9375], "the default's first steps")
    expect(abs(float(found[2]) - (0.9375 - 0.0625 * 1.9)) < 1e-7, True, "the default of momentum is 0.9")


@case("rules.weight_decay")
def decay_by_rule(bench):
    rule = 'rules {{ match: "{}" weight_decay: {} }}'.format
    # The loss is the mean of x w + x v, of both weights the gradient is x: the losses tell the sum of the weights.
    bench.model(
        node("Mul", ["x", "w"], ["xw"]), node("Mul", ["x", "v"], ["xv"]), node("Add", ["xw", "xv"], ["y"]),
        node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("w", [1], [1.0]), parameter("v", [1], [2.0]),
        graph_input("x", ["batch", 1]), graph_output("loss", []))
    bench.npy("x_train", XS, (len(XS), 1))

    def sums(optimizer, *rules, ranks=1, compile_options=()):
        log = bench.train(product_job(*rules, optimizer=optimizer), ranks=ranks, compile_options=compile_options)
        return [Fraction(loss) / x for loss, x in zip(log.losses, XS)]

    def expected(decay_w, decay_v, **options):
        pairs = zip(expected_weights(0.125, decay=decay_w, **options), expected_weights(0.125, decay=decay_v, weight=2, **options))
        return [w + v for w, v in pairs]

    sgd_rate = "sgd {{ weight_decay: {} }} learning_rate: 0.125".format
    expect(sums(sgd_rate(0.5), rule("v", 0)), expected(0.5, 0), "excluded")
    expect(sums(sgd_rate(0), rule("?", 1)), expected(1, 1), "given to all")
    expect(sums(sgd_rate(0.25), rule("v", 0.5), rule("w", 0)), expected(0, 0.5), "two parameters")
    expect(sums("momentum { momentum: 0.5 weight_decay: 0.25 } learning_rate: 0.125", rule("w", 0)),
           expected(0, 0.25, momentum=0.5), "momentum")
    # The lower priority holds, wherever it stands.
    first, second = rule("*", 1), 'rules { match: "v" weight_decay: 0 priority: 1 }'
    expect(sums(sgd_rate(0.5), first, second), expected(1, 1), "priority 0 of all before 1 of one")
    first, second = 'rules { match: "*" weight_decay: 1 priority: 2 }', 'rules { match: "v" weight_decay: 0 priority: 1 }'
    expect(sums(sgd_rate(0.5), first, second), expected(1, 0), "priority 1 of one before 2 of all")
    # Every mode takes it. With one sample a step the second rank holds padding only, so the numbers are the same.
    expect(sums(sgd_rate(0.5), rule("v", 0), ranks=2, compile_options=("--mesh", "dp=2")), expected(0.5, 0), "data parallel")
    job = product_job(rule("v", 0), optimizer=sgd_rate(0.5))
    for text, message in (
            (job + rule("v", 0.5), 'rule "v": gives parameter "v" the weight_decay 0.5 but rule "v" (job.txtpb:5) gives it 0; '
                                   "make them agree, or let the priority of one be lower"),
            (job + rule("u", 0), 'rule "u": matches no parameter that is trained; nearest names: '),
            (job + 'frozen: "v"', 'job.txtpb:5: rule "v": matches no parameter that is trained; nearest names: "w"')):
        bench.refused(bench.compiler(text, "-o", "refused"), message)


@case()
def lamb_from_zero(bench):
    # The norm of the weight is 0: the first step is the learning rate as it is. The second direction is the first one, and so is its norm.
    found = [float(w) for w in weights_of(bench, "lamb {} learning_rate: 0.5", xs=[1, 1, 1], weight=0.0)]
    expect(found[0], 0, "the first weight")
    expect_near(found[1:], [-0.5, -0.75], 2e-6, "with the trust ratio 1, then |w|")


def expected_scaled(initial, growth_steps, factor, xs):
    """The weights with learning rate 1/8: a step whose scaled gradient is above 65504, the largest f16, is left out (docs/numbers.md)."""
    w, scale, good, weights = Fraction(1), Fraction(initial), 0, []
    for x in xs:
        weights.append(w)
        if scale * x >= 65536:
            scale, good = scale / factor, 0
            continue
        w -= Fraction(x, 8)
        good += 1
        if good == growth_steps:
            scale, good = scale * factor, 0
    return weights


@case("loss_scale.initial", "loss_scale.growth_steps", "loss_scale.factor")
def loss_scale(bench):
    ones = [1] * 24
    for initial, growth_steps, factor, xs in (
            (2**14, 2, 4, ones), (2**15, 3, 2, ones), (2**18, 5, 2, ones), (2**18, 1, 8, ones), (2**20, 4, 4, ones),
            # Overflows within a row of good steps: those ahead of one do not count any more.
            (2**10, 3, 2, [1, 1, 64, 1, 64, 64, 64, 1, 1, 64, 64, 1, 64, 64, 1, 64, 64])):
        bench.npy("x_train", xs, (len(xs), 1))
        product_model(bench)
        scale = f"loss_scale {{ initial: {initial} growth_steps: {growth_steps} factor: {factor} }}"
        log = bench.train(product_job("precision: F16_MIXED", scale))
        expected = expected_scaled(initial, growth_steps, factor, xs)
        expect([Fraction(loss) / x for loss, x in zip(log.losses, xs)], expected, scale)
    # The defaults: 65536 is too large by one halving, and 2000 good steps do not come.
    bench.npy("x_train", ones, (len(ones), 1))
    log = bench.train(product_job("precision: F16_MIXED"))
    expect([Fraction(loss) for loss in log.losses], expected_scaled(65536, 2000, 2, ones), "the defaults")
