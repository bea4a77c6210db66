#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a folder of --tensorboard with TensorBoard's own reader, and compares each number with the file of --metrics of the same run.

    read_events.py FOLDER METRICS.jsonl

Prints "as the metrics: N numbers", or the reason why it is skipped; ends with 1 where a number differs or is missing."""

import json
import pathlib
import sys

TAGS = {"loss": "loss", "learning_rate": "learning_rate", "gradient_norm": "gradient_norm", "step_seconds": "step_seconds",
        "samples_per_second": "samples_per_second", "tokens_per_second": "tokens_per_second", "gflop_per_second": "gflop_per_second",
        "share_of_peak": "share_of_peak", "eval_loss": "eval/loss", "eval_accuracy": "eval/accuracy"}

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("skipped: TensorBoard's reader is not installed (pip install tensorboard)")
    sys.exit(0)

events = EventAccumulator(sys.argv[1])
events.Reload()
found = {(tag, event.step): event.value for tag in events.Tags()["scalars"] for event in events.Scalars(tag)}
expected = {}
for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
    step = json.loads(line)
    expected.update({(TAGS[key], step["global_step"]): value for key, value in step.items() if key in TAGS})
apart = [key for key in found.keys() | expected.keys()
         if key not in found or key not in expected or not abs(found[key] - expected[key]) <= 1e-3 * abs(expected[key])]
if apart or not found:
    sys.exit(f"other numbers than the metrics: {sorted((key, found.get(key), expected.get(key)) for key in apart)}")
print(f"as the metrics: {len(found)} numbers")
