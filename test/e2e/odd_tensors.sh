# SPDX-License-Identifier: Apache-2.0
#
# Tensors at the edge of what the runtime takes: f16 goes through .npy files, bf16 and ranks above 8 are refused when compiling, by name.

. "$(dirname "$0")/common.sh"

python3 - << 'PYTHON'
import struct
from npy_writer import write_npy
from onnx_writer import *

F16, BF16 = 10, 16

def ints(name, values):
    return constant(name, INT64, struct.pack("<%dq" % len(values), *values), [len(values)])

ones, nine = [1] * 7, [2, 3] + [1] * 7
write_model("half.onnx", "half", [node("Add", ["x", "x"], ["y"]), graph_input("x", [2, 3], F16), graph_output("y", [2, 3], F16)])
write_npy("half.npy", "e", (2, 3), [1.5, -2, 0.1, 6e-8, 30000, 40000])
write_model("bf16.onnx", "bf16", [node("Add", ["x", "x"], ["y"]), graph_input("x", [2], BF16), graph_output("y", [2], BF16)])
write_model("input.onnx", "input", [ints("to", [6]), node("Reshape", ["deep", "to"], ["y"]), graph_input("deep", nine), graph_output("y", [6])])
write_model("output.onnx", "output", [ints("to", nine), node("Reshape", ["x", "to"], ["deep"]), graph_input("x", [6]), graph_output("deep", nine)])
write_model("parameter.onnx", "parameter", [
    ints("to", nine), node("Reshape", ["x", "to"], ["r"]), node("Add", ["r", "deep"], ["s"]), node("ReduceSum", ["s"], ["y"], keepdims=0),
    parameter("deep", nine, [1] * 6), graph_input("x", [6]), graph_output("y", [])])
write_model("target.onnx", "target", [
    ints("to", [0, 3] + ones), node("Add", ["x", "w"], ["s"]), node("Reshape", ["s", "to"], ["deep"]), parameter("w", [3], [1] * 3),
    graph_input("x", ["n", 3]), graph_output("deep", ["n", 3] + ones)])
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

"$tools/ashlarc" inside.onnx -o inside
./inside --input x=inside.npy --output y=inside_out.npy
python3 - << 'PYTHON' || fail "wrong values through rank 10"
import math, struct
values = struct.unpack("<6f", open("inside_out.npy", "rb").read()[-24:])
expected = [math.exp(-(3 * j + i)) for i in range(3) for j in range(2)]
assert all(abs(v - e) < 1e-6 for v, e in zip(values, expected)), values
PYTHON

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
refused bf16 'input "x" is a tensor of bf16, which neither .npy files nor data sets hold'
