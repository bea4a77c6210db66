# SPDX-License-Identifier: Apache-2.0
"""Images and labels on their way to the model: crops, flips, resizing, channels, casts, classes, by plain loops over lists. The loss of a
sample is a weighted sum of what arrives, with a weight for each element, so it tells what arrived and where."""

import fractions
import math

from bench import STILL, expect, expect_near, f32, graph_input, graph_output, node, parameter, philox, shuffled
from registry import case

SEED = 2**32 + 9


def probe_model(bench, count):
    """The loss is the mean over the samples of the sum of x[i] * (i + 1)."""
    bench.model(
        node("MatMul", ["x", "probe"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("probe", [count, 1], range(1, count + 1)), graph_input("x", ["batch", count]), graph_output("loss", []))


def probe(elements):
    return sum(f32(float(x)) * (i + 1) for i, x in enumerate(elements))


def job_of(transforms, *extra, column="image", source="npy {}", batch=1):
    listed = " ".join(f"transforms {{ {transform} }}" for transform in transforms)
    return "\n".join([
        f"global_batch: {batch}", f"seed: {SEED}", 'loss { model_output { tensor: "loss" } }', f"optimizer {{ {STILL} }}",
        f'dataset {{ {source} features {{ column: "{column}" tensor: "x" {listed} }} }}', *extra, ""])


def words(run_pass, sample, number):
    """The random words of a transform, from 0 on, of a sample in a pass."""
    return philox(SEED, 0x7472616E, run_pass, 256 * sample + number)


def crop(image, height, width, padding, random_words):
    """Takes a part of rows of pixels: at random, or the middle. A pixel is a list of channels."""
    zero = [0] * len(image[0][0])
    side, above = [zero] * padding, [[zero] * (len(image[0]) + 2 * padding)] * padding
    padded = above + [side + row + side for row in image] + above
    rows, columns = len(padded) - height + 1, len(padded[0]) - width + 1
    top, left = (rows - 1) // 2, (columns - 1) // 2
    if random_words:
        top, left = random_words[0] * rows >> 32, random_words[1] * columns >> 32
    return [row[left:left + width] for row in padded[top:top + height]]


def flip(image, probability, random_words):
    flips = random_words and (random_words[0] >> 8) / 2**24 < probability
    return [row[::-1] for row in image] if flips else image


def resize_list(values, size, blend):
    """Bilinear along one side: element i lies at (i + 1/2) * from / to - 1/2, which is not below 0."""
    result = []
    for i in range(size):
        at = max(fractions.Fraction(0), fractions.Fraction((2 * i + 1) * len(values), 2 * size) - fractions.Fraction(1, 2))
        near = int(at)
        result.append(blend(values[near], values[min(near + 1, len(values) - 1)], at - near))
    return result


def resize(image, height, width):
    def pixels(a, b, weight):
        return [x * (1 - weight) + y * weight for x, y in zip(a, b)]
    wide = [resize_list(row, width, pixels) for row in image]
    return resize_list(wide, height, lambda a, b, weight: [pixels(x, y, weight) for x, y in zip(a, b)])


def flat(image):
    return [x for row in image for pixel in row for x in pixel]


def images(bench, count, height, width, channels, split="train"):
    """Writes image_<split>.npy of bytes; returns the images as rows of pixels."""
    values = [(i * i * 7 + i * 13 + len(split)) % 256 for i in range(count * height * width * channels)]
    bench.npy(f"image_{split}", values, (count, height, width, channels), "u1")
    take = iter(values)
    return [[[[next(take) for _ in range(channels)] for _ in range(width)] for _ in range(height)] for _ in range(count)]


def expect_losses(bench, text, samples, expected, size, epochs=3, near=0, evaluated=None):
    """Trains `epochs` passes, shuffled, alone and on two ranks; expected(image, pass, sample) are the elements that arrive, those of
    evaluation with a pass of None."""
    probe_model(bench, size)
    count = len(samples)
    losses = [probe(expected(samples[i], run_pass, i)) for run_pass in range(epochs) for i in shuffled(SEED, run_pass, count)]
    bench.compile(job_of(text, f"epochs: {epochs}"))
    log = bench.run("--data", ".", "--log-every", "1", *(["--eval"] if evaluated else []))
    expect_near(log.losses, losses, near, str(text))
    if evaluated:
        mean = sum(probe(expected(image, None, i)) for i, image in enumerate(evaluated)) / len(evaluated)
        expect_near(log.evaluation, mean, 6e-5 + 1e-6 * abs(mean), f"evaluation: {text}")
    pairs = [(losses[i] + losses[i + 1]) / 2 for run_pass in range(epochs) for i in range(run_pass * count, (run_pass + 1) * count - 1, 2)]
    bench.compile(job_of(text, f"epochs: {epochs}", batch=2), "--mesh", "dp=2")
    expect_near(bench.run("--data", ".", "--log-every", "1", ranks=2).losses, pairs, max(near, 1e-6 * max(pairs)), f"two ranks: {text}")
    return losses


@case("dataset.features.transforms.random_crop.height", "dataset.features.transforms.random_crop.width",
      "dataset.features.transforms.random_crop.padding")
def random_crop(bench):
    samples, evaluated = images(bench, 5, 3, 4, 2), images(bench, 3, 3, 4, 2, "eval")
    for text, (height, width, padding) in (("height: 2 width: 3", (2, 3, 0)), ("padding: 2", (3, 4, 2)), ("width: 6 padding: 1", (3, 6, 1)),
                                           ("height: 1", (1, 4, 0)), ("", (3, 4, 0)), ("height: 4 width: 2 padding: 1", (4, 2, 1))):
        def cropped(image, run_pass, sample, crop_to=(height, width, padding)):
            return flat(crop(image, *crop_to, None if run_pass is None else words(run_pass, sample, 0)))
        losses = expect_losses(bench, [f"random_crop {{ {text} }}"], samples, cropped, height * width * 2, evaluated=evaluated)
        expect(len(set(losses)) > 5, text != "", f"passes differ: {text}")
    # The second of two crops has random numbers of its own.
    def twice(image, run_pass, sample):
        first = crop(image, 3, 4, 1, words(run_pass, sample, 0))
        return flat(crop(first, 3, 4, 1, words(run_pass, sample, 1)))
    expect_losses(bench, ["random_crop { padding: 1 }"] * 2, samples, twice, 24)


@case("dataset.features.transforms.random_horizontal_flip.probability")
def random_flip(bench):
    samples, evaluated = images(bench, 7, 2, 3, 1), images(bench, 2, 2, 3, 1, "eval")
    for text, probability in (("probability: 0.25", 0.25), ("", 0.5), ("probability: 1", 1), ("probability: 0", 0)):
        def flipped(image, run_pass, sample, chance=probability):
            return flat(flip(image, chance, run_pass is not None and words(run_pass, sample, 1)))
        # Number 1: behind a rescale.
        expect_losses(bench, ["rescale {}", f"random_horizontal_flip {{ {text} }}"], samples, flipped, 6, evaluated=evaluated)


@case("dataset.features.transforms.resize.height", "dataset.features.transforms.resize.width")
def resizes(bench):
    samples = images(bench, 4, 3, 4, 2)
    for height, width in ((6, 8), (3, 4), (2, 7), (1, 1), (5, 2)):
        def resized(image, _run_pass, _sample, size=(height, width)):
            return flat(resize(image, *size))
        expect_losses(bench, [f"resize {{ height: {height} width: {width} }}"], samples, resized, height * width * 2, epochs=1,
                      near=1e-6 * 256 * (2 * height * width)**2)


@case("dataset.features.transforms.hwc2chw")
def channels_first(bench):
    samples = images(bench, 3, 2, 3, 4)
    def planes(image):
        return [pixel[c] for c in range(4) for row in image for pixel in row]
    expect_losses(bench, ["hwc2chw {}"], samples, lambda image, *_: planes(image), 24, epochs=1)
    # Behind what is there to train on images, and with numbers of each channel on both sides of it.
    means, deviations = [1, 2, 3, 4], [0.5, 2, 4, 0.25]
    def chain(image, run_pass, sample):
        image = flip(crop(image, 3, 3, 1, words(run_pass, sample, 0)), 0.5, words(run_pass, sample, 1))
        normalized = [[[(x - m) / d for x, m, d in zip(pixel, means, deviations)] for pixel in row] for row in image]
        return planes(normalized)
    numbers = f"normalize {{ mean: {means} std: {deviations} }}"
    moves = ["random_crop { height: 3 padding: 1 }", "random_horizontal_flip {}"]
    for order in ([*moves, numbers, "hwc2chw {}"], [*moves, "hwc2chw {}", numbers]):
        expect_losses(bench, order, samples, chain, 36)
    # One number of a kind goes with several of the other.
    expect_losses(bench, [f"normalize {{ mean: {means} std: 2 }}"], samples,
                  lambda image, *_: [(x - m) / 2 for row in image for pixel in row for x, m in zip(pixel, means)], 24, epochs=1)
    bench.refused(bench.compiler(job_of(["normalize { mean: [1, 2] std: [1, 2, 3] }"]), "-o", "no"), "with 2 means and 3 stds")


def shaped_model(bench, *sample):
    """The probe of samples of a shape: element i, row major, counts i + 1 times."""
    count = math.prod(sample)
    bench.model(
        node("Flatten", ["x"], ["flat"]), node("MatMul", ["flat", "probe"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("probe", [count, 1], range(1, count + 1)), graph_input("x", ["batch", *sample]), graph_output("loss", []))


@case("dataset.features.layout", "dataset.features.layout=NCHW", "dataset.features.layout=NHWC")
def layout(bench):
    height, width, channels = 2, 3, 4
    samples, evaluated = images(bench, 3, height, width, channels), images(bench, 2, height, width, channels, "eval")
    def planes(image):
        return [pixel[c] for c in range(channels) for row in image for pixel in row]
    def feature(text, *transforms, source="npy {}"):
        return job_of(transforms, source=source).replace('tensor: "x"', f'tensor: "x" {text}')
    def expect_order(job, arrive):
        bench.compile(job)
        log = bench.run("--data", ".", "--log-every", "1", "--eval")
        expect(log.losses, [probe(arrive(samples[i])) for i in shuffled(SEED, 0, 3)], "training")
        expect_near(log.evaluation, sum(probe(arrive(image)) for image in evaluated) / 2, 1e-3, "evaluation")
    # Data of the tensor's own shape, and with channels last for a tensor that has them first, also where it is flat.
    shaped_model(bench, height, width, channels)
    expect_order(feature(""), flat)
    expect_order(feature("layout: NCHW"), flat)
    bench.compile(feature("layout: NHWC"))
    bench.refused(["./program", "--data", "."], 'shape (4, 2, 3) after its transforms but input tensor "x" takes (2, 3, 4), the same number of '
                  "elements in another order; move channels to the end, or leave out layout: NHWC and hwc2chw")
    for sample in ((channels, height, width), (1, channels, height, width), (channels * height * width,)):
        shaped_model(bench, *sample)
        expect_order(feature("layout: NHWC"), planes)
        expect_order(feature("layout: NHWC", "random_horizontal_flip { probability: 0 }", "normalize { mean: [0, 0, 0, 0] }"), planes)
        expect_order(feature("", "hwc2chw {}"), planes)
    # Without the layout only the flat tensor can take them.
    expect_order(feature(""), flat)
    shaped_model(bench, channels, height, width)
    wrong = ('"image" has samples of shape (2, 3, 4) but input tensor "x" takes (4, 2, 3), the same number of elements in another order; add '
             "layout: NHWC to the feature if channels are last in the data")
    bench.compile(feature(""))
    bench.refused(["./program", "--data", "."], wrong)
    bench.compile(feature(""), "--mesh", "dp=1")
    bench.refused(["./program", "--data", "."], wrong)
    # The evaluation split is looked at, too.
    shaped_model(bench, height, width, channels)
    bench.compile(feature(""))
    bench.npy("image_eval", range(24), (1, channels, height, width), "u1")
    bench.refused(["./program", "--data", ".", "--eval"], "samples of shape (4, 2, 3) but")
    # What the job knows is refused by the compiler.
    shaped_model(bench, 3, 32, 32)
    bench.refused(bench.compiler(feature("", source="cifar10 {}"), "-o", "no"),
                  'the dataset\'s column "image" has samples of shape (32, 32, 3) but input tensor "x" takes (3, 32, 32), the same number')
    bench.compile(feature("layout: NHWC", source="cifar10 {}"))
    bench.refused(bench.compiler(feature("layout: NHWC", "hwc2chw {}"), "-o", "no"),
                  'feature "image" has layout NHWC and the transform hwc2chw, which move its channels twice; leave out one of the two')
    # Inputs of a forward run have the tensor's shape.
    shaped_model(bench, channels, height, width)
    bench.compile("global_batch: 1\n")
    bench.npy("x", range(24), (1, height, width, channels))
    bench.refused(["./program", "--input", "x=x.npy"], '"x.npy" has shape (1, 2, 3, 4) but (1, 4, 2, 3) is expected')
    # Dims of size 1 order nothing, and a single dim has one order; other shapes of as many elements are another order.
    bench.npy("image_train", range(12), (1, 3, 4), "u1")
    for sample in ((1, 3, 4), (3, 4, 1), (3, 1, 4), (12,), (1, 12)):
        shaped_model(bench, *sample)
        expect(bench.train(feature("")).losses, [probe(range(12))], str(sample))
    for sample in ((4, 3), (6, 2), (3, 2, 2)):
        shaped_model(bench, *sample)
        bench.compile(feature(""))
        bench.refused(["./program", "--data", "."], "the same number of elements in another order; give samples of this shape, or of a single dim")
    bench.npy("image_train", range(12), (1, 12), "u1")
    shaped_model(bench, 3, 2, 2)
    expect(bench.train(feature("")).losses, [probe(range(12))], "a single dim")


@case("dataset.features.transforms.type_cast.type", *(
    f"dataset.features.transforms.type_cast.type={name}" for name in ("F32", "F64", "F16", "I32", "I64", "BOOL")))
def type_cast(bench):
    values = [2.75, -3.5, 1 + 2**-11, 0]
    bench.npy("image_train", values, (1, 4), "f8")
    probe_model(bench, 4)
    for name, expected in (("F32", values), ("F64", values), ("F16", [2.75, -3.5, 1, 0]), ("I32", [2, -3, 1, 0]), ("I64", [2, -3, 1, 0]),
                           ("BOOL", [1, 1, 1, 0])):
        for scale in (1, 4):  # the cast sees what is ahead of it
            log = bench.train(job_of([f"type_cast {{ type: {name} }}", f"rescale {{ scale: {scale} }}"]))
            expect_near(log.losses, [probe(scale * x for x in expected)], 1e-6, name)
    bench.npy("image_train", [16777217, 7, 7, 7], (1, 4), "i8")
    for name, first in (("F32", 16777216), ("F64", 16777217)):
        log = bench.train(job_of([f"type_cast {{ type: {name} }}", "rescale { shift: -16777216 }"]))
        expect(log.losses[0], f32(probe([first - 16777216, 7 - 16777216, 7 - 16777216, 7 - 16777216])), f"{name} of 2^24 + 1")


@case("dataset.features.transforms.one_hot.classes")
def one_hot(bench):
    labels = [2, 0, 4, 3]
    bench.npy("label_train", labels, (4,), "u1")
    for classes in (5, 8):
        probe_model(bench, classes)
        log = bench.train(job_of([f"one_hot {{ classes: {classes} }}"], column="label", source="npy {} shuffle: false"))
        expect(log.losses, [1 + label for label in labels], f"{classes} classes")
        log = bench.train(job_of(["type_cast { type: I32 }", f"one_hot {{ classes: {classes} }}", "rescale { scale: 4 shift: 1 }"],
                                 column="label", source="npy {} shuffle: false"))
        expect(log.losses, [4 * (1 + label) + classes * (classes + 1) / 2 for label in labels], f"{classes} classes, smoothed")
    bench.npy("label_train", [2, 0, 8, 3], (4,), "u1")
    bench.refused(["./program", "--data", "."], "label 8 of sample 2 in column \"label\" of the train split is not one of the 8 classes 0 .. 7 of one_hot")


@case("dataset.cifar10")
def cifar10(bench):
    def record(number):
        planes = bytes((number * 31 + c * 50 + y * 3 + x * 5) % 256 for c in range(3) for y in range(32) for x in range(32))
        return bytes([number % 10]) + planes
    for name, numbers in (("data_batch_1", (3, 14)), ("data_batch_2", (27,)), ("test_batch", (8, 19, 5))):
        with open(bench.path(name + ".bin"), "wb") as out:
            out.write(b"".join(record(number) for number in numbers))
    # A crop of evaluation from the channels of a pixel, in order, which tells that they are last.
    bench.model(
        node("MatMul", ["x", "probe"], ["pixel"]), node("Mul", ["label", "thousand"], ["labels"]), node("Add", ["pixel", "labels"], ["y"]),
        node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("probe", [3072, 1], [2**(i % 3) if i // 3 == 33 else 0 for i in range(3072)]),
        parameter("thousand", [1], [10000]), graph_input("x", ["batch", 3072]), graph_input("label", ["batch", 1]), graph_output("loss", []))
    job = job_of([], source="cifar10 {} shuffle: false").replace('"x"  } }', '"x" } features { column: "label" tensor: "label" } }')
    log = bench.train(job, "--eval")

    def loss(number):
        bytes_of = record(number)
        return 10000 * bytes_of[0] + sum(2**c * bytes_of[1 + c * 1024 + 33] for c in range(3))
    expect(log.losses, [loss(number) for number in (3, 14, 27)], "samples of two files")
    expect_near(log.evaluation, sum(loss(number) for number in (8, 19, 5)) / 3, 0.01, "evaluation")
