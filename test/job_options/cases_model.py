# SPDX-License-Identifier: Apache-2.0
"""What is computed: losses, first values, frozen parameters, precision, on one device."""

import math
import os

from bench import STILL, Skip, expect, expect_near, f32, graph_input, graph_output, node, parameter, philox, product_job, product_model, stream_of
from onnx_writer import FLOAT, INT8, INT64, constant, floats
from registry import case


def loss_job(loss, columns, *extra, optimizer=STILL):
    """A job on .npy files in order; each column feeds the tensor of its name."""
    features = " ".join(f'features {{ column: "{column}" tensor: "{column}" }}' for column in columns)
    return "\n".join(["global_batch: 2", f"loss {{ {loss} }}", f"optimizer {{ {optimizer} }}",
                      f"dataset {{ npy {{}} shuffle: false {features} }}", *extra, ""])


LOGITS = [0.5, -1, 2, 3, 3, -4, 0, 0, 0, -2, 7, 1]  # four samples of three classes
LABELS = [2, 1, 0, 2]


def logits_model(bench, op="Identity", dims=("batch", 3)):
    """Tensors "first" = 3 x w and "second" = x w, or an op of each with these dims; the loss names one of them."""
    bench.model(
        node("Mul", ["x", "w"], ["b"]), node("Mul", ["b", "three"], ["a"]),
        node(op, ["a"], ["first"]), node(op, ["b"], ["second"]),
        parameter("w", [1], [1]), parameter("three", [1], [3]), graph_input("x", ["batch", 3]),
        graph_output("first", dims), graph_output("second", dims))
    bench.npy("x_train", LOGITS, (4, 3))
    bench.npy("x_eval", LOGITS, (4, 3))
    # Another column of labels, all 0, to be taken for neither.
    for split in ("train", "eval"):
        bench.npy(f"labels_{split}", LABELS, kind="i8")
        bench.npy(f"zeros_{split}", [0] * 4, kind="u1")


def log_softmax(row):
    total = math.log(sum(math.exp(x) for x in row))
    return [x - total for x in row]


def rows(scale):
    return [[scale * x for x in LOGITS[3 * i:3 * i + 3]] for i in range(4)]


def batches(values):
    """The means over batches of two."""
    return [(values[0] + values[1]) / 2, (values[2] + values[3]) / 2]


@case("loss.softmax_cross_entropy.logits", "loss.softmax_cross_entropy.labels")
def softmax_cross_entropy(bench):
    for logits, scale in (("first", 3), ("second", 1)):
        for labels, classes in (("labels", LABELS), ("zeros", [0] * 4)):
            logits_model(bench)
            log = bench.train(loss_job(f'softmax_cross_entropy {{ logits: "{logits}" labels: "{labels}" }}', ["x", labels]), "--eval")
            expected = [-log_softmax(row)[label] for row, label in zip(rows(scale), classes)]
            expect_near(log.losses, batches(expected), 1e-6 * 30, f"{logits}, {labels}")
            expect_near(log.evaluation, sum(expected) / 4, 6e-5, f"evaluation of {logits}, {labels}")
    # One step on the gradient: d loss / d w of w x is the mean of sum_c (softmax_c - [c is the label]) x_c.
    log = bench.train(loss_job('softmax_cross_entropy { logits: "second" labels: "labels" }', ["x", "labels"],
                               optimizer="sgd {} learning_rate: 0.5"))
    gradient = batches([sum((math.exp(s) - (c == label)) * x for c, (s, x) in enumerate(zip(log_softmax(row), row)))
                        for row, label in zip(rows(1), LABELS)])[0]
    w = 1 - 0.5 * gradient
    expect_near(log.losses[1], batches([-log_softmax([w * x for x in row])[label] for row, label in zip(rows(1), LABELS)])[1], 1e-5,
                "after one step")


