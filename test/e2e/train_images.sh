# SPDX-License-Identifier: Apache-2.0
#
# Images with all transforms: N ranks train on what one rank trains on, from CIFAR-10's files as from .npy files, which are mapped and never
# copied; ranks with other files, and a file that is cut during the run, end it with one line.

. "$(dirname "$0")/common.sh"

images() {
  python3 "$(dirname "$0")/images.py" "$@"
}

# job SOURCE MODE...: the job, with lines of its own.
job() {
  cat << JOB
global_batch: 20
epochs: 4
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { momentum {} learning_rate: 0.02 }
dataset {
  $1
  features {
    column: "image" tensor: "x"
    transforms { random_crop { padding: 4 } }
    transforms { random_horizontal_flip {} }
    transforms { resize { height: 18 width: 24 } }
    transforms { rescale { scale: 0.00392157 } }
    transforms { normalize { mean: [0.4914, 0.4822, 0.4465] std: [0.2023, 0.1994, 0.2010] } }
    transforms { hwc2chw {} }
  }
  features { column: "label" tensor: "labels" }
}
JOB
  printf '%s\n' "${@:2}"
}

rm -rf cifar npy other
images model model.onnx 3 18 24
images cifar10 cifar
images npy npy
job "cifar10 {}" > cifar.txtpb
job "npy {}" > npy.txtpb

# The same samples, moved alike, on any number of ranks; with --deterministic to the last bit.
for ranks in 1 2 4; do
  "$tools/ashlarc" model.onnx --job cifar.txtpb --mesh dp=$ranks -o cifar_$ranks
  mpirun -n $ranks ./cifar_$ranks --data cifar --log-every 1 --eval --threads 1 > $ranks.log
  # Sums over the batch in another order: 2^-24 a term, grown by 20 steps.
  expect_close 1.log $ranks.log 1e-4
  evaluation $ranks.log > $ranks.eval
  cmp 1.eval $ranks.eval || fail "$ranks ranks evaluate otherwise than one"
done
expect_less "$(losses 1.log | tail -n 1)" 1.0 "the loss of the last step"
job "cifar10 {}" "deterministic { chunks: 4 }" > deterministic.txtpb
for ranks in 1 2 4; do
  "$tools/ashlarc" model.onnx --job deterministic.txtpb --mesh dp=$ranks -o deterministic
  mpirun -n $ranks ./deterministic --deterministic --data cifar --log-every 1 --threads 1 > deterministic_$ranks.log
  expect_same_losses deterministic_1.log deterministic_$ranks.log "$ranks ranks print other losses than one"
done

# Rows, and channels, of an image on several ranks: each takes its part of the whole image.
for layout in "[{dp}, {}, {tp}, {}]" "[{}, {tp}, {}, {dp}]"; do
  job "cifar10 {}" "mode: SEMI_AUTO" "rules { match: \"x\" layout: \"$layout\" }" > split.txtpb
  mesh=dp=2,tp=2
  [ "$layout" = "[{}, {tp}, {}, {dp}]" ] && mesh=dp=2,tp=3
  "$tools/ashlarc" model.onnx --job split.txtpb --mesh $mesh -o split
  mpirun -n "$(ranks_of split)" ./split --data cifar --log-every 1 --eval --threads 1 > split.log
  expect_close 1.log split.log 1e-4
done

# Each pass draws anew, and another seed other numbers.
./cifar_1 --data cifar --log-every 1 --seed 5 > seed.log
expect_other_losses 1.log seed.log "--seed changes nothing"

# The same bytes as .npy files.
"$tools/ashlarc" model.onnx --job npy.txtpb --mesh dp=2 -o npy_2
mpirun -n 2 ./npy_2 --data npy --log-every 1 --eval --threads 1 > npy.log
expect_same_losses 2.log npy.log "the same images as .npy files train otherwise"
evaluation npy.log > npy.eval
cmp 1.eval npy.eval || fail "the same images as .npy files evaluate otherwise"

