# SPDX-License-Identifier: Apache-2.0
"""What a loss is of: which rows count, and all samples of a step, however many micro-batches it is computed in."""

import json
import math
import re

from bench import expect, expect_near, graph_input, graph_output, node, parameter
from cases_model import LOGITS, log_softmax, logits_model, loss_job, rows
from onnx_writer import INT64
from registry import case

RATE = 0.25


def accuracy_of(log):
    """The counts of the line of an evaluation: right rows, and rows."""
    right, count = re.search(r"accuracy is \S+ \((\d+) of (\d+)\)", log.text).groups()
    return int(right), int(count)


@case("loss.softmax_cross_entropy.ignore_index", "loss.negative_log_likelihood.ignore_index")
def ignore_index(bench):
    # The gradient of a row by w, of which the scores are w x.
    def of_entropy(row, label):
        return sum((math.exp(s) - (c == label)) * x for c, (s, x) in enumerate(zip(log_softmax(row), row)))

    def of_likelihood(row, label):
        return -row[label]

    for loss, names, each, slope in (("softmax_cross_entropy", 'logits: "second"', log_softmax, of_entropy),
                                     ("negative_log_likelihood", 'log_probabilities: "second"', list, of_likelihood)):
        # One that is a class, and one that is none; of the first two samples only the second counts, or none of them.
        for labels, ignored in (([2, 1, 0, 2], 2), ([-100, 1, 0, -100], -100), ([1, 1, 0, 2], 1)):
            logits_model(bench)
            for split in ("train", "eval"):
                bench.npy(f"labels_{split}", labels, kind="i8")
            loss_text = f'{loss} {{ {names} labels: "labels" ignore_index: {ignored} }}'
            counted = [(row, label) for row, label in zip(rows(1), labels) if label != ignored]
            expected = sum(-each(row)[label] for row, label in counted) / len(counted)
            w = 1 - RATE * sum(slope(row, label) for row, label in counted) / len(counted)
            second = sum(-each([w * x for x in row])[label] for row, label in counted) / len(counted)
            right = sum(row.index(max(row)) == label for row, label in counted)
            for extra, options, ranks in (("", (), 1), ("accumulate: 2", (), 1), ("accumulate: 4", (), 1), ("", ("--mesh", "dp=2"), 2),
                                          ("accumulate: 2", ("--mesh", "dp=2"), 2), ("pipeline { stages: 2 micro_batches: 2 }", (), 2),
                                          ("pipeline { stages: 2 micro_batches: 4 schedule: GPIPE }", (), 2)):
                job = loss_job(loss_text, ["x", "labels"], extra, optimizer=f"sgd {{}} learning_rate: {RATE}")
                bench.compile(job.replace("global_batch: 2", "global_batch: 4"), *options)
                what = f"{loss}, {labels}, {extra}, {ranks} ranks"
                log = bench.run("--data", ".", "--log-every", "1", "--steps", "0", "--eval", ranks=ranks)
                expect_near(log.evaluation, expected, 6e-5, f"evaluation of {what}")
                expect(accuracy_of(log), (right, len(counted)), f"accuracy of {what}")
                log = bench.run("--data", ".", "--log-every", "1", "--epochs", "2", ranks=ranks)
                expect_near(log.losses, [expected, second], 2e-5, what)
        bench.npy("labels_train", [2, 1, 3, 1], kind="i8")
        bench.compile(loss_job(f'{loss} {{ {names} labels: "labels" ignore_index: 5 }}', ["x", "labels"]))
        bench.refused(["./program", "--data", "."], 'label 3 of sample 2 in column "labels" of the train split is not one of the 3 classes 0 .. 2')


def coupled_model(bench):
    """A tensor "second" = w (x + the mean of x over the batch), and "loss", the mean of its squares."""
    bench.model(
        node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1), node("Add", ["x", "mean"], ["sum"]), node("Mul", ["sum", "w"], ["second"]),
        node("Mul", ["second", "second"], ["squares"]), node("ReduceMean", ["squares"], ["loss"], keepdims=0),
        parameter("w", [1], [1]), graph_input("x", ["batch", 3]), graph_output("second", ["batch", 3]), graph_output("loss", []), opset=17)
    bench.npy("x_train", LOGITS, (4, 3))
    bench.npy("labels_train", [2, 1, 0, 2], kind="i8")
    bench.npy("t_train", [0] * 12, (4, 3))


@case(*(f"loss.{kind}.micro_batches{value}" for kind in
        ("softmax_cross_entropy", "mean_squared_error", "negative_log_likelihood", "model_output") for value in ("", "=EXACT", "=MEAN")))
