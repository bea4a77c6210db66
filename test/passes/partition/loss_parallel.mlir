// RUN: ashlar-opt %s -ashlar-loss='kind=softmax_cross_entropy output=logits labels=labels' -ashlar-autodiff -ashlar-optimizer \
// RUN:   -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned \
// RUN:   -canonicalize -cse | FileCheck %s

// The head is split on the vocabulary: no device sees all logits of a row. Devices exchange three numbers a row (the maximum, the sum of
// exponentials, the logit of the label), which the gradient uses too. 10 classes on 4 devices: pieces of 3, padded and masked.
dist.mesh @mesh <["tp" = 4]>
nn.variable @head.weight trainable : tensor<8x10xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}

// CHECK-LABEL: func.func @train_step
// CHECK-NOT: all_gather
// CHECK: dist.all_reduce max %{{.*}} over ["tp"] {{.*}} : tensor<32xf32>
// CHECK-NOT: all_gather
// CHECK: dist.all_reduce sum %{{.*}} over ["tp"] {{.*}} : tensor<32xf32>
// CHECK-NOT: all_gather
// CHECK: dist.all_reduce sum %{{.*}} over ["tp"] {{.*}} : tensor<32xf32>
// CHECK-NOT: dist.{{all|reduce_scatter}}
// CHECK: nn.write @head.weight, %{{.*}} : tensor<8x3xf32>
func.func @forward(%x: tensor<32x8xf32> {nn.name = "x", dist.layout = #dist.layout<[{}, {}]>}) -> (tensor<32x10xf32> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @head.weight : tensor<8x10xf32>
  %y = nn.matmul %x, %w : tensor<32x8xf32>, tensor<8x10xf32> -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}
