// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a scaled loss is checked and divided before the update takes it. Its sum over the devices is that of the gradient all the
// same, one a variable, and the count of overflows is of whole values: nothing is sent for it.

// RUN: ashlar-opt %s -ashlar-autodiff=loss-scale=1024 -ashlar-optimizer=kind=momentum -ashlar-loss-scale -canonicalize \
// RUN:   '-ashlar-seed-layouts=mesh=dp=4 batch-axes=dp' -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

nn.variable @w trainable : tensor<4x8xf32>
nn.variable @b trainable : tensor<4xf32>

// CHECK-LABEL: @train_step
// CHECK-SAME: -> (tensor<f32> {{.*}}) attributes {nn.program = #nn.program<train_step>} {
// CHECK-NOT: dist.
// CHECK: dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = op, name = "loss">]} : tensor<f32>
// CHECK-NOT: dist.
// CHECK: %[[B:.*]] = dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
// CHECK: nn.gradient %[[B]] of @b
// CHECK-NOT: dist.
// CHECK: %[[W:.*]] = dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<4x8xf32>
// CHECK: nn.gradient %[[W]] of @w
// CHECK-NOT: dist.
// CHECK: return
func.func @train_step(%x: tensor<32x8xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4x8xf32>
  %b = nn.read @b : tensor<4xf32>
  %0 = nn.matmul %x, %w transpose_b : tensor<32x8xf32>, tensor<4x8xf32> -> tensor<32x4xf32>
  %1 = nn.broadcast %b dims = [1] : tensor<4xf32> -> tensor<32x4xf32>
  %2 = nn.add %0, %1 : tensor<32x4xf32>
  %3 = nn.relu %2 : tensor<32x4xf32>
  %4 = nn.reduce sum %3 dims = [0, 1] : tensor<32x4xf32> -> tensor<f32> loc("loss")
  return %4 : tensor<f32>
}
