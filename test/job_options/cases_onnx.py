# SPDX-License-Identifier: Apache-2.0
"""ONNX files as people have them: open dims without names, inputs that are always the same, wrong declarations, types that only store
numbers, and jobs that --suggest-job prints for them. Expected numbers are computed here with Python's integers and floats."""

import math
import os
import random
import struct

from bench import STILL, expect, expect_near, graph_input, graph_output, node, parameter, product_job
from npy_writer import write_npy
from onnx_writer import BOOL, FLOAT, INT64, bytes_of, constant, floats, integer, tensor, value_info, varint
from registry import case

INT32 = 6


def compiler(bench):
    return [os.path.join(bench.tools, "ashlarc"), "model.onnx"]


def refused_model(bench, text, *options):
    """Fails unless the model is refused without a job, and the error says `text`."""
    bench.refused([*compiler(bench), *options, "-o", "no"], text)


def run_forward(bench, x, shape, job="", options=(), output="y", kind="f"):
    """Compiles a forward program and returns the elements of an output of f32 or integers for one input."""
    bench.write("forward.txtpb", job)
    bench.ok([*compiler(bench), *(["--job", "forward.txtpb"] if job else []), *options, "-o", "program"])
    write_npy(bench.path("x.npy"), kind, shape, x)
    bench.ok(["./program", "--input", "x=x.npy", "--output", f"{output}={output}.npy"])
    return read_elements(bench, output)


