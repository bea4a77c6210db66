// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a repeat. That the numbers are right is tested in test/unit/reference/repeat_test.cpp.

// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff | FileCheck %s --enable-var-scope
// RUN: ashlar-opt %s -split-input-file -pass-pipeline='builtin.module(ashlar-autodiff,func.func(ashlar-sum-behind-repeats))' | FileCheck %s --check-prefix=BEHIND --enable-var-scope

nn.variable @w trainable : tensor<4x4xf32>

// The states before each step are stacked for the gradient of the weight; the states behind them are stacked already. The reversed repeat
// carries the gradient of the state and the sum for the weight, which goes behind it as one product.
// CHECK-LABEL: @train_step
// CHECK-SAME: (%[[FIRST:.*]]: tensor<2x4xf32>, %[[XS:.*]]: tensor<3x2x4xf32>)
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[F:.*]]:3 = nn.repeat 3 carried(%[[H:.*]] = %[[FIRST]]) sliced(%{{.*}} = %[[XS]]) captured(%{{.*}} = %[[W]])
// CHECK: nn.yield %[[NEXT:.*]], %[[NEXT]], %[[H]]
// CHECK: %[[LOSS:.*]] = nn.reduce sum %[[F]]#1
// CHECK: %[[G:.*]] = nn.broadcast
// CHECK: %[[B:.*]]:2 = nn.repeat 3 reversed carried(%[[DH:.*]] = %{{.*}}, %[[SUM:.*]] = %{{.*}}) sliced(%[[DY:.*]] = %[[G]], %[[Y:.*]] = %[[F]]#1, %[[BEFORE:.*]] = %[[F]]#2) captured(%[[V:.*]] = %[[W]])
// CHECK-NEXT: %[[D:.*]] = nn.add %[[DH]], %[[DY]]
// CHECK: %[[DS:.*]] = nn.mul %[[D]],
// CHECK-NEXT: %[[DX:.*]] = nn.matmul %[[DS]], %[[V]] transpose_b
// CHECK-NEXT: %[[DV:.*]] = nn.matmul %[[BEFORE]], %[[DS]] transpose_a
// CHECK-NEXT: %[[TOTAL:.*]] = nn.add %[[SUM]], %[[DV]]
// CHECK-NEXT: nn.yield %[[DX]], %[[TOTAL]] :
// CHECK: nn.gradient %[[B]]#1 of @w

// BEHIND-LABEL: @train_step
// BEHIND: %[[F:.*]]:3 = nn.repeat 3 carried
// BEHIND: %[[B:.*]] = nn.repeat 3 reversed
// BEHIND: nn.matmul
// BEHIND-NOT: nn.matmul
// BEHIND: nn.yield
// BEHIND: %[[S:.*]] = nn.transpose %[[F]]#2 [1, 0, 2]
// BEHIND: %[[A:.*]] = nn.reshape %[[S]]
// BEHIND: %[[DW:.*]] = nn.matmul %[[A]], %{{.*}} transpose_a : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<4x4xf32>
// BEHIND: nn.gradient %[[DW]] of @w
func.func @train_step(%first: tensor<2x4xf32>, %xs: tensor<3x2x4xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4x4xf32>
  %last, %rows = nn.repeat 3 carried(%h = %first) sliced(%x = %xs) captured(%v = %w)
      : (tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %s = nn.add %p, %x : tensor<2x4xf32>
    %next = nn.tanh %s : tensor<2x4xf32>
    nn.yield %next, %next : tensor<2x4xf32>, tensor<2x4xf32>
  }
  %l = nn.reduce sum %rows dims = [0, 1, 2] : tensor<3x2x4xf32> -> tensor<f32>
  return %l : tensor<f32>
}

// -----

nn.variable @w trainable : tensor<4xf32>

