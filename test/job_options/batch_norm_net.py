# SPDX-License-Identifier: Apache-2.0
"""A small net with batch normalization, whose inputs lie far from 0, its data, and how it is trained for 10 steps and evaluated: here and in
PyTorch (test/bench/batch_norm_torch.py). It has two normalizations: of the samples' columns, and of channels of two elements each. The first
channel of the input has a mean of 1000 standard deviations."""

from optimizer_net import numbers

INPUTS, HIDDEN, CHANNELS, CLASSES, BATCH, STEPS, EVAL = 6, 8, 4, 3, 8, 10, 12
LEARNING_RATE, MOMENTUM = 0.0625, 0.9
# Of PyTorch, which the model's attributes are 1 less: how far running statistics move in a step.
MOVES = {"bn0": 0.125, "bn1": 0.25}
EPSILON = {"bn0": 2.0**-10, "bn1": 2.0**-6}
CHANNELS_OF = {"bn0": INPUTS, "bn1": CHANNELS}
SHAPES = {"fc1.weight": (HIDDEN, INPUTS), "fc1.bias": (HIDDEN,), "fc2.weight": (CLASSES, HIDDEN), "fc2.bias": (CLASSES,)}
for _name, _count in CHANNELS_OF.items():
    for _part in ("weight", "bias", "running_mean", "running_var"):
        SHAPES[f"{_name}.{_part}"] = (_count,)
TRAINED = [name for name in SHAPES if "running" not in name]

FIRST = {}
for _i, (_name, _shape) in enumerate(SHAPES.items()):
    _count = _shape[0] * (_shape[1] if len(_shape) == 2 else 1)
    _values = numbers(31 + _i, _count, 0.5)
    positive = _name.endswith("running_var") or (_name.startswith("bn") and _name.endswith("weight"))
    FIRST[_name] = [x + 1 for x in _values] if positive else _values


def inputs(seed, samples):
    return [x + (500 if i % INPUTS == 0 else i % INPUTS) for i, x in enumerate(numbers(seed, samples * INPUTS, 1.0))]


def labels(xs):
    return [int((xs[i] - 500 + xs[i + 1] + 2) * 0.75) % CLASSES for i in range(0, len(xs), INPUTS)]


XS, EVAL_XS = inputs(5, STEPS * BATCH), inputs(6, EVAL)
LABELS, EVAL_LABELS = labels(XS), labels(EVAL_XS)
# How the same net is trained: as the batch of one device, as ONNX's node in training_mode, in micro-batches, by statistics of each replica.
CASES = {"module": {}, "training_mode": {"population": True}, "accumulate": {"micro_batches": 2}, "replicas": {"replicas": 2},
         "frozen": {"frozen": "bn1"}}
