#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as torch exports them: which compile, and whether they compute and learn what torch does.

    exports.py [--build BUILD] [--torch-python PYTHON] [--size small|full] [--only NAME,...] [--exporters script,dynamo] [--modes eval,train] [--keep FOLDER]

GPT-2, BERT, LLaMA (transformers), ViT, Swin, ConvNeXt (torchvision), MLP-Mixer, and taggers of two layers of LSTM, GRU in both directions, and RNN, with random weights and without dropout, each by both exporters of torch, exported
for inference and for training. Each is compiled as a forward program, whose output is compared with torch's, and with a job, for three steps of SGD, of which losses
and weights are compared. Full: GPT-2 124M, BERT-base, a LLaMA of 102M, ViT-B/16, Mixer-B/16. Prints a line for each export: seconds that compiling with the job takes on one core, and how far apart numbers are. What torch itself cannot export is said and
left out. Fails where anything that torch exports is refused or differs by more than 1e-4. Exit status 77 where PYTHON cannot import what it takes.

    exports.py --peer NAME --exporter EXPORTER --mode MODE --size SIZE --folder FOLDER        what torch does: model.onnx, peer.json and arrays
    exports.py --compare FOLDER                                                            looks at what the programs wrote there
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from measuring import MPI_ENV, ROOT, table

TOLERANCE = 1e-4          # of outputs, losses and weights, as a share of the largest
UPDATE_TOLERANCE = 1e-2   # of what three steps changed, which is a small part of a weight
STEPS, BATCH = 3, 2
LEARNING_RATE = 0.01
RECURRENT = ("lstm", "gru", "rnn")
NAMES = ("gpt2", "bert", "llama", "vit", "swin", "convnext", "mixer", *RECURRENT)
FULL = ("gpt2", "bert", "llama", "vit", "mixer")


def with_mask(model):
    """A causal model that is given a mask of ones: without one, transformers asks torch for what the TorchScript exporter does not have (aten::diff)."""
    import torch

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens):
            return self.model(tokens, attention_mask=torch.ones_like(tokens))

    return Masked()


