# SPDX-License-Identifier: Apache-2.0
#
# Convolutions with height and width split train as on one rank, and what their devices send each other of images is the overlap, byte by byte.

. "$(dirname "$0")/common.sh"

python3 "$(dirname "$0")/conv_model.py" spatial spatial.onnx
sed "s/global_batch: 256/global_batch: 8/; s/^epochs:.*/epochs: 1/" "$jobs/mlp.txtpb" > one.txtpb
"$tools/ashlarc" spatial.onnx --job one.txtpb --mesh dp=1 -o one
./one --steps 5 --log-every 1 --threads 1 --eval > one.log

# Writes the job $1.txtpb for a mesh of $2 rows and $3 columns of devices, which have a part of each image.
split_job() {
  sed "s/DATA_PARALLEL/SEMI_AUTO/; s/mesh {.*/mesh { axes { name: \"y\" size: $2 } axes { name: \"x\" size: $3 } }/" one.txtpb > $1.txtpb
  echo 'rules { match: "image" layout: "[{}, {}, {y}, {x}]" }' >> $1.txtpb
}

# 2 x 2, on one host and on two; 3 x 1, where neither 28 nor 26 nor 13 rows divide. Sums over pixels are in another order: 2^-24 a term,
# grown by five steps.
split_job square 2 2
"$tools/ashlarc" spatial.onnx --job square.txtpb --report square.json -o square
mpirun -n 4 ./square --steps 5 --log-every 1 --threads 1 --eval > square.log
expect_close one.log square.log 1e-5
ASHLAR_FORCE_HOSTS=2 mpirun -n 4 ./square --steps 5 --log-every 1 --threads 1 --eval > hosts.log
expect_same_losses square.log hosts.log "one host and two differ"

split_job rows 3 1
"$tools/ashlarc" spatial.onnx --job rows.txtpb -o rows
mpirun -n 3 ./rows --steps 5 --log-every 1 --threads 1 --eval > rows.log
expect_close one.log rows.log 1e-5

# A device of the square has 14 x 14 of an image, 13 x 13 of r1 and 7 x 7 of c2, padding included. In order, of 8 samples in f32:
#   conv1 needs 15 x 15 of the image: the row of 14 pixels from its neighbour, then the column of 15; its weights' gradient has them then
#   conv2 needs 15 x 15 of 4 channels of r1, padding included: a row of 13, a column of 15; its weights' gradient has them then
#   conv2's gradient of r1 is made in blocks of 2 x 2 at 7 x 7 places, which need 8 x 8 of 2 channels: a row of 7, a column of 8
#   and is 14 x 14 of 4 channels, to be held as 13 x 13: a row of 14, a column of 13
expect_halos() {
  python3 - "$@" <<'END' || fail "other bytes are sent than the overlap"
import json
import sys
halos = [c for c in json.load(open(sys.argv[1]))["collectives"] if c["kind"] == "halo"]
expected = [8 * 4 * eval(n) for n in sys.argv[2:]]
print("sent", [c["bytes"] for c in halos], "expected", expected)
assert [c["bytes"] for c in halos] == expected
END
}
expect_halos square.json 14 15 4*13 4*15 2*7 2*8 4*14 4*13
./square --plan > plan.txt
grep -Eq 'collectives +8 halo a step, 8\.9 KB sent by each device' plan.txt || fail "the plan says otherwise: $(cat plan.txt)"

# A linear Resize of 26 rows to 39 between two convolutions, over 2 x 2 devices and over 3 x 1: each position reads two of its own piece, or one
# of the neighbour's. A device of the square has 14 x 14 of an image, 13 x 13 of c1, 20 x 20 of r1, 7 x 7 of c2. In order:
#   conv1 needs 15 x 15 of the image; the resize of rows 14 x 13 of 4 channels of c1, as position 19 lies between 12 and 13; that of columns 20 x 14
#   conv2 needs 21 x 21 of r1 at 7 x 7 positions, and its gradient makes as much, to be held as 20 x 20
#   the gradients of the resizes need 20 columns of 20 rows, then 20 rows of 13: element 13, the neighbour's first, goes to position 19
python3 "$(dirname "$0")/conv_model.py" resized resized.onnx
"$tools/ashlarc" resized.onnx --job one.txtpb --mesh dp=1 -o one_resized
./one_resized --steps 5 --log-every 1 --threads 1 --eval > one_resized.log
"$tools/ashlarc" resized.onnx --job square.txtpb --report resized.json -o square_resized
mpirun -n 4 ./square_resized --steps 5 --log-every 1 --threads 1 --eval > square_resized.log
expect_close one_resized.log square_resized.log 1e-5
expect_halos resized.json 14 15 4*13 4*20 4*20 4*21 4*21 4*20 4*20 4*13
"$tools/ashlarc" resized.onnx --job rows.txtpb -o rows_resized
mpirun -n 3 ./rows_resized --steps 5 --log-every 1 --threads 1 --eval > rows_resized.log
expect_close one_resized.log rows_resized.log 1e-5
