// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff -ashlar-optimizer -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// Megatron's attention block: query, key and value split by columns, which are heads, the projection split by rows. Each device computes
// its own heads from beginning to end. One sum forward, of the output, and one backward, of the gradient of the input: those of the three
// products are added first. Nothing for the parameters, whose gradients are born split.

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: -> (tensor<f32> {{.*}}) attributes {nn.program = #nn.program<train_step>} {
// CHECK-NOT: dist.
// CHECK: nn.matmul {{.*}} -> tensor<6x10xf32>
// CHECK-NOT: dist.
// CHECK: nn.softmax {{.*}} : tensor<2x2x3x3xf32>
// CHECK-NOT: dist.
// CHECK: dist.all_reduce sum %{{.*}} over ["tp"] {cause = [#dist.end<kind = op, name = "projection">]} : tensor<6x20xf32>
// CHECK-NOT: dist.
// CHECK: dist.all_reduce sum %{{.*}} over ["tp"] {cause = [#dist.end<kind = op, name = "value">]} : tensor<2x3x20xf32>
// CHECK-NOT: dist.
// CHECK: return

dist.mesh @mesh <["tp" = 2]>
nn.variable @x trainable : tensor<2x3x20xf32>
nn.variable @query trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @key trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @value trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @projection trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
func.func @train_step(%dy: tensor<2x3x20xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %x = nn.read @x : tensor<2x3x20xf32>
  %wq = nn.read @query : tensor<20x20xf32>
  %wk = nn.read @key : tensor<20x20xf32>
  %wv = nn.read @value : tensor<20x20xf32>
  %wo = nn.read @projection : tensor<20x20xf32>
  %xq = nn.reshape %x : tensor<2x3x20xf32> -> tensor<6x20xf32>
  %q0 = nn.matmul %xq, %wq : tensor<6x20xf32>, tensor<20x20xf32> -> tensor<6x20xf32> loc("query")
  %q1 = nn.reshape %q0 : tensor<6x20xf32> -> tensor<2x3x4x5xf32>
  %q = nn.transpose %q1 [0, 2, 1, 3] : tensor<2x3x4x5xf32> -> tensor<2x4x3x5xf32>
  %xk = nn.reshape %x : tensor<2x3x20xf32> -> tensor<6x20xf32>
  %k0 = nn.matmul %xk, %wk : tensor<6x20xf32>, tensor<20x20xf32> -> tensor<6x20xf32> loc("key")
  %k1 = nn.reshape %k0 : tensor<6x20xf32> -> tensor<2x3x4x5xf32>
  %k = nn.transpose %k1 [0, 2, 3, 1] : tensor<2x3x4x5xf32> -> tensor<2x4x5x3xf32>
  %xv = nn.reshape %x : tensor<2x3x20xf32> -> tensor<6x20xf32>
  %v0 = nn.matmul %xv, %wv : tensor<6x20xf32>, tensor<20x20xf32> -> tensor<6x20xf32> loc("value")
  %v1 = nn.reshape %v0 : tensor<6x20xf32> -> tensor<2x3x4x5xf32>
  %v = nn.transpose %v1 [0, 2, 1, 3] : tensor<2x3x4x5xf32> -> tensor<2x4x3x5xf32>
  %scores = nn.matmul %q, %k : tensor<2x4x3x5xf32>, tensor<2x4x5x3xf32> -> tensor<2x4x3x3xf32>
  %weights = nn.softmax %scores : tensor<2x4x3x3xf32>
  %mixed = nn.matmul %weights, %v : tensor<2x4x3x3xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %joined = nn.transpose %mixed [0, 2, 1, 3] : tensor<2x4x3x5xf32> -> tensor<2x3x4x5xf32>
  %flat = nn.reshape %joined : tensor<2x3x4x5xf32> -> tensor<6x20xf32>
  %y2 = nn.matmul %flat, %wo : tensor<6x20xf32>, tensor<20x20xf32> -> tensor<6x20xf32> loc("projection")
  %y = nn.reshape %y2 : tensor<6x20xf32> -> tensor<2x3x20xf32>
  %out = nn.add %x, %y : tensor<2x3x20xf32>
  %p = nn.mul %out, %dy : tensor<2x3x20xf32>
  %loss = nn.reduce sum %p dims = [0, 1, 2] : tensor<2x3x20xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The same block with sequence parallelism: between blocks the activations are split on the sequence. Each sum over tp becomes a
// reduce-scatter, and the sequence is gathered before the products, forward and backward. The sum of the loss is that of a scalar.

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: -> (tensor<f32> {{.*}}) attributes {nn.program = #nn.program<train_step>} {
// CHECK-NOT: dist.
// CHECK: %[[X:.*]] = dist.all_gather %{{.*}} dim = 1 over ["tp"] {{.*}} : tensor<2x3x20xf32> -> tensor<2x6x20xf32>
// CHECK-NOT: dist.
// CHECK: dist.reduce_scatter sum %{{.*}} dim = 1 over ["tp"] {cause = [#dist.end<kind = op, name = "projection">]} : tensor<2x6x20xf32> -> tensor<2x3x20xf32>
// CHECK-NOT: dist.
// CHECK: dist.all_reduce sum %{{.*}} over ["tp"] {{.*}} : tensor<f32>
// CHECK-NOT: dist.
// CHECK: dist.all_gather %{{.*}} dim = 1 over ["tp"] {{.*}} : tensor<2x3x20xf32> -> tensor<2x6x20xf32>
// CHECK-NOT: dist.
// CHECK: dist.reduce_scatter sum %{{.*}} dim = 1 over ["tp"] {cause = [#dist.end<kind = op, name = "value">]} : tensor<2x6x20xf32> -> tensor<2x3x20xf32>
// CHECK-NOT: dist.
// CHECK: return

dist.mesh @mesh <["tp" = 2]>
nn.variable @x trainable : tensor<2x6x20xf32> {dist.layout = #dist.layout<[{}, {"tp"}, {}]>}
nn.variable @query trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @key trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @value trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @projection trainable : tensor<20x20xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
func.func @train_step(%dy: tensor<2x6x20xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %x = nn.read @x : tensor<2x6x20xf32>
  %wq = nn.read @query : tensor<20x20xf32>
  %wk = nn.read @key : tensor<20x20xf32>
  %wv = nn.read @value : tensor<20x20xf32>
  %wo = nn.read @projection : tensor<20x20xf32>
  %xq = nn.reshape %x : tensor<2x6x20xf32> -> tensor<12x20xf32>
  %q0 = nn.matmul %xq, %wq : tensor<12x20xf32>, tensor<20x20xf32> -> tensor<12x20xf32> loc("query")
  %q1 = nn.reshape %q0 : tensor<12x20xf32> -> tensor<2x6x4x5xf32>
  %q = nn.transpose %q1 [0, 2, 1, 3] : tensor<2x6x4x5xf32> -> tensor<2x4x6x5xf32>
  %xk = nn.reshape %x : tensor<2x6x20xf32> -> tensor<12x20xf32>
  %k0 = nn.matmul %xk, %wk : tensor<12x20xf32>, tensor<20x20xf32> -> tensor<12x20xf32> loc("key")
  %k1 = nn.reshape %k0 : tensor<12x20xf32> -> tensor<2x6x4x5xf32>
  %k = nn.transpose %k1 [0, 2, 3, 1] : tensor<2x6x4x5xf32> -> tensor<2x4x5x6xf32>
  %xv = nn.reshape %x : tensor<2x6x20xf32> -> tensor<12x20xf32>
  %v0 = nn.matmul %xv, %wv : tensor<12x20xf32>, tensor<20x20xf32> -> tensor<12x20xf32> loc("value")
  %v1 = nn.reshape %v0 : tensor<12x20xf32> -> tensor<2x6x4x5xf32>
  %v = nn.transpose %v1 [0, 2, 1, 3] : tensor<2x6x4x5xf32> -> tensor<2x4x6x5xf32>
  %scores = nn.matmul %q, %k : tensor<2x4x6x5xf32>, tensor<2x4x5x6xf32> -> tensor<2x4x6x6xf32>
  %weights = nn.softmax %scores : tensor<2x4x6x6xf32>
  %mixed = nn.matmul %weights, %v : tensor<2x4x6x6xf32>, tensor<2x4x6x5xf32> -> tensor<2x4x6x5xf32>
  %joined = nn.transpose %mixed [0, 2, 1, 3] : tensor<2x4x6x5xf32> -> tensor<2x6x4x5xf32>
  %flat = nn.reshape %joined : tensor<2x6x4x5xf32> -> tensor<12x20xf32>
  %y2 = nn.matmul %flat, %wo : tensor<12x20xf32>, tensor<20x20xf32> -> tensor<12x20xf32> loc("projection")
  %y = nn.reshape %y2 : tensor<12x20xf32> -> tensor<2x6x20xf32>
  %out = nn.add %x, %y : tensor<2x6x20xf32>
  %p = nn.mul %out, %dy : tensor<2x6x20xf32>
  %loss = nn.reduce sum %p dims = [0, 1, 2] : tensor<2x6x20xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
