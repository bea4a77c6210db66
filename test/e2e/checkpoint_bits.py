# SPDX-License-Identifier: Apache-2.0
"""Numbers that arithmetic would change, in a checkpoint and in what comes of it.

    checkpoint_bits.py plant CHECKPOINT EXPECTED      overwrites all f32 of a checkpoint, with the checksums that this takes; EXPECTED keeps the bits
    checkpoint_bits.py compare EXPECTED FILE...       whether .safetensors, .onnx and folders of .npy have these bits; a name that EXPECTED has not is a fault
"""

import json
import pathlib
import struct
import sys

PART = 65536  # bytes that have a checksum
WORD = (1 << 64) - 1
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

# NaNs, quiet and signalling, of both signs, to which a payload is added; infinities; -0; the smallest and larger denormals, to which one is added;
# ordinary numbers. What is added tells one element from the next.
PLANTED = [(0x7FC00000, 0x3FFFFF), (0xFF800001, 0x3FFFFE), (0x7F800000, 0), (0x00000001, 0x7FFFFE), (0x7F800001, 0x3FFFFE), (0x80000000, 0), (0x80000001, 0x7FFFFE),
           (0xFFC00000, 0x3FFFFF), (0xFF800000, 0), (0x3F800000, 0x7FFFFF)]


def xxh64(data):
    """XXH64 without a seed."""
    def rotate(x, bits):
        return (x << bits | x >> (64 - bits)) & WORD

    def mix(lane, word):
        return rotate((lane + word * P2) & WORD, 31) * P1 & WORD

    end = len(data) // 32 * 32
    if end:
        lanes = [(P1 + P2) & WORD, P2, 0, -P1 & WORD]
        for words in struct.iter_unpack("<4Q", data[:end]):
            lanes = [mix(lane, word) for lane, word in zip(lanes, words)]
        found = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & WORD
        for lane in lanes:
            found = ((found ^ mix(0, lane)) * P1 + P4) & WORD
    else:
        found = P5
    found = (found + len(data)) & WORD
    while len(data) - end >= 8:
        found = (rotate(found ^ mix(0, struct.unpack_from("<Q", data, end)[0]), 27) * P1 + P4) & WORD
        end += 8
    if len(data) - end >= 4:
        found = (rotate(found ^ struct.unpack_from("<I", data, end)[0] * P1 & WORD, 23) * P2 + P3) & WORD
        end += 4
    for byte in data[end:]:
        found = rotate(found ^ byte * P5 & WORD, 11) * P1 & WORD
    found = (found ^ found >> 33) * P2 & WORD
    found = (found ^ found >> 29) * P3 & WORD
    return found ^ found >> 32


def rows_of(piece, shape):
    """The rows of a piece, in its order: for each the number of its first element in the whole tensor. A row has as many elements as the piece's last dim."""
    starts = [0]
    for dim in range(len(shape)):
        last = dim == len(shape) - 1
        starts = [start * shape[dim] + piece["start"][dim] + i for start in starts for i in range(1 if last else piece["size"][dim])]
    return starts


def plant(checkpoint, expected):
    folder = pathlib.Path(checkpoint)
    index = json.loads((folder / "index.json").read_text())
    files = [bytearray((folder / file["name"]).read_bytes()) for file in index["files"]]
    planted = {}
    for number, tensor in enumerate(tensor for tensor in index["tensors"] if tensor["dtype"] == "F32"):
        count = 1
        for size in tensor["shape"]:
            count *= size
        bits = []
        for i in range(count):
            base, mask = PLANTED[(i + number) % len(PLANTED)]
            bits.append(base + ((i * 2654435761 + number * 40503) & mask))
        whole = struct.pack(f"<{count}I", *bits)
        planted[tensor["name"]] = {"parameter": "state_of" not in tensor, "shape": tensor["shape"], "bits": whole.hex()}
        for piece in tensor["pieces"]:
            row = 4 * (piece["size"][-1] if piece["size"] else 1)
            data = b"".join(whole[4 * start:4 * start + row] for start in rows_of(piece, tensor["shape"]))
            files[piece["file"]][piece["offset"]:piece["offset"] + len(data)] = data
            piece["checksums"] = "".join(f"{xxh64(data[begin:begin + PART]):016x}" for begin in range(0, len(data), PART))
    for file, data in zip(index["files"], files):
        (folder / file["name"]).write_bytes(data)
    del index["checksum"]
    index["checksum"] = f"{xxh64(json.dumps(index, sort_keys=True, separators=(',', ':')).encode()):016x}"
    (folder / "index.json").write_text(json.dumps(index))
    assert len(planted) > 6 and any(not entry["parameter"] for entry in planted.values()), "the checkpoint has no state"
    pathlib.Path(expected).write_text(json.dumps(planted))


def fields(data):
    """The fields of a protobuf message: (number, value); of those with a length their bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        length = {1: 8, 2: None, 5: 4}[kind]
        length = varint() if length is None else length
        yield key >> 3, data[at:at + length]
        at += length


def read_onnx(path):
    """The data of a model's initializers, by name."""
    graph = next(value for number, value in fields(path.read_bytes()) if number == 7)
    initializers = [list(fields(value)) for number, value in fields(graph) if number == 5]
    return {next(v for n, v in tensor if n == 8).decode(): next(v for n, v in tensor if n == 9) for tensor in initializers}


def read_safetensors(path):
    """The data of all f32, by name."""
    data = path.read_bytes()
    begin = 8 + struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    ranges = {name: entry["data_offsets"] for name, entry in header.items() if entry["dtype"] == "F32"}
    return {name: data[begin + first:begin + last] for name, (first, last) in ranges.items()}


def read_npy(folder):
    found = {}
    for path in folder.glob("*.npy"):
        data = path.read_bytes()
        found[path.stem] = data[10 + struct.unpack_from("<H", data, 8)[0]:]
    return found


def compare(expected, paths):
    planted = json.loads(pathlib.Path(expected).read_text())
    for path in map(pathlib.Path, paths):
        found = read_npy(path) if path.is_dir() else read_onnx(path) if path.suffix == ".onnx" else read_safetensors(path)
        state = path.suffix == ".safetensors"
        wanted = {name: bytes.fromhex(entry["bits"]) for name, entry in planted.items() if state or entry["parameter"]}
        assert wanted and sorted(found) == sorted(wanted), f"{path} has {sorted(found)}, not {sorted(wanted)}"
        for name, data in wanted.items():
            assert len(data) == len(found[name]), f"{path}: {name} has {len(found[name])} bytes, not {len(data)}"
            for i, (a, b) in enumerate(zip(struct.iter_unpack("<I", data), struct.iter_unpack("<I", found[name]))):
                assert a == b, f"{path}: element {i} of {name} is {b[0]:08x}, not {a[0]:08x}"


if sys.argv[1] == "plant":
    plant(*sys.argv[2:])
else:
    compare(sys.argv[2], sys.argv[3:])
