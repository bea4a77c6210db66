// SPDX-License-Identifier: Apache-2.0
//
// Layouts of values in repeats: a carried value has one in all iterations, and the rows of a stack are not sharded.

// RUN: ashlar-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(ashlar-flatten-repeats),ashlar-propagate-layouts)' | FileCheck %s --enable-var-scope
// RUN: ashlar-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(ashlar-flatten-repeats),ashlar-propagate-layouts,ashlar-insert-redistributions,ashlar-verify-layouts)' | FileCheck %s --check-prefix=MOVED --enable-var-scope

// The batch of the rows is the batch of the states, before the first step and behind the last one.
// CHECK-LABEL: @batch
// CHECK: nn.repeat_carry %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
// CHECK: nn.repeat_row %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
// CHECK: nn.repeat_next %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
// CHECK: nn.repeat_stack %{{.*}} {dist.layouts = [#dist.layout<[{}, {"dp"}, {}]>]
// MOVED-LABEL: @batch
// MOVED-NOT: dist.redistribute
dist.mesh @mesh <["dp" = 2]>
func.func @batch(%xs: tensor<3x4x8xf32> {dist.layout = #dist.layout<[{}, {"dp"}, {}]>}, %w: tensor<8x8xf32>)
    -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, tensor<3x4x8xf32> {dist.layout = #dist.layout<[{}, {"dp"}, {}]>}) {
  %zero = nn.constant dense<0.0> : tensor<4x8xf32>
  %last, %all = nn.repeat 3 carried(%h = %zero) sliced(%x = %xs) captured(%v = %w)
      : (tensor<4x8xf32>, tensor<3x4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<3x4x8xf32>) {
    %p = nn.matmul %h, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %s = nn.add %p, %x : tensor<4x8xf32>
    %next = nn.tanh %s : tensor<4x8xf32>
    nn.yield %next, %next : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %last, %all : tensor<4x8xf32>, tensor<3x4x8xf32>
}

// -----

// A result that has a layout gives it to the value in all iterations.
// CHECK-LABEL: @from_behind
// CHECK: nn.repeat_carry %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]
// CHECK: nn.repeat_next %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]
dist.mesh @mesh <["dp" = 2]>
func.func @from_behind(%x: tensor<4xf32>) -> (tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  %last = nn.repeat 3 carried(%h = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %next = nn.tanh %h : tensor<4xf32>
    nn.yield %next : tensor<4xf32>
  }
  return %last : tensor<4xf32>
}

// -----

// So does a rule for the result of a repeat, which is that of its last op.
// CHECK-LABEL: @of_a_rule
// CHECK: nn.repeat_carry %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]
// CHECK: nn.repeat_next %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]
dist.mesh @mesh <["dp" = 2]>
func.func @of_a_rule(%x: tensor<4xf32>) -> tensor<4xf32> {
  %h = nn.repeat_carry %x loop 0 number 0 count 3 : tensor<4xf32>
  %next = nn.tanh %h : tensor<4xf32>
  %last = nn.repeat_next %next of %h {dist.layouts = [#dist.layout<[{"dp"}]>]} : tensor<4xf32>
  return %last : tensor<4xf32>
}

// -----

// A stack that is sharded along its rows is gathered once, in front of the loop.
// MOVED-LABEL: @rows
// MOVED-SAME: %[[XS:[a-z0-9]+]]: tensor<4x8xf32>
// MOVED: %[[ALL:.*]] = dist.redistribute %[[XS]] from <[{"dp"}, {}]> to <[{}, {"dp"}]>
// MOVED: nn.repeat_row %[[ALL]]
// MOVED-NOT: dist.redistribute
dist.mesh @mesh <["dp" = 2]>
func.func @rows(%xs: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<8xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  %zero = nn.constant dense<0.0> : tensor<8xf32>
  %last = nn.repeat 4 carried(%h = %zero) sliced(%x = %xs) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<8xf32> {
    %s = nn.add %h, %x : tensor<8xf32>
    %next = nn.tanh %s : tensor<8xf32>
    nn.yield %next : tensor<8xf32>
  }
  return %last : tensor<8xf32>
}

// -----

// A matrix that the steps multiply by is gathered in front of the loop rather than the smaller state in each step: there are 100 steps.
// MOVED-LABEL: @inside_or_outside
// MOVED-SAME: %[[W:[a-z0-9]+]]: tensor<16x16xf32>
// MOVED: dist.redistribute %[[W]]
// MOVED: nn.repeat_carry
// MOVED-NOT: dist.redistribute
// MOVED: nn.repeat_next
dist.mesh @mesh <["dp" = 2]>
func.func @inside_or_outside(%first: tensor<2x16xf32> {dist.layout = #dist.layout<[{}, {}]>}, %w: tensor<16x16xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>})
    -> (tensor<2x16xf32> {dist.layout = #dist.layout<[{}, {}]>}) {
  %last = nn.repeat 100 carried(%h = %first) captured(%v = %w) : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32> {
    %p = nn.matmul %h, %v {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
    %next = nn.tanh %p {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<2x16xf32>
    nn.yield %next : tensor<2x16xf32>
  }
  return %last : tensor<2x16xf32>
}

// -----

// A sum that adds up from 0 on is combined once, behind the loop; so is the sum of rows that are sums themselves.
// MOVED-LABEL: @sums
// MOVED: nn.repeat_carry %{{.*}} {dist.layouts = [#dist.layout<[], partial = sum {"dp"}>]}
// MOVED-NOT: dist.redistribute
// MOVED: %[[LOSS:.*]] = nn.repeat_next %{{.*}} {dist.layouts = [#dist.layout<[], partial = sum {"dp"}>]}
// MOVED-NEXT: dist.redistribute %[[LOSS]]
// MOVED: %[[ROWS:.*]] = nn.repeat_stack %{{.*}} {dist.layouts = [#dist.layout<[{}, {}], partial = sum {"dp"}>]}
// MOVED-NEXT: %[[SUM:.*]] = nn.reduce sum %[[ROWS]]
// MOVED-NEXT: dist.redistribute %[[SUM]]
dist.mesh @mesh <["dp" = 2]>
func.func @sums(%xs: tensor<3x4x2xf32> {dist.layout = #dist.layout<[{}, {"dp"}, {}]>}) -> (tensor<f32>, tensor<2xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %loss, %rows = nn.repeat 3 carried(%l = %zero) sliced(%x = %xs) : (tensor<f32>, tensor<3x4x2xf32>) -> (tensor<f32>, tensor<3x2xf32>) {
    %t = nn.reduce sum %x dims = [0, 1] : tensor<4x2xf32> -> tensor<f32>
    %next = nn.add %l, %t : tensor<f32>
    %u = nn.reduce sum %x dims = [0] : tensor<4x2xf32> -> tensor<2xf32>
    nn.yield %next, %u : tensor<f32>, tensor<2xf32>
  }
  %sum = nn.reduce sum %rows dims = [0] : tensor<3x2xf32> -> tensor<2xf32>
  return %loss, %sum : tensor<f32>, tensor<2xf32>
}

// -----

// A sum that an iteration uses otherwise is combined in each.
// MOVED-LABEL: @used_sum
// MOVED: nn.repeat_carry %{{.*}} {dist.layouts = [#dist.layout<[]>]}
// MOVED: dist.redistribute
// MOVED: nn.repeat_next %{{.*}} {dist.layouts = [#dist.layout<[]>]}
// MOVED-NOT: dist.redistribute
dist.mesh @mesh <["dp" = 2]>
func.func @used_sum(%xs: tensor<3x4xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}) -> tensor<f32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %loss = nn.repeat 3 carried(%l = %zero) sliced(%x = %xs) : (tensor<f32>, tensor<3x4xf32>) -> tensor<f32> {
    %t = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    %m = nn.mul %l, %l : tensor<f32>
    %next = nn.add %m, %t : tensor<f32>
    nn.yield %next : tensor<f32>
  }
  return %loss : tensor<f32>
}

// -----

// So is one that does not begin with 0, which is no sum of terms.
// MOVED-LABEL: @begun
// MOVED: nn.repeat_carry %{{.*}} {dist.layouts = [#dist.layout<[]>]}
// MOVED: dist.redistribute
// MOVED: nn.repeat_next %{{.*}} {dist.layouts = [#dist.layout<[]>]}
// MOVED-NOT: dist.redistribute
dist.mesh @mesh <["dp" = 2]>
func.func @begun(%first: tensor<f32>, %xs: tensor<3x4xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}) -> tensor<f32> {
  %loss = nn.repeat 3 carried(%l = %first) sliced(%x = %xs) : (tensor<f32>, tensor<3x4xf32>) -> tensor<f32> {
    %t = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    %next = nn.add %l, %t : tensor<f32>
    nn.yield %next : tensor<f32>
  }
  return %loss : tensor<f32>
}

// -----

// Where messages take time, one of all rows is faster than one in each iteration.
// MOVED-LABEL: @messages
// MOVED: nn.repeat_row
// MOVED-NOT: dist.redistribute
// MOVED: %[[ROWS:.*]] = nn.repeat_stack %{{.*}} {dist.layouts = [#dist.layout<[{}], partial = sum {"dp"}>]}
// MOVED-NEXT: dist.redistribute %[[ROWS]]
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000]>}
func.func @messages(%xs: tensor<3x4xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}) -> tensor<3xf32> {
  %losses = nn.repeat 3 sliced(%x = %xs) : (tensor<3x4xf32>) -> tensor<3xf32> {
    %t = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    nn.yield %t : tensor<f32>
  }
  return %losses : tensor<3xf32>
}

// -----

// A branch in a loop, by an input: the sum over the batch that it makes is combined behind the loop, since it costs no more behind the branch.
// CHECK-LABEL: @branch_in_loop
// CHECK: nn.repeat_carry %{{.*}} when %{{.*}}
// MOVED-LABEL: @branch_in_loop
// MOVED: nn.reduce sum
// MOVED-NOT: dist.redistribute
// MOVED: nn.repeat_next
// MOVED-NOT: dist.redistribute
// MOVED: %[[LAST:.*]] = nn.repeat_next
// MOVED-NEXT: dist.redistribute %[[LAST]]
dist.mesh @mesh <["dp" = 2]>
func.func @branch_in_loop(%xs: tensor<3x4x8xf32> {dist.layout = #dist.layout<[{}, {"dp"}, {}]>}, %c: tensor<i1>) -> tensor<8xf32> {
  %zero = nn.constant dense<0.0> : tensor<8xf32>
  %last = nn.repeat 3 carried(%h = %zero) sliced(%x = %xs) captured(%holds = %c)
      : (tensor<8xf32>, tensor<3x4x8xf32>, tensor<i1>) -> tensor<8xf32> {
    %none = nn.constant dense<0.0> : tensor<8xf32>
    %term = nn.repeat 1 when %holds carried(%a = %none) captured(%row = %x) : (tensor<8xf32>, tensor<4x8xf32>, tensor<i1>) -> tensor<8xf32> {
      %sum = nn.reduce sum %row dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
      %more = nn.add %a, %sum : tensor<8xf32>
      nn.yield %more : tensor<8xf32>
    }
    %next = nn.add %h, %term : tensor<8xf32>
    nn.yield %next : tensor<8xf32>
  }
  return %last : tensor<8xf32>
}
