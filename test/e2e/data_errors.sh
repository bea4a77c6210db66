# SPDX-License-Identifier: Apache-2.0
#
# Data sets that are wrong stop the run before its first step: one line from all ranks together, and no log line.

. "$(dirname "$0")/common.sh"

# write_split FOLDER STEM LABEL [COUNT]: 512 blank images and their labels, all 3 but the one of sample 300.
write_split() {
  mkdir -p "$1"
  python3 - "$@" << 'PYTHON'
import struct, sys
folder, stem, label, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 512
open("%s/%s-images-idx3-ubyte" % (folder, stem), "wb").write(struct.pack(">4i", 0x803, count, 28, 28) + bytes(count * 784))
labels = bytearray([3] * count)
labels[300] = label
open("%s/%s-labels-idx1-ubyte" % (folder, stem), "wb").write(struct.pack(">2i", 0x801, count) + labels)
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
rm -rf good mislabelled eval other
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
[[ $(evaluation good.log) = *'of 512)' ]] || fail "no evaluation of 512 samples"

# Ranks that read other files: as many samples as make other steps, a few more, others of the same count; also what is only evaluated.
# expect_data_mismatch TEXT [DATA OF RANK 0] [DATA OF RANK 1]
expect_data_mismatch() {
  expect_error "$1" mpirun -n 1 ./mlp --epochs 1 --eval --data "${2:-good}" --metrics no.jsonl : -n 1 ./mlp --epochs 1 --eval --data "${3:-other}"
  [ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }
  ! grep -q 'loss is' error.out || fail "the run trained before it said: $1"
  [ ! -e no.jsonl ] || fail "metrics were opened"
}
for count in 1024 513; do
  write_split other train 9 $count
  write_split other t10k 0
  expect_data_mismatch "error: rank 1: the train split is $count samples, image u8 (28, 28), label u8 () but rank 0's is 512 samples, image"
done
write_split other train 9
write_split other t10k 0 301
expect_data_mismatch "error: rank 1: the eval split is 301 samples, image u8 (28, 28), label u8 () but rank 0's is 512 samples, image"
write_split other t10k 0
printf '\001' | dd of=other/train-images-idx3-ubyte bs=1 seek=16 conv=notrunc status=none
expect_data_mismatch "error: rank 1: the train split of 512 samples, image u8 (28, 28), label u8 () holds other numbers (hash "
expect_data_mismatch "error: rank 1: the train split of 512 samples, image u8 (28, 28), label u8 () holds other numbers (hash " other good
printf '\000' | dd of=other/train-images-idx3-ubyte bs=1 seek=16 conv=notrunc status=none
mpirun -n 1 ./mlp --epochs 1 --eval --data good : -n 1 ./mlp --epochs 1 --eval --data other > good.log || fail "equal data in two folders are refused"