@case("loss.negative_log_likelihood.log_probabilities", "loss.negative_log_likelihood.labels")
def negative_log_likelihood(bench):
    for tensor, scale in (("first", 3), ("second", 1)):
        for labels, classes in (("labels", LABELS), ("zeros", [0] * 4)):
            logits_model(bench)
            log = bench.train(loss_job(f'negative_log_likelihood {{ log_probabilities: "{tensor}" labels: "{labels}" }}', ["x", labels]),
                              "--eval")
            expected = [-row[label] for row, label in zip(rows(scale), classes)]
            expect(log.losses, batches(expected), f"{tensor}, {labels}")
            expect(log.evaluation, sum(expected) / 4, f"evaluation of {tensor}, {labels}")


@case("loss.mean_squared_error.prediction", "loss.mean_squared_error.target")
def mean_squared_error(bench):
    for prediction, scale in (("first", 3), ("second", 1)):
        for target in ("t", "u"):
            logits_model(bench)
            targets = {"t": [i % 5 for i in range(12)], "u": [-i for i in range(12)]}
            for name, values in targets.items():
                bench.npy(f"{name}_train", values, (4, 3))
            log = bench.train(loss_job(f'mean_squared_error {{ prediction: "{prediction}" target: "{target}" }}', ["x", target]))
            squares = [(scale * x - y)**2 for x, y in zip(LOGITS, targets[target])]
            expect_near(log.losses, [sum(squares[:6]) / 6, sum(squares[6:]) / 6], 1e-4, f"{prediction}, {target}")


@case("loss.model_output.tensor")
def model_output(bench):
    logits_model(bench, op="ReduceSum", dims=(1, 1))
    for tensor, scale in (("first", 3), ("second", 1)):
        # Without axes, ReduceSum keeps dims of 1; the sum is that of the batch.
        log = bench.train(loss_job(f'model_output {{ tensor: "{tensor}" }}', ["x"]))
        expect(log.losses, [scale * sum(LOGITS[:6]), scale * sum(LOGITS[6:])], tensor)
    # Labels that the model takes itself, the one that it leaves out, and one that is no class.
    for op, each in (("SoftmaxCrossEntropyLoss", log_softmax), ("NegativeLogLikelihoodLoss", list)):
        bench.model(
            node("Mul", ["x", "w"], ["scores"]), node(op, ["scores", "labels"], ["loss"], ignore_index=2),
            parameter("w", [1], [1]), graph_input("x", ["batch", 3]), graph_input("labels", ["batch"], INT64), graph_output("loss", []))
        bench.npy("labels_train", [2, 1, 0, 1], kind="i8")
        log = bench.train(loss_job('model_output { tensor: "loss" }', ["x", "labels"]))
        losses = [-each(row)[label] for row, label in zip(rows(1), [2, 1, 0, 1])]
        expect_near(log.losses, [losses[1], (losses[2] + losses[3]) / 2], 1e-5, f"ignore_index of {op} leaves a sample out of the mean")
        bench.npy("labels_train", [2, 1, 3, 1], kind="i8")
        bench.refused(["./program", "--data", "."], 'label 3 of sample 2 in column "labels" of the train split is not one of the 3 classes 0 .. 2')


def first_values(bench, init, shape, *options, name="w", data=False):
    """Returns the values that a rule gives a parameter: a program that adds it to zeros writes them."""
    count = math.prod(shape)
    bench.model(
        node("Add", ["x", name], ["y"]),
        parameter(name, shape, [9] * count) if data else graph_input(name, shape),
        graph_input("x", shape), graph_output("y", shape))
    bench.npy("x", [0] * count, shape)
    bench.compile(init)
    bench.ok(["./program", "--input", "x=x.npy", "--output", "y=y.npy", *options])
    return bench.read_npy("y")


def uniforms(count, seed=1, name="w"):
    """U(0, 1) of each element: 24 bits of its first Philox word."""
    return [(philox(seed, stream_of(name), 0, i)[0] >> 8) * 2.0**-24 for i in range(count)]


