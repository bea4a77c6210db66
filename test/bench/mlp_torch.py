#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The zoo's MLP in PyTorch on the CPU: the peer of figures.py. Prints the step time as our executables do.

    mlp_torch.py --ranks N --threads T [--accumulate K] [--master ADDRESS]

One rank: eager and torch.compile, the faster counts; several ranks: DistributedDataParallel over gloo, one process a rank. The data is random and
already in memory, so only the step is timed (ours includes its data pipeline). K micro-batches a step: all but the last under no_sync(). With --master this is one of N ranks
that mpirun has started, on hosts that reach each other by the network of that address. The peer on a GPU: tools/gpu_check/torch_peers.py.
"""

import argparse
import contextlib
import os
import queue
import re
import statistics
import subprocess
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

BLOCKS = 3


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


def measure(rank, options, results):
    ranks = options.ranks
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = make_model(options)
    if ranks > 1:
        os.environ.update(MASTER_ADDR=options.master or "127.0.0.1", MASTER_PORT="29511")
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
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
    if rank == 0:
        results.put(best)
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
    print(f"({results.get():.1f} us a step)")


if __name__ == "__main__":
    main()
