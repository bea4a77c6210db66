#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The zoo's MLP in PyTorch on the CPU: the peer of figures.py. Prints the step time as our executables do.

    mlp_torch.py --ranks N --threads T [--accumulate K] [--master ADDRESS] [--cut L --folder FOLDER]

One rank: eager and torch.compile, the faster counts; several ranks: DistributedDataParallel over gloo, one process a rank. The data is random and
already in memory, so only the step is timed (ours includes its data pipeline). K micro-batches a step: all but the last under no_sync(). With --master this is one of N ranks
that mpirun has started, on hosts that reach each other by the network of that address. The peer on a GPU: tools/gpu_check/torch_peers.py.

With --cut the ranks are two stages of N/2 ranks, the first with L layers: Schedule1F1B over K micro-batches, each stage a DistributedDataParallel that
torch.distributed.pipelining keeps under no_sync() up to the last micro-batch. FOLDER holds the initial parameters (init/fc1.weight.npy, ...) and the one
batch that every step takes (image_train.npy, label_train.npy); the losses of the first steps are printed, to be compared with ours.
"""

import argparse
import contextlib
import os
import pathlib
import queue
import re
import statistics
import subprocess
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from torch_peer import read_npy

BLOCKS, STAGES = 3, 2
FIRST = 8  # steps whose losses are printed
LEARNING_RATE = 0.1  # of docs/jobs/mlp.txtpb


def median_step_us(step, steps):
    for _ in range(max(3, steps // 3)):
        step()
    times = []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - start) / steps * 1e6)
    return statistics.median(times)


def make_model(options):
    sizes = [784] + [options.width] * (options.layers - 1) + [10]
    layers = []
    for features, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(features, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def measure_stage(options):
    """The step time of a pipeline, and the losses of its first steps, on all ranks. Ranks are ours: stage * replicas + replica."""
    mesh = init_device_mesh("cpu", (STAGES, options.ranks // STAGES), mesh_dim_names=("stage", "dp"))
    stage, replica = mesh.get_coordinate()
    model = make_model(options)
    with torch.no_grad():
        for number, layer in enumerate(model[::2], 1):
            layer.weight.copy_(read_npy(options.folder / f"init/fc{number}.weight.npy"))
            layer.bias.copy_(read_npy(options.folder / f"init/fc{number}.bias.npy"))
    layers = model[2 * options.cut:] if stage else model[:2 * options.cut]
    module = nn.parallel.DistributedDataParallel(layers, process_group=mesh.get_group("dp"))
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    samples = options.batch // mesh.size(1)
    images, labels = (read_npy(options.folder / f"{column}_train.npy")[replica * samples:(replica + 1) * samples] for column in ("image", "label"))
    schedule = Schedule1F1B(PipelineStage(module, stage, STAGES, torch.device("cpu"), group=mesh.get_group("stage")), options.accumulate, scale_grads=False,
                            loss_fn=lambda logits, labels: nn.functional.cross_entropy(logits, labels) / options.accumulate)
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        parts = []
        if stage == 0:
            schedule.step(images)
        else:
            schedule.step(target=labels, losses=parts, return_outputs=False)
        optimizer.step()
        losses.append(sum(part.item() for part in parts))

    step_us = median_step_us(step, options.steps)
    first = torch.tensor(losses[:FIRST]) / mesh.size(1)  # the first stage adds zeros
    dist.all_reduce(first)
    return step_us, first.tolist()


def measure_replica(options):
    """The step time of one of some ranks that hold the model each."""
    ranks, model = options.ranks, make_model(options)
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    parts = options.accumulate
    images = torch.randn(options.batch // ranks // parts, 784)
    labels = torch.randint(0, 10, (options.batch // ranks // parts,))

    def train(forward):
        optimizer.zero_grad(set_to_none=True)
        for part in range(parts):
            with model.no_sync() if ranks > 1 and part < parts - 1 else contextlib.nullcontext():
                (nn.functional.cross_entropy(forward(images), labels) / parts).backward()
        optimizer.step()

    best = median_step_us(lambda: train(model), options.steps)
    if ranks == 1:
        try:
            compiled = torch.compile(model)
            best = min(best, median_step_us(lambda: train(compiled), options.steps))
        except Exception as error:  # no C++ compiler that it likes
            print(f"torch.compile not measured: {type(error).__name__}")
    return best


def measure(rank, options, results):
    ranks = options.ranks
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if ranks > 1:
        os.environ.update(MASTER_ADDR=options.master or "127.0.0.1", MASTER_PORT="29511")
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
    found = measure_stage(options) if options.cut else (measure_replica(options), [])
    if rank == 0:
        results.put(found)
    if ranks > 1:
        dist.destroy_process_group()


def card_of(network):
    """The network card that has an address of the /24 network of an address."""
    addresses = subprocess.run(["ip", "-o", "-4", "addr"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(rf"^\d+: (\S+) +inet {re.escape(network.rsplit('.', 1)[0])}\.", addresses, re.M).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--master")
    parser.add_argument("--cut", type=int, default=0)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    results = queue.Queue() if options.master else mp.get_context("spawn").SimpleQueue()
    if options.master:
        os.environ["GLOO_SOCKET_IFNAME"] = card_of(options.master)
        measure(int(os.environ["OMPI_COMM_WORLD_RANK"]), options, results)
        if results.empty():
            return
    elif options.ranks == 1:
        measure(0, options, results)
    else:
        mp.spawn(measure, args=(options, results), nprocs=options.ranks)
    step_us, losses = results.get()
    if losses:
        print("losses:", *losses)
    print(f"({step_us:.1f} us a step)")


if __name__ == "__main__":
    main()
