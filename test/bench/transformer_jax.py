#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JAX side of transformer_peers.py: the zoo's transformer and AdamW, one compiled step that takes over the memory of what it updates.

    transformer_jax.py FOLDER --layers L --heads H --batch B --threads T --precision BF16_MIXED|F32 --warm-up K --steps S [--cpu-time]

FOLDER holds the initial parameters (init/layer0.mlp.up.weight.npy, ...) and the one batch that every step takes. Prints one line of JSON (torch_turns.py). In
BF16_MIXED products read bf16, of parameters in f32; norms, softmax and loss are f32. --threads is kept by as many processors, of cores of their own where there are
enough, which is what XLA goes by.
"""

import argparse
import functools
import json
import os
import pathlib
import time

RATE, DECAY, BETA1, BETA2, EPSILON, NORM_EPSILON = 1e-4, 0.01, 0.9, 0.999, 1e-8, 1e-5


def processors(count):
    """`count` of the processors that this process may use; the first of each core come first."""
    mine = sorted(os.sched_getaffinity(0))
    first = {pathlib.Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text(): number for number in reversed(mine)}
    return sorted(mine, key=lambda number: (number not in first.values(), number))[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--precision", default="F32")
    parser.add_argument("--cpu-time", action="store_true")
    for name, default in (("layers", 4), ("heads", 4), ("batch", 8), ("threads", 2), ("warm-up", 2), ("steps", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    os.sched_setaffinity(0, processors(options.threads))

    import jax
    import jax.numpy as jnp
    import numpy

    narrow = jnp.bfloat16 if options.precision == "BF16_MIXED" else jnp.float32
    parameters = {path.stem: jnp.asarray(numpy.load(path)) for path in (options.folder / "init").glob("*.npy")}
    tokens, labels = (jnp.asarray(numpy.load(options.folder / f"{column}_train.npy")) for column in ("tokens", "next"))

    def product(x, weight):
        return x.astype(narrow) @ weight.astype(narrow)

    def linear(p, name, x):
        return product(x, p[f"{name}.weight"]) + p[f"{name}.bias"].astype(narrow)

    def norm(p, name, x):
        x = x.astype(jnp.float32)
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + NORM_EPSILON) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def attention(p, name, x):
        batch, length, width = x.shape
        q, k, v = (linear(p, f"{name}.attention.{part}", x).reshape(batch, length, options.heads, -1) for part in ("query", "key", "value"))
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return linear(p, f"{name}.attention.projection", mixed.reshape(batch, length, width))

    def loss_of(p):
        x = p["embedding.weight"][tokens] + p["position.weight"]
        for number in range(options.layers):
            name = f"layer{number}"
            x = x + attention(p, name, norm(p, f"{name}.norm1", x))
            x = x + linear(p, f"{name}.mlp.down", jax.nn.relu(linear(p, f"{name}.mlp.up", norm(p, f"{name}.norm2", x))))
        logits = product(norm(p, "norm", x), p["head.weight"]).astype(jnp.float32)
        chosen = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - chosen).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(p, first, second, number):
        loss, gradients = jax.value_and_grad(loss_of)(p)
        first = {name: BETA1 * first[name] + (1 - BETA1) * g for name, g in gradients.items()}
        second = {name: BETA2 * second[name] + (1 - BETA2) * g * g for name, g in gradients.items()}
        scale1, scale2 = 1 / (1 - BETA1**number), 1 / (1 - BETA2**number)
        p = {name: value * (1 - RATE * DECAY) - RATE * scale1 * first[name] / (jnp.sqrt(scale2 * second[name]) + EPSILON) for name, value in p.items()}
        return p, first, second, loss

    clock = time.process_time if options.cpu_time else time.perf_counter
    first, second = ({name: jnp.zeros_like(value) for name, value in parameters.items()} for _ in range(2))
    losses = []
    for number in range(options.warm_up + options.steps):
        if number == options.warm_up:
            begin = clock()
        parameters, first, second, loss = step(parameters, first, second, jnp.float32(number + 1))
        losses.append(float(loss))  # waits
    jax.block_until_ready(parameters)
    found = {"ms": (clock() - begin) / options.steps * 1e3, "losses": losses}
    print(json.dumps({"peer": f"JAX {jax.__version__}", "ways": {"jax": found}}), flush=True)


if __name__ == "__main__":
    main()
