#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of --html for deep models: its size, the processor time that ashlarc takes more for it, and the time in which headless Chromium opens it and each of its views.

    plan_page.py [--build BUILD] [--browser PROGRAM] [--layers 12,96]

The model is `ashlar-zoo transformer` without values (12 layers of 768 are a GPT-2, more are of 1024), trained with AdamW, level 1, on dp=4, tp=4.
"""

import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/e2e"))
import browser

JOB = """mode: SEMI_AUTO
mesh { axes { name: "dp" size: 4 } axes { name: "tp" size: 4 } }
rules { match: "tokens" layout: "[{dp}, {}]" }
rules { match: "*.attention.query.weight" layout: "[{}, {tp}]" }
rules { match: "*.attention.key.weight" layout: "[{}, {tp}]" }
rules { match: "*.attention.value.weight" layout: "[{}, {tp}]" }
rules { match: "*.attention.projection.weight" layout: "[{tp}, {}]" }
rules { match: "*.mlp.up.weight" layout: "[{}, {tp}]" }
rules { match: "*.mlp.down.weight" layout: "[{tp}, {}]" }
global_batch: 32
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { adamw { weight_decay: 0.1 } learning_rate: 0.003 clip_global_norm: 1 }
optimizer_parallel { level: 1 threshold_kb: 1 }
init { match: "*" normal { std: 0.02 } }
dataset { npy {} features { column: "tokens" tensor: "tokens" } features { column: "next" tensor: "labels" } }
epochs: 1
"""


# Processor time, which other work on the machine disturbs least.
def seconds_of(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([str(each) for each in command], check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--browser", default=browser.find())
    parser.add_argument("--layers", default="12,96")
    options = parser.parse_args()
    if options.browser is None:
        sys.exit("no chromium is installed; name a browser by --browser")
    tools = options.build / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job.txtpb").write_text(JOB)
        for layers in map(int, options.layers.split(",")):
            width = 768 if layers == 12 else 1024
            model, page = folder / f"{layers}.onnx", folder / f"{layers}.html"
            subprocess.run([tools / "ashlar-zoo", "transformer", "--no-data", "--layers", str(layers), "--width", str(width), "--heads", str(width // 64),
                            "--sequence", "1024", "--vocabulary", "50257", "--tied", "-o", model], check=True)
            plain = seconds_of([tools / "ashlarc", model, "--job", folder / "job.txtpb", "--explain"])
            drawn = seconds_of([tools / "ashlarc", model, "--job", folder / "job.txtpb", "--explain", "--html", page])
            with browser.Browser(options.browser) as opened:
                times = sorted(opened.open(page) for _ in range(3))
                views = {}
                for view in opened.run("[...document.querySelectorAll('#tabs button')].map(e => e.dataset.view)"):
                    begin = time.monotonic()
                    opened.click(f"[data-view={view}]")
                    views[view] = time.monotonic() - begin
                assert not opened.complaints, opened.complaints
            print(f"{layers} layers of {width}: page of {page.stat().st_size / 1e6:.2f} MB; ashlarc {plain:.1f} s with --explain, {drawn - plain:+.1f} s with --html; "
                  f"opens in {times[1]:.2f} s; views {', '.join(f'{view} {seconds:.2f} s' for view, seconds in views.items())}", flush=True)


main()
