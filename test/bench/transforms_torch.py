# SPDX-License-Identifier: Apache-2.0
"""Random crops, flips, resizing, normalization of small images by NumPy and PyTorch, and the random numbers of docs/data.md by plain
integers. Prints test/unit/data/transform_numbers.h, which test/unit/data/transforms_test.cpp compares the runtime's with.

    python3 test/bench/transforms_torch.py > test/unit/data/transform_numbers.h
"""

import numpy as np
import torch

MASK = 0xFFFFFFFF
SEED, PASSES, SAMPLES = 2**33 + 11, (0, 1, 2**32 + 1), (0, 1, 2, 70000)
HEIGHT, WIDTH = 7, 6


def philox(seed, stream, counter, index):
    words, key = [index & MASK, index >> 32, counter, stream], [seed & MASK, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [b >> 32 ^ words[1] ^ key[0], b & MASK, a >> 32 ^ words[3] ^ key[1], a & MASK]
        key = [key[0] + 0x9E3779B9 & MASK, key[1] + 0xBB67AE85 & MASK]
    return words


class Draw:
    """The random numbers of a sample in a pass; none: evaluation."""

    def __init__(self, number=None, sample=None):
        self.number, self.sample = number, sample

    def words(self, transform):
        seed = SEED + (self.number >> 32) * 0x9E3779B97F4A7C15 & 2**64 - 1
        return philox(seed, 0x7472616E, self.number & MASK, 256 * self.sample + transform)


def image(sample, channels):
    y, x, c = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), np.arange(channels or 1), indexing="ij")
    pixels = ((sample * 53 + y * 17 + x * 29 + c * 71 + y * x % 7 * 13) % 256).astype(np.float64)
    return pixels if channels else pixels[:, :, 0]


def crop(height, width, padding):
    def apply(x, draw, transform):
        x = np.pad(x, [(padding, padding)] * 2 + [(0, 0)] * (x.ndim - 2))
        rows, columns = x.shape[0] - height + 1, x.shape[1] - width + 1
        top, left = (rows - 1) // 2, (columns - 1) // 2
        if draw.number is not None:
            words = draw.words(transform)
            top, left = words[0] * rows >> 32, words[1] * columns >> 32
        return x[top:top + height, left:left + width]
    return apply


def flip(probability):
    def apply(x, draw, transform):
        flips = draw.number is not None and (draw.words(transform)[0] >> 8) / 2**24 < probability
        return x[:, ::-1] if flips else x
    return apply


def resize(height, width):
    def apply(x, draw, transform):
        planes = torch.from_numpy(np.ascontiguousarray(x.reshape(*x.shape[:2], -1).transpose(2, 0, 1)))[None]
        planes = torch.nn.functional.interpolate(planes, (height, width), mode="bilinear", align_corners=False, antialias=False)[0]
        return planes.numpy().transpose(1, 2, 0).reshape(height, width, *x.shape[2:])
    return apply


def rescale(scale, shift):
    return lambda x, draw, transform: x * scale + shift


def normalize(mean, std):
    def apply(x, draw, transform):
        shape = (3, 1, 1) if x.shape[-1] != 3 else (3,)  # behind chw
        return (x - np.reshape(mean, shape)) / np.reshape(std, shape)
    return apply


def chw(x, draw, transform):
    return x.transpose(2, 0, 1)


def truncate(x, draw, transform):
    return np.trunc(x)


MEAN, STD = [0.5, 0.25, 0.75], [0.25, 0.5, 2]
CHAINS = [  # name, channels, transforms
    ("training", 3, [crop(6, 5, 2), flip(0.5), resize(11, 9), rescale(1 / 255, 0), normalize(MEAN, STD), chw]),
    ("normalized first", 3, [rescale(1 / 255, 1), flip(0.25), normalize(MEAN, STD), crop(9, 9, 2), resize(4, 3), flip(0.75), rescale(2, -1)]),
    ("two paddings", 3, [crop(9, 8, 1), rescale(0.5, 3), crop(11, 9, 2), chw, normalize(MEAN, STD)]),
    ("gray", 0, [crop(5, 5, 1), resize(8, 3), crop(4, 2, 0), flip(1)]),
    ("cast", 3, [resize(5, 5), truncate, crop(5, 5, 3), rescale(1, 0.5), chw]),
]


def main():
    print("// SPDX-License-Identifier: Apache-2.0\n//\n// Written by test/bench/transforms_torch.py: of each chain, pass and sample the number of "
          "elements, the first and\n// the last one, and the sum of all, element i times cos(i).\n")
    print("#ifndef ASHLAR_TEST_UNIT_DATA_TRANSFORM_NUMBERS_H\n#define ASHLAR_TEST_UNIT_DATA_TRANSFORM_NUMBERS_H\n\n#include <cstdint>\n")
    print("namespace ashlar::test {\n\n// isTraining false: evaluation, which has no pass.\nstruct TransformNumbers {\n  const char *chain;\n"
          "  bool isTraining;\n  uint64_t pass, sample;\n  int64_t count;\n  double first, last, sum;\n};\n")
    print(f"constexpr uint64_t kTransformSeed = {SEED};\n\nconstexpr TransformNumbers kTransformNumbers[] = {{")
    for name, channels, transforms in CHAINS:
        for number in (None,) + PASSES:
            for sample in SAMPLES:
                x = image(sample, channels)
                for i, transform in enumerate(transforms):
                    x = transform(x, Draw(number, sample), i)
                x = x.reshape(-1)
                total = float(np.dot(x, np.cos(np.arange(len(x)))))
                print(f'    {{"{name}", {"false" if number is None else "true"}, {number or 0}, {sample}, {len(x)}, {float(x[0])!r}, '
                      f"{float(x[-1])!r}, {total!r}}},")
    print("};\n\n} // namespace ashlar::test\n\n#endif // ASHLAR_TEST_UNIT_DATA_TRANSFORM_NUMBERS_H")


main()