def micro_batches(bench):
    labels = [2, 1, 0, 2]
    parts = [rows(1)[:2], rows(1)[2:]]
    outputs = [[[x + (part[0][c] + part[1][c]) / 2 for c, x in enumerate(row)] for row in part] for part in parts]
    flat = [row for part in outputs for row in part]
    square = sum(x * x for row in flat for x in row) / 12
    entropy = sum(-log_softmax(row)[label] for row, label in zip(flat, labels)) / 4
    likelihood = sum(-row[label] for row, label in zip(flat, labels)) / 4
    for loss, columns, expected in (('softmax_cross_entropy {{ logits: "second" labels: "labels"{} }}', ["x", "labels"], entropy),
                                    ('mean_squared_error {{ prediction: "second" target: "t"{} }}', ["x", "t"], square),
                                    ('negative_log_likelihood {{ log_probabilities: "second" labels: "labels"{} }}', ["x", "labels"], likelihood),
                                    ('model_output {{ tensor: "loss"{} }}', ["x"], square)):
        coupled_model(bench)

        def job(choice, extra=""):
            return loss_job(loss.format(choice), columns, "accumulate: 2", extra).replace("global_batch: 2", "global_batch: 4")

        for choice in ("", " micro_batches: EXACT"):
            bench.refused(bench.compiler(job(choice), "-o", "program"),
                          "the loss of a step cannot be computed in 2 micro-batches: \"sum\" (nn.add) combines values of single samples with a "
                          "sum over all samples; leave out accumulate or pipeline, or take the mean of the micro-batches' losses: "
                          "micro_batches: MEAN in the job's loss")
        log = bench.train(job(" micro_batches: MEAN"))
        expect_near(log.losses, [expected], 2e-5, f"the mean of two losses, {loss}")
    # Where samples do not know of each other the loss is that of all of them: a sum, and a mean with weights.
    bench.npy("labels_train", [0, 0, 1, -1], kind="i8")
    for reduction, weights, divisor in (("sum", [1, 1, 1], 1), ("mean", [1, 1, 1], 3), ("mean", [0.5, 2, 1], 3), ("sum", [0.5, 2, 1], 1)):
        bench.model(
            node("Mul", ["x", "w"], ["scores"]),
            node("SoftmaxCrossEntropyLoss", ["scores", "labels", "weights"], ["loss"], ignore_index=-1, reduction=reduction),
            parameter("w", [1], [1]), parameter("weights", [3], weights), graph_input("x", ["batch", 3]),
            graph_input("labels", ["batch"], INT64), graph_output("loss", []))
        losses = [-log_softmax(row)[label] * weights[label] for row, label in zip(rows(1), [0, 0, 1])]
        expected = sum(losses) / (divisor if divisor == 1 else sum(weights[label] for label in [0, 0, 1]))
        for extra in ("", "accumulate: 2", "accumulate: 4"):
            log = bench.train(loss_job('model_output { tensor: "loss" }', ["x", "labels"], extra).replace("global_batch: 2", "global_batch: 4"))
            expect_near(log.losses, [expected], 2e-5, f"{reduction}, {weights}, {extra}")


@case()
def searched_micro_batches(bench):
    # A search for the mesh takes stages and micro-batches only where a step in micro-batches is the step on the whole batch.
    def plan(loss, columns, extra=""):
        job = loss_job(loss, columns, "mode: AUTO mesh { devices: 2 }", extra).replace("global_batch: 2", "global_batch: 4")
        command = bench.compiler(job, "--json", "plan.json")
        status, _, notes = bench.call([command[0], "plan", *command[1:]])
        expect(status, 0, f"plan of {loss}: {notes}")
        return {mesh.get("stages", 1) for mesh in json.loads(bench.read("plan.json"))["meshes"]}, notes

    bench.model(
        node("Mul", ["x", "w"], ["a"]), node("Mul", ["a", "v"], ["b"]), node("ReduceMean", ["b"], ["loss"], keepdims=0),
        parameter("w", [1], [1]), parameter("v", [1], [1]), graph_input("x", ["batch", 3]), graph_output("loss", []))
    expect(plan('model_output { tensor: "loss" }', ["x"]), ({1, 2}, ""), "a mean over samples")
    bench.model(
        node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["a"]), node("Mul", ["a", "v"], ["b"]),
        node("ReduceMean", ["b"], ["loss"], keepdims=0), parameter("v", [1], [1]), graph_input("x", ["batch", 3]), graph_output("loss", []),
        *(parameter(name, [3], [1, 1, 1]) for name in ("scale", "shift", "mean", "variance")))
    found, notes = plan('model_output { tensor: "loss" }', ["x"])
    expect(found, {1}, "batch normalization")
    expect('batch normalizations, which move "mean", take the statistics of a micro-batch; to have them, give the job a pipeline' in notes, True, notes)
    coupled_model(bench)
    for choice in ("", " micro_batches: MEAN"):  # which is for micro-batches of the job's own
        found, notes = plan(f'model_output {{ tensor: "loss"{choice} }}', ["x"])
        expect(found, {1}, "coupled samples")
        expect('left out of the search: model: the loss of a step cannot be computed in 2 micro-batches: "sum" (nn.add) combines' in notes, True, notes)
