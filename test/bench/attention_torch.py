#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention, forward and backward, against PyTorch's scaled_dot_product_attention on the CPU: f32, batch 8, 6 heads of width 64, causal and not.

    attention_torch.py [--build BUILD] [--torch-python PYTHON] [--threads T] [--sequences 256,1024,4096] [--turns N] [--seconds S]

bench_attention and PyTorch take turns; of each, the best call of S seconds counts, of one thread by the time of its process. Prints medians over the turns and their ratios; fails where a ratio of forward and
backward together misses the aim. Exit status 77 where PYTHON cannot import torch.

    attention_torch.py --decode ...     one row of one sequence and 12 heads, as a step of generation, with 256, 1024 and 4096 keys: the row sees all of them, and PyTorch gets these alone; the keys come from memory
    attention_torch.py --peer SEQUENCE ...     is the peer alone: one line of JSON
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from measuring import ROOT, run, table
from torch_turns import ratios_of, skip_without

BATCH, HEADS, WIDTH, AIM = 8, 6, 64, 0.7


def peer(options):
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    q, k, v = (torch.randn(BATCH, HEADS, options.peer, WIDTH, requires_grad=True) for _ in range(3))
    gradient = torch.randn(BATCH, HEADS, options.peer, WIDTH)
    found = {"torch": torch.__version__}
    clock = time.process_time if options.threads == 1 else time.perf_counter
    for causal in (False, True):
        forward, backward, calls, begin = [], [], 0, time.perf_counter()
        while calls < 4 or time.perf_counter() - begin < 2 * options.seconds:
            q.grad = k.grad = v.grad = None
            start = clock()
            out = attend(q, k, v, is_causal=causal)
            middle = clock()
            out.backward(gradient)
            backward.append(clock() - middle)
            forward.append(middle - start)
            calls += 1
        found[str(causal)] = [min(forward[1:]) * 1e3, min(backward[1:]) * 1e3]
    print(json.dumps(found))


def decode_peer(options):
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend
    torch.set_num_threads(options.threads)
    found, keys = {"torch": torch.__version__}, options.peer
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        copies = (512 << 20) // (2 * 12 * keys * WIDTH * dtype.itemsize)
        q = torch.zeros(1, 12, 1, WIDTH, dtype=dtype)
        caches = torch.zeros(copies, 2, 1, 12, keys, WIDTH, dtype=dtype)
        times, begin = [], time.perf_counter()
        with torch.no_grad():
            while len(times) < 20 or time.perf_counter() - begin < options.seconds:
                k, v = caches[len(times) % copies]
                start = time.perf_counter()
                attend(q, k, v)
                times.append(time.perf_counter() - start)
        found[name] = sorted(times)[len(times) // 10] * 1e6
    print(json.dumps(found))


def decode(options):
    rows = []
    for keys in options.sequences.split(","):
        ours, theirs = {}, {}
        for _ in range(options.turns):
            lines = run([options.build / "bin/bench_attention", "--decode", options.threads, keys, options.seconds], ROOT)[1].splitlines()
            log = run([options.torch_python, __file__, "--decode", "--peer", keys, "--threads", options.threads, "--seconds", options.seconds], ROOT)[1]
            found = json.loads(log.splitlines()[-1])
            for line in lines:
                _, dtype, position, mine = line.split()[:4]
                if int(position) == int(keys) - 1:
                    ours.setdefault(dtype, []).append(float(mine))
                    theirs.setdefault(dtype, []).append(found[dtype])
        for dtype, times in ours.items():
            _, cells = ratios_of(times, theirs[dtype])
            rows.append([keys, dtype, f"{statistics.median(theirs[dtype]):.0f}", f"{statistics.median(times):.0f}", *cells])
    table(f"one row, {options.threads} threads, against PyTorch {found['torch']}; medians of {options.turns} turns",
          ["keys", "type", "PyTorch, us", "ours, us", "ours / theirs", "of turns"], rows)
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sequences", default="256,1024,4096")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--peer", type=int)
    parser.add_argument("--decode", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    if options.peer:
        return decode_peer(options) if options.decode else peer(options)
    skip_without(options.torch_python, "torch")
    if options.decode:
        return decode(options)
    rows, missed = [], []
    for sequence in options.sequences.split(","):
        ours, theirs = {}, {}
        for _ in range(options.turns):
            lines = run([options.build / "bin/bench_attention", options.threads, sequence, options.seconds], ROOT)[1].splitlines()
            log = run([options.torch_python, __file__, "--peer", sequence, "--threads", options.threads, "--seconds", options.seconds], ROOT)[1]
            found = json.loads(log.splitlines()[-1])
            for line in lines:
                _, causal, forward, backward = line.split()[:4]
                name = str(causal == "1")
                ours.setdefault(name, []).append([float(forward), float(backward)])
                theirs.setdefault(name, []).append(found[name])
        for name, times in ours.items():
            for what, part in (("forward", lambda t: t[0]), ("backward", lambda t: t[1]), ("both", sum)):
                mine, other = [part(t) for t in times], [part(t) for t in theirs[name]]
                ratio, cells = ratios_of(mine, other)
                rows.append([sequence, "yes" if name == "True" else "no", what, f"{statistics.median(other):.2f}", f"{statistics.median(mine):.2f}", *cells])
                if what == "both" and ratio > AIM:
                    missed.append(f"sequence {sequence}, causal {name}: {ratio:.2f} of PyTorch's time, the aim is {AIM}")
    table(f"attention, {options.threads} threads, against PyTorch {found['torch']}; medians of {options.turns} turns",
          ["sequence", "causal", "what", "PyTorch, ms", "ours, ms", "ours / theirs", "of turns"], rows)
    if missed:
        sys.exit("missed: " + "; ".join(missed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
