// SPDX-License-Identifier: Apache-2.0
//
// The text of nn.repeat.

// RUN: ashlar-opt %s | ashlar-opt | FileCheck %s

// All groups of operands; the body names its arguments beside them.
// CHECK-LABEL: @all
// CHECK-SAME: (%[[FIRST:.*]]: tensor<2x4xf32>, %[[XS:.*]]: tensor<3x2x4xf32>, %[[WEIGHTS:.*]]: tensor<4x4xf32>)
// CHECK: %[[R:.*]]:2 = nn.repeat 3 reversed carried(%[[H:.*]] = %[[FIRST]]) sliced(%[[X:.*]] = %[[XS]]) captured(%[[W:.*]] = %[[WEIGHTS]])
// CHECK-SAME: : (tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
// CHECK-NEXT: %[[P:.*]] = nn.matmul %[[H]], %[[W]]
// CHECK-NEXT: %[[NEXT:.*]] = nn.add %[[P]], %[[X]]
// CHECK-NEXT: nn.yield %[[NEXT]], %[[NEXT]] : tensor<2x4xf32>, tensor<2x4xf32>
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @all(%first: tensor<2x4xf32>, %xs: tensor<3x2x4xf32>, %weights: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
  %last, %rows = nn.repeat 3 reversed carried(%h = %first) sliced(%x = %xs) captured(%w = %weights)
      : (tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
    %p = nn.matmul %h, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %next = nn.add %p, %x : tensor<2x4xf32>
    nn.yield %next, %next : tensor<2x4xf32>, tensor<2x4xf32>
  }
  return %last, %rows : tensor<2x4xf32>, tensor<3x2x4xf32>
}

// Groups may be left out, and an attribute stands in front of the types. A repeat in a repeat captures what the outer one does.
// CHECK-LABEL: @few
// CHECK: nn.repeat 0 captured(%{{.*}} = %{{.*}}) {note = "none"} : (tensor<4xf32>) -> tensor<0x2x4xf32> {
// CHECK-NEXT: nn.repeat 2 captured(
// CHECK-NOT: reversed
// CHECK: nn.yield %{{.*}} : tensor<2x4xf32>
func.func @few(%x: tensor<4xf32>) -> tensor<0x2x4xf32> {
  %0 = nn.repeat 0 captured(%a = %x) {note = "none"} : (tensor<4xf32>) -> tensor<0x2x4xf32> {
    %1 = nn.repeat 2 captured(%b = %a) : (tensor<4xf32>) -> tensor<2x4xf32> {
      %2 = nn.tanh %b : tensor<4xf32>
      nn.yield %2 : tensor<4xf32>
    }
    nn.yield %1 : tensor<2x4xf32>
  }
  return %0 : tensor<0x2x4xf32>
}

// A condition stands behind the direction, and its type behind those of the other operands.
// CHECK-LABEL: @condition
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[C:.*]]: tensor<i1>)
// CHECK: nn.repeat 1 reversed when %[[C]] carried(%[[A:.*]] = %[[X]]) captured(%[[B:.*]] = %[[X]]) : (tensor<4xf32>, tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
// CHECK: nn.repeat_carry %[[X]] when %[[C]] : tensor<i1> loop 0 number 0 count 1 : tensor<4xf32>
func.func @condition(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.repeat 1 reversed when %c carried(%a = %x) captured(%b = %x) : (tensor<4xf32>, tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
    %1 = nn.add %a, %b : tensor<4xf32>
    nn.yield %1 : tensor<4xf32>
  }
  %2 = nn.repeat_carry %x when %c : tensor<i1> loop 0 number 0 count 1 : tensor<4xf32>
  %3 = nn.repeat_next %x of %2 : tensor<4xf32>
  return %0, %3 : tensor<4xf32>, tensor<4xf32>
}
