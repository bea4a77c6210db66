// SPDX-License-Identifier: Apache-2.0
//
// Gradients of f32 parameters that are used in bf16: summed in f32.

// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff | FileCheck %s

// The product of a weight's gradient comes in f32, and a bias' is a sum in f32.
// CHECK-LABEL: @train_step
// CHECK: %[[G:.*]] = nn.cast %{{.*}} : tensor<6x8xf32> -> tensor<6x8xbf16>
// CHECK: %[[TERMS:.*]] = nn.cast %[[G]] : tensor<6x8xbf16> -> tensor<6x8xf32>
// CHECK: %[[DB:.*]] = nn.reduce sum %[[TERMS]] dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
// CHECK: %[[DW:.*]] = nn.matmul %{{.*}}, %[[G]] transpose_a : tensor<6x4xbf16>, tensor<6x8xbf16> -> tensor<4x8xf32>
// CHECK: nn.gradient %[[DB]] of @b
// CHECK: nn.gradient %[[DW]] of @w
nn.variable @w trainable : tensor<4x8xf32>
nn.variable @b trainable : tensor<8xf32>
func.func @train_step(%x: tensor<6x4xbf16>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %read = nn.read @w : tensor<4x8xf32>
  %w = nn.cast %read : tensor<4x8xf32> -> tensor<4x8xbf16>
  %bias = nn.read @b : tensor<8xf32>
  %b = nn.cast %bias : tensor<8xf32> -> tensor<8xbf16>
  %0 = nn.matmul %x, %w : tensor<6x4xbf16>, tensor<4x8xbf16> -> tensor<6x8xbf16>
  %1 = nn.broadcast %b dims = [1] : tensor<8xbf16> -> tensor<6x8xbf16>
  %2 = nn.add %0, %1 : tensor<6x8xbf16>
  %3 = nn.cast %2 : tensor<6x8xbf16> -> tensor<6x8xf32>
  %4 = nn.reduce sum %3 dims = [0, 1] : tensor<6x8xf32> -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// Two uses: both products in f32, and so their sum; through a transpose, too.
// CHECK-LABEL: @train_step
// CHECK: %[[A:.*]] = nn.matmul {{.*}} -> tensor<4x4xf32>
// CHECK: %[[B:.*]] = nn.matmul {{.*}} -> tensor<4x4xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[A]] [1, 0] : tensor<4x4xf32>
// CHECK: %[[SUM:.*]] = nn.add %[[B]], %[[T]] : tensor<4x4xf32>
// CHECK: nn.gradient %[[SUM]] of @w
nn.variable @w trainable : tensor<4x4xf32>
func.func @train_step(%x: tensor<4x4xbf16>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %read = nn.read @w : tensor<4x4xf32>
  %w = nn.cast %read : tensor<4x4xf32> -> tensor<4x4xbf16>
  %t = nn.transpose %w [1, 0] : tensor<4x4xbf16> -> tensor<4x4xbf16>
  %0 = nn.matmul %x, %w : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xbf16>
  %1 = nn.matmul %0, %t : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xbf16>
  %2 = nn.cast %1 : tensor<4x4xbf16> -> tensor<4x4xf32>
  %3 = nn.reduce sum %2 dims = [0, 1] : tensor<4x4xf32> -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// What goes elsewhere too is not computed twice: both parameters get the same rounded tensor.
// CHECK-LABEL: @train_step
// CHECK: %[[G:.*]] = nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK-NOT: nn.matmul
// CHECK-DAG: %[[A:.*]] = nn.cast %[[G]] : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK-DAG: nn.gradient %{{.*}} of @a
// CHECK-DAG: nn.gradient %{{.*}} of @b
nn.variable @a trainable : tensor<4x4xf32>
nn.variable @b trainable : tensor<4x4xf32>
func.func @train_step(%x: tensor<4x4xbf16>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %readA = nn.read @a : tensor<4x4xf32>
  %a = nn.cast %readA : tensor<4x4xf32> -> tensor<4x4xbf16>
  %readB = nn.read @b : tensor<4x4xf32>
  %b = nn.cast %readB : tensor<4x4xf32> -> tensor<4x4xbf16>
  %0 = nn.add %a, %b : tensor<4x4xbf16>
  %1 = nn.matmul %0, %x : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xbf16>
  %2 = nn.cast %1 : tensor<4x4xbf16> -> tensor<4x4xf32>
  %3 = nn.reduce sum %2 dims = [0, 1] : tensor<4x4xf32> -> tensor<f32>
  return %3 : tensor<f32>
}
