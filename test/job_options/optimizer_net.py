# SPDX-License-Identifier: Apache-2.0
"""A small net, its data, and the optimizers that it is trained with for 20 steps: here and in PyTorch (test/bench/optimizers_torch.py). All
numbers that both start from are short in binary, so that f32 holds them."""

INPUTS, HIDDEN, CLASSES, BATCH, STEPS = 6, 8, 3, 8, 20
SHAPES = {"fc1.weight": (HIDDEN, INPUTS), "fc1.bias": (HIDDEN,), "fc2.weight": (CLASSES, HIDDEN), "fc2.bias": (CLASSES,)}


def numbers(seed, count, scale):
    """Returns numbers in (-1, 1) * scale, by a linear congruential generator."""
    values = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        values.append((2 * ((seed >> 16) % 128) - 127) / 128 * scale)
    return values


def size_of(name):
    size = 1
    for dim in SHAPES[name]:
        size *= dim
    return size


PARAMETERS = {name: numbers(17 + i, size_of(name), 0.5) for i, name in enumerate(SHAPES)}
XS = numbers(5, STEPS * BATCH * INPUTS, 1.0)
# A class that a rule of the inputs gives, so that there is something to learn.
LABELS = [int((XS[s * INPUTS] + XS[s * INPUTS + 1] + 2) * 0.75) % CLASSES for s in range(STEPS * BATCH)]


class Case:
    """An optimizer in the words of a job, and what PyTorch calls it. `torch`: (class, arguments); `schedule`: (class, arguments), or a list of
    two with the step at which the second begins; `clip`: a norm; `no_decay`: glob of parameters without weight decay."""

    def __init__(self, job, torch, schedule=None, clip=None, no_decay=None):
        self.job, self.torch, self.schedule, self.clip, self.no_decay = job, torch, schedule, clip, no_decay


def warmup(steps):
    return "LinearLR", {"start_factor": 1 / steps, "end_factor": 1.0, "total_iters": steps - 1}


ADAMW = ("AdamW", {"lr": 0.02})
CASES = {
    "sgd": Case("sgd { weight_decay: 0.125 } learning_rate: 0.25", ("SGD", {"lr": 0.25, "weight_decay": 0.125})),
    "nesterov": Case("momentum { nesterov: true weight_decay: 0.125 } learning_rate: 0.0625",
                     ("SGD", {"lr": 0.0625, "momentum": 0.9, "nesterov": True, "weight_decay": 0.125})),
    "adam": Case("adam {} learning_rate: 0.02", ("Adam", {"lr": 0.02})),
    "adam_options": Case("adam { beta1: 0.75 beta2: 0.96 epsilon: 0.001 weight_decay: 0.125 } learning_rate: 0.02",
                         ("Adam", {"lr": 0.02, "betas": (0.75, 0.96), "eps": 0.001, "weight_decay": 0.125})),
    "adamw": Case("adamw {} learning_rate: 0.02", ADAMW),
    "adamw_options": Case("adamw { beta1: 0.75 beta2: 0.96 epsilon: 0.001 weight_decay: 0.5 } learning_rate: 0.02",
                          ("AdamW", {"lr": 0.02, "betas": (0.75, 0.96), "eps": 0.001, "weight_decay": 0.5})),
    "adamw_no_decay": Case("adamw { weight_decay: 0.5 } learning_rate: 0.02", ("AdamW", {"lr": 0.02, "weight_decay": 0.5}),
                           no_decay="*.bias"),
    "lamb": Case("lamb {} learning_rate: 0.02", ("Lamb", {"lr": 0.02, "weight_decay": 0.0})),
    "lamb_options": Case("lamb { beta1: 0.75 beta2: 0.96 epsilon: 0.001 weight_decay: 0.125 } learning_rate: 0.02",
                         ("Lamb", {"lr": 0.02, "betas": (0.75, 0.96), "eps": 0.001, "weight_decay": 0.125})),
    "step": Case("adamw {} learning_rate: 0.02 schedule { step { size: 6 gamma: 0.5 } }", ADAMW,
                 ("StepLR", {"step_size": 6, "gamma": 0.5})),
    "step_default": Case("sgd {} learning_rate: 0.25 schedule { step { size: 9 } }", ("SGD", {"lr": 0.25}), ("StepLR", {"step_size": 9})),
    "piecewise": Case("adamw {} learning_rate: 0.02 schedule { piecewise { boundaries: [5, 12] values: [0.01, 0.005] } }", ADAMW,
                      ("MultiStepLR", {"milestones": [5, 12], "gamma": 0.5})),
    "cosine": Case("adamw {} learning_rate: 0.02 schedule { cosine { decay_steps: 20 end_learning_rate: 0.001 } }", ADAMW,
                   ("CosineAnnealingLR", {"T_max": 20, "eta_min": 0.001})),
    "linear": Case("adamw {} learning_rate: 0.02 schedule { polynomial { decay_steps: 16 end_learning_rate: 0.005 } }", ADAMW,
                   ("LinearLR", {"start_factor": 1.0, "end_factor": 0.25, "total_iters": 16})),
    "polynomial": Case("sgd {} learning_rate: 0.25 schedule { polynomial { decay_steps: 16 power: 2 } }", ("SGD", {"lr": 0.25}),
                       ("PolynomialLR", {"total_iters": 16, "power": 2.0})),
    "warmup": Case("adamw {} learning_rate: 0.02 schedule { constant {} warmup_steps: 5 }", ADAMW, warmup(5)),
    "warmup_cosine": Case("adamw {} learning_rate: 0.02 schedule { cosine { decay_steps: 17 } warmup_steps: 5 }", ADAMW,
                          [warmup(5), 5, ("CosineAnnealingLR", {"T_max": 12})]),
    "warmup_step": Case("adamw {} learning_rate: 0.02 schedule { step { size: 6 gamma: 0.5 } warmup_steps: 5 }", ADAMW,
                        [warmup(5), 5, ("StepLR", {"step_size": 6, "gamma": 0.5})]),
    "clip": Case("sgd {} learning_rate: 0.5 clip_global_norm: 0.25", ("SGD", {"lr": 0.5}), clip=0.25),
    "everything": Case("adamw { weight_decay: 0.5 } learning_rate: 0.02 clip_global_norm: 0.25 "
                       "schedule { cosine { decay_steps: 17 end_learning_rate: 0.001 } warmup_steps: 5 }",
                       ("AdamW", {"lr": 0.02, "weight_decay": 0.5}), [warmup(5), 5, ("CosineAnnealingLR", {"T_max": 12, "eta_min": 0.001})],
                       clip=0.25, no_decay="*.bias"),
}
# Beyond these steps PyTorch's cosine rises again, and ours stays at its end.
LAST_STEP = {"warmup_cosine": 17, "everything": 17}