# Mapped: a process of 800 MB of images holds no more of its own than one of 0.3 MB. Twice: a busy machine may miss the most.
mkdir -p large
PYTHONPATH=$(dirname "$0") python3 -c "
from npy_writer import write_npy
for name, shape, sample in (('image', (262144, 32, 32, 3), 3072), ('label', (262144,), 1)):
    write_npy(f'large/{name}_train.npy', 'B', shape, [])
    with open(f'large/{name}_train.npy', 'ab') as file:
        file.truncate(file.tell() + 262144 * sample)"
"$tools/ashlarc" model.onnx --job npy.txtpb -o npy_1
for folder in npy large; do
  for _ in 1 2; do
    python3 "$(dirname "$0")/watch_memory.py" npy_1 ./npy_1 --data $folder --steps 4000 --epochs 1000 --threads 1
  done | sort -n | tail -n 1 > $folder.memory
done
# The order of 262,144 samples, of 8 bytes each.
expect_less "$(cat large.memory)" $(($(cat npy.memory) + 262144 * 8 + 1000000)) "bytes of a process with 800 MB of images"
rm -r large

# How long steps waited for data.
./cifar_1 --data cifar --profile > profile.log
grep -Eq '^data wait: [0-9]+\.[0-9] us a step, [0-9]+\.[0-9]{2} % of the time$' profile.log || fail "--profile does not say how long steps waited"

# Ranks with other files; files that are wrong.
expect_images_error() {
  expect_error "$1" mpirun -n 1 ./cifar_2 --data cifar : -n 1 ./cifar_2 --data other
  [ "$(grep -c '^error: ' error.log)" = 1 ] || { cat error.log >&2; fail "the error is not one line"; }
  ! grep -q 'loss is' error.out || fail "the run trained before it said: $1"
}
images cifar10 other
rm other/data_batch_2.bin
expect_images_error "the train split is 64 samples, image u8 (32, 32, 3), label u8 () but rank 0's is 100 samples"
cp cifar/data_batch_2.bin other/data_batch_3.bin
expect_images_error '"other/data_batch_2.bin" is missing but "other/data_batch_3.bin" is there'
rm other/data_batch_3.bin
head -c 6200 cifar/data_batch_2.bin > other/data_batch_2.bin
expect_images_error '"other/data_batch_2.bin" has 6200 bytes but records of CIFAR-10 have 3073: 2 samples and 54 bytes more'
cp cifar/data_batch_2.bin other/data_batch_2.bin
printf '\012' | dd of=other/data_batch_2.bin bs=1 seek=9219 conv=notrunc status=none
expect_images_error 'label 10 of sample 3 in "other/data_batch_2.bin" is not one of the 10 classes 0 .. 9'
cp cifar/data_batch_2.bin other/data_batch_2.bin
printf '\377' | dd of=other/data_batch_2.bin bs=1 seek=110000 conv=notrunc status=none
expect_images_error "the train split of 100 samples, image u8 (32, 32, 3), label u8 () holds other numbers (hash "

# A batch that is cut during the run.
for bytes in 3073 0; do
  cp cifar/data_batch_2.bin other/data_batch_2.bin
  rm -f cut.log
  ./cifar_1 --data other --epochs 1000000 --log-every 1000 > cut.log 2> error.log &
  pid=$!
  until grep -qs 'loss is' cut.log; do sleep 0.02; done
  truncate -s $bytes other/data_batch_2.bin
  status=0
  timeout 20 tail --pid=$pid -f /dev/null || { kill $pid; fail "the run goes on"; }
  wait $pid || status=$?
  [ $status = 1 ] && [ "$(wc -l < error.log)" = 1 ] && grep -q '^error: "other/data_batch_2.bin" had 110628 bytes when it was opened' error.log \
    || { cat error.log >&2; fail "data_batch_2.bin cut to $bytes bytes: status $status"; }
done
