#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as torch exports them, at full size, on one host: a training step beside PyTorch's, and inference beside ONNX Runtime's.

    exports_peers.py [--build BUILD] [--torch-python PYTHON] [--only train-vit,train-gpt2,infer-minilm,infer-vit] [--threads T] [--turns T]
    exports_peers.py --export CASE --peer FOLDER    writes model.onnx, arrays and names.json
    exports_peers.py --time CASE --peer FOLDER      what torch, or ONNX Runtime, takes, as the bench starts it

ViT-B/16 of torchvision (batch 8 trained, 1 inferred), GPT-2 124M of transformers (4 sequences of 256 tokens), a classifier of the sizes of MiniLM-L6 (1 sequence of
128 tokens), with random weights, in f32, by torch's TorchScript exporter. A training step is one of SGD on one batch, in PyTorch as it is and under torch.compile; losses
are compared. Of inference, the numbers that are compared are the first of the output. Exit status 77 where PYTHON cannot import what it takes.
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile
import time

from exports import build_model, with_mask
from measuring import ROOT, run, steps_of
from torch_turns import ask_peer, compare, skip_without

WARM_UP, STEPS, RUNS, LEARNING_RATE = 2, 4, 20, 0.01
AIMS = {"train": 0.7, "infer": 0.9}
TOLERANCES = {"train": [1e-4, 1e-3, 1e-3], "infer": [1e-3, 1e-3]}
CASES = ("train-vit", "train-gpt2", "infer-minilm", "infer-vit")

JOB = """global_batch: %d
loss { softmax_cross_entropy { logits: "%s" labels: "labels" } }
optimizer { sgd {} learning_rate: %g }
dataset { npy {} shuffle: false repeat: 100000 features { column: "x" tensor: "%s" } features { column: "label" tensor: "labels" } }
log_every: 1
"""


def build(case):
    """The model of a case, its input and, of a training, its labels; the same in each process."""
    import torch
    if case == "infer-minilm":
        import transformers
        torch.manual_seed(1)
        config = transformers.BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
        model = transformers.BertForSequenceClassification(config)
        return model.eval(), torch.randint(1, 30000, (1, 128)), None
    model, inputs = build_model(case.split("-")[1], "full")
    if case == "infer-vit":
        with torch.no_grad():
            model.heads.head.weight.normal_()  # torchvision begins with zeros
        return model.eval(), inputs[:1], None
    if case == "train-vit":
        return model.train(), torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    return with_mask(model).train(), torch.randint(1, 50257, (4, 256)), torch.randint(0, 50257, (4, 256))


def tensor_of(result):
    """The output of a model: transformers wraps it."""
    return result if hasattr(result, "shape") else result[0]


def export(case, folder):
    import numpy
    import onnx
    import torch
    model, inputs, labels = build(case)
    mode = torch.onnx.TrainingMode.TRAINING if labels is not None else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, (inputs,), str(folder / "model.onnx"), dynamo=False, opset_version=17, training=mode, do_constant_folding=labels is None)
    graph = onnx.load(folder / "model.onnx").graph
    trained = {name for name, _ in model.named_parameters()}
    frozen = [tensor.name for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT and tensor.dims and tensor.name not in trained]
    numpy.save(folder / "x_train.npy", inputs.numpy())
    if labels is not None:
        numpy.save(folder / "label_train.npy", labels.numpy())
    (folder / "names.json").write_text(json.dumps(
        {"input": graph.input[0].name, "output": graph.output[0].name, "batch": len(inputs), "frozen": frozen if labels is not None else []}))


def time_training(case):
    import torch

    from stages_torch import cannot_compile
    found = {}
    for way in ("eager", "compiled"):
        if way == "compiled" and (fault := cannot_compile()):
            found[way] = {"missing": fault}
            continue
        model, inputs, labels = build(case)
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE), []
        model = torch.compile(model) if way == "compiled" else model
        for number in range(WARM_UP + STEPS):
            if number == WARM_UP:
                begin = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            logits = tensor_of(model(inputs))
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found[way] = {"ms": (time.perf_counter() - begin) / STEPS * 1e3, "losses": losses}
    return f"PyTorch {torch.__version__}", found


def time_inference(options):
    import numpy
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = options.threads, 1
    session = onnxruntime.InferenceSession(options.peer / "model.onnx", settings, providers=["CPUExecutionProvider"])
    inputs = {session.get_inputs()[0].name: numpy.load(options.peer / "x_train.npy")}
    result = session.run(None, inputs)[0]
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - begin)
    found = {"ms": sorted(seconds)[RUNS // 2] * 1e3, "losses": result.flatten()[:4].tolist()}
    return f"ONNX Runtime {onnxruntime.__version__}", {"session": found}


class Bench:
    def __init__(self, options, case, folder):
        self.options, self.case, self.folder = options, case, folder
        run([options.torch_python, pathlib.Path(__file__).resolve(), "--export", case, "--peer", folder], folder)
        self.names = json.loads((folder / "names.json").read_text())
        compiler = pathlib.Path(options.build).resolve() / "bin/ashlarc"
        if case.startswith("train"):
            job = JOB % (self.names["batch"], self.names["output"], LEARNING_RATE, self.names["input"])
            (folder / "job.txtpb").write_text(job + "".join(f'frozen: "{name}"\n' for name in self.names["frozen"]))
            run([compiler, "model.onnx", "--job", "job.txtpb", "-o", "program"], folder)
        else:
            run([compiler, "model.onnx", "-o", "program"], folder)

    def ours(self):
        if self.case.startswith("train"):
            run(["./program", "--data", ".", "--steps", WARM_UP + STEPS, "--threads", self.options.threads, "--metrics", "metrics.jsonl"], self.folder)
            return steps_of(self.folder / "metrics.jsonl", WARM_UP)
        arguments = ["--input", f"{self.names['input']}=x_train.npy", "--threads", self.options.threads]
        run(["./program", *arguments, "--output", f"{self.names['output']}=found.npy"], self.folder)
        text = run(["./program", "--benchmark", RUNS, *arguments], self.folder)[1]
        return float(re.search(r"forward: ([0-9.]+) us a run", text).group(1)) / 1e3, self.first_numbers()

    def first_numbers(self):
        from inference_ort import floats_of
        return list(floats_of(self.folder / "found.npy")[:4])

    def theirs(self):
        script = pathlib.Path(__file__).resolve()
        return ask_peer([self.options.torch_python, script, "--time", self.case, "--peer", self.folder, f"--threads={self.options.threads}"], self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--export", choices=CASES)
    parser.add_argument("--time", choices=CASES)
    parser.add_argument("--peer", type=pathlib.Path)
    options = parser.parse_args()
    if options.export:
        return export(options.export, options.peer)
    if options.time:
        import torch
        torch.set_num_threads(options.threads)
        name, ways = time_training(options.time) if options.time.startswith("train") else time_inference(options)
        return print(json.dumps({"peer": name, "ways": ways}), flush=True)
    skip_without(options.torch_python, "torch", "torchvision", "transformers", "onnx", "onnxruntime")
    faults = []
    for case in options.only.split(","):
        kind = case.split("-")[0]
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare(Bench(options, case, pathlib.Path(folder)), options.turns, TOLERANCES[kind], f"{case}, {options.threads} thread(s)", AIMS[kind])
            except SystemExit as fault:
                faults.append(f"{case}: {fault}")
    return sys.exit("; ".join(faults)) if faults else None


if __name__ == "__main__":
    main()