def build_mixer(small):
    """MLP-Mixer of Tolstikhin et al. 2021."""
    import torch
    from torch import nn
    patch, image, width, tokens, channels, layers = (8, 32, 64, 32, 128, 2) if small else (16, 224, 768, 384, 3072, 12)
    places = (image // patch) ** 2

    def mlp(size, hidden):
        return nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.token_mixing = nn.LayerNorm(width), mlp(places, tokens)
            self.norm2, self.channel_mixing = nn.LayerNorm(width), mlp(width, channels)

        def forward(self, x):
            x = x + self.token_mixing(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channel_mixing(self.norm2(x))

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, width, patch, patch)
            self.layers = nn.Sequential(*[Layer() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10 if small else 1000)

        def forward(self, x):
            return self.head(self.norm(self.layers(self.stem(x).flatten(2).transpose(1, 2))).mean(1))

    return Mixer(), torch.randn(STEPS * BATCH, 3, image, image)


def build_tagger(kind):
    """Two recurrent layers over embeddings, and a class for each token; GRU reads in both directions."""
    import torch
    width, hidden, is_both = 24, 32, kind == "gru"

    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(100, width)
            self.layers = getattr(torch.nn, kind.upper())(width, hidden, num_layers=2, batch_first=True, bidirectional=is_both)
            self.head = torch.nn.Linear(2 * hidden if is_both else hidden, 10)

        def forward(self, tokens):
            return self.head(self.layers(self.embedding(tokens))[0])

    return Tagger()


def build_model(name, size):
    """The model, without dropout, and inputs for all steps."""
    import torch
    torch.manual_seed(1)
    small = size == "small"
    # None is 0, the padding, whose row of a table torch does not train; an exported model does not say so.
    tokens = torch.randint(1, 100, (STEPS * BATCH, 16 if small else 64))
    if name in RECURRENT:
        return build_tagger(name), tokens
    import torchvision.models
    import transformers
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100} if small else {}
    if name == "gpt2":
        sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 64} if small else {}
        config = transformers.GPT2Config(**sizes, use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        return transformers.GPT2LMHeadModel(config), tokens
    if name == "bert":
        config = transformers.BertConfig(**sizes, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
        return transformers.BertForSequenceClassification(config), tokens
    if name == "llama":
        sizes = sizes or {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 2048, "vocab_size": 32000}
        config = transformers.LlamaConfig(**sizes, num_key_value_heads=sizes["num_attention_heads"] // 2, use_cache=False, tie_word_embeddings=not small)
        return transformers.LlamaForCausalLM(config), tokens
    if name == "vit":
        model = torchvision.models.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10) if small else torchvision.models.vit_b_16()
        return model, torch.randn(STEPS * BATCH, 3, 32 if small else 224, 32 if small else 224)
    if name == "mixer":
        return build_mixer(small)
    model = torchvision.models.swin_t(stochastic_depth_prob=0) if name == "swin" else torchvision.models.convnext_tiny(stochastic_depth_prob=0)
    return model, torch.randn(STEPS * BATCH, 3, 64, 64)


def peer(options):
    """Exports the model, then trains it."""
    import numpy
    import onnx
    import torch
    model, inputs = build_model(options.peer, options.size)
    if options.exporter == "script" and options.peer in ("gpt2", "llama"):
        model = with_mask(model)
    with torch.no_grad():
        for parameter in model.parameters():  # no two alike, so that each is found again whatever an exporter calls it
            parameter += 0.02 * torch.randn_like(parameter)
    model.train(options.mode == "train")
    folder = pathlib.Path(options.folder)
    file, argument = str(folder / "model.onnx"), inputs[:BATCH]
    if options.exporter == "dynamo":
        # Its optimizer folds what it can, tables of positions among it, and copies shared weights: nothing to train.
        torch.onnx.export(model, (argument,), file, dynamo=True, external_data=True, opset_version=18, optimize=options.mode == "eval")
    else:
        mode = torch.onnx.TrainingMode.TRAINING if options.mode == "train" else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(model, (argument,), file, dynamo=False, opset_version=17, training=mode, do_constant_folding=False)
    graph = onnx.load(file, load_external_data=True).graph
    initial = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    known = {(value.shape, value.tobytes()): name for name, value in initial.items()}
    weights, frozen, repeated = {}, [], set()  # initializer -> parameter and whether it is transposed
    for tensor in graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or not tensor.dims:
            continue
        value = onnx.numpy_helper.to_array(tensor)
        plain, turned = known.get((value.shape, value.tobytes())), known.get((value.T.shape, value.T.tobytes()))
        if plain or turned:
            weights[tensor.name] = [plain or turned, plain is None]
        else:
            frozen.append(tensor.name)
            rows = value.reshape(-1, value.shape[-1])  # dynamo's optimizer computes the first step of an RNN from its zeros: the bias
            repeated |= {known.get((rows[0].shape, rows[0].tobytes()))} if (rows == rows[0]).all() else set()
    lost = []  # parameters that the exporter made part of constants
    for name, parameter in model.named_parameters():
        if all(found != name for found, _ in weights.values()):
            parameter.requires_grad_(False)
            lost.append(name)
    found = [name for name, _ in weights.values()]
    copied = sorted({name for name in found if found.count(name) > 1} | (repeated - {None}))  # shared weights that it made several of

    def logits_of(batch):
        result = model(batch)
        return result.logits if hasattr(result, "logits") else result

    with torch.no_grad():
        expected = logits_of(argument)
    classes = expected.shape[-1]
    labels = torch.randint(0, classes, (STEPS * BATCH, *expected.shape[1:-1]))
    numpy.save(folder / "expected.npy", expected.numpy())
    numpy.save(folder / "input.npy", argument.numpy())
    numpy.save(folder / "x_train.npy", inputs.numpy())
    numpy.save(folder / "label_train.npy", labels.numpy())
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=LEARNING_RATE)
    losses = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits_of(inputs[rows]).reshape(-1, classes), labels[rows].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    numpy.savez(folder / "initial.npz", **initial)
    numpy.savez(folder / "final.npz", **{name: parameter.detach().numpy() for name, parameter in model.named_parameters()})
    (folder / "peer.json").write_text(json.dumps({
        "input": graph.input[0].name, "output": graph.output[0].name, "losses": losses, "weights": weights, "frozen": frozen, "lost": lost, "copied": copied,
        "parameters": sum(value.size for value in initial.values()), "nodes": len(graph.node)}))


def compare(folder):
    """Prints how far apart outputs, weights and changes of weights are, as JSON."""
    import numpy
    found = json.loads((folder / "peer.json").read_text())
    apart = {}

    def difference(x, y, largest):
        return float(abs(x - y).max() / largest) if x.shape == y.shape else float("nan")

    if (folder / "found.npy").exists():
        x, y = numpy.load(folder / "expected.npy"), numpy.load(folder / "found.npy")
        apart["output"] = difference(x, y, abs(x).max())
    if (folder / "trained").exists():
        initial, final = numpy.load(folder / "initial.npz"), numpy.load(folder / "final.npz")
        apart["weights"] = apart["updates"] = 0.0
        for name, (parameter, is_turned) in found["weights"].items():
            before, after = initial[parameter], final[parameter]
            ours = numpy.load(folder / "trained" / (name.replace("/", "_") + ".npy"))
            ours = ours.T if is_turned else ours
            change = abs(after - before).max()
            apart["weights"] = max(apart["weights"], difference(after, ours, abs(after).max()))
            # What no loss depends on does not change; a change of the size of a rounding says nothing.
            if change > 1e-6 * abs(before).max():
                apart["updates"] = max(apart["updates"], difference(after, ours, change))
    print(json.dumps(apart))


JOB = """global_batch: %d
loss { softmax_cross_entropy { logits: "%s" labels: "labels" } }
optimizer { sgd {} learning_rate: %g }
dataset { npy {} shuffle: false features { column: "x" tensor: "%s" } features { column: "label" tensor: "labels" } }
log_every: 1
"""


class Export:
    """One model by one exporter."""

    def __init__(self, options, name, exporter, mode, folder):
        self.options, self.folder = options, folder
        self.model = [name, exporter, mode]
        self.faults = []
        self.cells = {"compile": "", "output": "", "losses": "", "weights": "", "updates": ""}

    def call(self, *command):
        """Runs a command; returns its exit status, what it said, and its seconds on a core."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([str(part) for part in command], cwd=self.folder, env={**os.environ, **MPI_ENV}, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return done.returncode, done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def ours(self, *command):
        """The same for a program of ours, and whether it ended well in place of the status."""
        code, text, seconds = self.call(*command)
        if code != 0:
            self.faults.append(text.strip().splitlines()[-1][:300] if text.strip() else f"status {code}")
        return code == 0, text, seconds

    def check(self, cell, value, tolerance):
        self.cells[cell] = f"{value:.1e}"
        if not value <= tolerance:
            self.faults.append(f"{cell} {value:.1e} apart")

    def script(self, *arguments):
        return self.call(self.options.torch_python, pathlib.Path(__file__).resolve(), *arguments)

    def try_forward(self, found):
        compiler = pathlib.Path(self.options.build) / "bin/ashlarc"
        if self.ours(compiler, "model.onnx", "-o", "forward")[0]:
            self.ours("./forward", "--input", f"{found['input']}=input.npy", "--output", f"{found['output']}=found.npy")
            (self.folder / "forward").unlink()

    def try_training(self, found):
        job = JOB % (BATCH, found["output"], LEARNING_RATE, found["input"]) + "".join(f'frozen: "{name}"\n' for name in found["frozen"])
        (self.folder / "job.txtpb").write_text(job)
        compiler = pathlib.Path(self.options.build) / "bin/ashlarc"
        good, _, seconds = self.ours("taskset", "-c", "0", compiler, "model.onnx", "--job", "job.txtpb", "-o", "train")
        self.cells["compile"] = f"{seconds:.1f} s" if good else ""
        if good and self.ours("./train", "--data", ".", "--steps", STEPS, "--metrics", "metrics.jsonl", "--save-parameters", "trained")[0]:
            losses = [json.loads(line)["loss"] for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
            apart = [abs(x - y) / abs(y) for x, y in zip(losses, found["losses"])]
            self.check("losses", max(apart) if len(losses) == len(found["losses"]) else float("nan"), TOLERANCE)

    def run(self):
        """Returns the row of the table, and the faults of ours."""
        name, exporter, mode = self.model
        code, text, _ = self.script("--peer", name, "--exporter", exporter, "--mode", mode, "--size", self.options.size, "--folder", self.folder)
        if code != 0:
            return [*self.model, "", *self.cells.values(), "torch does not export it: " + text.strip().splitlines()[-1][:160]], []
        found = json.loads((self.folder / "peer.json").read_text())
        self.try_forward(found)
        if not found["copied"]:
            self.try_training(found)
        code, text, _ = self.script("--compare", self.folder)
        if code != 0:
            self.faults.append(text.strip().splitlines()[-1])
        apart = json.loads(text) if code == 0 else {}
        for cell, tolerance in (("output", TOLERANCE), ("weights", TOLERANCE), ("updates", UPDATE_TOLERANCE)):
            if cell in apart:
                self.check(cell, apart[cell], tolerance)
        notes = [f"not in the file: {', '.join(found['lost'])}"] if found["lost"] else []
        notes += [f"not trained, since several initializers are copies of {', '.join(found['copied'])}"] if found["copied"] else []
        return [*self.model, f"{found['parameters'] / 1e6:.1f}M", *self.cells.values(), "; ".join(self.faults + notes)], self.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--only", default="")
    parser.add_argument("--exporters", default="script,dynamo")
    parser.add_argument("--modes", default="eval,train")
    parser.add_argument("--keep", default="")
    parser.add_argument("--peer", default="")
    parser.add_argument("--exporter", default="")
    parser.add_argument("--mode", default="")
    parser.add_argument("--folder", default="")
    parser.add_argument("--compare", default="")
    options = parser.parse_args()
    if options.peer:
        return peer(options)
    if options.compare:
        return compare(pathlib.Path(options.compare))
    from torch_turns import skip_without
    names = options.only.split(",") if options.only else NAMES if options.size == "small" else FULL
    others = [] if set(names) <= set(RECURRENT) else ["torchvision", "transformers"]
    skip_without(options.torch_python, "numpy", "onnx", "torch", "onnxscript", *others)
    rows, faults = [], []
    for name in names:
        for exporter in options.exporters.split(","):
            for mode in options.modes.split(","):
                with tempfile.TemporaryDirectory() as temporary:
                    folder = pathlib.Path(options.keep or temporary) / f"{name}.{exporter}.{mode}"
                    folder.mkdir(parents=True, exist_ok=True)
                    row, found = Export(options, name, exporter, mode, folder).run()
                print(" ".join(row), flush=True)
                rows.append(row)
                faults += [f"{name} by {exporter} for {mode}: {fault}" for fault in found]
    table(f"Models as torch exports them, {options.size}",
          ["model", "exporter", "mode", "parameters", "compile", "output", "losses", "weights", "updates", "notes"], rows)
    return "; ".join(faults) or 0  # an empty text would be a failure, too


if __name__ == "__main__":
    sys.exit(main())
