# SPDX-License-Identifier: Apache-2.0
#
# Outputs whose sizes only a run finds: files have the elements that are there and no others, on one rank and on two, and say so in their
# shapes. A loss that is the mean over selected samples learns from these alone.

. "$(dirname "$0")/common.sh"

python3 - << 'PYTHON'
import struct
from npy_writer import write_npy
from onnx_writer import *

def ints(name, values):
    return constant(name, INT64, struct.pack("<%dq" % len(values), *values), [len(values)])

zero = constant("zero", FLOAT, floats([0]))
write_model("selection.onnx", "selection", [
    zero, ints("axis", [1]), ints("columns", [0, 2]),
    node("Greater", ["x", "zero"], ["positive"]), node("NonZero", ["positive"], ["places"]),
    node("Transpose", ["places"], ["tuples"]), node("GatherND", ["x", "tuples"], ["positives"]),
    node("Compress", ["x", "chosen"], ["rows"], axis=0), node("Gather", ["rows", "columns"], ["two_columns"], axis=1),
    node("Transpose", ["rows"], ["columns_of_rows"]), node("ReduceSum", ["rows", "axis"], ["sums"], keepdims=0),
    node("Unique", ["label"], ["labels", "", "number", "times"]), node("Size", ["positives"], ["how_many"]),
    graph_input("x", ["n", 3]), graph_input("chosen", ["n"], BOOL), graph_input("label", ["n"], INT64),
    graph_output("places", [2, "places"], INT64), graph_output("positives", ["places"]), graph_output("two_columns", ["rows", 2]),
    graph_output("columns_of_rows", [3, "rows"]), graph_output("sums", ["rows"]), graph_output("labels", ["labels"], INT64),
    graph_output("number", ["n"], INT64), graph_output("times", ["labels"], INT64), graph_output("how_many", [], INT64)], opset=18)
PYTHON

# expect FOLDER X CHOSEN LABELS: writes inputs, and the files that outputs have to be into FOLDER. Lists are Python's.
expect() {
  rm -rf "$1" && mkdir "$1"
  python3 - "$@" << 'PYTHON'
import sys
from npy_writer import write_npy
folder, x, chosen, label = sys.argv[1], *map(eval, sys.argv[2:])
n = len(chosen)
write_npy("x.npy", "f", (n, 3), x)
write_npy("chosen.npy", "B", (n,), chosen)
write_npy("label.npy", "q", (n,), label)
data = open("chosen.npy", "rb").read().replace(b"'|u1'", b"'|b1'")
open("chosen.npy", "wb").write(data)
at = [i for i in range(3 * n) if x[i] > 0]
rows = [x[3 * i:3 * i + 3] for i in range(n) if chosen[i]]
distinct = sorted(set(label))
def write(name, letter, shape, elements):
    path = f"{folder}/{name}.npy"
    write_npy(path, letter, shape, elements)
    data = open(path, "rb").read()  # the runtime writes shapes as Python does, without a last comma
    here, there = ("'shape': (%s), }" % "".join("%d, " % size for size in shape)).encode(), f"'shape': {shape}, }}".encode()
    open(path, "wb").write(data.replace(here + b" " * (len(there) - len(here)), there + b" " * (len(here) - len(there))))
write("places", "q", (2, len(at)), [i // 3 for i in at] + [i % 3 for i in at])
write("positives", "f", (len(at),), [x[i] for i in at])
write("two_columns", "f", (len(rows), 2), [row[c] for row in rows for c in (0, 2)])
write("columns_of_rows", "f", (3, len(rows)), [row[c] for c in range(3) for row in rows])
write("sums", "f", (len(rows),), [sum(row) for row in rows])
write("labels", "q", (len(distinct),), distinct)
write("number", "q", (n,), [distinct.index(value) for value in label])
write("times", "q", (len(distinct),), [label.count(value) for value in distinct])
write("how_many", "q", (), [len(at)])
PYTHON
}

# check_run PROGRAM [RANKS]: runs it in a folder of its own, and compares what it writes with `expected`.
check_run() {
  rm -rf found && mkdir found
  (cd found && ${2:+mpirun -n $2} "../$1" --input x=../x.npy --input chosen=../chosen.npy --input label=../label.npy)
  diff -r expected found || fail "$1 writes other files than those expected"
}

echo 'global_batch: 4' > job.txtpb
"$tools/ashlarc" selection.onnx --job job.txtpb -o selection 2> warnings
[ ! -s warnings ] || { cat warnings >&2; fail "outputs as they are declared are warned of"; }
"$tools/ashlarc" selection.onnx --job job.txtpb --mesh dp=2 -o selection_2
some="[1, -2, 0, 0, 5, 6, -7, -8, -9, 10, 0, 12] [0, 1, 0, 1] [7, -3, 7, 0]"
expect expected $(echo "$some" | sed 's/\] \[/]@[/g; s/ //g; s/@/ /g')
check_run selection
check_run selection_2 2
expect expected "[-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1]" "[0,0,0,0]" "[5,5,5,5]"
check_run selection
expect expected "[1,2,3,4,5,6,7,8,9,10,11,12]" "[1,1,1,1]" "[4,3,2,1]"
check_run selection
check_run selection_2 2
# One of them alone has the same bytes; the count is no output of its own.
./selection --input x=x.npy --input chosen=chosen.npy --input label=label.npy --output columns_of_rows=one.npy
cmp one.npy expected/columns_of_rows.npy || fail "--output writes another file"
expect_error "no such tensor; the program has places, positives, two_columns, columns_of_rows, sums, labels, number, times, how_many" \
  ./selection --input x=x.npy --input chosen=chosen.npy --input label=label.npy --output places.count=count.npy
./selection --benchmark 3 > benchmark.log || fail "a benchmark of a counted output fails"

# loss = mean of w x over the samples above 0: 3 w, so w falls by 3 / 10 a step.
python3 - << 'PYTHON'
import struct
from npy_writer import write_npy
from onnx_writer import *
write_model("mean.onnx", "mean", [
    constant("zero", FLOAT, floats([0])), constant("axes", INT64, struct.pack("<2q", 0, 1), [2]),
    node("Mul", ["x", "w"], ["y"]), node("Greater", ["x", "zero"], ["m"]), node("NonZero", ["m"], ["places"]),
    node("Transpose", ["places"], ["tuples"]), node("GatherND", ["y", "tuples"], ["selected"]), node("ReduceMean", ["selected"], ["loss"], keepdims=0),
    parameter("w", [1], [2]), graph_input("x", ["n", 1]), graph_output("loss", []), graph_output("selected", ["places"])])
write_npy("x_train.npy", "f", (4, 1), [1, -50, 5, 0])
PYTHON
cat > mean.txtpb << 'JOB'
global_batch: 4
loss { model_output { tensor: "loss" } }
optimizer { sgd {} learning_rate: 0.1 }
dataset { npy {} features { column: "x" tensor: "x" } }
epochs: 3
JOB
"$tools/ashlarc" mean.onnx --job mean.txtpb -o mean
mkdir -p data && mv x_train.npy data
./mean --data data > mean.log
python3 - $(losses mean.log) << 'PYTHON' || { cat mean.log >&2; fail "the loss is not that of the selected samples"; }
import sys
assert all(abs(float(loss) - expected) < 1e-5 for loss, expected in zip(sys.argv[1:], (6, 5.1, 4.2), strict=True))
PYTHON
