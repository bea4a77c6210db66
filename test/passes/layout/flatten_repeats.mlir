// SPDX-License-Identifier: Apache-2.0
//
// The flat form of repeats. That it computes the same is tested in test/unit/layout/repeats_test.cpp.

// RUN: ashlar-opt %s -split-input-file -ashlar-flatten-repeats | FileCheck %s --enable-var-scope

// Arguments of the body are ops; captured values are read as they are. Names go along.
// CHECK-LABEL: @recurrent
// CHECK-SAME: (%[[FIRST:.*]]: tensor<2x4xf32>, %[[XS:.*]]: tensor<3x2x4xf32>, %[[W:.*]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[H:.*]] = nn.repeat_carry %[[FIRST]] loop 0 number 0 count 3 reversed : tensor<2x4xf32>
// CHECK-NEXT: %[[X:.*]] = nn.repeat_row %[[XS]] loop 0 count 3 reversed : tensor<3x2x4xf32> -> tensor<2x4xf32>
// CHECK-NEXT: %[[P:.*]] = nn.matmul %[[H]], %[[W]]
// CHECK-NEXT: %[[NEXT:.*]] = nn.add %[[P]], %[[X]]
// CHECK-NEXT: %[[LAST:.*]] = nn.repeat_next %[[NEXT]] of %[[H]] : tensor<2x4xf32>
// CHECK-NEXT: %[[ALL:.*]] = nn.repeat_stack %[[NEXT]] loop 0 count 3 reversed {nn.outputs = ["states"]} : tensor<2x4xf32> -> tensor<3x2x4xf32>
// CHECK-NEXT: return %[[LAST]], %[[ALL]]
func.func @recurrent(%first: tensor<2x4xf32>, %xs: tensor<3x2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
  %last, %all = nn.repeat 3 reversed carried(%h = %first) sliced(%x = %xs) captured(%v = %w) {nn.outputs = ["", "states"]}
      : (tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %next = nn.add %p, %x : tensor<2x4xf32>
    nn.yield %next, %next : tensor<2x4xf32>, tensor<2x4xf32>
  }
  return %last, %all : tensor<2x4xf32>, tensor<3x2x4xf32>
}

// -----

// An inner loop has a larger number than the one around it, and the one behind both a larger one still. Two values that begin alike have
// different numbers. What nothing reads goes.
// CHECK-LABEL: @nested
// CHECK-NEXT: %[[A:.*]] = nn.repeat_carry %{{.*}} loop 0 number 0 count 2
// CHECK-NEXT: %[[B:.*]] = nn.repeat_carry %{{.*}} loop 0 number 1 count 2
// CHECK-NEXT: %[[C:.*]] = nn.repeat_carry %[[A]] loop 1 number 0 count 3
// CHECK-NEXT: %[[S:.*]] = nn.add %[[C]], %[[B]]
// CHECK-NEXT: %[[INNER:.*]] = nn.repeat_next %[[S]] of %[[C]]
// CHECK-NEXT: %[[LA:.*]] = nn.repeat_next %[[INNER]] of %[[A]]
// CHECK-NEXT: %{{.*}} = nn.repeat_next %[[A]] of %[[B]]
// CHECK-NEXT: %[[X:.*]] = nn.repeat_row %{{.*}} loop 2 count 5
// CHECK-NEXT: %[[R:.*]] = nn.mul %[[X]], %[[LA]]
// CHECK-NEXT: nn.repeat_stack %[[R]] loop 2 count 5
// CHECK-NOT: nn.repeat
func.func @nested(%x: tensor<4xf32>, %xs: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %last, %other = nn.repeat 2 carried(%a = %x, %b = %x) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %inner = nn.repeat 3 carried(%c = %a) captured(%d = %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %s = nn.add %c, %d : tensor<4xf32>
      nn.yield %s : tensor<4xf32>
    }
    nn.yield %inner, %a : tensor<4xf32>, tensor<4xf32>
  }
  %rows, %unread = nn.repeat 5 sliced(%v = %xs) captured(%k = %last) : (tensor<5x4xf32>, tensor<4xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
    %m = nn.mul %v, %k : tensor<4xf32>
    %t = nn.tanh %v : tensor<4xf32>
    nn.yield %m, %t : tensor<4xf32>, tensor<4xf32>
  }
  return %rows : tensor<5x4xf32>
}
