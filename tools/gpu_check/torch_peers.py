# SPDX-License-Identifier: Apache-2.0
"""PyTorch's steps of the models of a pack, all in one process: torch_peers.py '{"gpt2": {"kind": "gpt", ...}, ...}'

Prints a line of JSON for each: milliseconds of a step and the way, or why it could not be measured. Every model is compiled by torch.compile, in
bf16 by autocast where ours is BF16_MIXED: gpt with scaled_dot_product_attention, one product for query, key and value, fused AdamW and clipping;
resnet with the channels last; mlp, whose kernels are short, with the whole step in a CUDA graph. The batch is random and stays on the device.
"""

import importlib.util
import json
import statistics
import sys
import time

if importlib.util.find_spec("torch") is None:
    for peer in json.loads(sys.argv[1]):
        print(json.dumps({"peer": peer, "missing": "python3 has no PyTorch"}))
    sys.exit(0)

import torch
from torch import nn
from torch.nn import functional

WARM_UP, BLOCKS = 5, 3


class Layer(nn.Module):
    """A layer of the zoo's transformer, which has ReLU where GPT-2 has GELU."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):  # (B, T, C)
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.relu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """The zoo's transformer with --tied."""

    def __init__(self, options):
        super().__init__()
        width = options["width"]
        self.table, self.position = nn.Embedding(options["vocabulary"], width), nn.Embedding(options["sequence"], width)
        self.layers = nn.Sequential(*(Layer(width, options["heads"]) for _ in range(options["layers"])))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, tokens):  # (B, T) -> (B, T, vocabulary)
        x = self.table(tokens) + self.position.weight
        return functional.linear(self.norm(self.layers(x)), self.table.weight)


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        sizes = ((channels, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, window, step, window // 2, bias=False) for a, b, window, step in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _, _ in sizes)
        self.skip = nn.Identity()
        if channels != 4 * width:
            self.skip = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = x
        for place, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):
            y = norm(convolution(y))
            y = functional.relu(y) if place < 2 else y
        return functional.relu(y + self.skip(x))


def make_resnet(options):
    """ResNet-50, or with fewer blocks a smaller one."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate(options["blocks"]):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if block == 0 and stage > 0 else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, options["classes"]))


def make_mlp(options):
    sizes = [784] + [options["width"]] * (options["layers"] - 1) + [10]
    layers = [layer for features, outputs in zip(sizes, sizes[1:]) for layer in (nn.Linear(features, outputs), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def make_gpt(options, device):
    tokens = torch.randint(0, options["vocabulary"], (options["batch"], options["sequence"] + 1), device=device)
    model = Gpt(options).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1, fused=True)
    return model, optimizer, tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1), 1.0


def make_images(options, device):
    images = torch.randn(options["batch"], 3, options["image"], options["image"], device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, options["classes"], (options["batch"],), device=device)
    model = make_resnet(options).to(device).to(memory_format=torch.channels_last)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True), images, labels, None


def make_digits(options, device):
    images, labels = torch.randn(options["batch"], 784, device=device), torch.randint(0, 10, (options["batch"],), device=device)
    model = make_mlp(options).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=0.01, fused=True), images, labels, None


MAKE = {"gpt": make_gpt, "resnet": make_images, "mlp": make_digits}


def make_step(options, device):
    """One training step as a function."""
    model, optimizer, samples, labels, clip = MAKE[options["kind"]](options, device)

    def loss_of():
        with torch.autocast(device, dtype=torch.bfloat16, enabled=options["bf16"]):
            logits = model(samples)
        return functional.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels)

    compiled = torch.compile(loss_of)
    # Compiling may take most of a minute each way: the lines show that it goes on.
    loss = compiled()
    print("  forward pass compiled", flush=True)
    loss.backward()
    print("  backward pass compiled", flush=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        compiled().backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    return step


def captured(step):
    """The step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def step_ms(step, steps, finish):
    """The median over blocks of steps."""
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(BLOCKS):
        finish()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        finish()
        times.append((time.perf_counter() - begin) / steps * 1e3)
    return statistics.median(times)


def measure(options, device):
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    way = f"PyTorch {torch.__version__}, torch.compile"
    step = make_step(options, device)
    if options["kind"] == "mlp" and device == "cuda":
        step, way = captured(step), way + ", step in a CUDA graph"
    return {"ms": step_ms(step, options["steps"], finish), "way": way + (", bf16 autocast" if options["bf16"] else ", f32")}


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # where ours computes in f32
    for name, options in json.loads(sys.argv[1]).items():
        print(f"begins with {name} on {device}", flush=True)
        try:
            found = measure(options, device) if device == "cuda" or options.get("cpu") else {"missing": "PyTorch sees no GPU"}
        except Exception as error:  # a compiler that is missing, memory that is too small: the other models can be measured
            found = {"missing": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}
        print(json.dumps({"peer": name, **found}), flush=True)
        torch._dynamo.reset()
        if device == "cuda":
            torch.cuda.empty_cache()


main()