// Views and masks of sliced and captured values are computed again, not stacked: nothing is stacked for this gradient. An op without a
// gradient is no fault where no gradient passes; nothing reads what it computes, so it goes.
// CHECK-LABEL: @train_step
// CHECK: %[[F:.*]] = nn.repeat 3 carried(
// CHECK: nn.yield %{{[a-z0-9]*}} : tensor<4xf32>
// CHECK: nn.repeat 3 reversed carried(%{{.*}}) sliced(%[[ROW:.*]] = %{{[a-z0-9]*}}) :
// CHECK-NEXT: %[[ALL:.*]] = nn.broadcast %[[ROW]]
// CHECK: nn.mul %[[DS:.*]], %[[ALL]]
func.func @train_step(%flags: tensor<3xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf32>
  %zero = nn.constant dense<0.0> : tensor<4xf32>
  %last, %bits = nn.repeat 3 carried(%s = %zero, %b = %zero) sliced(%flag = %flags) captured(%v = %w)
      : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %all = nn.broadcast %flag dims = [] : tensor<f32> -> tensor<4xf32>
    %p = nn.mul %all, %v : tensor<4xf32>
    %next = nn.add %s, %p : tensor<4xf32>
    %i = nn.bitcast %b : tensor<4xf32> -> tensor<4xi32>
    %f = nn.bitcast %i : tensor<4xi32> -> tensor<4xf32>
    nn.yield %next, %f : tensor<4xf32>, tensor<4xf32>
  }
  %l = nn.reduce sum %last dims = [0] : tensor<4xf32> -> tensor<f32>
  return %l : tensor<f32>
}

// -----

nn.variable @w trainable : tensor<4x4xf32>
nn.variable @s trainable : tensor<4xf32>

// Sums over iterations are not rounded in each: those that are carried are f32, and the product for the weight is, too.
// CHECK-LABEL: @train_step
// CHECK: %[[B:.*]]:3 = nn.repeat 3 reversed carried({{.*}}) sliced({{.*}}) captured({{.*}}) : ({{.*}}) -> (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>)
// CHECK-DAG: nn.gradient %[[B]]#1 of @w : tensor<4x4xf32>
// CHECK-DAG: nn.gradient %[[B]]#2 of @s : tensor<4xf32>
// BEHIND-LABEL: @train_step
// BEHIND: nn.repeat 3 reversed
// BEHIND: %[[DW:.*]] = nn.matmul %{{.*}}, %{{.*}} transpose_a : tensor<6x4xbf16>, tensor<6x4xbf16> -> tensor<4x4xf32>
// BEHIND: %[[DS:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<3x4xf32> -> tensor<4xf32>
// BEHIND-DAG: nn.gradient %[[DW]] of @w : tensor<4x4xf32>
// BEHIND-DAG: nn.gradient %[[DS]] of @s : tensor<4xf32>
func.func @train_step(%first: tensor<2x4xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4x4xf32>
  %narrowW = nn.cast %w : tensor<4x4xf32> -> tensor<4x4xbf16>
  %s = nn.read @s : tensor<4xf32>
  %narrowS = nn.cast %s : tensor<4xf32> -> tensor<4xbf16>
  %last = nn.repeat 3 carried(%h = %first) captured(%v = %narrowW, %f = %narrowS)
      : (tensor<2x4xf32>, tensor<4x4xbf16>, tensor<4xbf16>) -> tensor<2x4xf32> {
    %n = nn.cast %h : tensor<2x4xf32> -> tensor<2x4xbf16>
    %p = nn.matmul %n, %v : tensor<2x4xbf16>, tensor<4x4xbf16> -> tensor<2x4xbf16>
    %fs = nn.broadcast %f dims = [1] : tensor<4xbf16> -> tensor<2x4xbf16>
    %m = nn.add %p, %fs : tensor<2x4xbf16>
    %next = nn.cast %m : tensor<2x4xbf16> -> tensor<2x4xf32>
    nn.yield %next : tensor<2x4xf32>
  }
  %l = nn.reduce sum %last dims = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %l : tensor<f32>
}

// -----

nn.variable @w trainable : tensor<8x8xf32>

// An op without a gradient is no fault where its reader gives it none: the attention in the body has the gradients of its other operands.
// CHECK-LABEL: @train_step
// CHECK: nn.repeat 3 reversed
// CHECK-COUNT-2: nn.attention_gradient
// CHECK: nn.gradient %{{.*}} of @w
func.func @train_step(%first: tensor<4x8xf32>, %qs: tensor<3x4x8xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<8x8xf32>
  %last = nn.repeat 3 carried(%h = %first) sliced(%q = %qs) captured(%v = %w)
      : (tensor<4x8xf32>, tensor<3x4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %k = nn.matmul %h, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
    %y = nn.attention %q, %k, %k, %l scale = 1.0 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
    nn.yield %y : tensor<4x8xf32>
  }
  %loss = nn.reduce sum %last dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
