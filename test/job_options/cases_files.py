# SPDX-License-Identifier: Apache-2.0
"""Files that users have: tokens, archives, tables, images. Losses are weighted sums of the samples, so they name each element."""

import os
import struct
import zipfile
import zlib

from bench import STILL, expect, expect_near, graph_input, graph_output, node, parameter
from npy_writer import write_npy
from registry import case


def weighted_model(bench, weights):
    """A model whose loss is the sum of the elements of x, a vector, times these weights."""
    bench.model(
        node("MatMul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [len(weights), 1], weights), graph_input("x", ["batch", len(weights)]), graph_output("loss", []))


def weighted_job(source, column, order="shuffle: false", *extra):
    return "\n".join([
        "global_batch: 1", 'loss { model_output { tensor: "loss" } }', f"optimizer {{ {STILL} }}",
        f'dataset {{ {source} {order} features {{ column: "{column}" tensor: "x" }} }}', *extra, ""])


def write_bytes(bench, name, data):
    os.makedirs(os.path.dirname(bench.path(name)), exist_ok=True)
    with open(bench.path(name), "wb") as out:
        out.write(data)


def loss(window, weights):
    return sum(x * w for x, w in zip(window, weights))


WEIGHTS = [1, 256, 65536]


@case("dataset.tokens.train", "dataset.tokens.eval", "dataset.tokens.sequence_length", "dataset.tokens.eval_share",
      "dataset.tokens.type", "dataset.tokens.type=U16", "dataset.tokens.type=U32", "dataset.tokens.type=U8")
def tokens(bench):
    numbers = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    weighted_model(bench, WEIGHTS)
    def windows(values, shift=0):
        return [loss(values[i + shift:i + shift + 3], WEIGHTS) for i in range(0, len(values) - 3, 3)]
    for kind, letter, header in (("", "H", []), ("type: U16", "H", []), ("type: U32", "I", []), ("type: U8", "B", []),
                                 ("", "H", [20240520, 1, 11]), ("", "I", [20240801, 7, 11])):
        data = struct.pack("<256i", *header, *[0] * (256 - len(header))) if header else b""
        data += struct.pack(f"<11{letter}", *numbers)
        for name, fields in (("train.bin", ""), ("shard_1.tok", 'train: "shard_*.tok"')):
            write_bytes(bench, name, data)
            source = f"tokens {{ sequence_length: 3 {kind} {fields} }}"
            expect(bench.train(weighted_job(source, "tokens")).losses, windows(numbers), f"{source}, {len(header)} numbers of a header")
        expect(bench.train(weighted_job(source, "targets")).losses, windows(numbers, 1), f"targets of {source}")
    # The eval split: val.bin, another file, or a share of the train file: 40 % of 10 tokens.
    write_bytes(bench, "train.bin", bytes(range(10)))
    write_bytes(bench, "val.bin", bytes([9, 8, 7, 6]))
    write_bytes(bench, "other.bin", bytes([1, 2, 4, 8]))
    for fields, losses, evaluated in (("", windows(list(range(10))), [9, 8, 7]), ('eval: "o*.bin"', windows(list(range(10))), [1, 2, 4]),
                                      ("eval_share: 0.4", windows(list(range(6))), [6, 7, 8])):
        log = bench.train(weighted_job(f"tokens {{ sequence_length: 3 type: U8 {fields} }}", "tokens"), "--eval")
        expect((log.losses, log.evaluation), (losses, loss(evaluated, WEIGHTS)), fields)


@case("dataset.tokens.documents.boundary", "dataset.tokens.documents.place", "dataset.tokens.documents.place=END", "dataset.tokens.documents.place=BEGIN",
      "dataset.tokens.documents.predict_next", "dataset.tokens.documents.restart_positions")
def documents(bench):
    # 7 is between documents: [2 7] [5 7 | 7] ... at the end of one, [2] [7 5] [7] ... at the beginning.
    write_bytes(bench, "train.bin", bytes([2, 7, 5, 7, 7, 3, 4, 6, 1]))
    weighted_model(bench, [1, 16, 256, 4096])
    def expect_windows(fields, column, first, second):
        source = f"tokens {{ sequence_length: 4 type: U8 documents {{ boundary: 7 {fields} }} }}"
        found = bench.train(weighted_job(source, column)).losses
        expect(found, [loss(first, [1, 16, 256, 4096]), loss(second, [1, 16, 256, 4096])], f"{column} of {fields}")
    for place in ("", "place: END"):
        expect_windows(place, "targets", [7, 5, 7, 7], [3, 4, 6, 1])
        expect_windows(place, "segments", [0, 0, 1, 1], [0, 1, 1, 1])
        expect_windows(place, "positions", [0, 1, 0, 1], [0, 0, 1, 2])
        expect_windows(f"{place} restart_positions: false", "positions", [0, 1, 2, 3], [0, 1, 2, 3])
        expect_windows(f"{place} predict_next: false", "targets", [7, -100, 7, -100], [-100, 4, 6, 1])
    expect_windows("place: BEGIN", "segments", [0, 1, 1, 2], [0, 0, 0, 0])
    expect_windows("place: BEGIN", "positions", [0, 0, 1, 0], [0, 1, 2, 3])
    expect_windows("place: BEGIN predict_next: false", "targets", [-100, 5, -100, -100], [3, 4, 6, 1])
    expect_windows("place: BEGIN predict_next: true restart_positions: true", "targets", [7, 5, 7, 7], [3, 4, 6, 1])


@case("dataset.text.sequence_length", "dataset.text.train_samples", "dataset.text.eval_samples")
def text(bench):
    weighted_model(bench, WEIGHTS)
    log = bench.train(weighted_job("text { sequence_length: 3 train_samples: 40 eval_samples: 2 }", "tokens"), "--eval")
    found = "".join(chr(int(number) >> 8 * i & 255) for number in log.losses for i in range(3))
    expect(len(found), 120, "40 samples of 3 bytes")
    expect(found.count(" the ") >= 2 and ".\n" in found, True, f"sentences: {found}")
    expect(log.evaluation > 0, True, "two samples are evaluated")
    bench.compile(weighted_job("text { sequence_length: 3 }", "tokens"))
    log = bench.run("--eval", "--log-every", "1000")
    expect(log.steps, 4096, "samples by default")
    # --data takes the .txt files of a folder: 9 of 10 bytes, the last for the evaluation.
    write_bytes(bench, "data/a.txt", bytes(range(10, 50)))
    log = bench.run("--data", "data", "--log-every", "1", "--eval")
    expect(log.losses, [loss([i, i + 1, i + 2], WEIGHTS) for i in range(10, 43, 3)], "files in place of generated text")
    expect(log.evaluation, loss([46, 47, 48], WEIGHTS), "the last tenth")


def npy_bytes(bench, values, shape):
    write_npy(bench.path("member.npy"), "f", shape, values)
    with open(bench.path("member.npy"), "rb") as file:
        return file.read()


@case("dataset.npz.file")
def npz(bench):
    weighted_model(bench, [1, 64])
    train, evaluated = npy_bytes(bench, [1, 2, 3, 4, 5, 6], (3, 2)), npy_bytes(bench, [7, 8], (1, 2))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for name, members in (("train.npz", {"x.npy": train}), ("eval.npz", {"x.npy": evaluated}),
                              ("both.npz", {"x_train.npy": train, "x_test.npy": evaluated})):
            with zipfile.ZipFile(bench.path(name), "w", method) as archive:
                for member, data in members.items():
                    with archive.open(member, "w", force_zip64=True) as out:  # as numpy does it
                        out.write(data)
        for source in ("npz {}", 'npz { file: "both.npz" }'):
            log = bench.train(weighted_job(source, "x"), "--eval")
            expect((log.losses, log.evaluation), ([129, 259, 389], 519), f"{source}, method {method}")


@case("dataset.csv.categories")
def csv(bench):
    weighted_model(bench, [1, 64, 4096])
    bench.write("train.csv", "b,city,a1,a2\n1,Rome,2,3\n-4,Bari,5,6\n7,\"Rome\",0.5,8\n")
    bench.write("eval.csv", "city,a1,a2,b\nBari,1,2,3\n")
    for column, rows, evaluated in (("b,a1,a2", [(1, 2, 3), (-4, 5, 6), (7, 0.5, 8)], (3, 1, 2)), ("a*,b", [(2, 3, 1), (5, 6, -4), (0.5, 8, 7)], (1, 2, 3)),
                                    ("city,a?", [(1, 2, 3), (0, 5, 6), (1, 0.5, 8)], (0, 1, 2))):
        log = bench.train(weighted_job('csv { categories: "city" }', column), "--eval")
        expect((log.losses, log.evaluation), ([loss(row, [1, 64, 4096]) for row in rows], loss(evaluated, [1, 64, 4096])), column)
    bench.compile(weighted_job("csv {}", "city,a?"))
    bench.refused(["./program", "--data", "."], 'train.csv:2: column "city" has "Rome", which is no number')


def png(height, width, pixels):
    """Returns a PNG file of rows of (red, green, blue)."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + bytes(byte for pixel in pixels[y * width:(y + 1) * width] for byte in pixel) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


@case("dataset.images.height", "dataset.images.width", "dataset.images.short_side", "dataset.images.least_area",
      "dataset.images.train_crop", "dataset.images.train_crop=MIDDLE", "dataset.images.train_crop=RANDOM_RESIZED")
def images(bench):
    # Red is the row, green the column of a pixel: the means tell the part that was taken.
    height, width = 70, 105
    picture = png(height, width, [(y, x, 0) for y in range(height) for x in range(width)])
    for name in ("train/a/1.png", "train/b/2.png", "train/b/3.png", "val/b/4.png"):
        write_bytes(bench, name, picture)
    def image_model(rows):
        """The loss is the mean of red in the first rows, and 1000 x the label."""
        weights = [3 * 8 / rows if y < rows and channel == 0 else 0 for channel in range(3) for y in range(8) for _ in range(12)]
        bench.model(
            node("Mul", ["image", "w"], ["reds"]), node("ReduceMean", ["reds"], ["mean"], axes=[1, 2, 3], keepdims=0),
            node("Mul", ["label", "thousand"], ["scaled"]), node("Add", ["mean", "scaled"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
            parameter("w", [3, 8, 12], weights), parameter("thousand", [1], [1000]), graph_input("image", ["batch", 3, 8, 12]),
            graph_input("label", ["batch"]), graph_output("loss", []))
    image_model(8)
    def trained(fields, *options):
        job = weighted_job(f"images {{ height: 8 width: 12 {fields} }}", "label").replace(
            'tensor: "x" }', 'tensor: "label" } features { column: "image" tensor: "image" layout: NHWC }')
        return bench.train(job, *options)
    # The middle of an image of 70 x 105: all of its rows have the mean 34.5.
    log = trained("train_crop: MIDDLE", "--eval")
    expect_near(log.losses, [34.5, 1034.5, 1034.5], 0.6, "the middle, and labels by folders")
    expect_near(log.evaluation, 1034.5, 0.6, "the middle in evaluation")
    # Random parts: the mean is the row of the middle. With half of the area and a ratio of 4/3 at most a part has 53 rows of 70.
    def middles(fields):
        return [loss % 1000 for loss in trained(fields, "--epochs", "20").losses]
    parts, larger = middles(""), middles("train_crop: RANDOM_RESIZED least_area: 0.5")
    expect(len(set(parts)) > 20 and min(parts) < 25 and max(parts) > 45, True, f"random parts: {parts}")
    expect(len(set(larger)) > 5 and min(larger) > 25.5 and max(larger) < 44, True, f"random parts of half of the area: {larger}")
    # All of the area at least: of ten draws none fits but one of the image's own ratio, 1.5, which is beyond 4/3. So the middle, of all rows.
    expect_near([loss % 1000 for loss in trained("least_area: 1", "--epochs", "3").losses], [34.5] * 9, 0.6, "least_area 1")
    # The first row alone. With a short side of 14, 5 rows a pixel, the part begins at pixel 3: rows 15 to 19, and the triangle is symmetric.
    # With 35 it begins at pixel round(13.5) = 14, rows 28 and 29.
    image_model(1)
    for fields, first in (("short_side: 14", 17), ("", 17), ("short_side: 35", 28.5)):
        expect_near(trained(f"train_crop: MIDDLE {fields}").losses[0], first, 0.6, fields)
    # A damaged file is found before the first step: some samples are read to compare the ranks.
    write_bytes(bench, "train/b/2.png", picture[:100])
    bench.refused(["./program", "--data", "."], 'cannot read the image "./train/b/2.png": libpng')
