// RUN: ashlar-opt %s '-ashlar-seed-layouts=mesh=dp=4 batch-axes=dp' -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// One dense layer, its loss and its update. Only the batch of the inputs is split: what follows is data parallelism, one sum for the loss
// and one for each gradient, and nothing else moves.

nn.variable @fc.weight trainable : tensor<4x8xf32>
nn.variable @fc.bias trainable : tensor<4xf32>
nn.variable @fc.bias.momentum : tensor<4xf32>

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: tensor<8x8xf32> {dist.global_type = tensor<32x8xf32>
// CHECK-SAME: -> (tensor<f32> {{.*}}) attributes {nn.program = #nn.program<train_step>} {
func.func @train_step(%x: tensor<32x8xf32>, %labels: tensor<32xi32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @fc.weight : tensor<4x8xf32>
  %b = nn.read @fc.bias : tensor<4xf32>
  %m = nn.read @fc.bias.momentum : tensor<4xf32>
  %xw = nn.matmul %x, %w transpose_b : tensor<32x8xf32>, tensor<4x8xf32> -> tensor<32x4xf32>
  %bb = nn.broadcast %b dims = [1] : tensor<4xf32> -> tensor<32x4xf32>
  %logits = nn.add %xw, %bb : tensor<32x4xf32>
  %rows = nn.softmax_cross_entropy %logits, %labels : tensor<32x4xf32>, tensor<32xi32> -> tensor<32xf32>
  // CHECK-NOT: dist.
  // CHECK: dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = op, name = "loss">]} : tensor<f32>
  %loss = nn.reduce sum %rows dims = [0] : tensor<32xf32> -> tensor<f32> loc("loss")
  %p = nn.softmax %logits : tensor<32x4xf32>
  // CHECK-NOT: dist.
  // CHECK: dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "fc.weight">]} : tensor<4x8xf32>
  %gw = nn.matmul %p, %x transpose_a : tensor<32x4xf32>, tensor<32x8xf32> -> tensor<4x8xf32>
  // CHECK-NOT: dist.
  // CHECK: dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "fc.bias">]} : tensor<4xf32>
  %gb = nn.reduce sum %p dims = [0] : tensor<32x4xf32> -> tensor<4xf32>
  // CHECK-NOT: dist.
  %dw = nn.gradient %gw of @fc.weight : tensor<4x8xf32>
  %nw = nn.sub %w, %dw : tensor<4x8xf32>
  nn.write @fc.weight, %nw : tensor<4x8xf32>
  %db = nn.gradient %gb of @fc.bias : tensor<4xf32>
  %nm = nn.add %m, %db : tensor<4xf32>
  nn.write @fc.bias.momentum, %nm : tensor<4xf32>
  %nb = nn.sub %b, %nm : tensor<4xf32>
  nn.write @fc.bias, %nb : tensor<4xf32>
  // CHECK: return
  return %loss : tensor<f32>
}

// Random numbers of a split tensor come from the global index: each device draws those of its own rows.
// CHECK-LABEL: func.func @dropout
func.func @dropout(%x: tensor<32x8xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<32x8xf32> {
  // CHECK: %[[LOCAL:.*]] = nn.index [8, 1] : tensor<8x8xi64>
  // CHECK: dist.axis_index over ["dp"]
  // CHECK: %[[INDEX:.*]] = nn.add %[[LOCAL]],
  // CHECK: nn.random {{ ?}}uniform %[[INDEX]],
  // CHECK-SAME: -> tensor<8x8xf32>
  %i = nn.index [8, 1] : tensor<32x8xi64>
  %stream = nn.constant dense<1> : tensor<i32>
  %u = nn.random uniform %i, %seed, %step, %stream : (tensor<32x8xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<32x8xf32>
  %y = nn.mul %x, %u : tensor<32x8xf32>
  return %y : tensor<32x8xf32>
}
