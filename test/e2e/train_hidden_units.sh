# SPDX-License-Identifier: Apache-2.0
#
# Recurrent layers with their units sharded: each step gathers the state, in the backward pass it scatters the sum of its gradient, and
# nothing else is sent in the loops, although a shard of a weight holds other units than its device computes. Training does not depend on
# the number of ranks.

. "$(dirname "$0")/common.sh"

model() { python3 "$(dirname "$0")/hidden_units_model.py" "$@"; }
sed -e 's/^mode: .*/mode: SEMI_AUTO/; s/^mesh .*/mesh { axes { name: "dp" size: 1 } axes { name: "tp" size: 2 } }/' "$jobs/mlp.txtpb" > job.txtpb
{ cat job.txtpb; echo 'rules { match: "input" layout: "[{dp}, {}]" } rules { match: "state" layout: "[{}, {dp}, {tp}]" }'; } > units.txtpb
{ cat job.txtpb; echo 'rules { match: "cell.w" layout: "[{}, {tp}, {}]" } rules { match: "cell.r" layout: "[{}, {tp}, {}]" }'; } > weights.txtpb

# Prints the collectives of each loop of the training step, a line a loop.
in_loops() {
  awk '/func.func/ { step = /@train_step/ }
       step && / = nn.repeat / { inside = 1; line = "" }
       inside && match($0, / = dist\.[a-z_]+/) { line = line " " substr($0, RSTART + 8, RLENGTH - 8) }
       inside && /nn.yield/ { inside = 0; print "loop:" line }' "$1"
}

# expect_in_loops NAME JOB LINE...
expect_in_loops() {
  "$tools/ashlarc" "$1.onnx" --job "$2" --emit dist -o dist.mlir
  in_loops dist.mlir > found.txt
  printf '%s\n' "${@:3}" | diff - found.txt || fail "the loops of $1 with $2 send other than expected"
}

# expect_losses NAME JOB RANKS MESH
expect_losses() {
  "$tools/ashlarc" "$1.onnx" --job "$jobs/mlp.txtpb" --mesh dp=1 -o one
  "$tools/ashlarc" "$1.onnx" --job "$2" --mesh "$4" -o all
  ./one --steps 60 --log-every 20 --threads 1 > one.log
  mpirun -n "$3" ./all --steps 60 --log-every 20 --threads 1 > all.log
  expect_close one.log all.log 1e-4
}

model lstm.onnx LSTM
model both.onnx LSTM 0 bidirectional
model gru.onnx GRU 0
model linear_gru.onnx GRU 1
model rnn.onnx RNN
once=("loop: all_gather" "loop: reduce_scatter")
for name in lstm linear_gru rnn; do
  expect_in_loops $name weights.txtpb "${once[@]}"
done
expect_in_loops lstm units.txtpb "${once[@]}"
expect_in_loops both units.txtpb "loop: all_gather" "loop: all_gather" "loop: reduce_scatter" "loop: reduce_scatter"
# Two products a step, the second one of the reset state.
expect_in_loops gru weights.txtpb "loop: all_gather all_gather" "loop: reduce_scatter reduce_scatter"

expect_losses lstm weights.txtpb 2 dp=1,tp=2
expect_losses gru weights.txtpb 2 dp=1,tp=2
expect_losses both units.txtpb 4 dp=2,tp=2

# A weight is put in order once a step, and its gradient once.
"$tools/ashlarc" lstm.onnx --job weights.txtpb --explain > explain.txt
[[ $(grep -c '^[0-9]*\. all_to_all' explain.txt) -eq 6 ]] || fail "not one exchange each of two weights, a bias and their gradients: $(grep -c '^[0-9]*\. all_to_all' explain.txt)"
grep -q '^     repeated    14 times, in a loop' explain.txt || fail "--explain does not tell that the gather of the state repeats"
