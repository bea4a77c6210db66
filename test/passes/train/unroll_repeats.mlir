// SPDX-License-Identifier: Apache-2.0
//
// Repeats as their iterations. That the numbers stay is tested in test/unit/reference/repeat_test.cpp.

// RUN: ashlar-opt %s -split-input-file -ashlar-unroll-repeats | FileCheck %s --enable-var-scope

// Iterations one after the other: the first has row 0. The names of a body get the number of the iteration, those of the results stay.
// CHECK-LABEL: @forward
// CHECK-SAME: (%[[FIRST:.*]]: tensor<4xf32>, %[[XS:.*]]: tensor<3x4xf32>, %[[F:.*]]: tensor<4xf32>)
// CHECK: %[[HEAD:.*]] = nn.slice %[[XS]] [0, 0] to [2, 4]
// CHECK: %[[X2:.*]] = nn.slice %[[XS]] [2, 0] to [3, 4]
// CHECK: %[[X0:.*]] = nn.slice %[[HEAD]] [0, 0] to [1, 4]
// CHECK: %[[X1:.*]] = nn.slice %[[HEAD]] [1, 0] to [2, 4]
// CHECK: %[[R0:.*]] = nn.reshape %[[X0]]
// CHECK: %[[R1:.*]] = nn.reshape %[[X1]]
// CHECK: %[[R2:.*]] = nn.reshape %[[X2]]
// CHECK: %[[M0:.*]] = nn.mul %[[FIRST]], %[[F]] {nn.outputs = ["m/0"]}
// CHECK: %[[N0:.*]] = nn.add %[[M0]], %[[R0]]
// CHECK: %[[M1:.*]] = nn.mul %[[N0]], %[[F]] {nn.outputs = ["m/1"]}
// CHECK: %[[N1:.*]] = nn.add %[[M1]], %[[R1]]
// CHECK: %[[M2:.*]] = nn.mul %[[N1]], %[[F]] {nn.outputs = ["m/2"]}
// CHECK: %[[N2:.*]] = nn.add %[[M2]], %[[R2]] {nn.outputs = ["last"]}
// CHECK: %[[S0:.*]] = nn.reshape %[[N0]] : tensor<4xf32> -> tensor<1x4xf32>
// CHECK: %[[S1:.*]] = nn.reshape %[[N1]] : tensor<4xf32> -> tensor<1x4xf32>
// CHECK: %[[S2:.*]] = nn.reshape %[[N2]] : tensor<4xf32> -> tensor<1x4xf32>
// CHECK: %[[ROWS:.*]] = nn.concat %[[S0]], %[[S1]], %[[S2]] dim = 0 {nn.aliases = ["again"], nn.outputs = ["rows"]}
// CHECK: return %[[N2]], %[[ROWS]]
func.func @forward(%first: tensor<4xf32>, %xs: tensor<3x4xf32>, %f: tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  %last, %rows = nn.repeat 3 carried(%h = %first) sliced(%x = %xs) captured(%k = %f)
      {nn.outputs = ["last", "rows"], nn.aliases = [[], ["again"]]}
      : (tensor<4xf32>, tensor<3x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
    %m = nn.mul %h, %k {nn.outputs = ["m"]} : tensor<4xf32>
    %n = nn.add %m, %x : tensor<4xf32>
    nn.yield %n, %n : tensor<4xf32>, tensor<4xf32>
  }
  return %last, %rows : tensor<4xf32>, tensor<3x4xf32>
}

// -----

// Reversed: the first iteration has the last row, and writes the last place.
// CHECK-LABEL: @reversed
// CHECK: %[[X0:.*]] = nn.slice %{{.*}} [0, 0] to [1, 4]
// CHECK: %[[X1:.*]] = nn.slice %{{.*}} [1, 0] to [2, 4]
// CHECK: %[[R0:.*]] = nn.reshape %[[X0]]
// CHECK: %[[R1:.*]] = nn.reshape %[[X1]]
// CHECK: %[[A:.*]] = nn.tanh %[[R1]]
// CHECK: %[[B:.*]] = nn.tanh %[[R0]]
// CHECK: %[[P0:.*]] = nn.reshape %[[B]]
// CHECK: %[[P1:.*]] = nn.reshape %[[A]]
// CHECK: nn.concat %[[P0]], %[[P1]] dim = 0
func.func @reversed(%xs: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %rows = nn.repeat 2 reversed sliced(%x = %xs) : (tensor<2x4xf32>) -> tensor<2x4xf32> {
    %y = nn.tanh %x : tensor<4xf32>
    nn.yield %y : tensor<4xf32>
  }
  return %rows : tensor<2x4xf32>
}

