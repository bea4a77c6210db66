#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of optimizer_parallel_torch.py: the zoo's mlp with AdamW in PyTorch, a process a rank, over gloo on one host.

    sharded_torch.py FOLDER --ranks N --layers L --width W --batch B --warm-up K --steps S

FOLDER holds the initial parameters (init/fc1.weight.npy, ...) and the one batch that every step takes (x_train.npy, label_train.npy).
Prints one line of JSON: of each way the milliseconds a step behind the warm-up and the losses of all steps. The ways: DistributedDataParallel alone,
with ZeroRedundancyOptimizer, and fully_shard (FSDP2) of each layer. AdamW is the fused one; one thread a rank.
"""

import argparse
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

from mlp_torch import make_model
from torch_peer import ADAMW, print_ways, read_npy, timed_steps


def load(model, folder):
    with torch.no_grad():
        for number, layer in enumerate((part for part in model if isinstance(part, nn.Linear)), 1):
            layer.weight.copy_(read_npy(folder / f"fc{number}.weight.npy"))
            layer.bias.copy_(read_npy(folder / f"fc{number}.bias.npy"))


def ddp(model, _):
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model, torch.optim.AdamW(model.parameters(), **ADAMW)


def zero(model, _):
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, parameters_as_bucket_view=True, **ADAMW)


def fsdp(model, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    for part in model:
        if isinstance(part, nn.Linear):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), **ADAMW)


WAYS = {"DDP": ddp, "DDP + ZeroRedundancyOptimizer": zero, "FSDP2": fsdp}


def measure(way, rank, options):
    """Milliseconds a step of a rank, and the mean over the ranks of each step's loss."""
    samples, labels = (read_npy(options.folder / f"{name}_train.npy").chunk(options.ranks)[rank].clone() for name in ("x", "label"))
    model = make_model(options)
    load(model, options.folder / "init")
    model, optimizer = WAYS[way](model, options.ranks)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(samples), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    milliseconds, losses = timed_steps(step, options)
    dist.all_reduce(losses)
    return {"ms": milliseconds, "losses": (losses / options.ranks).tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    for name, default in (("ranks", 2), ("layers", 24), ("width", 1024), ("warm-up", 2), ("steps", 8), ("port", 29512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    print_ways(options.ranks, options, list(WAYS), measure)


if __name__ == "__main__":
    main()
