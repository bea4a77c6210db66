// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff -ashlar-optimizer -ashlar-shard-sequences | FileCheck %s --check-prefix=LAYOUTS
// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff -ashlar-optimizer -ashlar-shard-sequences \
// RUN:   -ashlar-insert-redistributions -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// Two of Megatron's MLPs with a norm-like op between them: what lies between them is sharded along the sequence (dim 1), since the all-reduce
// is a reduce-scatter and an all-gather then, and each device computes half of the ops between them. The same backward; the loss needs no
// gather, nor do the gradients of its constant.

module attributes {dist.device = #dist.device<flops_per_us = 100000000, narrow_flops_per_us = 100000000, bytes_per_us = 1000000>} {
dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [10, 10], bytes_per_us = [100000, 100000]>}
nn.variable @scale trainable : tensor<64xf32>
nn.variable @up trainable : tensor<64x128xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @down trainable : tensor<128x64xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
nn.variable @up2 trainable : tensor<64x128xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @down2 trainable : tensor<128x64xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}

// LAYOUTS-LABEL: func.func @train_step
// LAYOUTS: nn.tanh {{.*}} : tensor<16x256x128xf32>
// LAYOUTS: nn.add {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}, {}]>]
// CHECK-LABEL: func.func @train_step
// CHECK: dist.slice %{{.*}} dim = 1 over ["tp"]
// CHECK-NOT: dist.
// CHECK: dist.reduce_scatter sum %{{.*}} dim = 1 over ["tp"] {{.*}} -> tensor<8x128x64xf32>
// CHECK-NOT: dist.
// CHECK: nn.mul {{.*}} : tensor<8x128x64xf32>
// CHECK-NOT: dist.
// CHECK: dist.all_gather %{{.*}} dim = 1 over ["tp"] {{.*}} -> tensor<8x256x64xf32>
// CHECK: dist.reduce_scatter sum %{{.*}} dim = 1 over ["tp"]
// CHECK: dist.reduce_scatter sum %{{.*}} dim = 1 over ["tp"]
// CHECK: dist.all_gather %{{.*}} dim = 1 over ["tp"]
// CHECK: dist.all_reduce sum %{{.*}} over ["dp", "tp"] {cause = [#dist.end<kind = gradient, name = "scale">]} : tensor<64xf32>
func.func @train_step(%x: tensor<16x256x64xf32> {nn.name = "x", dist.layout = #dist.layout<[{"dp"}, {}, {}]>}) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %scale = nn.read @scale : tensor<64xf32>
  %up = nn.read @up : tensor<64x128xf32>
  %down = nn.read @down : tensor<128x64xf32>
  %up2 = nn.read @up2 : tensor<64x128xf32>
  %down2 = nn.read @down2 : tensor<128x64xf32>
  %x_rows = nn.reshape %x : tensor<16x256x64xf32> -> tensor<4096x64xf32>
  %u_rows = nn.matmul %x_rows, %up : tensor<4096x64xf32>, tensor<64x128xf32> -> tensor<4096x128xf32>
  %u = nn.reshape %u_rows : tensor<4096x128xf32> -> tensor<16x256x128xf32>
  %h = nn.tanh %u : tensor<16x256x128xf32>
  %h_rows = nn.reshape %h : tensor<16x256x128xf32> -> tensor<4096x128xf32>
  %d_rows = nn.matmul %h_rows, %down : tensor<4096x128xf32>, tensor<128x64xf32> -> tensor<4096x64xf32>
  %d = nn.reshape %d_rows : tensor<4096x64xf32> -> tensor<16x256x64xf32>
  %y = nn.add %x, %d : tensor<16x256x64xf32>
  %scales = nn.broadcast %scale dims = [2] : tensor<64xf32> -> tensor<16x256x64xf32>
  %t = nn.tanh %y : tensor<16x256x64xf32>
  %n = nn.mul %t, %scales : tensor<16x256x64xf32>
  %n_rows = nn.reshape %n : tensor<16x256x64xf32> -> tensor<4096x64xf32>
  %u2_rows = nn.matmul %n_rows, %up2 : tensor<4096x64xf32>, tensor<64x128xf32> -> tensor<4096x128xf32>
  %u2 = nn.reshape %u2_rows : tensor<4096x128xf32> -> tensor<16x256x128xf32>
  %h2 = nn.tanh %u2 : tensor<16x256x128xf32>
  %h2_rows = nn.reshape %h2 : tensor<16x256x128xf32> -> tensor<4096x128xf32>
  %d2_rows = nn.matmul %h2_rows, %down2 : tensor<4096x128xf32>, tensor<128x64xf32> -> tensor<4096x64xf32>
  %d2 = nn.reshape %d2_rows : tensor<4096x64xf32> -> tensor<16x256x64xf32>
  %z = nn.add %y, %d2 : tensor<16x256x64xf32>
  %loss = nn.reduce sum %z dims = [0, 1, 2] : tensor<16x256x64xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
}

// -----

// Where a message takes long, one all-reduce more for the gradient of the scale takes longer than the ops that are saved: all stays as it is.
module attributes {dist.device = #dist.device<flops_per_us = 100000000, narrow_flops_per_us = 100000000, bytes_per_us = 1000000>} {
dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [1000000, 1000000], bytes_per_us = [100000, 100000]>}
nn.variable @scale trainable : tensor<64xf32>
nn.variable @up trainable : tensor<64x128xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @down trainable : tensor<128x64xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
nn.variable @up2 trainable : tensor<64x128xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @down2 trainable : tensor<128x64xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}

