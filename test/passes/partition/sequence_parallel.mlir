// RUN: ashlar-opt %s -ashlar-autodiff -ashlar-optimizer -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// A norm and Megatron's MLP with sequence parallelism: the norm and the residual are computed on pieces of the sequence, the products on
// all of it and on pieces of the features. A gather before the first product, a reduce-scatter after the second, and the same backward.
// Only the parameter of the norm, used on each piece of the sequence, has a gradient to sum.

dist.mesh @mesh <["tp" = 2]>
nn.variable @x trainable : tensor<2x6x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}, {}]>}
nn.variable @scale trainable : tensor<8xf32>
nn.variable @up trainable : tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @up_bias trainable : tensor<16xf32> {dist.layout = #dist.layout<[{"tp"}]>}
nn.variable @down trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: -> (tensor<f32> {{.*}}) attributes {nn.program = #nn.program<train_step>} {
// CHECK-NOT: dist.
// CHECK: nn.mul {{.*}} : tensor<2x3x8xf32>
// CHECK-NOT: dist.
// CHECK: dist.all_gather %{{.*}} dim = 1 over ["tp"] {{.*}} : tensor<2x3x8xf32> -> tensor<2x6x8xf32>
// CHECK-NOT: dist.
// CHECK: nn.relu {{.*}} : tensor<2x6x8xf32>
// CHECK-NOT: dist.
// CHECK: dist.reduce_scatter sum %{{.*}} dim = 1 over ["tp"] {cause = [#dist.end<kind = op, name = "down">]} : tensor<2x6x8xf32> -> tensor<2x3x8xf32>
// CHECK-NOT: dist.
// CHECK: dist.all_reduce sum %{{.*}} over ["tp"] {cause = [#dist.end<kind = op, name = "loss">]} : tensor<f32>
// CHECK-NOT: dist.
// CHECK: dist.all_gather %{{.*}} dim = 1 over ["tp"] {{.*}} : tensor<2x3x8xf32> -> tensor<2x6x8xf32>
// CHECK-NOT: dist.
// CHECK: dist.reduce_scatter sum %{{.*}} dim = 1 over ["tp"] {cause = [#dist.end<kind = op, name = "up">]} : tensor<2x6x8xf32> -> tensor<2x3x8xf32>
// CHECK-NOT: dist.
// CHECK: dist.all_reduce sum %{{.*}} over ["tp"] {cause = [#dist.end<kind = gradient, name = "scale">]} : tensor<8xf32>
// CHECK-NOT: dist.
// CHECK: return
func.func @train_step(%dy: tensor<2x6x8xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %x = nn.read @x : tensor<2x6x8xf32>
  %scale = nn.read @scale : tensor<8xf32>
  %up = nn.read @up : tensor<8x16xf32>
  %bias = nn.read @up_bias : tensor<16xf32>
  %down = nn.read @down : tensor<16x8xf32>
  %scales = nn.broadcast %scale dims = [2] : tensor<8xf32> -> tensor<2x6x8xf32>
  %n = nn.mul %x, %scales : tensor<2x6x8xf32>
  %n2 = nn.reshape %n : tensor<2x6x8xf32> -> tensor<12x8xf32>
  %u2 = nn.matmul %n2, %up : tensor<12x8xf32>, tensor<8x16xf32> -> tensor<12x16xf32> loc("up")
  %u = nn.reshape %u2 : tensor<12x16xf32> -> tensor<2x6x16xf32>
  %biases = nn.broadcast %bias dims = [2] : tensor<16xf32> -> tensor<2x6x16xf32>
  %a = nn.add %u, %biases : tensor<2x6x16xf32>
  %h = nn.relu %a : tensor<2x6x16xf32>
  %h2 = nn.reshape %h : tensor<2x6x16xf32> -> tensor<12x16xf32>
  %d2 = nn.matmul %h2, %down : tensor<12x16xf32>, tensor<16x8xf32> -> tensor<12x8xf32> loc("down")
  %d = nn.reshape %d2 : tensor<12x8xf32> -> tensor<2x6x8xf32>
  %y = nn.add %x, %d : tensor<2x6x8xf32>
  %p = nn.mul %y, %dy : tensor<2x6x8xf32>
  %loss = nn.reduce sum %p dims = [0, 1, 2] : tensor<2x6x8xf32> -> tensor<f32> loc("loss")
  return %loss : tensor<f32>
}
