// SPDX-License-Identifier: Apache-2.0
//
// Folds and canonicalizations of nn ops: identities only, no arithmetic is done at compile time.

// RUN: ashlar-opt %s -canonicalize | FileCheck %s

// x + -0, x - 0, x * 1 and x / 1 are x, on either side where the op commutes.
// CHECK-LABEL: @neutral
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>
// CHECK-NEXT: return %[[X]]
func.func @neutral(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = nn.constant dense<0.0> : tensor<2xf32>
  %negative = nn.constant dense<-0.0> : tensor<2xf32>
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %0 = nn.add %negative, %x : tensor<2xf32>
  %1 = nn.sub %0, %zero : tensor<2xf32>
  %2 = nn.mul %one, %1 : tensor<2xf32>
  %3 = nn.div %2, %one : tensor<2xf32>
  return %3 : tensor<2xf32>
}

// Integers have the same neutral elements.
// CHECK-LABEL: @neutral_int
// CHECK-SAME: %[[X:.*]]: tensor<2xi64>
// CHECK-NEXT: return %[[X]]
func.func @neutral_int(%x: tensor<2xi64>) -> tensor<2xi64> {
  %zero = nn.constant dense<0> : tensor<2xi64>
  %one = nn.constant dense<1> : tensor<2xi64>
  %0 = nn.add %x, %zero : tensor<2xi64>
  %1 = nn.mul %0, %one : tensor<2xi64>
  return %1 : tensor<2xi64>
}

// 0 - x and 1 / x are not x, nor are x + 0 and x - -0, which make 0 of -0.
// CHECK-LABEL: @not_neutral
// CHECK: nn.sub
// CHECK: nn.div
// CHECK: nn.add
// CHECK: nn.sub
func.func @not_neutral(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = nn.constant dense<0.0> : tensor<2xf32>
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %0 = nn.sub %zero, %x : tensor<2xf32>
  %1 = nn.div %one, %0 : tensor<2xf32>
  %negative = nn.constant dense<-0.0> : tensor<2xf32>
  %2 = nn.add %1, %zero : tensor<2xf32>
  %3 = nn.sub %2, %negative : tensor<2xf32>
  return %3 : tensor<2xf32>
}

// Of two constants the neutral one goes.
// CHECK-LABEL: @one_times_constant
// CHECK-NEXT: %[[C:.*]] = nn.constant dense<2.500000e-01>
// CHECK-NEXT: return %[[C]]
func.func @one_times_constant() -> tensor<f32> {
  %one = nn.constant dense<1.0> : tensor<f32>
  %c = nn.constant dense<0.25> : tensor<f32>
  %0 = nn.mul %one, %c : tensor<f32>
  return %0 : tensor<f32>
}

// A cast, broadcast or reshape to the operand's own type is nothing; likewise a transpose that moves no dim.
// CHECK-LABEL: @same_type
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>
// CHECK-NEXT: return %[[X]]
func.func @same_type(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.cast %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = nn.broadcast %0 dims = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = nn.reshape %1 : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = nn.transpose %2 [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// Splat constants take the new shape at once.
// CHECK-LABEL: @splats
// CHECK-NEXT: %[[C:.*]] = nn.constant dense<2.000000e+00> : tensor<3x4xf32>
// CHECK-NEXT: return %[[C]]
func.func @splats() -> tensor<3x4xf32> {
  %c = nn.constant dense<2.0> : tensor<2xf32>
  %0 = nn.broadcast %c dims = [0] : tensor<2xf32> -> tensor<2x6xf32>
  %1 = nn.reshape %0 : tensor<2x6xf32> -> tensor<4x3xf32>
  %2 = nn.transpose %1 [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// reshape(reshape(x)) is one reshape.
// CHECK-LABEL: @reshape_of_reshape
// CHECK-SAME: %[[X:.*]]: tensor<2x6xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.reshape %[[X]] : tensor<2x6xf32> -> tensor<3x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @reshape_of_reshape(%x: tensor<2x6xf32>) -> tensor<3x4xf32> {
  %0 = nn.reshape %x : tensor<2x6xf32> -> tensor<12xf32>
  %1 = nn.reshape %0 : tensor<12xf32> -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// A reshape that the model names stays: a rule may be about it. The one behind it keeps its name too.
// CHECK-LABEL: @named_reshapes
// CHECK: nn.reshape %{{.*}} {nn.outputs = ["a"]} : tensor<2x6xf32> -> tensor<12xf32>
// CHECK-NEXT: %[[Z:.*]] = nn.reshape %{{.*}} {nn.outputs = ["c"]} : tensor<12xf32> -> tensor<3x4xf32>
// CHECK-NEXT: return %[[Z]]
func.func @named_reshapes(%x: tensor<2x6xf32>) -> tensor<3x4xf32> {
  %0 = nn.reshape %x {nn.outputs = ["a"]} : tensor<2x6xf32> -> tensor<12xf32>
  %1 = nn.reshape %0 : tensor<12xf32> -> tensor<4x3xf32>
  %2 = nn.reshape %1 {nn.outputs = ["c"]} : tensor<4x3xf32> -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// Of two transposes the one that stays keeps its name.
// CHECK-LABEL: @named_transpose
// CHECK: nn.transpose %{{.*}} [1, 2, 0] {nn.outputs = ["b"]}
func.func @named_transpose(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %0 = nn.transpose %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %1 = nn.transpose %0 [2, 0, 1] {nn.outputs = ["b"]} : tensor<4x2x3xf32> -> tensor<3x4x2xf32>
  return %1 : tensor<3x4x2xf32>
}

// transpose(transpose(x)) is one transpose with the permutations composed.
// CHECK-LABEL: @transpose_of_transpose
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.transpose %[[X]] [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %0 = nn.transpose %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %1 = nn.transpose %0 [2, 0, 1] : tensor<4x2x3xf32> -> tensor<3x4x2xf32>
  return %1 : tensor<3x4x2xf32>
}

// A reduction over no dim is its operand.
// CHECK-LABEL: @reduce_nothing
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>
// CHECK-NEXT: return %[[X]]
func.func @reduce_nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.reduce max %x dims = [] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// What the model names stays, though it computes nothing.
// CHECK-LABEL: @named_identities
// CHECK: nn.mul {{.*}} {nn.outputs = ["a"]}
// CHECK: nn.add {{.*}} {nn.outputs = ["b"]}
// CHECK: nn.sub {{.*}} {nn.outputs = ["c"]}
// CHECK: nn.div {{.*}} {nn.outputs = ["d"]}
func.func @named_identities(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = nn.constant dense<1.0> : tensor<4xf32>
  %zero = nn.constant dense<0.0> : tensor<4xf32>
  %negative = nn.constant dense<-0.0> : tensor<4xf32>
  %0 = nn.mul %x, %one {nn.outputs = ["a"]} : tensor<4xf32>
  %1 = nn.add %0, %negative {nn.outputs = ["b"]} : tensor<4xf32>
  %2 = nn.sub %1, %zero {nn.outputs = ["c"]} : tensor<4xf32>
  %3 = nn.div %2, %one {nn.outputs = ["d"]} : tensor<4xf32>
  return %3 : tensor<4xf32>
}
