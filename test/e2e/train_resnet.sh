# SPDX-License-Identifier: Apache-2.0
#
# The jobs of docs/jobs for ResNet-50, on few and small images: each compiles for the mesh it names and trains on its ranks.

. "$(dirname "$0")/common.sh"

rm -rf cifar
python3 "$(dirname "$0")/images.py" cifar10 cifar
small() { # of a job: as many samples as its ranks have micro-batches of two, and no images of 224 x 224
  sed -e "s/^global_batch: .*/global_batch: $2/" -e 's/height: 224 width: 224/height: 32 width: 32/' "$jobs/$1.txtpb" > "$1.txtpb"
}

# Classes are told by a softmax of small ops.
"$tools/ashlar-zoo" resnet --expanded-loss --image 32 -o loss.onnx
for job in resnet50_cifar10 resnet50_auto; do
  small $job 16
  "$tools/ashlarc" loss.onnx --job $job.txtpb -o $job
  [ "$(ranks_of $job)" = 8 ] || fail "$job is not for 8 ranks"
  mpirun -n 8 ./$job --data cifar --steps 2 --log-every 1 --threads 1 > $job.log
  [ "$(losses $job.log | wc -l)" = 2 ] || fail "$job does not print 2 losses"
done
# The same loss from the same values. Only of the first step: sums in another order move an activation across zero here and there, and with it the gradient of a
# whole channel.
for job in resnet50_cifar10 resnet50_auto; do
  head -n 1 $job.log > $job.first.log
done
expect_close resnet50_cifar10.first.log resnet50_auto.first.log 1e-5

# Stages compute the same with and without what is computed again and split further, from the same values.
"$tools/ashlar-zoo" resnet --stem cifar --image 32 -o resnet.onnx
for job in resnet50_stages resnet50_recompute; do
  small $job 16
  "$tools/ashlarc" resnet.onnx --job $job.txtpb -o $job
  [ "$(ranks_of $job)" = 4 ] || fail "$job is not for 4 ranks"
  mpirun -n 4 ./$job --data cifar --steps 2 --log-every 1 --threads 1 > $job.log
  [ "$(losses $job.log | wc -l)" = 2 ] || fail "$job does not print 2 losses"
done
expect_close resnet50_stages.log resnet50_recompute.log 0.001