@case("init.fill", "init.match")
def init_fill(bench):
    expect(first_values(bench, 'init { match: "w" fill: 0.375 }', (2, 3)), [0.375] * 6, "fill")
    expect(first_values(bench, 'init { match: "w" fill: -2 }', (2, 3), data=True), [-2] * 6, "data gives way to a rule")
    expect(first_values(bench, "", (2, 3), data=True), [9] * 6, "data without a rule")
    # The first rule that matches wins; a glob has * and ?.
    names = ["a.w", "b.w", "c.w", "b.ww", "cc.w"]
    bench.model(*(node("Add", ["x", name], [f"y{i}"]) for i, name in enumerate(names)), *(graph_input(name, [1]) for name in names),
                graph_input("x", [1]), *(graph_output(f"y{i}", [1]) for i in range(len(names))))
    bench.npy("x", [0], (1,))
    bench.compile('init { match: "a.*" fill: 1 } init { match: "?.w" fill: 2 } init { match: "b.*" fill: 3 } init { match: "*.w" fill: 4 }')
    bench.ok(["./program", "--input", "x=x.npy"])
    expect([bench.read_npy(f"y{i}")[0] for i in range(len(names))], [1, 2, 2, 3, 4], "which rule wins")


@case("init.uniform.low", "init.uniform.high")
def init_uniform(bench):
    for low, high in ((-1, 3), (2, 2.5), (0, 1)):
        found = first_values(bench, f'init {{ match: "w" uniform {{ low: {low} high: {high} }} }}', (40, 5))
        expect(found, [f32(u * (high - low) + low) for u in uniforms(200)], f"U({low}, {high})")
    found = first_values(bench, 'init { match: "other" uniform { low: 0 high: 1 } }', (40, 5), "--seed", "77", name="other")
    expect(found, uniforms(200, seed=77, name="other"), "another seed and name")


@case("init.normal.mean", "init.normal.std")
def init_normal(bench):
    def normal(i):
        words = philox(1, stream_of("w"), 0, i)
        u, v = (words[0] >> 8) * 2.0**-24, (words[1] >> 8) * 2.0**-24
        return math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)
    for text, mean, std in (("mean: 3 std: 0.5", 3, 0.5), ("std: 2", 0, 2), ("mean: -1 std: 1", -1, 1)):
        found = first_values(bench, f'init {{ match: "w" normal {{ {text} }} }}', (40, 5))
        expect_near(found, [mean + std * normal(i) for i in range(200)], 4e-6, text)


@case("init.kaiming_uniform.a", "init.kaiming_uniform.fan_in_dim", "init.xavier_uniform")
def init_by_fan(bench):
    # Bounds that are powers of two: sqrt(6 / ((1 + a^2) fan_in)) and sqrt(6 / (fan_in + fan_out)).
    for kind, shape, bound in (
            ("kaiming_uniform {}", (4, 16), 0.25),
            ("kaiming_uniform { fan_in_dim: 0 }", (4, 16), 0.5),
            ("kaiming_uniform { fan_in_dim: 2 a: 1 }", (2, 5, 3), 1),
            ("kaiming_uniform { a: 0 }", (2, 24), 0.5),
            ("kaiming_uniform {}", (3, 4, 2, 2), 0.25),
            ("xavier_uniform {}", (2, 4), 1),
            ("xavier_uniform {}", (4, 2, 2, 2), 0.5)):
        found = first_values(bench, f'init {{ match: "w" {kind} }}', shape)
        expect_near(found, [bound * (2 * u - 1) for u in uniforms(math.prod(shape))], 1e-7, f"{kind} of {shape}")


