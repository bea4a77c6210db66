# SPDX-License-Identifier: Apache-2.0
"""Strategies that are known to be good, which mode AUTO has to find without rules. auto_strategies.py TOOLS

Each model is compiled for a machine on which the known strategy is the cheapest. What is found is read from the saved strategy, and is predicted to take no longer than
the known one, given as rules. Nothing is run."""

import json
import pathlib
import re
import subprocess
import sys

from onnx_writer import INT64, graph_input, graph_output, node, write_model

TOOLS = pathlib.Path(sys.argv[1])
LOSS = 'loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }\n'
DIGITS = 'dataset { digits {} features { column: "image" tensor: "input" } features { column: "label" tensor: "labels" } }\n'
SGD, ADAMW = "optimizer { sgd {} learning_rate: 0.01 }\n", "optimizer { adamw {} learning_rate: 0.01 }\n"
INIT = 'init { match: "*.weight" fill: 0.01 } init { match: "*.bias" fill: 0 }\n'
# GPUs of about an A100, on links of which each transfer keeps the devices busy.
GPUS = ("machine { intra_host { latency_us: 4 bandwidth_gb_per_s: 300 moves_beside: false }"
        " device { gflop_per_s: 19500 narrow_gflop_per_s: 312000 memory_gb_per_s: 2039 } }\n")


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))} exited with {done.returncode}: {done.stderr}"
    return done.stdout


def zoo(name, *options):
    run(TOOLS / "ashlar-zoo", *options, "-o", name)
    return name


def npy(tensor):
    return f'dataset {{ npy {{}} features {{ column: "x" tensor: "{tensor}" }} features {{ column: "y" tensor: "labels" }} }}\n'


def mesh(**axes):
    return "mesh { " + " ".join(f'axes {{ name: "{name}" size: {size} }}' for name, size in axes.items()) + " }\n"


def rules(layouts):
    return "mode: SEMI_AUTO\n" + "".join(f'rules {{ match: "{match}" layout: "{layout}" }}\n' for match, layout in layouts.items())


def parse(text):
    """Protobuf's text format: a message is a list of (field, value), a value a message or a string."""
    tokens = re.findall(r'"[^"]*"|[{}]|[^\s{}:"]+', re.sub("(?m)^#.*", "", text))

    def message(at):
        found = []
        while at < len(tokens) and tokens[at] != "}":
            if tokens[at + 1] == "{":
                value, end = message(at + 2)
                found.append((tokens[at], value))
                at = end + 1
            else:
                found.append((tokens[at], tokens[at + 1].strip('"')))
                at += 2
        return found, at

    return message(0)[0]


def all_of(message, field):
    return [value for name, value in message if name == field]


def one_of(message, field):
    return (all_of(message, field) or [""])[0]


class Found:
    """The layouts of a strategy: of variables and arguments by name, of ops by (path, kind), in program order."""

    def __init__(self, text, program):
        strategy = one_of(parse(text), "strategy")
        main = next(each for each in all_of(strategy, "programs") if one_of(each, "name") == program)
        self.tensors = {one_of(each, "name"): one_of(each, "layout") for each in all_of(strategy, "variables") + all_of(main, "arguments")}
        self.ops = []
        for op in all_of(main, "ops"):
            results = [one_of(result, "layout") for result in all_of(op, "results")]
            self.ops.append((one_of(op, "path"), one_of(op, "kind"), results[0], all_of(op, "operands")))

    def first(self, path, kind):
        """The layout of the first op of that path and kind: in training the one of the forward phase."""
        return self.op(path, kind)[2]

    def op(self, path, kind):
        found = [op for op in self.ops if op[:2] == (path, kind)]
        assert found, f"no {kind} at {path}; there are {sorted({op[0] for op in self.ops})}"
        return found[0]

    def expect(self, tensors):
        for name, layout in tensors.items():
            assert self.tensors[name] == layout, f"{name} is {self.tensors[name]}, expected {layout}"

    def expect_ops(self, ops):
        for (path, kind), layout in ops.items():
            assert self.first(path, kind) == layout, f"{kind} at {path} is {self.first(path, kind)}, expected {layout}"


def plan(model, job, *options):
    """Nanoseconds of a step."""
    pathlib.Path("plan.txtpb").write_text(job)
    return json.loads(run(TOOLS / "ashlarc", "plan", model, "--job", "plan.txtpb", "--json", "-", *options))["meshes"][0]["step_ns"]