def read_elements(bench, name):
    with open(bench.path(name + ".npy"), "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    letter = next(letter for descr, letter in (("<f4", "f"), ("<i4", "i"), ("<i8", "q")) if descr.encode() in data[:start])
    return list(struct.unpack(f"<{(len(data) - start) // struct.calcsize('<' + letter)}{letter}", data[start:]))


def sums(dims, *more):
    """A model that adds up the columns of x."""
    return [node("ReduceSum", ["x"], ["y"], keepdims=0, axes=[1]), graph_input("x", dims), graph_output("y", [dims[0]]), *more]


@case("dims.input", "dims.dim")
def placed_dims(bench):
    # Dims without a name, of -1, and two of one placeholder, which is no name: only the first is the batch.
    for dims in (["batch", ""], ["batch", -1], [-1, -1], ["?", "?"], ["None", "None"], ["-1", "-1"], ["", ""]):
        bench.model(*sums(dims), opset=11)
        job = 'global_batch: 2\ndims { input: "x" dim: 1 size: 3 }\n'
        expect(run_forward(bench, [1, 2, 3, 40, 50, 60], (2, 3), job), [6, 150], f"{dims}")
        bench.refused(bench.compiler("global_batch: 2\n", "-o", "no"),
                      'has no size; only the first may be open, add dims { input: "x" dim: 1 size: 128 }, or another size, to the job')
    # A dim that is placed comes ahead of its name, and the first dim can be one.
    bench.model(*sums(["rows", "rows"]), opset=11)
    x = [1, 2, 3, 4, 5, 6]
    expect(run_forward(bench, x, (2, 3), 'dims { name: "rows" size: 2 } dims { input: "x" dim: 1 size: 3 }'), [6, 15], "both")
    expect(run_forward(bench, x, (3, 2), 'dims { input: "x" dim: 0 size: 3 } dims { input: "x" dim: 1 size: 2 }'), [3, 7, 11], "placed")
    for job, message in (
            ('dims { input: "z" dim: 1 size: 3 }', 'dims gives dim 1 of input "z" the size 3 but there is no such input; there are "x"'),
            ('dims { input: "x" dim: 2 size: 3 }', 'dims gives dim 2 of input "x" the size 3 but its rank is 2'),
            ('dims { input: "x" dim: -1 size: 3 }', "dims.dim -1 is not in [0, 63]"),
            ('dims { input: "x" size: 3 }', 'an input and one of its dims, has input "x"; write'),
            ('dims { dim: 1 size: 3 }', "has dim 1; write"),
            ('dims { name: "rows" input: "x" dim: 1 size: 3 }', 'has name "rows", input "x", dim 1; write'),
            ('dims { input: "x" dim: 1 }', 'dims has no size for input "x", dim 1; add size: 128'),
            ('dims { input: "x" dim: 1 size: 3 } dims { input: "x" dim: 1 size: 4 }', 'dims has two sizes for input "x", dim 1; leave out one')):
        bench.refused(bench.compiler("global_batch: 2\n" + job, "-o", "no"), message)
    bench.model(*sums(["batch", 3]), opset=11)
    bench.refused(bench.compiler('global_batch: 2\ndims { input: "x" dim: 1 size: 3 }', "-o", "no"),
                  'dims gives dim 1 of input "x" the size 3 but the model gives it the size 3; leave it out')


def branches(condition_type=INT64, dims=()):
    """y = x + 1 where rate is 16000, else -x."""
    def branch(name, op, inputs):
        graph = node(op, inputs, [name]) + bytes_of(2, name) + bytes_of(12, value_info(name, [2]))
        return bytes_of(6, graph) + b"\xa0\x01\x05"  # field 20: a graph
    def graph_attribute(name, graph):
        return bytes_of(5, bytes_of(1, name) + graph)
    choice = bytes_of(1, b"".join(bytes_of(1, x) for x in ["is16"]) + bytes_of(2, "y") + bytes_of(3, "choice") + bytes_of(4, "If")
                      + graph_attribute("then_branch", branch("a", "Add", ["x", "one"])) + graph_attribute("else_branch", branch("b", "Neg", ["x"])))
    return [constant("one", FLOAT, floats([1])), constant("wanted", INT64, struct.pack("<q", 16000)), node("Cast", ["rate"], ["rate64"], to=INT64),
            node("Equal", ["rate64", "wanted"], ["is16"]), choice, graph_input("x", [2]), graph_input("rate", dims, condition_type),
            graph_output("y", [2])]


@case("inputs.name", "inputs.value")
def known_inputs(bench):
    # An If on an input runs one of its branches; with a value in the job it is one of them, and the program no longer has the input.
    bench.model(*branches())
    bench.ok([*compiler(bench), "-o", "program"])
    bench.npy("x", [2, -1])
    for rate, expected in ((16000, [3, 0]), (8000, [-2, 1])):
        write_npy(bench.path("rate.npy"), "q", (), [rate])
        bench.ok(["./program", "--input", "x=x.npy", "--input", "rate=rate.npy", "--output", "y=y.npy"])
        expect(read_elements(bench, "y"), expected, f"rate {rate} as an input")
    for rate, expected in ((16000, [3, 0]), (8000, [-2, 1])):
        expect(run_forward(bench, [2, -1], (2,), f'inputs {{ name: "rate" value: {rate} }}'), expected, f"rate {rate}")
    bench.write("rate.npy", "")
    bench.refused(["./program", "--input", "x=x.npy", "--input", "rate=rate.npy"], "no such tensor; the program has x")
    # Numbers fill an input, or are its elements, of any type.
    for kind, values, expected in ((FLOAT, [0.5], [0.5] * 6), (FLOAT, [1, 2, 3, -4, 5.5, 6], [1, 2, 3, -4, 5.5, 6]), (INT64, [-7], [-7] * 6),
                                   (BOOL, [1, 0, 0, 1, 1, 1], [1, 0, 0, 1, 1, 1]), (2, [255], [255] * 6)):  # 2: u8
        bench.model(node("Cast", ["c"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["y"]), graph_input("x", ["batch", 3]),
                    graph_input("c", ["batch", 3], kind), graph_output("y", ["batch", 3]))
        numbers = ", ".join(map(str, values))
        expect(run_forward(bench, [0] * 6, (2, 3), f'global_batch: 2\ninputs {{ name: "c" value: [{numbers}] }}'), expected, f"{kind} {numbers}")
    for value, message in (
            ('name: "c" value: 256', 'inputs gives "c" the value 256, which ui8 does not hold exactly'), ('name: "c" value: -1', "the value -1, which"),
            ('name: "c" value: 0.5', "the value 0.5, which"), ('name: "c" value: [1, 2]', 'inputs gives "c" 2 numbers but it has 6 elements; give one'),
            ('name: "d" value: 1', 'inputs gives "d" a value but there is no such input; there are "x", "c"'),
            ('name: "c"', 'inputs needs the name of an input and its value, has name "c" and 0 numbers'), ('value: 1', 'has name "" and 1 numbers'),
            ('name: "c" value: nan', "inputs.value"), ('name: "c" value: 1 } inputs { name: "c" value: 2', 'inputs gives "c" two values')):
        bench.refused(bench.compiler(f"global_batch: 2\ninputs {{ {value} }}", "-o", "no"), message)
    # In training it is no input of the step. The data set cannot feed it, too.
    bench.model(node("Mul", ["x", "c"], ["xc"]), node("Mul", ["xc", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
                parameter("w", [1], [1]), graph_input("x", ["batch", 1]), graph_input("c", ["batch", 1]), graph_output("loss", []))
    bench.npy("x_train", [1, 2, 4, 8], (4, 1))
    job = product_job('inputs { name: "c" value: 3 }', batch=2, optimizer=STILL)
    expect(bench.train(job).losses, [4.5, 18], "trained")
    expect(bench.train(job, ranks=2, compile_options=["--mesh", "dp=2"]).losses, [4.5, 18], "two ranks")
    bench.refused(bench.compiler(job.replace('tensor: "x" }', 'tensor: "x" } features { column: "c" tensor: "c" }'), "-o", "no"),
                  'inputs gives "c" a value but the dataset feeds it; leave out one of the two')


@case()
def wrong_declarations(bench):
    # As ONNX Runtime does: a warning, and the shape that is computed.
    for dims, said in (([2], "rank 1"), ([2, 3, 1], "rank 3"), ([2, 4], "size 4 in dim 1"), ([-1, 3], None), ([2, 3], None), (["n", "m"], None)):
        bench.model(node("Neg", ["x"], ["y"]), graph_input("x", [2, 3]), graph_output("y", dims))
        status, _, err = bench.call([*compiler(bench), "-o", "program"])
        warning = f'warning: model.onnx: output "y" is declared with {said} but the graph computes [2, 3] of f32\n' if said else ""
        expect((status, err), (0, warning), f"{dims}")
        expect(run_forward(bench, range(6), (2, 3)), [-x for x in range(6)], f"{dims}")
    bench.model(node("Neg", ["x"], ["y"]), graph_input("x", [2, 3]), graph_output("y", [2, 3], INT64))
    refused_model(bench, "is declared with elements of i64 but")


@case()
def batch_option(bench):
    bench.model(*sums(["batch", 2]), opset=11)
    refused_model(bench, "give the batch as global_batch in the job file, or by --batch")
    expect(run_forward(bench, [1, 2, 3, 4, 5, 6], (3, 2), options=["--batch", "3"]), [3, 7, 11], "without a job")
    expect(run_forward(bench, [1, 2, 3, 4], (2, 2), "seed: 1", ["--batch", "2"]), [3, 7], "with a job")
    bench.refused(bench.compiler("global_batch: 2", "--batch", "2", "-o", "no"),
                  "--batch 2 is for jobs without global_batch, and that of job.txtpb has 2; leave out one of the two")
    refused_model(bench, "--batch", "--batch", "0")


def wrapped(value, bits):
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def power(base, exponent, bits):
    if exponent < 0:
        return 1 if base == 1 else (-1 if exponent % 2 else 1) if base == -1 else 0
    return wrapped(base**exponent, bits)


@case()
def integer_powers(bench):
    bases = [0, 1, -1, 2, -2, 3, -3, 7, 10, -12, 2**31 - 1, -2**31]
    for onnx_type, letter, bits in ((INT32, "i", 32), (INT64, "q", 64)):
        # Exponents that are known, of integers and floats, and those that are not.
        known = (0, 1, 2, 3, 5, 31, 64, -1, -2, -3)
        for kind, pack in ((INT64, lambda e: struct.pack("<q", e)), (FLOAT, lambda e: floats([e]))):
            bench.model(*(constant(f"e{e}", kind, pack(e)) for e in known), *(node("Pow", ["x", f"e{e}"], [f"p{e}"]) for e in known),
                        node("Concat", [f"p{e}" for e in known], ["y"], axis=0), graph_input("x", [len(bases)], onnx_type),
                        graph_output("y", [len(bases) * len(known)], onnx_type))
            expect(run_forward(bench, bases, (len(bases),), kind=letter), [power(b, e, bits) for e in known for b in bases], f"{bits} bits, {kind}")
        exponents = [0, 1, 2, 3, 4, 13, 30, 31, 63, -1, -2, -5]
        grid = [b for b in bases for _ in exponents]
        bench.model(constant("e", INT64, struct.pack("<12q", *exponents), [12]), node("Pow", ["x", "e"], ["y"]),
                    graph_input("x", [len(bases), 12], onnx_type), graph_output("y", [len(bases), 12], onnx_type))
        expect(run_forward(bench, grid, (len(bases), 12), kind=letter), [power(b, e, bits) for b in bases for e in exponents], f"{bits} bits")
    # A float exponent that is no whole number is computed in f64 and cut off.
    bench.model(constant("e", FLOAT, floats([0.5])), node("Pow", ["x", "e"], ["y"]), graph_input("x", [3], INT64), graph_output("y", [3], INT64))
    expect(run_forward(bench, [0, 17, 10000], (3,), kind="q"), [0, 4, 100], "roots")
    bench.model(node("Pow", ["x", "x"], ["y"]), graph_input("x", [3], 3), graph_output("y", [3], 3))  # i8
    refused_model(bench, "input 0 is a tensor of i8, which the op does not take; its inputs are floats, i32 and i64")


def write_brain(bench, name, shape, values, descr="<V2"):
    """Writes bf16 numbers as NumPy writes those of ml_dtypes."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (descr, "".join(f"{size}, " for size in shape))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"".join(floats([value])[2:] for value in values)
    with open(bench.path(name), "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


@case()
def brain_files(bench):
    # Samples of bf16 become what the tensor holds.
    values = [1.5, -2, 0.0078125, 3.5]
    product = [node("Mul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("w", [1], [1]),
               graph_input("x", ["batch", 1]), graph_output("loss", [])]
    bench.model(*product)
    for descr in ("<V2", "|V2"):
        write_brain(bench, "x_train.npy", (4, 1), values, descr)
        expect(bench.train(product_job(optimizer=STILL)).losses, values, descr)
    # An input of bf16 takes them as they are, and as f32; one of f32 does not.
    bench.model(node("Cast", ["x"], ["y"], to=FLOAT), graph_input("x", [4], 16), graph_output("y", [4]))
    expect(run_forward(bench, values, (4,)), values, "f32")
    write_brain(bench, "x.npy", (4,), values)
    bench.ok(["./program", "--input", "x=x.npy", "--output", "y=y.npy"])
    expect(read_elements(bench, "y"), values, "bf16")
    bench.model(node("Neg", ["x"], ["y"]), graph_input("x", [4]), graph_output("y", [4]))
    run_forward(bench, values, (4,))
    write_brain(bench, "x.npy", (4,), values)
    bench.refused(["./program", "--input", "x=x.npy"], '"x.npy" holds bf16 but f32 is expected')
    with open(bench.path("x.npy"), "r+b") as file:
        file.seek(10)
        file.write(b"{'descr': '<V3'")
    bench.refused(["./program", "--input", "x=x.npy"], "'<V3'; little-endian f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8, b1 and bf16 (V2) can be read")


def small_float(bits, exponent_bits, mantissa_bits, bias, has_inf=False, is_fnuz=False):
    """Returns the value of an element of float8 or float4; None for NaN and infinities."""
    sign = bits >> (exponent_bits + mantissa_bits) & 1
    exponent, mantissa = bits >> mantissa_bits & (2**exponent_bits - 1), bits & (2**mantissa_bits - 1)
    if is_fnuz and sign and not exponent and not mantissa:
        return None
    if has_inf and exponent == 2**exponent_bits - 1:
        return None
    if not has_inf and not is_fnuz and exponent_bits == 4 and exponent == 15 and mantissa == 7:
        return None
    scale = 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
    return (-1) ** sign * scale * (mantissa + (2**mantissa_bits if exponent else 0))


def stored_types():
    """Type, elements in a byte, raw elements, and their values."""
    floats8 = {17: (4, 3, 7), 18: (4, 3, 8, False, True), 19: (5, 2, 15, True), 20: (5, 2, 16, False, True)}
    for kind, layout in floats8.items():
        raw = [bits for bits in range(256) if small_float(bits, *layout) is not None]
        yield kind, 1, raw, [small_float(bits, *layout) for bits in raw]
    yield 23, 2, list(range(16)), [small_float(bits, 2, 1, 1) for bits in range(16)]
    yield 24, 1, list(range(1, 254)), [2.0 ** (bits - 127) for bits in range(1, 254)]
    for kind, bits, is_signed in ((21, 4, False), (22, 4, True), (25, 2, False), (26, 2, True)):
        raw = [i % 2**bits for i in range(17)]  # an odd number: the last byte is not full
        yield kind, 8 // bits, raw, [x - 2**bits if is_signed and x >= 2 ** (bits - 1) else x for x in raw]


def packed(raw, per_byte):
    bits = 8 // per_byte
    return bytes(sum(x << (i * bits) for i, x in enumerate(raw[at:at + per_byte])) for at in range(0, len(raw), per_byte))


@case()
def stored_initializers(bench):
    # Each number of each type, in an initializer as raw data and as a list, and in a node; moved, then dequantized and cast.
    for kind, per_byte, raw, values in stored_types():
        count, data = len(raw), packed(raw, per_byte)
        stored = [bytes_of(5, tensor("q0", [count], kind, data)), bytes_of(5, tensor_of_list("q1", [count], kind, data)),
                  constant("q2", kind, data, [count])]
        bench.model(*stored, constant("s", FLOAT, floats([2])), constant("shape", INT64, struct.pack("<2q", 1, count), [2]),
                    *(node("Reshape", [f"q{i}", "shape"], [f"r{i}"]) for i in range(3)),
                    *(node("DequantizeLinear", [f"r{i}", "s"], [f"w{i}"]) for i in range(3)), node("Cast", ["r0"], ["w3"], to=FLOAT),
                    node("Concat", [f"w{i}" for i in range(4)], ["w"], axis=0), node("Add", ["x", "w"], ["y"]), graph_input("x", [1]),
                    graph_output("y", [4, count]), opset=25)
        expect(run_forward(bench, [0], (1,)), [2 * v for v in values] * 3 + values, f"type {kind}")
        # An op that looks at the type does not take it.
        bench.model(stored[0], node("Add", ["q0", "q0"], ["y"]), graph_input("x", [1]), graph_output("y", [count]), opset=25)
        refused_model(bench, 'reads "q0", a constant of a type that is only stored here; only')
        bench.model(bytes_of(5, tensor("q", [count], kind, data + b"\0")), node("Cast", ["q"], ["y"], to=FLOAT), graph_output("y", [count]), opset=25)
        refused_model(bench, f"has {len(data) + 1} bytes of data but")
    # Blocks of 4-bit weights with zero points, as weight-only quantization writes them.
    rows, raw, zeros, scales = 4, [(7 * i + 3) % 16 for i in range(8)], [8, 3, 7, 0], [0.5, 2, 1, 4]
    bench.model(bytes_of(5, tensor("q", [rows, 2], 21, packed(raw, 2))), bytes_of(5, tensor("z", [2, 2], 21, packed(zeros, 2))),
                constant("s", FLOAT, floats(scales), [2, 2]), node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0, block_size=2),
                node("MatMul", ["x", "w"], ["y"]), graph_input("x", [1, rows]), graph_output("y", [1, 2]), opset=25)
    weight = [[(raw[2 * r + c] - zeros[r // 2 * 2 + c]) * scales[r // 2 * 2 + c] for c in range(2)] for r in range(rows)]
    expect(run_forward(bench, [1, 2, 3, 4], (1, rows)), [sum((r + 1) * weight[r][c] for r in range(rows)) for c in range(2)], "blocks")
    # A zero point of 4 bits says what QuantizeLinear makes, which nothing here holds.
    bench.model(bytes_of(5, tensor("z", [], 22, b"\1")), constant("s", FLOAT, floats([2])), node("QuantizeLinear", ["x", "s", "z"], ["y"]),
                graph_input("x", [1]), graph_output("y", [1], 22), opset=25)
    refused_model(bench, 'reads "z", a constant of a type that is only stored here')


@case()
def products_of_bytes(bench):
    """MatMulInteger with every pair of signs, beside sums by hand; its weights stay bytes in the executable and in memory."""
    generator, rows, k, n, int32 = random.Random(7), 5, 301, 130, 6
    for kind_x, kind_w in ((2, 3), (3, 2), (2, 2), (3, 3)):  # uint8 is 2, int8 is 3
        ends = {2: (0, 255), 3: (-128, 127)}
        x, w = ([generator.randint(*ends[kind]) if generator.randrange(3) else generator.choice(ends[kind]) for _ in range(count)]
                for kind, count in ((kind_x, rows * k), (kind_w, k * n)))
        zero_x, zeros_w = generator.randint(*ends[kind_x]), [generator.randint(*ends[kind_w]) for _ in range(n)]
        letters = {2: "B", 3: "b"}
        bench.model(constant("w", kind_w, struct.pack(f"<{k * n}{letters[kind_w]}", *w), [k, n]),
                    constant("zx", kind_x, struct.pack("<" + letters[kind_x], zero_x), []),
                    constant("zw", kind_w, struct.pack(f"<{n}{letters[kind_w]}", *zeros_w), [n]),
                    node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"]), graph_input("x", [rows, k], kind_x), graph_output("y", [rows, n], int32))
        found = run_forward(bench, x, (rows, k), kind=letters[kind_x])
        expect(found, [sum((x[i * k + p] - zero_x) * (w[p * n + j] - zeros_w[j]) for p in range(k)) for i in range(rows) for j in range(n)],
               f"types {kind_x} and {kind_w}")
        profile = bench.ok(["./program", "--input", "x=x.npy", "--benchmark", "1", "--profile"])
        expect("gemm y [" in profile, True, "a library product")
        with open(bench.path("program"), "rb") as file:
            expect(struct.pack(f"<{k * n}{letters[kind_w]}", *w) in file.read(), True, "the bytes of the weights")


def tensor_of_list(name, dims, kind, elements):
    """A tensor in int32_data, a byte each."""
    return b"".join(integer(1, d) for d in dims) + integer(2, kind) + bytes_of(8, name) + bytes_of(5, b"".join(varint(x) for x in elements))


def suggested(bench, *options):
    return bench.ok([*compiler(bench), "--suggest-job", *options])


def loss_line(job):
    return next(line for line in job.splitlines() if line.startswith("loss "))


@case()
def suggested_losses(bench):
    head = [node("MatMul", ["x", "w"], ["l"]), parameter("w", [4, 6], [0.5] * 24), graph_input("x", ["batch", 4])]
    shape = [constant("shape", INT64, struct.pack("<2q", 0, -1), [2])]
    entropy = 'loss { softmax_cross_entropy { logits: "l" labels: "labels" } }'
    squares = 'loss { mean_squared_error { prediction: "y" target: "labels" } }'
    likelihood = 'loss { negative_log_likelihood { log_probabilities: "y" labels: "labels" } }'
    axis = [constant("axis", INT64, struct.pack("<q", -1), [1])]
    one = [constant("one", FLOAT, floats([1]))]
    exponential = [node("Exp", ["l"], ["e"]), *axis, node("ReduceSum", ["e", "axis"], ["s"], keepdims=1)]
    for name, nodes, expected in (
            ("nothing", [node("Identity", ["l"], ["y"])], 'loss { softmax_cross_entropy { logits: "y" labels: "labels" } }'),
            ("softmax", [node("Softmax", ["l"], ["y"])], entropy),
            ("behind a reshape", [*shape, node("Softmax", ["l"], ["p"]), node("Reshape", ["p", "shape"], ["y"])], entropy),
            ("between reshapes", [*shape, node("Reshape", ["l", "shape"], ["r"]), node("Softmax", ["r"], ["p"]), node("Identity", ["p"], ["y"])],
             'loss { softmax_cross_entropy { logits: "r" labels: "labels" } }'),
            ("of the batch", [node("Softmax", ["l"], ["y"], axis=0)], squares),
            ("parts", [*exponential, node("Div", ["e", "s"], ["y"])], entropy),
            ("parts and an inverse", [*exponential, node("Reciprocal", ["s"], ["i"]), node("Mul", ["i", "e"], ["y"])], entropy),
            ("parts without the maximum", [node("ReduceMax", ["l"], ["m"], axes=[-1], keepdims=1), node("Sub", ["l", "m"], ["d"]),
                                           node("Exp", ["d"], ["e"]), *axis, node("ReduceSum", ["e", "axis"], ["s"], keepdims=1), node("Div", ["e", "s"], ["y"])], entropy),
            ("log-softmax", [*shape, node("LogSoftmax", ["l"], ["p"]), node("Reshape", ["p", "shape"], ["y"])], likelihood),
            ("parts of log-softmax", [*exponential, node("Log", ["s"], ["g"]), node("Sub", ["l", "g"], ["y"])], likelihood),
            ("log of softmax", [node("Softmax", ["l"], ["p"]), node("Log", ["p"], ["y"])], likelihood),
            ("sigmoid", [*shape, node("Sigmoid", ["l"], ["p"]), node("Reshape", ["p", "shape"], ["y"])], squares),
            ("parts of sigmoid", [*one, node("Neg", ["l"], ["n"]), node("Exp", ["n"], ["e"]), node("Add", ["e", "one"], ["a"]),
                                  node("Div", ["one", "a"], ["y"])], squares)):
        bench.model(*head, *nodes, graph_output("y", ["batch", 6]))
        expect(loss_line(suggested(bench)), expected, name)
    # A label a token: padding has torch's label, which does not count; the job holds where no token is padded, too.
    tokens = [node("MatMul", ["x", "w"], ["y"]), parameter("w", [4, 6], [0.5] * 24), graph_input("x", ["batch", 3, 4])]
    for nodes, expected in (([], 'softmax_cross_entropy { logits: "y" labels: "labels" ignore_index: -100 }'),
                            ([node("LogSoftmax", ["y"], ["p"])], 'negative_log_likelihood { log_probabilities: "p" labels: "labels" ignore_index: -100 }')):
        bench.model(*tokens, *nodes, graph_output("p" if nodes else "y", ["batch", 3, 6]))
        job = suggested(bench)
        expect(loss_line(job), f"loss {{ {expected} }}", "tokens")
        expect("#   labels_train.npy (samples, 3) i32, classes 0 to 5, or -100: not counted" in job, True, "labels of tokens")
        bench.write("suggested.txtpb", job)
        bench.ok([*compiler(bench), "--job", "suggested.txtpb", "-o", "program"])
    # Of several outputs a classifier's, wherever it stands: by its name, its softmax, or its shape.
    features = [node("Relu", ["x"], ["hidden"]), graph_output("hidden", ["batch", 4])]
    for name, output, nodes, logits in (("softmax", "y", [node("Softmax", ["l"], ["y"])], "l"),
                                        ("name", "my_logits", [node("Identity", ["l"], ["my_logits"])], "my_logits")):
        bench.model(*features, *head, *nodes, graph_output(output, ["batch", 6]))
        expect(loss_line(suggested(bench)), f'loss {{ softmax_cross_entropy {{ logits: "{logits}" labels: "labels" }} }}', name)


@case()
def suggested_sizes(bench):
    classifier = [node("MatMul", ["x", "w"], ["y"]), parameter("w", [4, 6], [0.5] * 24), graph_input("x", ["batch", 4]),
                  graph_output("y", ["batch", 6])]
    # The mesh of the command line, and a batch that its devices divide.
    bench.model(*classifier)
    for mesh, lines in (("dp=3", ["mode: DATA_PARALLEL", 'mesh { axes { name: "dp" size: 3 } }', "global_batch: 9"]),
                        ("a=2,b=8", ["mode: AUTO", 'mesh { axes { name: "a" size: 2 } axes { name: "b" size: 8 } }', "global_batch: 16"]),
                        ("8", ["mode: AUTO", "mesh { devices: 8 }", "global_batch: 8"])):
        expect(suggested(bench, "--mesh", mesh).splitlines()[1:4], lines, mesh)
    bench.write("suggested.txtpb", suggested(bench, "--mesh", "dp=3"))
    bench.ok([*compiler(bench), "--job", "suggested.txtpb", "-o", "program"])
    expect("global_batch: 5" in suggested(bench, "--batch", "5"), True, "--batch")
    # A size without a name, and a known input, come back in the job.
    bench.model(node("Add", ["x", "c"], ["a"]), node("ReduceMean", ["a"], ["m"], axes=[1], keepdims=1), node("MatMul", ["m", "w"], ["y"]),
                parameter("w", [1, 6], [0.5] * 6), graph_input("x", ["batch", ""]), graph_input("c", []), graph_output("y", ["batch", 6]))
    bench.write("given.txtpb", 'inputs { name: "c" value: 2 }')
    job = suggested(bench, "--job", "given.txtpb")
    for line in ('dims { input: "x" dim: 1 size: 128 }', 'inputs { name: "c" value: 2 }', "#   x_train.npy (samples, 128) f32"):
        expect(line in job.splitlines(), True, f"{line} in {job}")
    expect("c_train" in job, False, job)
    bench.write("suggested.txtpb", job)
    bench.ok([*compiler(bench), "--job", "suggested.txtpb", "-o", "program"])
    # A model of one size that says it is open: the sizes that were tried are not its fault.
    bench.model(node("MatMul", ["x", "w"], ["y"]), parameter("w", [5, 6], [0.5] * 30), graph_input("x", ["batch", "width"]),
                graph_output("y", ["batch", 6]))
    message = "with the sizes that were tried, which may not be the model's; give its own in a job (--job): global_batch 8, width 128: node"
    bench.refused([*compiler(bench), "--suggest-job"], message)
    expect(message in bench.ok([*compiler(bench), "--inspect"]), True, "--inspect")
    bench.write("given.txtpb", 'dims { name: "width" size: 5 }')
    expect('dims { name: "width" size: 5 }' in suggested(bench, "--job", "given.txtpb").splitlines(), True, "its own size")
    # What is refused with every size is the model's.
    bench.model(node("MatMul", ["x", "w"], ["p"]), node("Nothing", ["p"], ["y"]), parameter("w", [5, 6], [0.5] * 30), graph_input("x", ["batch", 5]),
                graph_input("z", ["batch", "width"]), graph_output("y", ["batch", 6]))
    bench.refused([*compiler(bench), "--suggest-job"], "which is refused: 1 op is not supported: Nothing")


def flex_attention(q, k, v, scale, score_mod, prob_mod):
    """Plain loops over lists (batch, heads, rows, size)."""
    def head(q, k, v):
        rows = []
        for i, row in enumerate(q):
            scores = [score_mod(scale * sum(a * b for a, b in zip(row, key)), i, j) for j, key in enumerate(k)]
            terms = [math.exp(s - max(scores)) for s in scores]
            weights = [prob_mod(t / sum(terms)) for t in terms]
            rows.append([sum(w * value[c] for w, value in zip(weights, v)) for c in range(len(v[0]))])
        return rows
    group = len(q[0]) // len(k[0])
    return [[head(heads[h], k[b][h // group], v[b][h // group]) for h in range(len(heads))] for b, heads in enumerate(q)]


def nested(values, shape):
    if not shape:
        return values[0]
    step = len(values) // shape[0]
    return [nested(values[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def flat(values):
    return [x for value in values for x in flat(value)] if isinstance(values, list) else [values]


def graph_attribute(name, source, result, *nodes):
    """A graph attribute of one input and one output."""
    graph = b"".join(nodes) + bytes_of(2, name) + bytes_of(11, value_info(source, [2, 4, 3, 5])) + bytes_of(12, value_info(result, [2, 4, 3, 5]))
    return bytes_of(5, bytes_of(1, name) + bytes_of(6, graph) + b"\xa0\x01\x05")


@case()
def flex_attentions(bench):
    # Functions of scores and probabilities that read a value from outside: a bias a pair of positions, and a factor.
    q_shape, k_shape, v_shape = [2, 4, 3, 2], [2, 2, 5, 2], [2, 2, 5, 3]
    numbers = {name: [((7 * i + salt) % 11 - 5) / 4 for i in range(math.prod(shape))]
               for salt, (name, shape) in enumerate((("q", q_shape), ("k", k_shape), ("v", v_shape)))}
    bias = [(i % 7 - 3) / 2 for i in range(15)]
    score_mod = graph_attribute("score_mod", "s", "t", node("Add", ["s", "bias"], ["u"]), node("Mul", ["u", "two"], ["t"]))
    prob_mod = graph_attribute("prob_mod", "p", "r", node("Mul", ["p", "two"], ["r"]))
    for attributes, scale, score, prob in (
            (b"", 2**-0.5, lambda s, i, j: s, lambda p: p),
            (score_mod + prob_mod, 2**-0.5, lambda s, i, j: 2 * (s + bias[5 * i + j]), lambda p: 2 * p),
            (prob_mod + bytes_of(5, bytes_of(1, "scale") + varint(2 << 3 | 5) + struct.pack("<f", 0.25) + integer(20, 1)), 0.25,
             lambda s, i, j: s, lambda p: 2 * p)):
        call = bytes_of(1, b"".join(bytes_of(1, x) for x in ["x", "k", "v"]) + bytes_of(2, "y") + bytes_of(3, "flex") + bytes_of(4, "FlexAttention")
                        + attributes + bytes_of(7, "ai.onnx.preview"))
        bench.model(constant("two", FLOAT, floats([2])), constant("bias", FLOAT, floats(bias), [3, 5]),
                    constant("k", FLOAT, floats(numbers["k"]), k_shape),
                    constant("v", FLOAT, floats(numbers["v"]), v_shape), call,
                    graph_input("x", q_shape), graph_output("y", [2, 4, 3, 3]), opset=26,
                    domains=["ai.onnx.preview"])
        expected = flex_attention(nested(numbers["q"], q_shape), nested(numbers["k"], k_shape), nested(numbers["v"], v_shape), scale, score, prob)
        expect_near(run_forward(bench, numbers["q"], q_shape), flat(expected), 2e-6, f"scale {scale}")