@case("frozen")
def frozen(bench):
    bench.npy("x_train", [1, 2, 4], (3, 1))
    for names, moves_w, moves_v in ((["mask.a"], 1, 1), (["mask.a", "v"], 1, 0), (["mask.*", "w"], 0, 1)):
        bench.model(
            node("Mul", ["x", "w"], ["xw"]), node("Add", ["xw", "v"], ["z"]), node("Mul", ["z", "mask.a"], ["y"]),
            node("ReduceMean", ["y"], ["loss"], keepdims=0),
            parameter("w", [1], [1]), parameter("v", [1], [8]), parameter("mask.a", [1], [1]),
            graph_input("x", ["batch", 1]), graph_output("loss", []))
        log = bench.train(product_job(*(f'frozen: "{name}"' for name in names)))
        w, v, expected = 1, 8, []
        for x in (1, 2, 4):
            expected.append(x * w + v)
            w, v = w - 0.125 * x * moves_w, v - 0.125 * moves_v
        expect(log.losses, expected, f"frozen: {names}")
    for globs, text in ((["*"], 'nothing is trained: frozen "*" names all parameters, 3; leave trained parameters out of the job\'s frozen'),
                        (["w", "?", "mask*"], 'frozen "w" (1), "?" (1), "mask*" (1) names all parameters, 3; ')):
        bench.refused(bench.compiler(product_job(*(f'frozen: "{glob}"' for glob in globs)), "-o", "refused"), text)
    # The loss is of other parameters than those that are trained.
    bench.model(
        node("Mul", ["x", "w"], ["y"]), node("Mul", ["x", "v"], ["z"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [1], [1]), parameter("v", [1], [8]), graph_input("x", ["batch", 1]), graph_output("loss", []), graph_output("z", ["batch", 1]))
    bench.refused(bench.compiler(product_job('frozen: "w"'), "-o", "refused"),
                  'nothing is trained: the loss depends on none of the parameters that are trained, 1: "v"; compute the loss of another tensor')
    # PyTorch calls every graph main_graph: what a user knows is the file.
    bench.model(
        node("Mul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("w", [1], [1]),
        graph_input("x", ["batch", 1]), graph_output("loss", []), name="main_graph")
    bench.ok(["mv", "main_graph.onnx", "net.onnx"])
    bench.refused(bench.compiler(product_job(), "--memory", "1B", "-o", "refused", model="net"), "error: net: the program needs ")


@case("trained")
def trained(bench):
    # A gate of 0 and 1 looks like a mask: without the field it stays. The loss is the mean of both columns.
    bench.npy("x_train", [1, 2, 4], (3, 1))
    bench.model(
        node("Mul", ["x", "w"], ["xw"]), node("Mul", ["xw", "gate"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [2], [1, 1]), parameter("gate", [2], [0, 1]), graph_input("x", ["batch", 1]), graph_output("loss", []))
    for text, moves in (("", 0), ('trained: "ga*"', 1)):
        w, gate, expected = [1, 1], [0, 1], []
        for x in (1, 2, 4):
            expected.append(sum(x * a * b for a, b in zip(w, gate)) / 2)
            w, gate = ([a - 0.125 * x * b / 2 for a, b in zip(w, gate)], [b - moves * 0.125 * x * a / 2 for a, b in zip(w, gate)])
        expect_near(bench.train(product_job(text)).losses, expected, 1e-6, text)
    command = bench.compiler(product_job(), "-o", "program")
    said = 'note: model.onnx: initializer "gate" [2] of f32 is not trained: it is a mask: every number is 0 or 1, and it is no weight of a layer'
    expect(bench.call(command)[2].strip(), said, "what ashlarc says")


@case("dims.name", "dims.size")
def dims(bench):
    # The mean over rows of `long` columns, of which the input has as many as the job says; two inputs share the name.
    bench.model(
        node("Add", ["x", "z"], ["s"]), node("Mul", ["s", "w"], ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0),
        parameter("w", [1], [1]), graph_input("x", ["batch", "long"]), graph_input("z", ["batch", "long"]), graph_output("loss", []))
    column = 'features { column: "x" tensor: "z" }'
    for size in (1, 3):
        bench.npy("x_train", range(2 * size), (2, size))
        job = product_job(f'dims {{ name: "long" size: {size} }}', optimizer=STILL, dataset=f"npy {{}} shuffle: false {column}")
        expect(bench.train(job).losses, [2 * sum(range(size)), 2 * sum(range(size, 2 * size))], f"{size} columns")
    job = product_job(optimizer=STILL, dataset=f"npy {{}} shuffle: false {column}")
    for text, message in (
            ("", 'input "x": dim 1 ("long") has no size; only the first may be open, add dims { name: "long" size: 128 }, or another size, to '
                 "the job"),
            ('dims { name: "wide" size: 2 }', 'dims "wide" names no symbolic dim of an input; there are "batch", "long"'),
            ('dims { name: "long" size: 2 } dims { name: "batch" size: 3 }',
             'dims gives its first dim, "batch", the size 3 but global_batch is 1; leave it out of dims in the job'),
            ('dims { name: "long" }', 'dims has no size for name "long"; add size: 128, or another one'),
            ('dims { size: 2 }', "dims needs the name of a symbolic dim, or an input and one of its dims, has neither; write"),
            ('dims { name: "long" size: 2 } dims { name: "long" size: 3 }', 'dims has two sizes for name "long"; leave out one'),
            ('dims { name: "long" size: 0 }', "dims.size")):
        bench.refused(bench.compiler(job + text, "-o", "refused"), message)


@case()
def suggested_job(bench):
    # ashlarc --suggest-job, compiled and run as it is printed. The head is 0, so the first loss is the logarithm of the number of classes.
    bench.model(
        node("Gather", ["table", "my tokens"], ["h"]), node("MatMul", ["h", "head"], ["logits"]),
        parameter("table", [5, 4], [(7 * i % 11) / 8 for i in range(20)]), parameter("head", [4, 3], [0] * 12),
        graph_input("my tokens", ["batch", "sequence"], INT64), graph_output("logits", ["batch", "sequence", 3]))
    command = [os.path.join(bench.tools, "ashlarc"), "model.onnx", "--suggest-job"]
    job = bench.ok(command)
    for line in ('dims { name: "sequence" size: 128 }', 'loss { softmax_cross_entropy { logits: "logits" labels: "labels" ignore_index: -100 } }',
                 "#   my_tokens_train.npy (samples, 128) i64", "#   labels_train.npy (samples, 128) i32, classes 0 to 2, or -100: not counted",
                 '  features { column: "my_tokens" tensor: "my tokens" }'):
        expect(line in job.splitlines(), True, f"{line} in {job}")
    bench.npy("my_tokens_train", [i % 5 for i in range(16 * 128)], (16, 128), "i8")
    bench.npy("labels_train", [i % 3 for i in range(16 * 128)], (16, 128), "i4")
    losses = bench.train(job).losses
    expect(len(losses), 2, "steps")
    expect_near(losses[0], math.log(3), 1e-6, "the first loss")
    expect(losses[1] != losses[0], True, "something is trained")


@case("ties.parameter", "ties.to")
def ties(bench):
    # The loss is the mean of x w v. Apart, each weight moves by the other's gradient; as one, by the sum of both.
    bench.npy("x_train", [1, 2, 4], (3, 1))
    bench.model(
        node("Mul", ["x", "w"], ["xw"]), node("Mul", ["xw", "v"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [1], [1]), parameter("v", [1], [1]), graph_input("x", ["batch", 1]), graph_output("loss", []))
    for text, as_one in (("", 0), ('ties { parameter: "v" to: "w" }', 1)):
        w, expected = 1, []
        for x in (1, 2, 4):
            expected.append(x * w * w)
            w -= 0.125 * x * w * (1 + as_one)
        expect(bench.train(product_job(text, optimizer="sgd {} learning_rate: 0.125")).losses, expected, text)
    for text, message in (
            ('ties { parameter: "v" to: "u" }', 'the job ties "v" to "u" but "u" is no parameter with data'),
            ('ties { parameter: "v" to: "v" }', 'ties needs two parameters, has "v" and "v"'),
            ('ties { parameter: "v" to: "w" } ties { parameter: "v" to: "w" }', 'ties names parameter "v" twice; leave out one'),
            ('ties { parameter: "v" to: "w" } ties { parameter: "w" to: "v" }', 'ties "v" to "w", which is tied itself')):
        bench.refused(bench.compiler(product_job(text), "-o", "refused"), message)


@case("straight_through")
def straight_through(bench):
    # A weight in steps of 1/4, as int8: the last one lies beyond it, where the gradient is 0 in any case.
    bench.npy("x_train", [1, 2, 4], (3, 1))
    quarter, zero = constant("quarter", FLOAT, floats([0.25])), constant("zero", INT8, b"\0")
    for weight in (1.0625, 40):
        bench.model(
            quarter, zero, node("QuantizeLinear", ["w", "quarter", "zero"], ["q"]), node("DequantizeLinear", ["q", "quarter", "zero"], ["d"]),
            node("Mul", ["x", "d"], ["xd"]), node("Add", ["xd", "v"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
            parameter("w", [1], [weight]), parameter("v", [1], [8]), graph_input("x", ["batch", 1]), graph_output("loss", []))
        for text, passes in (("", 0), ("straight_through: false", 0), ("straight_through: true", 1)):
            w, v, expected = weight, 8, []
            for x in (1, 2, 4):
                expected.append(x * min(round(4 * w), 127) / 4 + v)
                w, v = w - 0.125 * x * passes * (w < 32), v - 0.125
            expect(bench.train(product_job(text)).losses, expected, f"\"{text}\", weight {weight}")


@case("precision", "precision=F32", "precision=BF16_MIXED", "precision=F16_MIXED")
def precision(bench):
    # 24, 8 and 11 bits, ties to even.
    xs = [1 + 2**-20, 1 + 2**-11, 1 + 2**-12, 1 + 2**-9, 1 + 3 * 2**-8, 1 + 3 * 2**-11, 3]
    bf16 = [1, 1, 1, 1, 1 + 2**-6, 1, 3]
    f16 = [1, 1, 1, 1 + 2**-9, 1 + 3 * 2**-8, 1 + 2**-9, 3]
    bench.npy("x_train", xs, (len(xs), 1))
    for text, expected in (("", xs), ("precision: F32", xs), ("precision: BF16_MIXED", bf16), ("precision: F16_MIXED", f16)):
        bench.model(
            node("MatMul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
            parameter("w", [1, 1], [1]), graph_input("x", ["batch", 1]), graph_output("loss", []))
        expect(bench.train(product_job(text, optimizer=STILL)).losses, expected, text)


@case("allow_tf32")
def allow_tf32(bench):
    emulator = bench.emulator()
    if not emulator:
        raise Skip("the cuda target was left out: the CUDA toolkit was not found")
    # A product that is large enough for the library: each step has 64 equal rows, of which one element counts.
    xs, size = [1 + 2**-12, 1 + 3 * 2**-11, 1 + 2**-10], 64
    bench.npy("x_train", [x if column == 0 else 0 for x in xs for _ in range(size) for column in range(size)], (3 * size, size))
    bench.model(
        node("MatMul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [size, size], [1] + [0] * (size * size - 1)), graph_input("x", ["batch", size]), graph_output("loss", []))
    for text, expected in (("", xs), ("allow_tf32: false", xs), ("allow_tf32: true", [1, 1 + 2**-9, 1 + 2**-10])):
        bench.compile(product_job(text, batch=size, optimizer=STILL), "--target", "cuda", "--gpu-arch", "sm_90")
        log = bench.run("--data", ".", "--log-every", "1", environment=emulator)
        expect([loss * size for loss in log.losses], expected, f"\"{text}\": 11 bits of the operands")


@case("generate.logits", "generate.chunk")
def generation(bench):
    """Of the row of a token, the next token is the largest number of "first" and the one behind it the smallest."""
    table = [x for row in range(5) for x in (1 if column == (row + 1) % 5 else -1 if column == (row + 2) % 5 else 0 for column in range(5))]
    bench.model(
        node("Gather", ["table", "ids"], ["first"]), node("Neg", ["first"], ["second"]), parameter("table", [5, 5], table),
        graph_input("ids", [1, 6], INT64), graph_output("first", [1, 6, 5]), graph_output("second", [1, 6, 5]))
    bench.write("prompt.txt", "3\n")
    for logits, expected in (("first", "4 0 1 2 3"), ("second", "0 2 4 1 3")):
        bench.compile(f'generate {{ logits: "{logits}" }}')
        expect(bench.run("--prompt", "prompt.txt").text.split(), expected.split(), logits)
    bench.refused(bench.compiler("generate {}", "-o", "program"), 'the outputs of the model are "first", "second"')
    for chunk, positions in ((2, 2), (6, 6), (7, 6)):
        text = bench.emit("nn", f'generate {{ logits: "first" chunk: {chunk} }}')
        expect(f"@prefill(%arg0: tensor<1x{positions}xi64>" in text, True, f"chunk {chunk}")
