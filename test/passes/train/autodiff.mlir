// SPDX-License-Identifier: Apache-2.0
//
// Reverse mode over whole functions. That the numbers are right is tested in test/unit/reference.

// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff | FileCheck %s

nn.variable @w trainable : tensor<2x3xf32>
nn.variable @b trainable : tensor<2xf32>

// A dense layer: the gradients stand where they are complete, the bias before the weight, and the input gets none. The product of weight
// and gradient, which only the input would need, is not computed.
// CHECK-LABEL: @train_step
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<4x3xf32>
// CHECK: %[[Y:.*]] = nn.relu
// CHECK: %[[LOSS:.*]] = nn.reduce sum %[[Y]]
// CHECK: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK: %[[G:.*]] = nn.broadcast %[[ONE]]
// CHECK: %[[MASK:.*]] = nn.compare gt %[[Y]]
// CHECK: %[[D:.*]] = nn.select %[[MASK]], %[[G]]
// CHECK-NEXT: %[[GB:.*]] = nn.reduce sum %[[D]] dims = [0]
// CHECK-NEXT: nn.gradient %[[GB]] of @b
// CHECK-NEXT: %[[GW:.*]] = nn.matmul %[[D]], %[[X]] transpose_a
// CHECK-NEXT: nn.gradient %[[GW]] of @w
// CHECK-NEXT: return %[[LOSS]]
func.func @train_step(%x: tensor<4x3xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<2x3xf32>
  %b = nn.read @b : tensor<2xf32>
  %0 = nn.matmul %x, %w transpose_b : tensor<4x3xf32>, tensor<2x3xf32> -> tensor<4x2xf32>
  %1 = nn.broadcast %b dims = [1] : tensor<2xf32> -> tensor<4x2xf32>
  %2 = nn.add %0, %1 : tensor<4x2xf32>
  %3 = nn.relu %2 : tensor<4x2xf32>
  %4 = nn.reduce sum %3 dims = [0, 1] : tensor<4x2xf32> -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

nn.variable @shared trainable : tensor<f32>
nn.variable @frozen : tensor<f32>

// A variable that is read twice has one gradient, the sum; a variable that is not trainable has none.
// CHECK-LABEL: @train_step
// CHECK: nn.read @shared
// CHECK: %[[SUM:.*]] = nn.add
// CHECK: nn.gradient %[[SUM]] of @shared
// CHECK-NOT: nn.gradient
func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %a = nn.read @shared : tensor<f32>
  %0 = nn.exp %a : tensor<f32>
  %b = nn.read @shared : tensor<f32>
  %f = nn.read @frozen : tensor<f32>
  %1 = nn.mul %0, %b : tensor<f32>
  %2 = nn.mul %1, %f : tensor<f32>
  return %2 : tensor<f32>
}

// -----

nn.variable @alone trainable : tensor<f32>

// The loss may be the variable itself.
// CHECK-LABEL: @train_step
// CHECK: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
// CHECK: nn.gradient %[[ONE]] of @alone
func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %a = nn.read @alone : tensor<f32>
  return %a : tensor<f32>
}

// -----

// What a model of mode HYBRID places is the identity on whole tensors, and so is its gradient.
dist.mesh @mesh <["tp" = 2]>
nn.variable @w trainable : tensor<4xf32>
// CHECK-LABEL: @train_step
// CHECK: %[[G:.*]] = nn.broadcast
// CHECK-NEXT: nn.gradient %[[G]] of @w
func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf32>
  %0 = dist.broadcast %w root = 1 over ["tp"] : tensor<4xf32>
  %1 = dist.redistribute %0 from <[{}]> to <[{"tp"}]> : tensor<4xf32>
  %2 = nn.reduce sum %1 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
