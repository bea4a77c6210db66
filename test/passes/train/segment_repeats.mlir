// SPDX-License-Identifier: Apache-2.0
//
// Segments of repeats. That their gradients are right is tested in test/unit/reference/repeat_test.cpp.

// RUN: ashlar-opt %s -split-input-file -ashlar-segment-repeats | FileCheck %s --enable-var-scope
// RUN: ashlar-opt %s -split-input-file -pass-pipeline='builtin.module(ashlar-segment-repeats,ashlar-autodiff,func.func(ashlar-sum-behind-repeats))' | FileCheck %s --check-prefix=GRADIENT --enable-var-scope

module attributes {dist.recompute_rules = [#dist.setting<match = "net", values = {recompute = true}>]} {
nn.variable @w trainable : tensor<4x4xf32>

// Nine iterations are three segments of three.
// CHECK-LABEL: @train_step
// CHECK: %[[S:.*]] = nn.reshape %{{.*}} : tensor<9x2x4xf32> -> tensor<3x3x2x4xf32>
// CHECK: nn.repeat 3 carried(%[[A:.*]] = %{{.*}}) sliced(%[[ROWS:.*]] = %[[S]]) captured(%[[V:.*]] = %{{.*}})
// CHECK-NEXT: %[[NEXT:.*]] = nn.repeat 3 carried(%{{.*}} = %[[A]]) sliced(%{{.*}} = %[[ROWS]]) captured(%{{.*}} = %[[V]]) {nn.computed_again}
// CHECK: nn.yield %[[NEXT]]

// The forward pass stacks the state at the begin of each segment alone. The backward pass computes a segment again, with its states, and then
// its gradients; the product for the weight goes over the iterations of the segment, and its sums over the segments are carried.
// GRADIENT-LABEL: @train_step
// GRADIENT: %[[F:.*]]:2 = nn.repeat 3 carried(%[[A:[^ ]*]] = %{{[^ ]*}}) sliced
// GRADIENT: nn.yield %{{.*}}, %[[A]]
// GRADIENT: nn.repeat 3 reversed carried(%{{[^ ]*}} = %{{[^ ]*}}, %[[SUM:[^ ]*]] = %{{[^ ]*}}) sliced({{.*}}%[[BEGIN:[^ ]*]] = %[[F]]#1{{.*}})
// GRADIENT: nn.repeat 3 carried(%{{.*}} = %[[BEGIN]])
// GRADIENT: nn.repeat 3 reversed
// GRADIENT: %[[DW:.*]] = nn.matmul {{.*}} : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<4x4xf32>
// GRADIENT: nn.add %[[SUM]], %[[DW]]
func.func @train_step(%first: tensor<2x4xf32>, %xs: tensor<9x2x4xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4x4xf32>
  %last = nn.repeat 9 carried(%h = %first) sliced(%x = %xs) captured(%v = %w)
      : (tensor<2x4xf32>, tensor<9x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>) {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %s = nn.add %p, %x : tensor<2x4xf32>
    %next = nn.tanh %s : tensor<2x4xf32>
    nn.yield %next : tensor<2x4xf32>
  } loc("net/cell")
  %loss = nn.reduce sum %last dims = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
}

// -----

// Seven iterations have no divisor near their root: two segments of three, and one more iteration. Reversed, that is the first row.
module attributes {dist.recompute_rules = [#dist.setting<match = "net", values = {recompute = true}>]} {
// CHECK-LABEL: @train_step
// CHECK: %[[R:.*]] = nn.slice %{{.*}} [1, 0] to [7, 4] by [1, 1] : tensor<7x4xf32> -> tensor<6x4xf32>
// CHECK: nn.reshape %[[R]] : tensor<6x4xf32> -> tensor<2x3x4xf32>
// CHECK: %[[SEGMENTS:.*]]:2 = nn.repeat 2 reversed
// CHECK: nn.repeat 3 reversed
// CHECK: %[[ALL:.*]] = nn.reshape %[[SEGMENTS]]#1 : tensor<2x3x4xf32> -> tensor<6x4xf32>
// CHECK: %[[LEFT:.*]] = nn.slice %{{.*}} [0, 0] to [1, 4] by [1, 1]
// CHECK: %[[REST:.*]]:2 = nn.repeat 1 reversed carried(%{{.*}} = %[[SEGMENTS]]#0) sliced(%{{.*}} = %[[LEFT]])
// CHECK: nn.concat %[[REST]]#1, %[[ALL]] dim = 0
func.func @train_step(%first: tensor<4xf32>, %xs: tensor<7x4xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %last, %all = nn.repeat 7 reversed carried(%h = %first) sliced(%x = %xs)
      : (tensor<4xf32>, tensor<7x4xf32>) -> (tensor<4xf32>, tensor<7x4xf32>) {
    %next = nn.mul %h, %x : tensor<4xf32>
    nn.yield %next, %next : tensor<4xf32>, tensor<4xf32>
  } loc("net/cell")
  %loss = nn.reduce sum %all dims = [0, 1] : tensor<7x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// The evaluation has no gradient.
// CHECK-LABEL: @eval_step
// CHECK: nn.repeat 7 carried
// CHECK-NOT: nn.repeat
func.func @eval_step(%first: tensor<4xf32>, %xs: tensor<7x4xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<eval_step>} {
  %last = nn.repeat 7 carried(%h = %first) sliced(%x = %xs) : (tensor<4xf32>, tensor<7x4xf32>) -> (tensor<4xf32>) {
    %next = nn.mul %h, %x : tensor<4xf32>
    nn.yield %next : tensor<4xf32>
  } loc("net/cell")
  return %last : tensor<4xf32>
}
}

// -----

// Of the loops without a rule the one whose iterations have most bytes; the attribute then says how many there are. A rule keeps a loop whole.
// CHECK: module attributes {{.*}}dist.segmented_loops = 2
module attributes {dist.recompute_rules = [#dist.setting<match = "net/whole", values = {recompute = false}>], dist.segmented_loops = 1 : i64} {
// CHECK-LABEL: @train_step
// CHECK: nn.repeat 16 carried
// CHECK: nn.tanh %{{.*}} : tensor<4xf32>
// CHECK: nn.repeat 3 carried
// CHECK-NEXT: nn.repeat 3 carried
// CHECK: nn.repeat 100 carried
func.func @train_step(%x: tensor<4xf32>, %y: tensor<64xf32>) -> tensor<f32>
    attributes {nn.program = #nn.program<train_step>} {
  %0 = nn.repeat 16 carried(%h = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %n = nn.tanh %h : tensor<4xf32>
    nn.yield %n : tensor<4xf32>
  } loc("net/small")
  %1 = nn.repeat 9 carried(%h = %y) : (tensor<64xf32>) -> tensor<64xf32> {
    %n = nn.tanh %h : tensor<64xf32>
    nn.yield %n : tensor<64xf32>
  } loc("net/large")
  %2 = nn.repeat 100 carried(%h = %y) : (tensor<64xf32>) -> tensor<64xf32> {
    %n = nn.tanh %h : tensor<64xf32>
    nn.yield %n : tensor<64xf32>
  } loc("net/whole")
  %3 = nn.add %1, %2 : tensor<64xf32>
  %4 = nn.reduce sum %3 dims = [0] : tensor<64xf32> -> tensor<f32>
  %5 = nn.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  %loss = nn.add %4, %5 : tensor<f32>
  return %loss : tensor<f32>
}
}

// -----

// A loop in a branch has segments, too.
module attributes {dist.recompute_rules = [#dist.setting<match = "net", values = {recompute = true}>]} {
// CHECK-LABEL: @train_step
// CHECK: nn.repeat 1 when
// CHECK: nn.repeat 3 carried
// CHECK-NEXT: nn.repeat 3 carried
func.func @train_step(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %0 = nn.repeat 1 when %c carried(%a = %x) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
    %1 = nn.repeat 9 carried(%h = %a) : (tensor<4xf32>) -> tensor<4xf32> {
      %n = nn.tanh %h : tensor<4xf32>
      nn.yield %n : tensor<4xf32>
    } loc("net/loop")
    nn.yield %1 : tensor<4xf32>
  }
  %loss = nn.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
}
