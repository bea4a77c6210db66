# SPDX-License-Identifier: Apache-2.0
#
# The smallest training run: learns on one rank, and on two ranks does the same.

. "$(dirname "$0")/common.sh"

"$tools/ashlar-zoo" linear -o linear.onnx
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" -o linear_1
"$tools/ashlarc" linear.onnx --job "$jobs/linear.txtpb" --mesh dp=2 -o linear_2
./linear_1 --log-every 50 --eval > 1.log
mpirun -n 2 ./linear_2 --log-every 50 > 2.log
[ "$(losses 1.log | wc -l)" = 40 ] || fail "10 epochs of 200 steps print $(losses 1.log | wc -l) lines at every 50th"
expect_less "$(losses 1.log | tail -1)" 0.01 "the last loss"
expect_less 0.1 "$(losses 1.log | sed -n 1p)" "the first loss"
evaluation 1.log > /dev/null
# 2000 steps of sums in another order; the loss itself is 1e-3 of its terms.
expect_close 1.log 2.log 1e-3
