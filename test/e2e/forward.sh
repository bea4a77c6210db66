# SPDX-License-Identifier: Apache-2.0
#
# A forward executable reads .npy files and writes .npy files; on two ranks it writes the same ones.

. "$(dirname "$0")/common.sh"

# write_npy FILE ROWS COLUMNS: f32, element i is i / 4.
write_npy() {
  python3 - "$@" << 'PYTHON'
import sys
from npy_writer import write_npy
rows, columns = int(sys.argv[2]), int(sys.argv[3])
write_npy(sys.argv[1], "f", (rows, columns), [i / 4 for i in range(rows * columns)])
PYTHON
}

"$tools/ashlar-zoo" linear -o linear.onnx
echo 'global_batch: 8' > job.txtpb
write_npy x.npy 8 2
"$tools/ashlarc" linear.onnx --job job.txtpb -o linear
"$tools/ashlarc" linear.onnx --job job.txtpb --mesh dp=2 -o linear_2
rm -f output.npy y.npy
./linear --input input=x.npy
[ -s output.npy ] || fail "outputs are not written by default"
# expect_line FILE: row i of the input holds i/2 and i/2 + 1/4; weights and bias are 0.02.
expect_line() {
  python3 - "$1" << 'PYTHON' || fail "wrong values in $1"
import struct, sys
data = open(sys.argv[1], "rb").read()
offset = 10 + struct.unpack("<H", data[8:10])[0]
assert "(8, 1)" in data[10:offset].decode(), data[10:offset]
for row, value in enumerate(struct.unpack("<8f", data[offset:])):
    expected = 0.02 * (row / 2) + 0.02 * (row / 2 + 0.25) + 0.02
    assert abs(value - expected) < 1e-6, (row, value, expected)
PYTHON
}
expect_line output.npy
mpirun -n 2 ./linear_2 --input input=x.npy --output output=y.npy
cmp output.npy y.npy || fail "two ranks write another file"

# Rules split the model on its own: the product over the dim that is summed, the output over its rows.
cat > rules.txtpb << 'RULES'
mode: SEMI_AUTO
mesh { axes { name: "tp" size: 2 } }
global_batch: 8
rules { match: "dense" in { slices: [1, 2] } in { slices: [1, 2] } }
rules { match: "output" layout: "[{tp}, {}]" }
RULES
"$tools/ashlarc" linear.onnx --job rules.txtpb -o linear_rules
./linear_rules --plan > rules.plan
grep -q "1 reduce_scatter a step" rules.plan || { cat rules.plan >&2; fail "the sum is not scattered"; }
mpirun -n 2 ./linear_rules --input input=x.npy --output output=rules.npy
expect_line rules.npy

write_npy wrong.npy 8 3
expect_error "wrong.npy" ./linear --input input=wrong.npy --output output=none.npy
[ ! -e none.npy ] || fail "an output was written after an error"
expect_error "input" ./linear --output output=none.npy

# Random parameters follow --seed, on any number of ranks.
"$tools/ashlar-zoo" linear --no-data -o bare.onnx
printf 'global_batch: 8\ninit { match: "*" normal { std: 0.5 } }\n' > random.txtpb
"$tools/ashlarc" bare.onnx --job random.txtpb -o random_1
"$tools/ashlarc" bare.onnx --job random.txtpb --mesh dp=2 -o random_2
./random_1 --input input=x.npy --output output=first.npy --seed 1
./random_1 --input input=x.npy --output output=second.npy --seed 2
mpirun -n 2 ./random_2 --input input=x.npy --output output=split.npy --seed 2
! cmp -s first.npy second.npy || fail "--seed changes nothing"
cmp second.npy split.npy || fail "two ranks draw other numbers than one"
