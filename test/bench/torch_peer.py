# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch side of benches shares: parameters and batches from .npy files, steps that are timed, and ranks as processes of one host."""

import json
import os
import re
import struct
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ADAMW = {"lr": 1e-4, "weight_decay": 0.01, "fused": True}


def read_npy(path):
    """The tensor of an .npy file of version 1, f32 or i64, without NumPy."""
    data = bytearray(path.read_bytes())
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    header = data[10:begin].decode()
    shape = [int(size) for size in re.search(r"'shape': \(([\d, ]*)\)", header).group(1).replace(",", " ").split()]
    return torch.frombuffer(data, dtype={"<f4": torch.float32, "<i8": torch.int64}[re.search(r"'descr': '(...)'", header).group(1)],
                            offset=begin).reshape(shape)


def timed_steps(step, options):
    """Takes steps, each of which returns its loss; returns the milliseconds of one behind the warm-up, and the losses of all."""
    losses = []
    for number in range(options.warm_up + options.steps):
        if number == options.warm_up:
            dist.barrier()
            begin = time.perf_counter()
        losses.append(step())
    dist.barrier()
    return (time.perf_counter() - begin) / options.steps * 1e3, torch.tensor(losses, dtype=torch.float64)


def work(rank, ranks, options, ways, measure):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    found = {way: measure(way, rank, options) for way in ways}
    if rank == 0:
        print(json.dumps({"peer": f"PyTorch {torch.__version__}", "ways": found}), flush=True)
    dist.destroy_process_group()


def print_ways(ranks, options, ways, measure):
    """Runs measure(way, rank, options) on all ranks, over gloo, and prints what rank 0 found (torch_turns.py)."""
    mp.spawn(work, args=(ranks, options, ways, measure), nprocs=ranks)
