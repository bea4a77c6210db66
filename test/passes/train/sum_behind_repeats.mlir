// SPDX-License-Identifier: Apache-2.0
//
// Sums over iterations behind the repeat. That the numbers stay is tested in test/unit/reference/repeat_test.cpp.

// RUN: ashlar-opt %s -split-input-file -ashlar-sum-behind-repeats | FileCheck %s --enable-var-scope

// A sum of products is one product; what was sliced is read as it was. Nothing is left of the repeat.
// CHECK-LABEL: @product
// CHECK-SAME: (%[[XS:.*]]: tensor<5x2x4xf32>, %[[DYS:.*]]: tensor<5x2x6xf32>)
// CHECK-NOT: nn.repeat
// CHECK: %[[S:.*]] = nn.transpose %[[XS]] [1, 0, 2] : tensor<5x2x4xf32> -> tensor<2x5x4xf32>
// CHECK: %[[A:.*]] = nn.reshape %[[S]] : tensor<2x5x4xf32> -> tensor<10x4xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[DYS]] [1, 0, 2] : tensor<5x2x6xf32> -> tensor<2x5x6xf32>
// CHECK: %[[B:.*]] = nn.reshape %[[T]] : tensor<2x5x6xf32> -> tensor<10x6xf32>
// CHECK: %[[DW:.*]] = nn.matmul %[[A]], %[[B]] transpose_a : tensor<10x4xf32>, tensor<10x6xf32> -> tensor<4x6xf32>
// CHECK: return %[[DW]]
func.func @product(%xs: tensor<5x2x4xf32>, %dys: tensor<5x2x6xf32>) -> tensor<4x6xf32> {
  %zero = nn.constant dense<-0.0> : tensor<4x6xf32>
  %dw = nn.repeat 5 carried(%sum = %zero) sliced(%x = %xs, %dy = %dys)
      : (tensor<4x6xf32>, tensor<5x2x4xf32>, tensor<5x2x6xf32>) -> tensor<4x6xf32> {
    %p = nn.matmul %x, %dy transpose_a : tensor<2x4xf32>, tensor<2x6xf32> -> tensor<4x6xf32>
    %next = nn.add %sum, %p : tensor<4x6xf32>
    nn.yield %next : tensor<4x6xf32>
  }
  return %dw : tensor<4x6xf32>
}

// -----

// A value of the body is stacked, once where a result has it already; an operand whose contracted dim comes last is turned round; and a
// first value that is not zero is added.
// CHECK-LABEL: @stacked
// CHECK-SAME: (%[[XS:.*]]: tensor<5x4x2xf32>, %[[FIRST:.*]]: tensor<4x6xf32>, %[[WS:.*]]: tensor<5x2x6xf32>)
// CHECK: %[[YS:.*]] = nn.repeat 5 sliced(%[[X:.*]] = %[[XS]]) : (tensor<5x4x2xf32>) -> tensor<5x4x2xf32> {
// CHECK-NEXT: %[[Y:.*]] = nn.tanh %[[X]]
// CHECK-NEXT: nn.yield %[[Y]]
// CHECK: %[[T:.*]] = nn.transpose %[[YS]] [1, 2, 0] : tensor<5x4x2xf32> -> tensor<4x2x5xf32>
// CHECK: %[[A:.*]] = nn.reshape %[[T]] : tensor<4x2x5xf32> -> tensor<4x10xf32>
// CHECK: %[[U:.*]] = nn.transpose %[[WS]] [1, 0, 2]
// CHECK: %[[B:.*]] = nn.reshape %[[U]] : tensor<2x5x6xf32> -> tensor<10x6xf32>
// CHECK: %[[P:.*]] = nn.matmul %[[A]], %[[B]] :
// CHECK: %[[SUM:.*]] = nn.add %[[FIRST]], %[[P]]
// CHECK: return %[[SUM]], %[[YS]]
func.func @stacked(%xs: tensor<5x4x2xf32>, %first: tensor<4x6xf32>, %w: tensor<5x2x6xf32>) -> (tensor<4x6xf32>, tensor<5x4x2xf32>) {
  %sum, %ys = nn.repeat 5 carried(%s = %first) sliced(%x = %xs, %v = %w)
      : (tensor<4x6xf32>, tensor<5x4x2xf32>, tensor<5x2x6xf32>) -> (tensor<4x6xf32>, tensor<5x4x2xf32>) {
    %y = nn.tanh %x : tensor<4x2xf32>
    %p = nn.matmul %y, %v : tensor<4x2xf32>, tensor<2x6xf32> -> tensor<4x6xf32>
    %next = nn.add %p, %s : tensor<4x6xf32>
    nn.yield %next, %y : tensor<4x6xf32>, tensor<4x2xf32>
  }
  return %sum, %ys : tensor<4x6xf32>, tensor<5x4x2xf32>
}

// -----

