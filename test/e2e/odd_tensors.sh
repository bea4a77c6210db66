# SPDX-License-Identifier: Apache-2.0
#
# Tensors at the edge of what the runtime takes: f16 and integers of all widths go through .npy files, bf16 as f32, and ranks above 8 are
# refused when compiling, by name.

. "$(dirname "$0")/common.sh"

# What an integer type is called, and 37 numbers of it: struct's letter, ONNX's number.
cat > integers.py << 'PYTHON'
import struct

def numbers(letter):
    bits = 8 * struct.calcsize("<" + letter)
    low, high = (0, 2**bits) if letter.isupper() else (-2**(bits - 1), 2**(bits - 1))
    return [low, high - 1] + [low + (high - low) * i // 41 for i in range(35)]

INTEGERS = {letter: (number, numbers(letter)) for letter, number in dict(b=3, h=5, i=6, q=7, B=2, H=4, I=12, Q=13).items()}

def wrapped(letter, value):
    bits = 8 * struct.calcsize("<" + letter)
    value %= 2**bits
    return value if letter.isupper() or value < 2**(bits - 1) else value - 2**bits

def expected(letter, x):
    twice = wrapped(letter, 2 * x)
    quotient = abs(twice) // 3 * (1 if twice >= 0 else -1)
    return max(wrapped(letter, quotient * 2), x)
PYTHON

PYTHONPATH=.:$PYTHONPATH python3 - << 'PYTHON'
import struct
from integers import INTEGERS
from npy_writer import write_npy
from onnx_writer import *

F16, DOUBLE, BF16 = 10, 11, 16

def ints(name, values):
    return constant(name, INT64, struct.pack("<%dq" % len(values), *values), [len(values)])

ones, nine = [1] * 7, [2, 3] + [1] * 7
write_model("half.onnx", "half", [node("Add", ["x", "x"], ["y"]), graph_input("x", [2, 3], F16), graph_output("y", [2, 3], F16)])
write_npy("half.npy", "e", (2, 3), [1.5, -2, 0.1, 6e-8, 30000, 40000])
write_model("bf16.onnx", "bf16", [node("Add", ["x", "x"], ["y"]), graph_input("x", [4], BF16), graph_output("y", [4], BF16)])
write_npy("bf16.npy", "f", (4,), [1.5, 1.00390625, -3e38, 1.01171875])  # ties go to even: 1 and 1.015625
# (x + x) / 3 * 2, and the maximum of it and x: sums wrap around, and quotients know the sign.
for letter, (number, values) in INTEGERS.items():
    write_model(letter + ".onnx", letter, [
        constant("two", number, struct.pack("<" + letter, 2)), constant("three", number, struct.pack("<" + letter, 3)),
        node("Add", ["x", "x"], ["s"]), node("Div", ["s", "three"], ["q"]), node("Mul", ["q", "two"], ["p"]), node("Max", ["p", "x"], ["y"]),
        graph_input("x", [37], number), graph_output("y", [37], number)])
    write_npy(letter + ".npy", letter, (37,), values)
write_model("input.onnx", "input", [ints("to", [6]), node("Reshape", ["deep", "to"], ["y"]), graph_input("deep", nine), graph_output("y", [6])])
write_model("output.onnx", "output", [ints("to", nine), node("Reshape", ["x", "to"], ["deep"]), graph_input("x", [6]), graph_output("deep", nine)])
write_model("parameter.onnx", "parameter", [
    ints("to", nine), node("Reshape", ["x", "to"], ["r"]), node("Add", ["r", "deep"], ["s"]), node("ReduceSum", ["s"], ["y"], keepdims=0),
    parameter("deep", nine, [1] * 6), graph_input("x", [6]), graph_output("y", [])])
write_model("target.onnx", "target", [
    ints("to", [0, 3] + ones), node("Add", ["x", "w"], ["s"]), node("Reshape", ["s", "to"], ["deep"]), parameter("w", [3], [1] * 3),
    graph_input("x", ["n", 3]), graph_output("deep", ["n", 3] + ones)])
# A weight of 1 and its loss x * w, all of one type of floats.
for name, number, data in (("f16", F16, struct.pack("<e", 1)), ("bf16", BF16, b"\x80\x3f"), ("f64", DOUBLE, struct.pack("<d", 1))):
    write_model("train_%s.onnx" % name, name, [
        node("Mul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0), bytes_of(5, tensor("w", [1], number, data)),
        graph_input("x", ["n", 1], number), graph_output("loss", [], number)])
write_npy("x_train.npy", "f", (3, 1), [1, 2, 4])
# Inside a program any rank goes: nothing outside sees it.
write_model("inside.onnx", "inside", [
    ints("to", [2, 1, 3] + ones), ints("back", [3, 2]), node("Reshape", ["x", "to"], ["r"]), node("Neg", ["r"], ["n"]),
    node("Transpose", ["n"], ["t"], perm=[2, 3, 4, 5, 6, 7, 8, 9, 1, 0]), node("Exp", ["t"], ["e"]), node("Reshape", ["e", "back"], ["y"]),
    graph_input("x", [2, 3]), graph_output("y", [3, 2])])
write_npy("inside.npy", "f", (2, 3), range(6))
PYTHON

"$tools/ashlarc" half.onnx -o half
./half --input x=half.npy --output y=half_out.npy
python3 - << 'PYTHON' || fail "wrong values in f16"
import struct
data = open("half_out.npy", "rb").read()
offset = 10 + struct.unpack("<H", data[8:10])[0]
assert "'<f2'" in data[10:offset].decode(), data[10:offset]
values = struct.unpack("<6e", data[offset:])
assert values[:2] == (3, -4) and abs(values[2] - 0.2) < 1e-4 and values[3] == 2 * 2**-24 and values[4:] == (60000, float("inf")), values
PYTHON

"$tools/ashlarc" bf16.onnx -o bf16
./bf16 --input x=bf16.npy --output y=bf16_out.npy
for letter in b h i q B H I Q; do
  "$tools/ashlarc" $letter.onnx -o integers
  ./integers --input x=$letter.npy --output y=${letter}_out.npy
done
python3 - << 'PYTHON' || fail "wrong values in bf16 or integers"
import struct
from integers import INTEGERS, expected

def read(path, letter):
    data = open(path, "rb").read()
    offset = 10 + struct.unpack("<H", data[8:10])[0]
    return data[10:offset].decode(), struct.unpack("<%d%s" % (len(data[offset:]) // struct.calcsize(letter), letter), data[offset:])

header, values = read("bf16_out.npy", "f")
assert "'<f4'" in header and values == (3, 2, -float("inf"), 2.03125), (header, values)
for letter, (_, numbers) in INTEGERS.items():
    header, values = read(letter + "_out.npy", letter)
    code = ("u" if letter.isupper() else "i") + str(struct.calcsize(letter))
    assert code in header and values == tuple(expected(letter, x) for x in numbers), (letter, header, values)
PYTHON

"$tools/ashlarc" inside.onnx -o inside
./inside --input x=inside.npy --output y=inside_out.npy
python3 - << 'PYTHON' || fail "wrong values through rank 10"
import math, struct
values = struct.unpack("<6f", open("inside_out.npy", "rb").read()[-24:])
expected = [math.exp(-(3 * j + i)) for i in range(3) for j in range(2)]
assert all(abs(v - e) < 1e-6 for v, e in zip(values, expected)), values
PYTHON

cat > train.txtpb << 'JOB'
global_batch: 1 epochs: 1 log_every: 1
loss { model_output { tensor: "loss" } }
optimizer { sgd {} learning_rate: 0.125 }
dataset { npy {} shuffle: false features { column: "x" tensor: "x" } }
JOB
for type in f16 bf16 f64; do # w is 1, 7/8, 5/8
  "$tools/ashlarc" train_$type.onnx --job train.txtpb -o train
  ./train --data . > train.log
  found=$(losses train.log | tr '\n' ' ')
  [ "$found" = "1 1.75 2.5 " ] || fail "losses in $type: $found"
done

cat > target.txtpb << 'JOB'
global_batch: 2
loss { mean_squared_error { prediction: "deep" target: "wanted" } }
optimizer { sgd {} learning_rate: 0.1 }
dataset { npy {} features { column: "x" tensor: "x" } features { column: "wanted" tensor: "wanted" } }
JOB
# refused MODEL MESSAGE [OPTION...]: one line, nothing written.
refused() {
  model=$1 message=$2
  shift 2
  "$tools/ashlarc" "$model.onnx" "$@" -o refused > refused.log 2>&1 && fail "$model.onnx compiles"
  grep -qF "$message" refused.log || fail "$model.onnx: $(cat refused.log)"
  [ "$(wc -l < refused.log)" -eq 1 ] || fail "$model.onnx: more than one line"
  [ ! -e refused ] || fail "$model.onnx: something was written"
}
refused input 'input "deep" has rank 9 but the limit is 8; reshape it in the model'
refused output 'output "deep" has rank 9 but the limit is 8; reshape it in the model'
refused parameter 'variable "deep" has rank 9 but the limit is 8; reshape it in the model'
refused target 'input "wanted" has rank 9 but the limit is 8; reshape it in the model' --job target.txtpb
