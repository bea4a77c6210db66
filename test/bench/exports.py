#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as torch exports them: which import, and whether their forward programs compute what torch does.

    exports.py [--build BUILD] [--torch-python PYTHON] [--only NAME,...]

Small members of the families of GPT-2, BERT, LLaMA (transformers), ViT, Swin and ConvNeXt (torchvision) with random weights, each by both exporters of torch, for
inference. Prints a line for each export; fails where one that imports differs from torch by more than 1e-4 of the largest output. What torch itself cannot export is
said and left out. Exit status 77 where PYTHON cannot import what it takes.

    exports.py --peer NAME --exporter script|dynamo --folder FOLDER        exports one: model.onnx, inputN.npy, names.json, expected.npy
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from measuring import MPI_ENV, ROOT, table

TOLERANCE = 1e-4
NAMES = ("gpt2", "bert", "llama", "vit", "swin", "convnext")


def build_model(name):
    """The model and its inputs."""
    import torch
    import torchvision.models
    import transformers
    torch.manual_seed(1)
    tokens = torch.randint(0, 100, (2, 16))
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100, n_positions=64, use_cache=False)), tokens
    if name == "bert":
        return transformers.BertForSequenceClassification(transformers.BertConfig(**sizes)), tokens
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_key_value_heads=2, use_cache=False)), tokens
    if name == "vit":
        model = torchvision.models.VisionTransformer(32, 8, 2, 4, 64, 128)
        torch.nn.init.normal_(model.heads.head.weight)  # zeros otherwise, and so would all logits be
        return model, torch.randn(2, 3, 32, 32)
    if name == "swin":
        return torchvision.models.swin_t(), torch.randn(1, 3, 64, 64)
    return torchvision.models.convnext_tiny(), torch.randn(1, 3, 64, 64)


def peer(options):
    import numpy
    import torch
    model, argument = build_model(options.peer)
    model.eval()
    folder = pathlib.Path(options.folder)
    file = str(folder / "model.onnx")
    if options.exporter == "dynamo":
        torch.onnx.export(model, (argument,), file, dynamo=True, external_data=False, opset_version=18)
    else:
        torch.onnx.export(model, (argument,), file, dynamo=False, opset_version=17)
    with torch.no_grad():
        result = model(argument)
    numpy.save(folder / "expected.npy", (result.logits if hasattr(result, "logits") else result).numpy())
    numpy.save(folder / "input.npy", argument.numpy())
    import onnx
    graph = onnx.load(file, load_external_data=False).graph
    (folder / "names.json").write_text(json.dumps([graph.input[0].name, graph.output[0].name]))


def call(command, folder):
    done = subprocess.run([str(part) for part in command], cwd=folder, env={**os.environ, **MPI_ENV}, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def try_export(options, name, exporter, folder):
    """Returns what came of an export, and whether that is a fault of ours."""
    code, text = call([options.torch_python, pathlib.Path(__file__).resolve(), "--peer", name, "--exporter", exporter, "--folder", folder], folder)
    if code != 0:
        return "torch does not export it: " + text.strip().splitlines()[-1][:120], False
    code, text = call([pathlib.Path(options.build) / "bin/ashlarc", "model.onnx", "-o", "program"], folder)
    if code != 0:
        return text.strip().splitlines()[-1][:200], False
    taken, given = json.loads((folder / "names.json").read_text())
    code, text = call(["./program", "--input", f"{taken}=input.npy", "--output", f"{given}=found.npy"], folder)
    if code != 0:
        return text.strip().splitlines()[-1][:200], True
    code, text = call([options.torch_python, "-c", "import numpy; x, y = numpy.load('expected.npy'), numpy.load('found.npy'); "
                       "print(abs(x - y).max() / abs(x).max() if x.shape == y.shape else 'nan')"], folder)
    apart = float(text)
    return f"{apart:.1e} of the largest output apart", not apart <= TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--peer", default="")
    parser.add_argument("--exporter", default="")
    parser.add_argument("--folder", default="")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "test/e2e"))
    if options.peer:
        peer(options)
        return
    from torch_turns import skip_without
    skip_without(options.torch_python, "numpy", "onnx", "torch", "torchvision", "transformers", "onnxscript")
    rows, faults = [], []
    for name in options.only.split(","):
        for exporter in ("script", "dynamo"):
            with tempfile.TemporaryDirectory() as folder:
                said, is_fault = try_export(options, name, exporter, pathlib.Path(folder))
            rows.append([name, exporter, said])
            faults += [f"{name} by {exporter}: {said}"] if is_fault else []
    table("Models as torch exports them", ["model", "exporter", "outcome"], rows)
    if faults:
        sys.exit("differ: " + "; ".join(faults))


if __name__ == "__main__":
    main()
