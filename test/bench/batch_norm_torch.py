#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The net of test/job_options/batch_norm_net.py in PyTorch.

    batch_norm_torch.py record    writes test/job_options/batch_norm_numbers.json: what its 10 steps and its evaluation in f64 come to
    batch_norm_torch.py compare   prints how far PyTorch in f32 is from that
Exit status 77 without PyTorch.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test/job_options"))

import batch_norm_net as net

NUMBERS = ROOT / "test/job_options/batch_norm_numbers.json"

try:
    import torch
    from torch.nn import functional
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)


class Norm(torch.nn.Module):
    """torch.nn.BatchNorm1d; with `population` running variances follow the population's, as ONNX's training_mode says, and with `replicas`
    parts of the batch have statistics of their own, whose means the running ones follow."""

    def __init__(self, name, options):
        super().__init__()
        self.inner = torch.nn.BatchNorm1d(net.CHANNELS_OF[name], eps=net.EPSILON[name], momentum=net.MOVES[name])
        self.name, self.options = name, options

    def forward(self, x):
        running = self.inner.running_mean.clone(), self.inner.running_var.clone()
        if not self.training or self.options.get("frozen") == self.name:
            return functional.batch_norm(x, *running, self.inner.weight, self.inner.bias, eps=self.inner.eps)
        results, means, variances = [], 0, 0
        parts = x.chunk(self.options.get("replicas", 1))
        for part in parts:
            mean, variance = running[0].clone(), running[1].clone()
            results.append(functional.batch_norm(part, mean, variance, self.inner.weight, self.inner.bias, training=True,
                                                 momentum=self.inner.momentum, eps=self.inner.eps))
            means, variances = means + mean / len(parts), variances + variance / len(parts)
            count = part.numel() / part.shape[1]
        with torch.no_grad():
            if self.options.get("population"):
                variances = (variances - (1 - self.inner.momentum) * running[1]) * (count - 1) / count + (1 - self.inner.momentum) * running[1]
            self.inner.running_mean.copy_(means)
            self.inner.running_var.copy_(variances)
        return torch.cat(results)


class Net(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.bn0, self.fc1 = Norm("bn0", options), torch.nn.Linear(net.INPUTS, net.HIDDEN)
        self.bn1, self.fc2 = Norm("bn1", options), torch.nn.Linear(net.HIDDEN, net.CLASSES)

    def forward(self, x):
        hidden = self.fc1(self.bn0(x)).reshape(len(x), net.CHANNELS, -1)
        return self.fc2(torch.tanh(self.bn1(hidden)).reshape(len(x), -1))


def train(options, dtype):
    model = Net(options).to(dtype)
    state = {name.replace(".weight", ".inner.weight").replace(".bias", ".inner.bias").replace(".running", ".inner.running")
             if name.startswith("bn") else name: values for name, values in net.FIRST.items()}
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name in state:
                tensor.copy_(torch.tensor(state[name], dtype=torch.float64).reshape(tensor.shape))
    frozen = options.get("frozen")
    trained = [p for name, p in model.named_parameters() if not (frozen and name.startswith(frozen + ".") and name.endswith("weight"))]
    optimizer = torch.optim.SGD(trained, lr=net.LEARNING_RATE, momentum=net.MOMENTUM)
    xs = torch.tensor(net.XS, dtype=dtype).reshape(-1, net.INPUTS)
    labels = torch.tensor(net.LABELS)
    losses, count = [], options.get("micro_batches", 1)
    for step in range(net.STEPS):
        optimizer.zero_grad()
        total = 0
        for i in range(count):
            size = net.BATCH // count
            rows = slice(step * net.BATCH + i * size, step * net.BATCH + (i + 1) * size)
            loss = functional.cross_entropy(model(xs[rows]), labels[rows]) / count
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    model.eval()
    logits = model(torch.tensor(net.EVAL_XS, dtype=dtype).reshape(-1, net.INPUTS))
    found = {"losses": losses, "evaluation": [functional.cross_entropy(logits, torch.tensor(net.EVAL_LABELS)).item()]}
    for name, tensor in model.state_dict().items():
        if "num_batches" not in name:
            found[name.replace(".inner", "")] = tensor.double().flatten().tolist()
    return found


def main():
    exact = {name: train(options, torch.float64) for name, options in net.CASES.items()}
    if sys.argv[1:] == ["record"]:
        NUMBERS.write_text(json.dumps(exact, indent=0) + "\n", encoding="utf-8")
        return 0
    if sys.argv[1:] != ["compare"]:
        sys.exit(__doc__)
    for name, options in net.CASES.items():
        narrow = train(options, torch.float32)
        worst = max((max(abs(x - y) for x, y in zip(narrow[key], exact[name][key])) / max(abs(y) for y in exact[name][key]), key)
                    for key in exact[name])
        print(f"{name}: PyTorch in f32 differs by {worst[0]:.2g} of the largest number of {worst[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
