// SPDX-License-Identifier: Apache-2.0
//
// From flat loops to nn.repeat. That it computes the same is tested in test/unit/layout/repeats_test.cpp.

// RUN: ashlar-opt %s -split-input-file -ashlar-nest-repeats | FileCheck %s --enable-var-scope

// What does not depend on the iterations stands in front of the loop, wherever it was; constants and broadcasts of less are copied into the
// body.
// CHECK-LABEL: @invariant
// CHECK-SAME: (%[[FIRST:.*]]: tensor<2x4xf32>, %[[W:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4xf32>)
// CHECK: %[[N:.*]] = nn.neg %[[W]]
// CHECK: %[[LAST:.*]] = nn.repeat 3 carried(%[[H:.*]] = %[[FIRST]]) captured(%{{.*}} = %[[B]], %{{.*}} = %[[N]])
// CHECK-NEXT: %[[BS:.*]] = nn.broadcast
// CHECK-NEXT: %[[P:.*]] = nn.matmul %[[H]]
// CHECK-NEXT: %[[S:.*]] = nn.add %[[P]], %[[BS]]
// CHECK-NEXT: nn.yield %[[S]]
// CHECK: return %[[LAST]]
func.func @invariant(%first: tensor<2x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %h = nn.repeat_carry %first loop 0 number 0 count 3 : tensor<2x4xf32>
  %n = nn.neg %w : tensor<4x4xf32>
  %p = nn.matmul %h, %n : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %bs = nn.broadcast %b dims = [1] : tensor<4xf32> -> tensor<2x4xf32>
  %s = nn.add %p, %bs : tensor<2x4xf32>
  %last = nn.repeat_next %s of %h : tensor<2x4xf32>
  return %last : tensor<2x4xf32>
}

// -----

// An op that reads one result of a loop before another one is made stands behind the loop.
// CHECK-LABEL: @behind
// CHECK: %[[R:.*]]:2 = nn.repeat 3 reversed sliced(%[[X:.*]] = %{{.*}})
// CHECK-NEXT: %[[T:.*]] = nn.tanh %[[X]]
// CHECK-NEXT: nn.yield %[[X]], %[[T]]
// CHECK: %[[S:.*]] = nn.reduce sum %[[R]]#0
// CHECK: %[[U:.*]] = nn.neg %[[S]]
// CHECK: return %[[U]], %[[R]]#1
func.func @behind(%xs: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  %x = nn.repeat_row %xs loop 0 count 3 reversed : tensor<3x4xf32> -> tensor<4xf32>
  %a = nn.repeat_stack %x loop 0 count 3 reversed : tensor<4xf32> -> tensor<3x4xf32>
  %s = nn.reduce sum %a dims = [0] : tensor<3x4xf32> -> tensor<4xf32>
  %t = nn.tanh %x : tensor<4xf32>
  %u = nn.neg %s : tensor<4xf32>
  %b = nn.repeat_stack %t loop 0 count 3 reversed : tensor<4xf32> -> tensor<3x4xf32>
  return %u, %b : tensor<4xf32>, tensor<3x4xf32>
}

// -----

// An inner loop stands in the body of the outer one that it depends on, by what it captures alone.
// CHECK-LABEL: @nested
// CHECK: nn.repeat 2 carried(%[[A:[a-z0-9]+]] = %{{.*}})
// CHECK: nn.repeat 3 carried(%{{.*}} = %{{.*}}) captured(%{{.*}} = %[[A]])
// CHECK: nn.yield
// CHECK: }
// CHECK: nn.yield
// CHECK: }
func.func @nested(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.repeat_carry %x loop 0 number 0 count 2 : tensor<4xf32>
  %c = nn.repeat_carry %y loop 1 number 0 count 3 : tensor<4xf32>
  %s = nn.add %c, %a : tensor<4xf32>
  %inner = nn.repeat_next %s of %c : tensor<4xf32>
  %last = nn.repeat_next %inner of %a : tensor<4xf32>
  return %last : tensor<4xf32>
}

// -----

// With a condition the body is also what its results alone need, reads of variables excepted; what others need stays in front of it.
// CHECK-LABEL: @condition
// CHECK-SAME: (%[[X:.*]]: tensor<4x4xf32>, %[[C:.*]]: tensor<i1>)
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[SHARED:.*]] = nn.exp
// CHECK: %[[Y:.*]] = nn.repeat 1 when %[[C]] carried(%{{.*}} = %[[X]]) captured(%[[V:.*]] = %[[W]], %[[E:.*]] = %[[SHARED]])
// CHECK-NEXT: %[[N:.*]] = nn.neg %[[V]]
// CHECK-NEXT: %[[P:.*]] = nn.matmul %[[E]], %[[N]]
// CHECK-NEXT: nn.yield %[[P]]
// CHECK: return %[[Y]], %[[SHARED]]
nn.variable @w : tensor<4x4xf32>
func.func @condition(%x: tensor<4x4xf32>, %c: tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %w = nn.read @w : tensor<4x4xf32>
  %n = nn.neg %w : tensor<4x4xf32>
  %shared = nn.exp %x : tensor<4x4xf32>
  %p = nn.matmul %shared, %n : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %old = nn.repeat_carry %x when %c : tensor<i1> loop 0 number 0 count 1 : tensor<4x4xf32>
  %y = nn.repeat_next %p of %old : tensor<4x4xf32>
  return %y, %shared : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// In a loop a branch has what is not the same in all iterations; the rest is computed once, in front of the loop.
// CHECK-LABEL: @branch_in_loop
// CHECK-SAME: (%[[X:.*]]: tensor<4x4xf32>, %[[W:.*]]: tensor<4x4xf32>, %[[CS:.*]]: tensor<3xi1>)
// CHECK-NEXT: %[[N:.*]] = nn.neg %[[W]]
// CHECK-NEXT: nn.repeat 3 carried(%[[H:.*]] = %[[X]]) sliced(%[[C:.*]] = %[[CS]]) captured(%[[V:.*]] = %[[N]])
// CHECK-NEXT: nn.repeat 1 when %[[C]] carried(%{{.*}} = %[[H]]) captured(%[[OLD:.*]] = %[[H]], %[[U:.*]] = %[[V]])
// CHECK-NEXT: %[[E:.*]] = nn.exp %[[OLD]]
// CHECK-NEXT: nn.matmul %[[E]], %[[U]]
func.func @branch_in_loop(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %cs: tensor<3xi1>) -> tensor<4x4xf32> {
  %h = nn.repeat_carry %x loop 0 number 0 count 3 : tensor<4x4xf32>
  %c = nn.repeat_row %cs loop 0 count 3 : tensor<3xi1> -> tensor<i1>
  %n = nn.neg %w : tensor<4x4xf32>
  %e = nn.exp %h : tensor<4x4xf32>
  %p = nn.matmul %e, %n : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %old = nn.repeat_carry %h when %c : tensor<i1> loop 1 number 0 count 1 : tensor<4x4xf32>
  %y = nn.repeat_next %p of %old : tensor<4x4xf32>
  %last = nn.repeat_next %y of %h : tensor<4x4xf32>
  return %last : tensor<4x4xf32>
}
