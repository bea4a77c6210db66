#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first losses of ResNet-18 on CIFAR-10 on two ranks against PyTorch's in one process: the same model, initial values, samples and their order.

    cifar_torch.py --data DIR [--build BUILD] [--torch-python PYTHON] [--batch B] [--steps S]

`ashlar-zoo resnet --depth 18 --stem cifar` with Momentum 0.001 / 0.9; DIR holds data_batch_1.bin, whose images are rescaled and normalized and not augmented.
Prints some losses of both; fails where one of ours is further than 1 % from PyTorch's. Exit status 77 where PYTHON cannot import torch and torchvision.

    cifar_torch.py --peer FOLDER ...     is the peer alone: one line of JSON
"""

import argparse
import json
import pathlib
import sys
import tempfile

AIM, SHOWN = 0.01, 10
# At 0.01, rounding alone drives two runs apart: the gradients of PyTorch in f32 are 2 % from those in f64, as ours are.
RATE = 0.001
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)

JOB = """mode: DATA_PARALLEL
mesh {{ axes {{ name: "dp" size: 2 }} }}
global_batch: {batch}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }}
optimizer {{ momentum {{ momentum: 0.9 }} learning_rate: {rate} }}
dataset {{
  cifar10 {{}}
  shuffle: false
  features {{
    column: "image"
    tensor: "input"
    transforms {{ rescale {{ scale: 0.00392156862745098 }} }}
    transforms {{ normalize {{ mean: {mean} std: {std} }} }}
    transforms {{ hwc2chw {{}} }}
  }}
  features {{ column: "label" tensor: "labels" }}
}}
log_every: 1
"""


def peer(options):
    import torch
    import torchvision
    from torch import nn

    from torch_peer import read_npy
    torch.set_num_threads(2)
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(read_npy(pathlib.Path(options.peer) / "init" / f"{name}.npy").view(parameter.shape))
    net = net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    records = bytearray((pathlib.Path(options.data) / "data_batch_1.bin").read_bytes())
    samples = torch.frombuffer(records, dtype=torch.uint8).view(-1, 3073)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    losses = []
    for step in range(options.steps):
        batch = samples[step * options.batch:(step + 1) * options.batch]
        images = (batch[:, 1:].view(-1, 3, 32, 32).float() / 255 - mean) / std
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(images), batch[:, 0].long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps({"torch": torch.__version__, "losses": losses}))


def ours(options, folder):
    from measuring import run
    tools = pathlib.Path(options.build).resolve() / "bin"
    run([tools / "ashlar-zoo", "resnet", "--depth", 18, "--stem", "cifar", "--image", 32, "-o", "model.onnx"], folder)
    (folder / "job.txtpb").write_text(JOB.format(batch=options.batch, rate=RATE, mean=list(MEAN), std=list(STD)))
    run([tools / "ashlarc", "model.onnx", "--job", "job.txtpb", "-o", "train"], folder)
    launch = ["mpirun", "-n", 2, "./train", "--data", pathlib.Path(options.data).resolve(), "--threads", 1]
    run([*launch, "--steps", 0, "--save-parameters", "init"], folder)
    run([*launch, "--steps", options.steps, "--metrics", "metrics.jsonl"], folder)
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def compare(options):
    from measuring import run, table
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mine = ours(options, folder)
        arguments = ["--data", pathlib.Path(options.data).resolve(), "--batch", options.batch, "--steps", options.steps]
        log = run([options.torch_python, __file__, "--peer", folder, *arguments], folder)[1]
    found = json.loads(next(line for line in log.splitlines() if line.startswith('{"torch"')))
    apart = [abs(x - y) / abs(y) for x, y in zip(mine, found["losses"], strict=True)]
    shown = [step for step in range(options.steps) if step == 0 or (step + 1) % SHOWN == 0]
    table(f"ResNet-18 on CIFAR-10, batch {options.batch}, 2 ranks, against PyTorch {found['torch']}: losses", ["step", *(step + 1 for step in shown)],
          [["ours", *(f"{mine[step]:.5f}" for step in shown)], ["PyTorch", *(f"{found['losses'][step]:.5f}" for step in shown)],
           ["largest difference so far", *(f"{max(apart[:step + 1]):.1e}" for step in shown)]])
    if not max(apart) <= AIM:
        sys.exit(f"missed: a loss is {max(apart):.2g} of PyTorch's away, the aim is {AIM}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=pathlib.Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--data", required=True)
    parser.add_argument("--peer", default="")
    for name, default in (("batch", 64), ("steps", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if options.peer:
        peer(options)
        return
    from torch_turns import skip_without
    skip_without(options.torch_python, "torch", "torchvision")
    compare(options)


if __name__ == "__main__":
    main()