// -----

// Rows that another repeat stacked are read as they are, and rows of constants are constants.
// CHECK-LABEL: @known_rows
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NOT: nn.slice
// CHECK: %[[A:.*]] = nn.tanh %[[X]]
// CHECK: %[[B:.*]] = nn.tanh %[[A]]
// CHECK: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: %[[TWO:.*]] = nn.constant dense<2.000000e+00> : tensor<4xf32>
// CHECK-NEXT: %[[P:.*]] = nn.mul %[[A]], %[[ONE]]
// CHECK: %[[S:.*]] = nn.add %[[X]], %[[P]]
// CHECK: %[[Q:.*]] = nn.mul %[[B]], %[[TWO]]
// CHECK: %[[T:.*]] = nn.add %[[S]], %[[Q]]
// CHECK: return %[[T]]
func.func @known_rows(%x: tensor<4xf32>) -> tensor<4xf32> {
  %factors = nn.constant dense<[[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]> : tensor<2x4xf32>
  %last, %rows = nn.repeat 2 carried(%h = %x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
    %y = nn.tanh %h : tensor<4xf32>
    nn.yield %y, %y : tensor<4xf32>, tensor<4xf32>
  }
  %sum = nn.repeat 2 carried(%s = %x) sliced(%r = %rows, %f = %factors)
      : (tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4xf32> {
    %p = nn.mul %r, %f : tensor<4xf32>
    %next = nn.add %s, %p : tensor<4xf32>
    nn.yield %next : tensor<4xf32>
  }
  return %sum : tensor<4xf32>
}

// -----

// A repeat in a repeat: as many iterations as both have.
// CHECK-LABEL: @nested
// CHECK-COUNT-6: nn.tanh
// CHECK-NOT: nn.tanh
// CHECK-NOT: nn.repeat
func.func @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.repeat 2 carried(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %1 = nn.repeat 3 carried(%b = %a) : (tensor<4xf32>) -> tensor<4xf32> {
      %2 = nn.tanh %b : tensor<4xf32>
      nn.yield %2 : tensor<4xf32>
    }
    nn.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// Without iterations the carried values are the first ones, and stacks are empty.
// CHECK-LABEL: @none
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>
// CHECK: %[[EMPTY:.*]] = nn.constant dense<0.000000e+00> : tensor<0x4xf32>
// CHECK: return %[[X]], %[[EMPTY]]
func.func @none(%x: tensor<4xf32>, %xs: tensor<0x4xf32>) -> (tensor<4xf32>, tensor<0x4xf32>) {
  %0, %1 = nn.repeat 0 carried(%a = %x) sliced(%r = %xs) : (tensor<4xf32>, tensor<0x4xf32>) -> (tensor<4xf32>, tensor<0x4xf32>) {
    %2 = nn.add %a, %r : tensor<4xf32>
    nn.yield %2, %2 : tensor<4xf32>, tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<0x4xf32>
}

// -----

// A name that the model has for another tensor stays with it.
// CHECK-LABEL: @taken
// CHECK: nn.tanh %{{.*}} {nn.outputs = ["m/1"]}
// CHECK: nn.exp %{{.*}} {nn.outputs = ["m/0"]}
// CHECK-NEXT: nn.exp %{{[a-z0-9]*}} : tensor<4xf32>
// CHECK-NEXT: nn.exp %{{.*}} {nn.outputs = ["m/2"]}
func.func @taken(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.tanh %x {nn.outputs = ["m/1"]} : tensor<4xf32>
  %0 = nn.repeat 3 carried(%a = %y) : (tensor<4xf32>) -> tensor<4xf32> {
    %m = nn.exp %a {nn.outputs = ["m"]} : tensor<4xf32>
    nn.yield %m : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
