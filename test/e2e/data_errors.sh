# SPDX-License-Identifier: Apache-2.0
#
# Data sets that are wrong stop the run before its first step: one line from all ranks together, and no log line.

. "$(dirname "$0")/common.sh"

# write_split FOLDER STEM LABEL: 512 blank images and their labels, all 3 but the one of sample 300.
write_split() {
  mkdir -p "$1"
  python3 - "$@" << 'PYTHON'
import struct, sys
folder, stem, label = sys.argv[1], sys.argv[2], int(sys.argv[3])
open("%s/%s-images-idx3-ubyte" % (folder, stem), "wb").write(struct.pack(">4i", 0x803, 512, 28, 28) + bytes(512 * 784))
labels = bytearray([3] * 512)
labels[300] = label
open("%s/%s-labels-idx1-ubyte" % (folder, stem), "wb").write(struct.pack(">2i", 0x801, 512) + labels)
PYTHON
}

# expect_data_error TEXT OPTIONS...: the run of two ranks says so, in one line, and has not begun to train.
expect_data_error() {
  local text=$1
  shift
  expect_error "$text" mpirun -n 2 ./mlp --epochs 1 "$@"
  [ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }
  ! grep -q 'loss is' error.out || fail "the run trained before it said: $text"
}

"$tools/ashlar-zoo" mlp -o mlp.onnx
"$tools/ashlarc" mlp.onnx --job "$jobs/mlp.txtpb" --mesh dp=2 -o mlp
rm -rf good mislabelled eval
write_split good train 9
write_split mislabelled train 10
expect_data_error 'label 10 of sample 300 in column "label" of the train split is not one of the 10 classes 0 .. 9' --data mislabelled
mpirun -n 2 ./mlp --epochs 1 --data good > good.log || fail "label 9 of 10 classes is refused"

# The evaluation split is looked at only when it is needed, and then at once.
expect_data_error "no t10k-images-idx3-ubyte[.gz]" --data good --eval
write_split good t10k 200
expect_data_error 'label 200 of sample 300 in column "label" of the eval split' --data good --eval
write_split good t10k 0
mpirun -n 2 ./mlp --epochs 1 --data good --eval > good.log
grep -q '^eval: loss is .*of 512)$' good.log || fail "no evaluation of 512 samples"
