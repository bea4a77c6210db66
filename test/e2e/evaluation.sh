# SPDX-License-Identifier: Apache-2.0
#
# --eval takes every sample of the split once, whatever the batch: loss and accuracy are those worked out sample by sample, for every kind of
# loss, on any number of ranks, with batches that they do not divide, and in the deterministic mode.

. "$(dirname "$0")/common.sh"
python=("python3" "$(dirname "$0")/evaluation_model.py")

# write_job KIND BATCH FILE
write_job() {
  local loss features='features { column: "x" tensor: "x" }'
  case $1 in
    softmax_cross_entropy) loss='softmax_cross_entropy { logits: "logits" labels: "label" }' ;;
    negative_log_likelihood) loss='negative_log_likelihood { log_probabilities: "log_probabilities" labels: "label" }' ;;
    mean_squared_error) loss='mean_squared_error { prediction: "logits" target: "target" }' ;;
    model_output) loss='model_output { tensor: "own_loss" }' ;;
  esac
  case $1 in
    mean_squared_error) features+=' features { column: "target" tensor: "target" }' ;;
    *) features+=' features { column: "label" tensor: "label" }' ;;
  esac
  echo "global_batch: $2 loss { $loss } optimizer { sgd {} learning_rate: 0.01 } dataset { npy {} $features }" > "$3"
}

# expect_evaluation KIND COUNT LOG: the line of the log has the loss and the number of correct labels, and says how many samples count.
expect_evaluation() {
  local found
  found=$(sed -n 's/^eval: loss is \([0-9.]*\)\(, accuracy is [0-9.]* (\([0-9]*\) of \([0-9]*\))\)\?$/\1 \3 \4/p' "$3")
  [ -n "$found" ] || fail "$3 has no evaluation"
  # shellcheck disable=SC2086
  awk -v found="$found" -v expected="$("${python[@]}" expect $1 $2)" -v count="$2" 'BEGIN {
    split(found, f, " "); n = split(expected, e, " ")
    d = f[1] - e[1]; if (d < 0) d = -d
    # Four decimals are printed; f32 has 24 bits for the rest.
    exit !(d <= 0.00006 + 0.000002 * e[1] && (n == 1 || (f[2] == e[2] && f[3] == count))) }' ||
    fail "$3: loss, correct, samples are $found, not $("${python[@]}" expect "$1" "$2") of $2"
}

"${python[@]}" model plain.onnx
"${python[@]}" model own.onnx
for count in 1 5 12 13 21; do
  "${python[@]}" data data_$count $count
done

# Batches of 6: on 4 ranks 2, 2, 2 and none. 1 and 5 samples are less than one batch.
for kind in softmax_cross_entropy negative_log_likelihood mean_squared_error; do
  write_job $kind 6 job.txtpb
  for ranks in 1 2 4; do
    "$tools/ashlarc" plain.onnx --job job.txtpb --mesh dp=$ranks -o program
    for count in 1 5 12 13; do
      mpirun -n $ranks ./program --data data_$count --steps 0 --eval --threads 1 > $kind.log
      expect_evaluation $kind $count $kind.log
    done
  done
done
ASHLAR_FORCE_HOSTS=2 mpirun -n 4 ./program --data data_13 --steps 0 --eval --threads 1 > hosts.log
expect_evaluation mean_squared_error 13 hosts.log

# The classes split too.
write_job softmax_cross_entropy 6 job.txtpb
echo 'mode: SEMI_AUTO rules { match: "x" layout: "[{dp}, {}]" } rules { match: "weight" layout: "[{tp}, {}]" }' >> job.txtpb
"$tools/ashlarc" plain.onnx --job job.txtpb --mesh dp=2,tp=2 -o program
mpirun -n 4 ./program --data data_13 --steps 0 --eval --threads 1 > classes.log
expect_evaluation softmax_cross_entropy 13 classes.log

write_job softmax_cross_entropy 16 job.txtpb
for ranks in 1 2; do
  "$tools/ashlarc" plain.onnx --job job.txtpb --mesh dp=$ranks -o program
  mpirun -n $ranks ./program --data data_21 --steps 0 --eval --threads 1 --deterministic > deterministic.log
  expect_evaluation softmax_cross_entropy 21 deterministic.log
done

# A model that computes its own loss, a mean over samples: of them all.
write_job model_output 6 job.txtpb
for ranks in 1 2; do
  "$tools/ashlarc" own.onnx --job job.txtpb --mesh dp=$ranks -o program
  for count in 5 12 13; do
    mpirun -n $ranks ./program --data data_$count --steps 0 --eval --threads 1 > own.log
    expect_evaluation model_output $count own.log
  done
done

# One that no sums over samples give: whole batches, or one line at the start.
"${python[@]}" model own_squared.onnx
sed 's/own_loss/squared_loss/' job.txtpb > squared.txtpb
"$tools/ashlarc" own_squared.onnx --job squared.txtpb --mesh dp=2 -o program
mpirun -n 2 ./program --data data_12 --steps 0 --eval --threads 1 > squared.log
expect_error "the 13 samples of the eval split are no whole batches of 6" mpirun -n 2 ./program --data data_13 --eval
! grep -q 'loss is' error.out || fail "it trained before it said so"
