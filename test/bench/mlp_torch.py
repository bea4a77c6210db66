#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The zoo's MLP in PyTorch: the peer of figures.py and of tools/gpu-check.sh. Prints the step time as our executables do.

    mlp_torch.py --ranks N --threads T                                                     on the CPU
    mlp_torch.py --device cuda [--layers L] [--width W] [--batch B] [--precision bf16]     on one GPU

CPU, one rank: eager and torch.compile, the faster counts; several ranks: DistributedDataParallel over gloo, one process a rank. GPU: eager,
torch.compile with its own CUDA graphs, and torch.compile with the whole step captured in one CUDA graph; the fastest counts. The data is
random and already in memory, so only the step is timed (ours includes its data pipeline).
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

WARM_UP, STEPS, BLOCKS = 30, 100, 3


def median_step_us(step, finish=lambda: None):
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(BLOCKS):
        finish()
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        finish()
        times.append((time.perf_counter() - start) / STEPS * 1e6)
    return statistics.median(times)


def make_model(options):
    sizes = [784] + [options.width] * (options.layers - 1) + [10]
    layers = []
    for features, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(features, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def measure_cpu(rank, options, results):
    ranks = options.ranks
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = make_model(options)
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(options.batch // ranks, 784)
    labels = torch.randint(0, 10, (options.batch // ranks,))

    def train(forward):
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(forward(images), labels).backward()
        optimizer.step()

    best = median_step_us(lambda: train(model))
    if ranks == 1:
        try:
            compiled = torch.compile(model)
            best = min(best, median_step_us(lambda: train(compiled)))
        except Exception as error:  # no C++ compiler that it likes
            print(f"torch.compile not measured: {type(error).__name__}")
    if rank == 0:
        results.put(best)
    if ranks > 1:
        dist.destroy_process_group()


def captured(step):
    """The step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure_gpu(options):
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    images = torch.randn(options.batch, 784, device="cuda")
    labels = torch.randint(0, 10, (options.batch,), device="cuda")

    def make_step(compile_mode):
        model = make_model(options).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)

        def loss_of():
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
                logits = model(images)
            return nn.functional.cross_entropy(logits.float(), labels)

        forward = loss_of if compile_mode is None else torch.compile(loss_of, mode=compile_mode)

        def step():
            optimizer.zero_grad(set_to_none=True)
            forward().backward()
            optimizer.step()

        return step

    ways = {
        "eager": lambda: make_step(None),
        "torch.compile with CUDA graphs": lambda: make_step("reduce-overhead"),
        "torch.compile, whole step in a CUDA graph": lambda: captured(make_step("default")),
    }
    best = None
    for name, make in ways.items():
        try:
            us = median_step_us(make(), torch.cuda.synchronize)
            print(f"{name}: {us:.1f} us")
            best = us if best is None else min(best, us)
        except Exception as error:
            print(f"{name}: not measured: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    options = parser.parse_args()
    if options.device == "cuda":
        best = measure_gpu(options)
        if best is None:
            raise SystemExit("error: no way of running the step worked")
    else:
        results = mp.get_context("spawn").SimpleQueue()
        if options.ranks == 1:
            measure_cpu(0, options, results)
        else:
            mp.spawn(measure_cpu, args=(options, results), nprocs=options.ranks)
        best = results.get()
    print(f"({best:.1f} us a step)")


if __name__ == "__main__":
    main()
