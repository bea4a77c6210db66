// SPDX-License-Identifier: Apache-2.0
//
// Convolutions in loops. That the loops compute the same is tested by test/fuzz.

// RUN: ashlar-opt %s -split-input-file -ashlar-assign-formats | FileCheck %s --enable-var-scope
// RUN: ashlar-opt %s -split-input-file -ashlar-assign-formats=target=cuda | FileCheck %s --check-prefix=CUDA --enable-var-scope

// The state has its channels last in all iterations, and so have the stacks between two loops: the elements of the first value are moved in
// front of the loop, those of the results behind it. On cuda the weights are put in order in front of it, too.
// CHECK-LABEL: @state
// CHECK-SAME: (%[[FIRST:.*]]: tensor<2x4x8x8xf32>, %[[W:.*]]: tensor<4x4x3x3xf32>)
// CHECK: %[[H0:.*]] = nn.transpose %[[FIRST]] [0, 2, 3, 1]
// CHECK-NEXT: %[[ALL:.*]]:2 = nn.repeat 3 carried(%[[H:.*]] = %[[H0]]) captured(%[[V:.*]] = %[[W]])
// CHECK-SAME: -> (tensor<2x8x8x4xf32>, tensor<3x2x8x8x4xf32>)
// CHECK-NEXT: %[[C:.*]] = nn.conv %[[H]], %[[V]] channels_last
// CHECK-NEXT: %[[N:.*]] = nn.tanh %[[C]]
// CHECK-NEXT: nn.yield %[[N]], %[[N]]
// CHECK: %[[LAST:.*]] = nn.repeat 3 reversed carried(%[[G:.*]] = %[[H0]]) sliced(%[[ROW:.*]] = %[[ALL]]#1)
// CHECK-NEXT: %[[D:.*]] = nn.conv %[[G]]
// CHECK-NEXT: %[[S:.*]] = nn.add %[[D]], %[[ROW]]
// CHECK-NEXT: nn.yield %[[S]]
// CHECK: nn.transpose %[[LAST]] [0, 3, 1, 2]
// CUDA-LABEL: @state
// CUDA-SAME: %[[W:[a-z0-9]+]]: tensor<4x4x3x3xf32>)
// CUDA: %[[V:.*]] = nn.transpose %[[W]] [0, 2, 3, 1]
// CUDA: nn.repeat 3 {{.*}}%{{.*}} = %[[V]]
// CUDA-NOT: nn.transpose
// CUDA: nn.repeat 3 reversed {{.*}}%{{.*}} = %[[V]]
// CUDA-NOT: nn.transpose
// CUDA: nn.yield
func.func @state(%first: tensor<2x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32> {
  %last, %all = nn.repeat 3 carried(%h = %first) captured(%v = %w)
      : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> (tensor<2x4x8x8xf32>, tensor<3x2x4x8x8xf32>) {
    %c = nn.conv %h, %v windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
       : tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32> -> tensor<2x4x8x8xf32>
    %n = nn.tanh %c : tensor<2x4x8x8xf32>
    nn.yield %n, %n : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
  }
  %end = nn.repeat 3 reversed carried(%g = %first) sliced(%row = %all) captured(%v = %w)
      : (tensor<2x4x8x8xf32>, tensor<3x2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32> {
    %d = nn.conv %g, %v windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
       : tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32> -> tensor<2x4x8x8xf32>
    %s = nn.add %d, %row : tensor<2x4x8x8xf32>
    nn.yield %s : tensor<2x4x8x8xf32>
  }
  return %end : tensor<2x4x8x8xf32>
}

// -----

// What a branch makes of a value with a convolution has its channels last; a value that no convolution reads stays as it is.
// CHECK-LABEL: @branch
// CHECK: nn.repeat 1 when %{{[^ ]*}} carried(
// CHECK-SAME: -> (tensor<2x8x8x4xf32>, tensor<4x4xf32>)
// CHECK: nn.conv {{.*}} channels_last
// CHECK: nn.yield {{.*}} : tensor<2x8x8x4xf32>, tensor<4x4xf32>
func.func @branch(%x: tensor<2x4x8x8xf32>, %w: tensor<4x4x3x3xf32>, %m: tensor<4x4xf32>, %c: tensor<i1>)
    -> (tensor<2x4x8x8xf32>, tensor<4x4xf32>) {
  %y:2 = nn.repeat 1 when %c carried(%a = %x, %b = %m) captured(%v = %w)
      : (tensor<2x4x8x8xf32>, tensor<4x4xf32>, tensor<4x4x3x3xf32>, tensor<i1>) -> (tensor<2x4x8x8xf32>, tensor<4x4xf32>) {
    %p = nn.conv %a, %v windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
       : tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32> -> tensor<2x4x8x8xf32>
    %q = nn.matmul %b, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    nn.yield %p, %q : tensor<2x4x8x8xf32>, tensor<4x4xf32>
  }
  return %y#0, %y#1 : tensor<2x4x8x8xf32>, tensor<4x4xf32>
}
