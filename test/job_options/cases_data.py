# SPDX-License-Identifier: Apache-2.0
"""Data sets: which samples come in which order, and what becomes of them on the way. Losses are the samples themselves."""

import gzip
import math
import os
import signal
import struct
import subprocess
import time

from bench import STILL, TIMEOUT_S, expect, expect_near, f32, graph_input, graph_output, node, parameter, philox, product_job, product_model, shuffled
from registry import case


def numbered(bench, count, batch=1, job=(), dataset="npy {} shuffle: false", options=()):
    """Trains on samples 1 .. count; returns the log."""
    bench.npy("x_train", [1 + i for i in range(count)], (count, 1))
    product_model(bench)
    return bench.train(product_job(*job, batch=batch, optimizer=STILL, dataset=dataset), *options)


@case("dataset.shuffle", "seed")
def shuffle(bench):
    expect(numbered(bench, 5, job=["epochs: 2"]).losses, [1, 2, 3, 4, 5] * 2, "in order")
    # Three samples: the last swap of the permutation decides which of two comes first. The default is to shuffle.
    for count, seed, dataset in ((3, 1, "npy {} shuffle: true"), (3, 7, "npy {}"), (6, 2**33 + 5, "npy {}")):
        log = numbered(bench, count, job=["epochs: 8", f"seed: {seed}"], dataset=dataset)
        expected = [1 + i for run_pass in range(8) for i in shuffled(seed, run_pass, count)]
        expect(log.losses, expected, f"{count} samples, seed {seed}")
        expect(len({tuple(expected[i:i + count]) for i in range(0, len(expected), count)}) > 1, True, "passes differ")
    expect(bench.run("--data", ".", "--log-every", "1", "--seed", "9").losses,
           [1 + i for run_pass in range(8) for i in shuffled(9, run_pass, 6)], "--seed")
    # The default seed is 1.
    expect(numbered(bench, 6, dataset="npy {}").losses, [1 + i for i in shuffled(1, 0, 6)], "the default seed")