def search(name, model, job, known=(), *options, program="train_step"):
    """Returns what is found; `known`: rules of strategies that it may not be behind."""
    pathlib.Path("auto.txtpb").write_text("mode: AUTO\n" + job)
    run(TOOLS / "ashlarc", model, "--job", "auto.txtpb", "--emit", "dist", "-o", "auto.mlir", "--save-strategy", "found.txtpb", "--report", "report.json", *options)
    report = json.loads(pathlib.Path("report.json").read_text())["search"]
    step = plan(model, "mode: AUTO\n" + job, *options)
    others = [plan(model, each + job) for each in known]
    print(f"{name}: {step / 1e3:.1f} us predicted ({report['taken']}); as known: {', '.join(f'{other / 1e3:.1f} us' for other in others) or '-'}", flush=True)
    assert all(step <= other for other in others), f"{name}: a known strategy is predicted to be faster"
    return Found(pathlib.Path("found.txtpb").read_text(), program)


def lenet():
    """Data parallelism: all that is computed is split along the batch, with whole weights, however these and their state are kept."""
    job = mesh(dp=4) + "global_batch: 1024\n" + LOSS + "optimizer { momentum { momentum: 0.9 } learning_rate: 0.01 }\n" + DIGITS
    found = search("lenet", zoo("lenet.onnx", "lenet"), job, ["mode: DATA_PARALLEL\n"])
    for path in ("conv1", "conv2", "fc1", "fc2", "fc3"):
        _, kind, result, operands = found.op(path, "nn.conv" if path.startswith("conv") else "nn.matmul")
        whole = "[{}, {}, {}, {}]" if kind == "nn.conv" else "[{}, {}]"
        assert result == whole.replace("[{}", "[{dp}"), f"{path} is {result}"
        weight = operands[1] if operands else ""
        assert (weight or found.tensors[f"{path}.weight"]) == whole, f"{path} takes its weight as {weight}"
    for path, kind in (("relu1", "nn.relu"), ("pool1", "nn.max_pool"), ("pool2", "nn.max_pool")):
        assert found.first(path, kind) == "[{dp}, {}, {}, {}]", path
    found.expect({"input": "[{dp}, {}, {}, {}]", "labels": "[{dp}]"})


def transformer(name, layers, width, sequence):
    return zoo(name, "transformer", "--layers", layers, "--width", width, "--heads", 16, "--sequence", sequence, "--vocabulary", 1024, "--no-data")


COLUMNS, ROWS = "[{}, {tp}]", "[{tp}, {}]"
MEGATRON = {"attention.query.weight": COLUMNS, "attention.key.weight": COLUMNS, "attention.value.weight": COLUMNS, "attention.projection.weight": ROWS,
            "mlp.up.weight": COLUMNS, "mlp.down.weight": ROWS}


def expect_blocks(found, layers, weight):
    """weight: of the name of a weight its layout."""
    found.expect({f"layer{layer}.{name}": weight(name) for layer in range(layers) for name in MEGATRON})


def megatron_rules(pieces):
    """Megatron's split, and with sequence parallelism on top of it."""
    split = {f"*.{name}": layout for name, layout in MEGATRON.items()} | {"head.weight": COLUMNS, "embedding.weight": ROWS}
    return [rules(split), rules(split | {"position": pieces, "*.residual?": pieces})]


def blocks_that_run():
    """A model that is run, not trained: as long as memory holds all weights, samples are split and nothing is sent; with less memory the weights are split as Megatron
    splits them, and the sums between products lie in pieces."""
    model = transformer("forward.onnx", 2, 1024, 128)
    job = INIT + "global_batch: 4\n" + mesh(tp=4) + GPUS
    found = search("transformer that is run", model, job, megatron_rules("[{tp}, {}, {}]"), program="forward")
    expect_blocks(found, 2, lambda name: "[{}, {}]")
    found.expect({"tokens": "[{tp}, {}]"})
    # Weights that kernels would order once count where they fit: a limit leaves them out, and the search has all of it.
    search("transformer that is run, 70 MB", model, job, megatron_rules("[{tp}, {}, {}]"), "--memory", "70MB", program="forward")
    found = search("transformer that is run, 41 MB", model, job, megatron_rules("[{tp}, {}, {}]"), "--memory", "41MB", program="forward")
    expect_blocks(found, 2, MEGATRON.get)
    found.expect_ops({(f"layer{layer}.{sum}", "nn.add"): "[{tp}, {}, {}]" for layer in range(2) for sum in ("residual1", "residual2")})