// A factor that is the same in all iterations is multiplied once, by the sum of the other one; rows that all add to the same places of a
// table are added up first.
// CHECK-LABEL: @same
// CHECK-SAME: (%[[XS:.*]]: tensor<5x4x2xf32>, %[[W:.*]]: tensor<2x6xf32>, %[[I:.*]]: tensor<4xi64>)
// CHECK-NOT: nn.repeat
// CHECK: %[[X:.*]] = nn.reduce sum %[[XS]] dims = [0]
// CHECK-NEXT: nn.matmul %[[X]], %[[W]] : tensor<4x2xf32>, tensor<2x6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.reduce sum %[[XS]] dims = [0]
// CHECK-NEXT: nn.matmul %[[W]], %[[Y]] transpose_a transpose_b : tensor<2x6xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
// CHECK-NEXT: %[[Z:.*]] = nn.reduce sum %[[XS]] dims = [0]
// CHECK-NEXT: nn.scatter_add %[[I]], %[[Z]] : tensor<4xi64>, tensor<4x2xf32> -> tensor<9x2xf32>
func.func @same(%xs: tensor<5x4x2xf32>, %w: tensor<2x6xf32>, %i: tensor<4xi64>) -> (tensor<4x6xf32>, tensor<6x4xf32>, tensor<9x2xf32>) {
  %none = nn.constant dense<-0.0> : tensor<4x6xf32>
  %zero = nn.constant dense<-0.0> : tensor<6x4xf32>
  %empty = nn.constant dense<-0.0> : tensor<9x2xf32>
  %a, %b, %c = nn.repeat 5 carried(%s = %none, %t = %zero, %u = %empty) sliced(%x = %xs) captured(%v = %w, %at = %i)
      : (tensor<4x6xf32>, tensor<6x4xf32>, tensor<9x2xf32>, tensor<5x4x2xf32>, tensor<2x6xf32>, tensor<4xi64>) -> (tensor<4x6xf32>, tensor<6x4xf32>, tensor<9x2xf32>) {
    %p = nn.matmul %x, %v : tensor<4x2xf32>, tensor<2x6xf32> -> tensor<4x6xf32>
    %q = nn.matmul %v, %x transpose_a transpose_b : tensor<2x6xf32>, tensor<4x2xf32> -> tensor<6x4xf32>
    %r = nn.scatter_add %at, %x : tensor<4xi64>, tensor<4x2xf32> -> tensor<9x2xf32>
    %nextP = nn.add %s, %p : tensor<4x6xf32>
    %nextQ = nn.add %t, %q : tensor<6x4xf32>
    %nextR = nn.add %u, %r : tensor<9x2xf32>
    nn.yield %nextP, %nextQ, %nextR : tensor<4x6xf32>, tensor<6x4xf32>, tensor<9x2xf32>
  }
  return %a, %b, %c : tensor<4x6xf32>, tensor<6x4xf32>, tensor<9x2xf32>
}

// -----

// Sums along dims are rows of one sum; what is linear in a term stands behind, too.
// CHECK-LABEL: @bias
// CHECK: %[[ROWS:.*]] = nn.repeat 5
// CHECK: %[[ROW:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
// CHECK-NEXT: nn.yield %[[ROW]]
// CHECK: %[[SUM:.*]] = nn.reduce sum %[[ROWS]] dims = [0] : tensor<5x4xf32> -> tensor<4xf32>
// CHECK: %[[DB:.*]] = nn.pad %[[SUM]] low = [4] interior = [0] : tensor<4xf32> -> tensor<8xf32>
// CHECK: return %[[DB]]
func.func @bias(%xs: tensor<5x2x4xf32>) -> tensor<8xf32> {
  %zero = nn.constant dense<-0.0> : tensor<8xf32>
  %db = nn.repeat 5 carried(%sum = %zero) sliced(%x = %xs) : (tensor<8xf32>, tensor<5x2x4xf32>) -> tensor<8xf32> {
    %row = nn.reduce sum %x dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
    %pad = nn.pad %row low = [4] interior = [0] : tensor<4xf32> -> tensor<8xf32>
    %next = nn.add %sum, %pad : tensor<8xf32>
    nn.yield %next : tensor<8xf32>
  }
  return %db : tensor<8xf32>
}

// -----

// The gradients of the rows of a table are one, too.
// CHECK-LABEL: @table
// CHECK-SAME: (%[[I:.*]]: tensor<5x2xi64>, %[[G:.*]]: tensor<5x2x4xf32>)
// CHECK-NOT: nn.repeat
// CHECK: nn.scatter_add %[[I]], %[[G]] : tensor<5x2xi64>, tensor<5x2x4xf32> -> tensor<9x4xf32>
func.func @table(%i: tensor<5x2xi64>, %g: tensor<5x2x4xf32>) -> tensor<9x4xf32> {
  %zero = nn.constant dense<-0.0> : tensor<9x4xf32>
  %dw = nn.repeat 5 carried(%sum = %zero) sliced(%at = %i, %x = %g)
      : (tensor<9x4xf32>, tensor<5x2xi64>, tensor<5x2x4xf32>) -> tensor<9x4xf32> {
    %p = nn.scatter_add %at, %x : tensor<2xi64>, tensor<2x4xf32> -> tensor<9x4xf32>
    %next = nn.add %sum, %p : tensor<9x4xf32>
    nn.yield %next : tensor<9x4xf32>
  }
  return %dw : tensor<9x4xf32>
}