// LAYOUTS-LABEL: func.func @train_step
// LAYOUTS-NOT: }, {"tp"}, {}]>
// LAYOUTS: return
func.func @train_step(%x: tensor<16x256x64xf32> {nn.name = "x", dist.layout = #dist.layout<[{"dp"}, {}, {}]>}) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %scale = nn.read @scale : tensor<64xf32>
  %up = nn.read @up : tensor<64x128xf32>
  %down = nn.read @down : tensor<128x64xf32>
  %up2 = nn.read @up2 : tensor<64x128xf32>
  %down2 = nn.read @down2 : tensor<128x64xf32>
  %x_rows = nn.reshape %x : tensor<16x256x64xf32> -> tensor<4096x64xf32>
  %u_rows = nn.matmul %x_rows, %up : tensor<4096x64xf32>, tensor<64x128xf32> -> tensor<4096x128xf32>
  %u = nn.reshape %u_rows : tensor<4096x128xf32> -> tensor<16x256x128xf32>
  %h = nn.tanh %u : tensor<16x256x128xf32>
  %h_rows = nn.reshape %h : tensor<16x256x128xf32> -> tensor<4096x128xf32>
  %d_rows = nn.matmul %h_rows, %down : tensor<4096x128xf32>, tensor<128x64xf32> -> tensor<4096x64xf32>
  %d = nn.reshape %d_rows : tensor<4096x64xf32> -> tensor<16x256x64xf32>
  %y = nn.add %x, %d : tensor<16x256x64xf32>
  %scales = nn.broadcast %scale dims = [2] : tensor<64xf32> -> tensor<16x256x64xf32>
  %t = nn.tanh %y : tensor<16x256x64xf32>
  %n = nn.mul %t, %scales : tensor<16x256x64xf32>
  %n_rows = nn.reshape %n : tensor<16x256x64xf32> -> tensor<4096x64xf32>
  %u2_rows = nn.matmul %n_rows, %up2 : tensor<4096x64xf32>, tensor<64x128xf32> -> tensor<4096x128xf32>
  %u2 = nn.reshape %u2_rows : tensor<4096x128xf32> -> tensor<16x256x128xf32>
  %h2 = nn.tanh %u2 : tensor<16x256x128xf32>
  %h2_rows = nn.reshape %h2 : tensor<16x256x128xf32> -> tensor<4096x128xf32>
  %d2_rows = nn.matmul %h2_rows, %down2 : tensor<4096x128xf32>, tensor<128x64xf32> -> tensor<4096x64xf32>
  %d2 = nn.reshape %d2_rows : tensor<4096x64xf32> -> tensor<16x256x64xf32>
  %z = nn.add %y, %d2 : tensor<16x256x64xf32>
  %loss = nn.reduce sum %z dims = [0, 1, 2] : tensor<16x256x64xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
}
