#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of ResNet against PyTorch's (torchvision's model, channels last) on the same parameters and the same batch, on the CPU.

    resnet_torch.py [--build BUILD] [--torch-python PYTHON] [--depth D] [--image I] [--batch B] [--ranks R] [--threads T] [--ways eager,compiled] [--turns N]

The model is `ashlar-zoo resnet` with Momentum 0.001 / 0.9 in f32. B is the batch of all ranks. Several ranks of PyTorch are DistributedDataParallel over gloo. Both sides
start with the same parameters and take the same one batch in every step; they must find the same first losses, or the script fails. The fastest way of a turn counts.
Ours and theirs take turns. The first two steps are not timed, on either side. Prints medians over the turns; fails where the ratio misses the aim. Exit
status 77 where PYTHON cannot import torch and torchvision.

    resnet_torch.py --peer FOLDER ...     is the peer alone: one line of JSON
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile
import time

from measuring import ROOT, run, steps_of
from torch_turns import ask_peer, compare, skip_without

sys.path.insert(0, str(ROOT / "test/e2e"))
from npy_writer import write_npy

WARM_UP, STEPS, AIM, CLASSES = 2, 5, 0.8, 10
# Small: at 0.01, rounding alone moves the second loss by 1 %, of PyTorch in f32 against itself in f64 too.
RATE = 0.001
# How far losses may be apart, relative: batch normalization of a few samples makes much of rounding.
TOLERANCES = [1e-4, 1e-2]


def peer_steps(rank, options, way, queue):
    """Trains in one process; rank 0 puts the milliseconds a step behind the warm-up, and the losses."""
    import torch
    import torch.distributed as dist
    import torchvision
    from torch import nn

    from torch_peer import read_npy
    torch.set_num_threads(options.threads)
    folder = pathlib.Path(options.peer)
    net = getattr(torchvision.models, f"resnet{options.depth}")(num_classes=CLASSES)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(read_npy(folder / "init" / f"{name}.npy").view(parameter.shape))
    net = net.to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    if options.ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
        dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
        net = nn.parallel.DistributedDataParallel(net)
    forward = torch.compile(net) if way == "compiled" else net
    share = options.batch // options.ranks
    images = read_npy(folder / "images_train.npy")[rank * share:(rank + 1) * share].to(memory_format=torch.channels_last)
    labels = read_npy(folder / "labels_train.npy")[rank * share:(rank + 1) * share]
    losses, start = [], 0.0
    for step in range(WARM_UP + STEPS):
        if step == WARM_UP:
            start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    queue.put(((time.perf_counter() - start) / STEPS * 1e3, losses)) if rank == 0 else None
    if options.ranks > 1:
        dist.destroy_process_group()


def peer(options):
    import torch
    import torch.multiprocessing as mp
    ways = {}
    for way in options.ways.split(","):
        queue = mp.get_context("spawn").SimpleQueue()
        try:
            mp.spawn(peer_steps, args=(options, way, queue), nprocs=options.ranks)
            milliseconds, losses = queue.get()
            ways[way] = {"ms": milliseconds, "losses": losses}
        except Exception as error:  # no C++ compiler that torch.compile likes
            ways[way] = {"missing": type(error).__name__}
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "ways": ways}))


JOB = """mode: DATA_PARALLEL
mesh {{ axes {{ name: "dp" size: {ranks} }} }}
global_batch: {batch}
batch_norm: PER_REPLICA
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ momentum {{ momentum: 0.9 }} learning_rate: {rate} }}
dataset {{ npy {{}} shuffle: false repeat: 100000 features {{ column: "images" tensor: "input" }} features {{ column: "labels" tensor: "labels" }} }}
log_every: 1
"""


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, tools = options, folder, pathlib.Path(options.build).resolve() / "bin"
        run([tools / "ashlar-zoo", "resnet", "--depth", options.depth, "--image", options.image, "--classes", CLASSES, "-o", "model.onnx"], folder)
        generator, shape = random.Random(1), (options.batch, 3, options.image, options.image)
        count = options.batch * 3 * options.image * options.image
        write_npy(folder / "images_train.npy", "f", shape, [generator.gauss(0, 1) for _ in range(count)])
        write_npy(folder / "labels_train.npy", "q", (options.batch,), [generator.randrange(CLASSES) for _ in range(options.batch)])
        (folder / "job.txtpb").write_text(JOB.format(ranks=options.ranks, batch=options.batch, rate=RATE))
        seconds = run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "train"], folder)[0]
        print(f"ashlarc: {seconds:.2f} s")
        self.train(0, "--save-parameters", "init")

    def train(self, steps, *arguments):
        launch = ["mpirun", "-n", self.options.ranks] if self.options.ranks > 1 else []
        run([*launch, "./train", "--data", ".", "--steps", steps, "--threads", self.options.threads, *arguments], self.folder)

    def ours(self):
        self.train(WARM_UP + STEPS, "--metrics", "metrics.jsonl")
        return steps_of(self.folder / "metrics.jsonl", WARM_UP)

    def theirs(self):
        options = [f"--{name}={getattr(self.options, name)}" for name in ("depth", "image", "batch", "ranks", "threads", "ways")]
        return ask_peer([self.options.torch_python, __file__, "--peer", self.folder, *options], self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--ways", default="eager,compiled")
    parser.add_argument("--peer", default="")
    for name, default in (("depth", 50), ("image", 224), ("batch", 8), ("ranks", 1), ("threads", 2), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if options.peer:
        peer(options)
        return
    skip_without(options.torch_python, "torch", "torchvision")
    title = f"A training step of ResNet-{options.depth}, batch {options.batch} at {options.image} x {options.image}, {options.ranks} ranks x {options.threads} threads"
    tolerances = TOLERANCES if options.ranks == 1 else []  # theirs are those of the samples of one rank
    with tempfile.TemporaryDirectory() as folder:
        compare(Bench(options, pathlib.Path(folder)), options.turns, tolerances, title, AIM)


if __name__ == "__main__":
    main()