def blocks_of_one_sample():
    """The same of one sample, whose sequence is what can be split between products."""
    model = transformer("sequence.onnx", 2, 1024, 512)
    job = INIT + "global_batch: 1\n" + mesh(tp=4) + GPUS
    found = search("transformer on one sample, 60 MB", model, job, megatron_rules("[{}, {tp}, {}]"), "--memory", "60MB", program="forward")
    expect_blocks(found, 2, MEGATRON.get)
    found.expect_ops({(f"layer{layer}.{sum}", "nn.add"): "[{}, {tp}, {}]" for layer in range(2) for sum in ("residual1", "residual2")})
    # Where a sum is cheap and its halves are not, residuals stay whole.
    slow = "".join(f"collectives {{ kind: {kind} latency_us: 4 bandwidth_gb_per_s: 60 }} " for kind in ("REDUCE_SCATTER", "ALL_GATHER"))
    sums = INIT + "global_batch: 1\n" + mesh(tp=4) + GPUS.replace("moves_beside: false", "moves_beside: false " + slow)
    found = search("transformer on one sample, cheap sums", model, sums, megatron_rules("[{}, {tp}, {}]"), "--memory", "60MB", program="forward")
    expect_blocks(found, 2, MEGATRON.get)
    found.expect_ops({(f"layer{layer}.{sum}", "nn.add"): "[{}, {}, {}]" for layer in range(2) for sum in ("residual1", "residual2")})
    found = search("training on one sample", model, job + LOSS + ADAMW + npy("tokens"), megatron_rules("[{}, {tp}, {}]"))
    expect_blocks(found, 2, MEGATRON.get)
    found.expect_ops({(f"layer{layer}.{sum}", "nn.add"): "[{}, {tp}, {}]" for layer in range(2) for sum in ("residual1", "residual2")})


def wide_mlp():
    """Rows, then columns: one sum between two wide layers. The last one, of ten classes, is not worth a message."""
    known = {"fc1.weight": "[{tp}, {}]", "fc2.weight": "[{}, {tp}]"}
    for batch in (64, 256):
        job = mesh(tp=4) + f"global_batch: {batch}\n" + LOSS + SGD + DIGITS + GPUS
        found = search(f"wide mlp, batch {batch}", zoo("wide.onnx", "mlp", "--width", 4096), job, [rules(known)])
        found.expect(known | {"fc1.bias": "[{tp}]", "fc3.weight": "[{}, {}]"})
        found.expect_ops({("fc1", "nn.matmul"): "[{}, {tp}]", ("relu1", "nn.relu"): "[{}, {tp}]"})


def vgg():
    """Convolutions by samples, with their small weights whole; the dense layers behind them, which have nine tenths of the weights, by channels."""
    model = zoo("vgg.onnx", "vgg", "--depth", 16, "--classes", 1000, "--no-data")
    job = INIT + mesh(dp=8) + "global_batch: 64\n" + LOSS + SGD + npy("input") + GPUS
    found = search("vgg16", model, job, [rules({"input": "[{dp}, {}, {}, {}]"}), rules({"input": "[{dp}, {}, {}, {}]", "classifier.0.weight": "[{dp}, {}]", "classifier.3.weight": "[{}, {dp}]"})])
    convolutions = [op for op in found.ops if op[1] == "nn.conv"]
    assert len(convolutions) == 13, len(convolutions)
    for path, _, result, operands in convolutions:
        assert result == "[{dp}, {}, {}, {}]", f"{path} is {result}"
        assert (operands[1] if operands else found.tensors[f"{path.replace('/', '.')}.weight"]) == "[{}, {}, {}, {}]", f"{path} takes a piece of its weight"
    found.expect_ops({(f"classifier/{layer}", "nn.matmul"): "[{}, {dp}]" for layer in (0, 3)})


def table():
    """A table that is read for tokens and, transposed, makes logits: split along the vocabulary, and so is the loss."""
    names = ("table.weight", "up.weight", "down.weight")
    for vocabulary, width, batch, devices in ((32768, 256, 4, 4), (50257, 512, 8, 8)):
        shapes = ([vocabulary, width], [width, 4 * width], [4 * width, width])
        write_model("table.onnx", "table", [
            graph_input("tokens", ["batch", 128], INT64), *(graph_input(name, shape) for name, shape in zip(names, shapes)),
            node("Gather", ["table.weight", "tokens"], ["embedding"]),
            node("MatMul", ["embedding", "up.weight"], ["up"]), node("Relu", ["up"], ["act"]), node("MatMul", ["act", "down.weight"], ["down"]),
            node("Transpose", ["table.weight"], ["turned"], perm=[1, 0]), node("MatMul", ["down", "turned"], ["logits"]),
            graph_output("logits", ["batch", 128, vocabulary])])
        job = 'init { match: "*.weight" fill: 0.01 }\n' + mesh(tp=devices) + f"global_batch: {batch}\n" + LOSS + ADAMW + npy("tokens") + GPUS
        split = {"table.weight": ROWS}
        found = search(f"vocabulary of {vocabulary}", "table.onnx", job, [rules(split), rules(split | {"up.weight": COLUMNS, "down.weight": ROWS})])
        found.expect(split)
        found.expect_ops({("logits", "nn.matmul"): COLUMNS, ("loss", "nn.softmax"): "[{}, {}, {tp}]"})


for test in (lenet, blocks_that_run, blocks_of_one_sample, wide_mlp, vgg, table):
    test()
