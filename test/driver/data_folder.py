# SPDX-License-Identifier: Apache-2.0
"""Writes data sets of all formats into a folder each: data_folder.py DIR."""

import os
import pathlib
import struct
import sys
import zipfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from npy_writer import write_npy


def png(height, width):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = (b"\0" + bytes(3 * width)) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main():
    root = pathlib.Path(sys.argv[1])
    write(root / "idx/train-images-idx3-ubyte", struct.pack(">4i", 0x803, 3, 2, 2) + bytes(range(12)))
    write(root / "idx/train-labels-idx1-ubyte", struct.pack(">2i", 0x801, 3) + bytes([4, 9, 4]))
    write(root / "cifar10/data_batch_1.bin", bytes([7]) + bytes(3072))
    (root / "npy").mkdir()
    write_npy(root / "npy/x_train.npy", "f", (2, 3), [0.5, -1, 2, 3, 4, 5])
    write_npy(root / "npy/y_eval.npy", "q", (2,), [1, 2])
    with zipfile.ZipFile(root / "npy/both.npz", "w") as archive:
        for member in ("x_train", "x_test"):
            archive.writestr(member + ".npy", (root / "npy/x_train.npy").read_bytes())
    (root / "npz").mkdir()
    with zipfile.ZipFile(root / "npz/only.npz", "w") as archive:
        archive.writestr("x_train.npy", (root / "npy/x_train.npy").read_bytes())
    write(root / "csv/train.csv", b"a,label,city\n1.5,0,Rome\n2,1,Bari\n3,1,Rome\n")
    write(root / "csv/eval.csv", b"a,label,city\n1,0,Oslo\n")
    for name in ("train/cat/1.png", "train/dog/2.png", "train/dog/3.png", "val/dog/4.png"):
        write(root / "images" / name, png(5, 4))
    write(root / "images/train/dog/4.png", png(7, 3))
    write(root / "damaged/train/cat/1.png", png(5, 4)[:40])
    write(root / "damaged/val/cat/1.png", png(5, 4))
    write(root / "damaged_eval/train/cat/1.png", png(5, 4))
    write(root / "damaged_eval/val/cat/a\n\x1b[31m.png", png(5, 4)[:40])
    (root / "nan").mkdir()
    write_npy(root / "nan/x_train.npy", "f", (2, 3), [0.5, float("nan"), 2, float("inf"), 4, -1])
    write_npy(root / "nan/y_train.npy", "d", (2,), [float("nan")] * 2)
    write(root / "cells/train.csv", b"a,b\n1,2\n3,1O\n")
    write(root / "tokens/train_1.bin", struct.pack("<256i", 20240801, 7, 4, *[0] * 253) + struct.pack("<4I", 128000, 5, 6, 7))
    write(root / "tokens/val.bin", struct.pack("<5H", 50256, 1, 2, 3, 4))
    write(root / "tokens/input.txt", b"hello")
    (root / "empty").mkdir()


main()