@case("dataset.repeat", "epochs", "log_every", "dataset.npy")
def repeat(bench):
    log = numbered(bench, 4, job=["epochs: 2"], dataset="npy {} shuffle: false repeat: 3")
    expect(log.losses, [1, 2, 3, 4] * 6, "samples")
    expect(log.places, [(1 + i // 12, 1 + i % 12) for i in range(24)], "epochs of three passes")
    expect(log.steps, 24, "steps")
    # Lines: once an epoch by default, every so many steps of the whole run otherwise.
    expect(bench.run("--data", ".").places, [(1, 12), (2, 12)], "lines by default")
    log = numbered(bench, 4, job=["epochs: 3"])
    expect(log.places, [(e, s) for e in (1, 2, 3) for s in (1, 2, 3, 4)], "one pass is an epoch")
    bench.compile(product_job("epochs: 3", "log_every: 5", optimizer=STILL))
    log = bench.run("--data", ".")
    expect((log.places, log.losses), ([(2, 1), (3, 2)], [1, 2]), "every fifth step")
    expect(numbered(bench, 4).steps, 4, "one epoch by default")
    # Each pass is shuffled by itself, the passes of an epoch too.
    log = numbered(bench, 4, job=["epochs: 2"], dataset="npy {} repeat: 2")
    expect(log.losses, [1 + i for run_pass in range(4) for i in shuffled(1, run_pass, 4)], "shuffled passes")


@case("dataset.drop_remainder", "global_batch")
def drop_remainder(bench):
    expect(numbered(bench, 7, batch=3, job=["epochs: 2"]).losses, [2, 5] * 2, "means of full batches")
    expect(numbered(bench, 7, batch=3, dataset="npy {} shuffle: false drop_remainder: true").losses, [2, 5], "asked for")
    expect(numbered(bench, 6, batch=3, dataset="npy {} shuffle: false drop_remainder: false").losses, [2, 5], "nothing is left")
    bench.npy("x_train", range(7), (7, 1))
    bench.refused(["./program", "--data", "."], "7 samples, which batches of 3 do not divide")


def label_job(source, *extra):
    """A job whose loss is the label of each sample."""
    return "\n".join([
        "global_batch: 1", 'loss { model_output { tensor: "loss" } }', f"optimizer {{ {STILL} }}",
        f'dataset {{ {source} shuffle: false features {{ column: "label" tensor: "x" }} }}', *extra, ""])


@case("dataset.digits.train_samples", "dataset.digits.eval_samples")
def digits(bench):
    bench.model(
        node("Mul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("w", [1], [1]),
        graph_input("x", ["batch"]), graph_output("loss", []))
    log = bench.train(label_job("digits { train_samples: 7 eval_samples: 4 }", "epochs: 2"), "--eval")
    expect(log.losses, [0, 1, 2, 3, 4, 5, 6] * 2, "seven samples")
    expect(log.evaluation, 1.5, "four samples: 0, 1, 2, 3")
    log = bench.train(label_job("digits { train_samples: 12 eval_samples: 13 }"), "--eval")
    expect(log.losses, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1], "twelve samples")
    expect(log.evaluation, 3.6923, "thirteen samples: (45 + 0 + 1 + 2) / 13")
    log = bench.train(label_job("digits {}"), "--eval")
    expect((log.steps, log.evaluation), (12800, 4.4961), "12,800 and 2048 samples by default: (204 x 45 + 28) / 2048 = 4.49609")


def regression_samples(a, b, c, noise, count, counter):
    """The formulas of docs/data.md; the two splits draw from counters 0 and 2."""
    def uniform(high, low):
        return ((high >> 5) * 2.0**26 + (low >> 6)) * 2.0**-53
    samples = []
    for i in range(count):
        words, draws = philox(20240229, 0x72656772, counter, i), philox(20240229, 0x72656772, counter + 1, i)
        u, v = 2 * uniform(words[0], words[1]) - 1, 2 * uniform(words[2], words[3]) - 1
        normal = math.sqrt(-2 * math.log(1 - uniform(draws[0], draws[1]))) * math.cos(
            2 * math.pi * uniform(draws[2], draws[3]))
        samples.append((u * u, v**3, a * u * u + b * v**3 + c + noise * normal))
    return samples


@case("dataset.regression.a", "dataset.regression.b", "dataset.regression.c", "dataset.regression.noise",
      "dataset.regression.train_samples", "dataset.regression.eval_samples")
def regression(bench):
    # The loss of a sample is p x_0 + q x_1 + r z: one of the three at a time.
    for p, q, r in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        bench.model(
            node("MatMul", ["x", "pq"], ["xs"]), node("Mul", ["z", "r"], ["zs"]), node("Add", ["xs", "zs"], ["y"]),
            node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("pq", [2, 1], [p, q]), parameter("r", [1], [r]),
            graph_input("x", ["batch", 2]), graph_input("z", ["batch", 1]), graph_output("loss", []))
        for source, (a, b, c, noise, train, evaluated) in (
                ("a: 4 b: -2 c: 0.5 noise: 0 train_samples: 9 eval_samples: 5", (4, -2, 0.5, 0, 9, 5)),
                ("a: -1 b: 7 c: -3 noise: 10 train_samples: 11 eval_samples: 8", (-1, 7, -3, 10, 11, 8)),
                ("", (2, 3, 5, 0.03, 160, 160))):
            log = bench.train("\n".join([
                "global_batch: 1", 'loss { model_output { tensor: "loss" } }', f"optimizer {{ {STILL} }}",
                f"dataset {{ regression {{ {source} }} shuffle: false", 'features { column: "x" tensor: "x" }',
                'features { column: "z" tensor: "z" } }', ""]), "--eval")
            def loss(sample, weights=(p, q, r)):
                return sum(weight * f32(x) for weight, x in zip(weights, sample))
            expect_near(log.losses, [loss(s) for s in regression_samples(a, b, c, noise, train, 0)], 1e-5, f"{source}: {p, q, r}")
            expected = [loss(s) for s in regression_samples(a, b, c, noise, evaluated, 2)]
            expect_near(log.evaluation, sum(expected) / evaluated, 6e-5, f"evaluation of {source}: {p, q, r}")


@case("dataset.idx")
def idx(bench):
    images, labels = list(range(12)), [3, 1, 2]
    pack = {".gz": gzip.compress, "": bytes}
    for split, suffix in (("train", ""), ("t10k", ".gz")):
        for stem, header, values in (("images-idx3", struct.pack(">4i", 0x803, 3, 2, 2), images),
                                     ("labels-idx1", struct.pack(">2i", 0x801, 3), labels)):
            with open(bench.path(f"{split}-{stem}-ubyte{suffix}"), "wb") as out:
                out.write(pack[suffix](header + bytes(values)))
    bench.model(
        node("ReduceMean", ["image"], ["mean"], axes=[1], keepdims=0), node("Mul", ["x", "hundred"], ["scaled"]),
        node("Add", ["mean", "scaled"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("hundred", [1], [100]),
        graph_input("image", ["batch", 4]), graph_input("x", ["batch"]), graph_output("loss", []))
    job = label_job("idx {}").replace("features {", 'features { column: "image" tensor: "image" } features {', 1)
    log = bench.train(job, "--eval")
    expect(log.losses, [301.5, 105.5, 209.5], "mean of the pixels and 100 x the label")
    expect_near(log.evaluation, (301.5 + 105.5 + 209.5) / 3, 6e-5, "gzip files of the evaluation split")


@case("dataset.features.column", "dataset.features.tensor")
def features(bench):
    bench.model(
        node("Mul", ["u", "hundred"], ["scaled"]), node("Add", ["scaled", "v"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("hundred", [1], [100]), graph_input("u", ["batch", 1]), graph_input("v", ["batch", 1]), graph_output("loss", []))
    bench.npy("first_train", [1, 2], (2, 1))
    bench.npy("second_train", [30, 40], (2, 1))
    for first, second, expected in (("u", "v", [130, 240]), ("v", "u", [3001, 4002])):
        job = product_job(optimizer=STILL).replace(
            'features { column: "x" tensor: "x" }',
            f'features {{ column: "first" tensor: "{first}" }} features {{ column: "second" tensor: "{second}" }}')
        expect(bench.train(job).losses, expected, f"first feeds {first}")


@case("dataset.features.transforms.rescale.scale", "dataset.features.transforms.rescale.shift",
      "dataset.features.transforms.normalize.mean", "dataset.features.transforms.normalize.std")
def transforms(bench):
    bench.npy("x_train", [1, 2, 8], (3, 1))
    product_model(bench)
    for text, formula in (
            ("rescale { scale: 0.5 }", lambda x: x * 0.5),
            ("rescale { shift: 3 }", lambda x: x + 3),
            ("rescale { scale: 4 shift: -0.25 }", lambda x: x * 4 - 0.25),
            ("rescale {}", lambda x: x),
            ("normalize { mean: 3 }", lambda x: x - 3),
            ("normalize { std: 0.25 }", lambda x: x / 0.25),
            ("normalize { mean: -2 std: 4 }", lambda x: (x + 2) / 4),
            ("normalize {}", lambda x: x),
            ("rescale { scale: 2 shift: 1 } } transforms { normalize { mean: 5 std: 2 }", lambda x: (x * 2 + 1 - 5) / 2),
            ("normalize { mean: 5 std: 2 } } transforms { rescale { scale: 2 shift: 1 }", lambda x: (x - 5) / 2 * 2 + 1)):
        job = product_job(optimizer=STILL).replace('tensor: "x" }', f'tensor: "x" transforms {{ {text} }} }}')
        # The loss is x w, so it is the sample but where that is 0; nothing here is.
        expect(bench.train(job).losses, [formula(x) for x in (1, 2, 8)], text)


@case()
def evaluation(bench):
    """The value of --eval: the mean over the samples of the evaluation split, by the weights at the end of the training."""
    bench.npy("x_train", [1, 2], (2, 1))
    for count, batch in ((6, 2), (4, 1), (3, 3)):
        xs = [3 + i * i for i in range(count)]
        bench.npy("x_eval", xs, (count, 1))
        product_model(bench)
        bench.npy("x_train", [2] * (2 * batch), (2 * batch, 1))
        log = bench.train(product_job(batch=batch), "--eval")
        # Two steps of gradient 2 at learning rate 1/8: from 1 to 1/2.
        expect(log.losses, [2, 1.5], "losses")
        expect_near(log.evaluation, 0.5 * sum(xs) / count, 6e-5, f"{count} samples in batches of {batch}")


@case()
def evaluation_of_rest(bench):
    """--eval takes all samples: a last batch that is not full counts with as many as there are, on any number of ranks."""
    bench.model(
        node("Mul", ["x", "w"], ["y"]), parameter("w", [1], [1]), graph_input("x", ["batch", 2]), graph_output("y", ["batch", 2]))
    for count, batch, ranks in ((5, 2, 1), (7, 3, 1), (9, 4, 2), (7, 4, 4)):
        xs, ts = [i * i - 3 for i in range(2 * count)], [5 - i for i in range(2 * count)]
        labels = [i * i % 2 for i in range(count)]
        for name, values, shape, kind in (("x", xs, (count, 2), "f4"), ("t", ts, (count, 2), "f4"), ("labels", labels, (count,), "i8")):
            bench.npy(f"{name}_eval", values, shape, kind)
            bench.npy(f"{name}_train", values, shape, kind)
        expected = {
            'mean_squared_error { prediction: "y" target: "t" }': [sum((x - t)**2 for x, t in zip(xs, ts)) / (2 * count)],
            'softmax_cross_entropy { logits: "y" labels: "labels" }': [
                sum(math.log(sum(math.exp(x - xs[2 * i + label]) for x in xs[2 * i:2 * i + 2])) for i, label in enumerate(labels)) / count,
                sum((xs[2 * i + 1] > xs[2 * i]) == label for i, label in enumerate(labels))],
        }
        for loss, values in expected.items():
            columns = "x t" if "target" in loss else "x labels"
            job = "\n".join([
                f"global_batch: {batch}", f"loss {{ {loss} }}", f"optimizer {{ {STILL} }}", "dataset { npy {} shuffle: false",
                *(f'features {{ column: "{column}" tensor: "{column}" }}' for column in columns.split()), "}"])
            log = bench.train(job, "--eval", ranks=ranks, compile_options=["--mesh", f"dp={ranks}"])
            expect_near(log.evaluation, values[0], 6e-5 * max(1, values[0] / 100), f"{count} samples in batches of {batch}: {loss}")
            if len(values) > 1:
                expect(f"({values[1]} of {count})" in log.text, True, f"{values[1]} of {count} in: {log.text}")


def names(bench, folder):
    return sorted(name for name in os.listdir(bench.path(folder)) if not name.startswith("."))  # of a killed run its lock stays


@case("checkpoint.prefix", "checkpoint.every_steps", "checkpoint.keep", "checkpoint.last_on_signal")
def checkpoint(bench):
    numbered(bench, 5, job=["checkpoint { every_steps: 2 }"], options=["--epochs", "2", "--checkpoint-dir", "all"])
    expect(names(bench, "all"), ["ashlar-1_2", "ashlar-1_4", "ashlar-2_1", "ashlar-2_3", "ashlar-2_5"], "two epochs of five steps")
    numbered(bench, 5, job=['checkpoint { every_steps: 2 keep: 2 prefix: "run" }'], options=["--epochs", "2", "--checkpoint-dir", "kept"])
    expect(names(bench, "kept"), ["run-2_3", "run-2_5"], "the newest two")
    numbered(bench, 5, job=["checkpoint {}"], options=["--checkpoint-dir", "last"])
    expect(names(bench, "last"), ["ashlar-1_5"], "one at the end")
    # A signal: by default it saves and the run ends well, else it ends the run as any signal.
    for setting, status in (("", 0), ("last_on_signal: false", -signal.SIGUSR1)):
        bench.compile(product_job("checkpoint { every_steps: 100000000 " + setting + " }", optimizer=STILL))
        folder = "signalled" + str(-status)
        command = ["./program", "--data", ".", "--steps", "1000000000", "--log-every", "1", "--checkpoint-dir", folder]
        with open(bench.path("signal.log"), "w", encoding="utf-8") as log:
            run = subprocess.Popen(command, cwd=bench.folder, stdout=log)
        while run.poll() is None and "loss is" not in bench.read("signal.log"):
            time.sleep(0.01)
        run.send_signal(signal.SIGUSR1)
        expect(run.wait(TIMEOUT_S), status, f"status with \"{setting}\"")
        expect(len(names(bench, folder)), 1 if status == 0 else 0, f"checkpoints with \"{setting}\"")
