#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The optimizers of test/job_options/optimizer_net.py in PyTorch, and LAMB by the formulas of its paper (You et al., "Large batch optimization
for deep learning: training BERT in 76 minutes", 2020, algorithm 2, with bias correction).

    optimizers_torch.py record          writes test/job_options/optimizer_numbers.json: what 20 steps in f64 come to
    optimizers_torch.py compare TOOLS   trains the same with ashlarc in TOOLS, and prints how far it, and PyTorch in f32, are from PyTorch in
                                        f64; fails beyond 1e-6, relative to the largest number of a tensor. Exit status 77 without PyTorch.
"""

import fnmatch
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test/job_options"))

import optimizer_net as net

NUMBERS = ROOT / "test/job_options/optimizer_numbers.json"
TOLERANCE = 1e-6

try:
    import torch
    from torch.optim import lr_scheduler
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of the paper; phi is the identity."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for w in group["params"]:
                state = self.state[w]
                m = state["m"] = beta1 * state.get("m", torch.zeros_like(w)) + (1 - beta1) * w.grad
                v = state["v"] = beta2 * state.get("v", torch.zeros_like(w)) + (1 - beta2) * w.grad**2
                r = (m / (1 - beta1**self.steps)) / ((v / (1 - beta2**self.steps)).sqrt() + group["eps"])
                u = r + group["weight_decay"] * w
                of_w, of_u = w.norm(), u.norm()
                w -= group["lr"] * (of_w / of_u if of_w > 0 and of_u > 0 else 1.0) * u


def make_scheduler(schedule, optimizer):
    def make(part):
        return getattr(lr_scheduler, part[0])(optimizer, **part[1])

    if not schedule:
        return None
    if isinstance(schedule, list):
        return lr_scheduler.SequentialLR(optimizer, [make(schedule[0]), make(schedule[2])], milestones=[schedule[1]])
    return make(schedule)


def train(name, dtype):
    """Returns the loss of each step and the parameters behind the last one."""
    case = net.CASES[name]
    params = {n: torch.tensor(values, dtype=dtype).reshape(net.SHAPES[n]).requires_grad_() for n, values in net.PARAMETERS.items()}
    kind, options = case.torch
    bare = [p for n, p in params.items() if case.no_decay and fnmatch.fnmatch(n, case.no_decay)]
    rest = [p for n, p in params.items() if not case.no_decay or not fnmatch.fnmatch(n, case.no_decay)]
    groups = [{"params": rest}] + ([{"params": bare, "weight_decay": 0.0}] if bare else [])
    optimizer = (Lamb if kind == "Lamb" else getattr(torch.optim, kind))(groups, **options)
    scheduler = make_scheduler(case.schedule, optimizer)
    xs = torch.tensor(net.XS, dtype=dtype).reshape(net.STEPS, net.BATCH, net.INPUTS)
    labels = torch.tensor(net.LABELS).reshape(net.STEPS, net.BATCH)
    losses = []
    for step in range(net.LAST_STEP.get(name, net.STEPS)):
        hidden = torch.tanh(xs[step] @ params["fc1.weight"].T + params["fc1.bias"])
        loss = torch.nn.functional.cross_entropy(hidden @ params["fc2.weight"].T + params["fc2.bias"], labels[step])
        optimizer.zero_grad()
        loss.backward()
        if case.clip:
            torch.nn.utils.clip_grad_norm_(params.values(), case.clip)
        optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    return {"losses": losses, **{n: p.detach().flatten().tolist() for n, p in params.items()}}


def distance(x, y):
    """Returns the largest difference of two lists of numbers, relative to the largest of the second."""
    assert len(x) == len(y)
    return max(abs(a - b) for a, b in zip(x, y)) / max(abs(b) for b in y)


def compare(tools):
    from bench import Bench
    from cases_torch import train_here
    recorded = json.loads(NUMBERS.read_text())
    tools, worst = str(pathlib.Path(tools).resolve()), 0
    print(f"relative to f64      {'ashlar f32':>12} {'torch f32':>12} {'recorded':>12}")
    for name in net.CASES:
        exact, narrow = train(name, torch.float64), train(name, torch.float32)
        with tempfile.TemporaryDirectory() as folder:
            here = train_here(Bench(tools, folder), name)
        row = [max(distance(numbers[key], exact[key]) for key in exact) for numbers in (here, narrow, recorded[name])]
        worst = max(worst, row[0], row[2])
        print(f"{name:20} {row[0]:12.1e} {row[1]:12.1e} {row[2]:12.1e}")
    print(f"worst {worst:.1e}, allowed {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        lines = [f"{json.dumps(name)}: {json.dumps(train(name, torch.float64))}" for name in net.CASES]
        NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        sys.exit(compare(sys.argv[2]))