// -----

// The product behind an inner repeat is a term of the outer one: one product for the iterations of both.
// CHECK-LABEL: @nested
// CHECK-NOT: nn.matmul
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_a : tensor<30x4xf32>, tensor<30x6xf32> -> tensor<4x6xf32>
// CHECK-NOT: nn.matmul
func.func @nested(%xs: tensor<5x3x2x4xf32>, %dys: tensor<5x3x2x6xf32>) -> tensor<4x6xf32> {
  %zero = nn.constant dense<-0.0> : tensor<4x6xf32>
  %dw = nn.repeat 5 carried(%sum = %zero) sliced(%x = %xs, %dy = %dys)
      : (tensor<4x6xf32>, tensor<5x3x2x4xf32>, tensor<5x3x2x6xf32>) -> tensor<4x6xf32> {
    %none = nn.constant dense<-0.0> : tensor<4x6xf32>
    %part = nn.repeat 3 carried(%s = %none) sliced(%a = %x, %b = %dy)
        : (tensor<4x6xf32>, tensor<3x2x4xf32>, tensor<3x2x6xf32>) -> tensor<4x6xf32> {
      %p = nn.matmul %a, %b transpose_a : tensor<2x4xf32>, tensor<2x6xf32> -> tensor<4x6xf32>
      %n = nn.add %s, %p : tensor<4x6xf32>
      nn.yield %n : tensor<4x6xf32>
    }
    %next = nn.add %sum, %part : tensor<4x6xf32>
    nn.yield %next : tensor<4x6xf32>
  }
  return %dw : tensor<4x6xf32>
}

// -----

// A sum that the body reads stays, and one whose terms are as large as itself.
// CHECK-LABEL: @stays
// CHECK: %{{.*}}:3 = nn.repeat 5 carried(
// CHECK: nn.reduce sum
func.func @stays(%x: tensor<2x4xf32>, %r: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>, tensor<5x4xf32>) {
  %a, %b, %c = nn.repeat 5 carried(%s = %r, %t = %x) : (tensor<4xf32>, tensor<2x4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>, tensor<5x4xf32>) {
    %row = nn.reduce sum %t dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
    %read = nn.add %s, %row : tensor<4xf32>
    %square = nn.mul %t, %t : tensor<2x4xf32>
    %large = nn.add %t, %square : tensor<2x4xf32>
    %seen = nn.tanh %s : tensor<4xf32>
    nn.yield %read, %large, %seen : tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>
  }
  return %a, %b, %c : tensor<4xf32>, tensor<2x4xf32>, tensor<5x4xf32>
}

// -----

// Nothing is computed for results that nothing reads: the sum that is carried goes, with what it is a sum of.
// CHECK-LABEL: @unread
// CHECK: nn.repeat 2 carried(%{{.*}} = %{{[a-z0-9]*}}) : (tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: nn.tanh
// CHECK-NEXT: nn.yield
func.func @unread(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0, %1, %2 = nn.repeat 2 carried(%a = %x, %s = %x) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>) {
    %3 = nn.tanh %a : tensor<4xf32>
    %4 = nn.exp %a : tensor<4xf32>
    %5 = nn.add %s, %4 : tensor<4xf32>
    nn.yield %3, %5, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// A gradient of f32 that is a sum of products of bf16 is not rounded to bf16.
// CHECK-LABEL: @narrow
// CHECK: %[[DW:.*]] = nn.matmul %{{.*}}, %{{.*}} transpose_a : tensor<10x4xbf16>, tensor<10x6xbf16> -> tensor<4x6xf32>
// CHECK-NEXT: nn.gradient %[[DW]] of @w
nn.variable @w trainable : tensor<4x6xf32>
func.func @narrow(%xs: tensor<5x2x4xbf16>, %dys: tensor<5x2x6xbf16>) -> tensor<4x6xf32> {
  %zero = nn.constant dense<-0.0> : tensor<4x6xbf16>
  %dw = nn.repeat 5 carried(%sum = %zero) sliced(%x = %xs, %dy = %dys)
      : (tensor<4x6xbf16>, tensor<5x2x4xbf16>, tensor<5x2x6xbf16>) -> tensor<4x6xbf16> {
    %p = nn.matmul %x, %dy transpose_a : tensor<2x4xbf16>, tensor<2x6xbf16> -> tensor<4x6xbf16>
    %next = nn.add %sum, %p : tensor<4x6xbf16>
    nn.yield %next : tensor<4x6xbf16>
  }
  %wide = nn.cast %dw : tensor<4x6xbf16> -> tensor<4x6xf32>
  %g = nn.gradient %wide of @w : tensor<4x6xf32>
  return %g : tensor<4x6xf32>
}
