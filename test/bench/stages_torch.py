#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of pipeline_torch.py: the zoo's transformer in PyTorch, a process a stage, with torch.distributed.pipelining's 1F1B over gloo on one host.

    stages_torch.py FOLDER --layers L --heads H --batch B --micro-batches M --warm-up K --steps S [--ways eager,attention,compiled]

FOLDER holds the initial parameters (init/layer0.mlp.up.weight.npy, ...) and the one batch that every step takes (tokens_train.npy, next_train.npy).
Prints one line of JSON: of each way the milliseconds a step behind the warm-up and the losses of all steps, or why it cannot be measured. The ways: `eager`,
the operations of the model one by one; `attention`, with scaled_dot_product_attention for its four; `compiled`, that with torch.compile of each stage. AdamW is
the fused one; one thread a rank.
"""

import argparse
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from torch_peer import ADAMW, print_ways, read_npy, timed_steps

STAGES = 2


class Parameters:
    """The initial parameters, by the names that they have in the model."""

    def __init__(self, folder):
        self.folder = folder

    def __getitem__(self, name):
        return read_npy(self.folder / f"{name}.npy")

    def linear(self, name):
        weight = self[f"{name}.weight"]  # (in, out)
        layer = nn.Linear(*weight.shape)
        with torch.no_grad():
            layer.weight.copy_(weight.T)
            layer.bias.copy_(self[f"{name}.bias"])
        return layer

    def norm(self, name):
        layer = nn.LayerNorm(self[f"{name}.weight"].numel())
        with torch.no_grad():
            layer.weight.copy_(self[f"{name}.weight"])
            layer.bias.copy_(self[f"{name}.bias"])
        return layer


class Embedding(nn.Module):
    def __init__(self, parameters):
        super().__init__()
        self.table = nn.Parameter(parameters["embedding.weight"].clone())
        self.position = nn.Parameter(parameters["position.weight"].clone())

    def forward(self, tokens):  # (B, S) -> (B, S, W)
        return nn.functional.embedding(tokens, self.table) + self.position


class Layer(nn.Module):
    def __init__(self, parameters, name, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1, self.norm2 = (parameters.norm(f"{name}.{part}") for part in ("norm1", "norm2"))
        self.query, self.key, self.value, self.projection = (parameters.linear(f"{name}.attention.{part}") for part in ("query", "key", "value", "projection"))
        self.up, self.down = parameters.linear(f"{name}.mlp.up"), parameters.linear(f"{name}.mlp.down")

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (part(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in (self.query, self.key, self.value))
        if self.fused:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            hidden = torch.full((length, length), float("-inf")).triu(1)
            mixed = torch.softmax(q @ k.transpose(-2, -1) * (width // self.heads)**-0.5 + hidden, -1) @ v
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):  # (B, S, W)
        x = x + self.attention(self.norm1(x))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class Head(nn.Module):
    def __init__(self, parameters):
        super().__init__()
        self.norm = parameters.norm("norm")
        weight = parameters["head.weight"]
        self.head = nn.Linear(*weight.shape, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(weight.T)

    def forward(self, x):  # (B, S, W) -> (B, S, V)
        return self.head(self.norm(x))


def make_stage(rank, options, fused):
    parameters = Parameters(options.folder / "init")
    layers = [Layer(parameters, f"layer{layer}", options.heads, fused) for layer in range(options.layers) if layer * STAGES // options.layers == rank]
    return nn.Sequential(*([Embedding(parameters)] if rank == 0 else []), *layers, *([Head(parameters)] if rank == STAGES - 1 else []))


def cross_entropy(logits, labels):
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def cannot_compile():
    """Why torch.compile does not work here; nothing where it does."""
    try:
        torch.compile(lambda x: torch.relu(x) + 1)(torch.ones(8))
    except Exception as error:  # no C++ compiler that it likes
        return type(error).__name__
    return None


def measure(way, rank, options):
    """Milliseconds a step of a rank, and each step's loss, on all ranks; or why the way cannot be measured."""
    if way == "compiled" and (fault := cannot_compile()):
        return {"missing": fault}
    module = make_stage(rank, options, fused=way != "eager")
    optimizer = torch.optim.AdamW(module.parameters(), **ADAMW)
    module = torch.compile(module) if way == "compiled" else module
    schedule = Schedule1F1B(PipelineStage(module, rank, STAGES, torch.device("cpu")), options.micro_batches, loss_fn=cross_entropy)
    tokens, labels = (read_npy(options.folder / f"{column}_train.npy") for column in ("tokens", "next"))

    def step():
        optimizer.zero_grad(set_to_none=True)
        parts = []
        if rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=labels, losses=parts)
        optimizer.step()
        return sum(part.item() for part in parts) / options.micro_batches

    milliseconds, losses = timed_steps(step, options)
    dist.broadcast(losses, STAGES - 1)
    return {"ms": milliseconds, "losses": losses.tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ways", default="eager,attention,compiled")
    for name, default in (("layers", 4), ("heads", 4), ("batch", 32), ("micro-batches", 8), ("warm-up", 2), ("steps", 8), ("port", 29513)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    print_ways(STAGES, options, options.ways.split(","), measure)


if __name__ == "__main__":
    main()
