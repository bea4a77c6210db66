# SPDX-License-Identifier: Apache-2.0
#
# The jobs of docs/jobs for ResNet-50, on few and small images: each compiles for the mesh it names and trains on its ranks.

. "$(dirname "$0")/common.sh"

rm -rf cifar
python3 "$(dirname "$0")/images.py" cifar10 cifar
small() { # of a job: as many samples as its ranks have micro-batches of two, and no images of 224 x 224
  sed -e "s/^global_batch: .*/global_batch: $2/" -e 's/height: 224 width: 224/height: 32 width: 32/' "$jobs/$1.txtpb" > "$1.txtpb"
}
train() { # a job, of a model, on as many ranks as it is for
  small $1 16
  "$tools/ashlarc" $2 --job $1.txtpb -o $1
  [ "$(ranks_of $1)" = $3 ] || fail "$1 is not for $3 ranks"
  mpirun -n $3 ./$1 --data cifar --steps 2 --log-every 1 --threads 1 > $1.log
  [ "$(losses $1.log | wc -l)" = 2 ] || fail "$1 does not print 2 losses"
}

# Classes are told by a softmax of small ops.
"$tools/ashlar-zoo" resnet --expanded-loss --image 32 -o loss.onnx
for job in resnet50_cifar10 resnet50_auto; do
  train $job loss.onnx 8
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
  train $job resnet.onnx 4
done
expect_close resnet50_stages.log resnet50_recompute.log 0.001
