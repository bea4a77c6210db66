// SPDX-License-Identifier: Apache-2.0
//
// The dropout of an attention in all that is made of a model.

// RUN: ashlar-opt %s -ashlar-recognize-attention | FileCheck %s --check-prefix=FORWARD
// RUN: ashlar-opt %s -ashlar-recognize-attention -ashlar-loss="kind=mean_squared_error output=y labels=target" -ashlar-autodiff -ashlar-optimizer="kind=sgd learning-rate=0.5" -ashlar-accumulate="count=2 samples=2" | FileCheck %s

nn.variable @w trainable : tensor<8x8xf32> = dense<1.0> : tensor<8x8xf32>
nn.variable @ashlar.seed internal : tensor<i64> = dense<7> : tensor<i64>
nn.variable @ashlar.step internal : tensor<i64> = dense<0> : tensor<i64>

// Rows and keys have the strides of the weights' index.
// FORWARD-LABEL: @forward
// FORWARD-NOT: nn.random
// FORWARD: %[[ROW:.*]] = nn.index [16, 4] : tensor<2x4xi64>
// FORWARD: %[[KEY:.*]] = nn.index [0, 1] : tensor<1x4xi64>
// FORWARD: nn.attention {{.*}} dropout = 2.500000e-01 by %[[ROW]], %[[KEY]], {{.*}} {nn.training_only}

// A micro-batch draws behind the ones before it: by 2 * 4 * 4 weights.
// CHECK-LABEL: @train_step
// CHECK: %[[ROW:.*]] = nn.index [16, 4] : tensor<2x4xi64>
// CHECK: %[[KEY:.*]] = nn.index [0, 1] : tensor<1x4xi64>
// CHECK: %[[WEIGHTS:.*]] = nn.constant dense<32> : tensor<i64>
// CHECK: %[[BEFORE:.*]] = nn.mul %{{.*}}, %[[WEIGHTS]]
// CHECK: %[[EVERYWHERE:.*]] = nn.broadcast %[[BEFORE]] dims = [] : tensor<i64> -> tensor<2x4xi64>
// CHECK: %[[PLACE:.*]] = nn.add %[[ROW]], %[[EVERYWHERE]]
// CHECK: nn.attention {{.*}} dropout = 2.500000e-01 by %[[PLACE]], %[[KEY]],
// CHECK: nn.attention_gradient query {{.*}} dropout = 2.500000e-01 by %[[PLACE]], %[[KEY]],

// CHECK-LABEL: @eval_step
// CHECK-NOT: nn.training_only
// CHECK: nn.attention %{{.*}} scale = 1.000000e+00 :
// CHECK-NOT: nn.training_only

func.func @forward(%x: tensor<2x4x8xf32> {nn.name = "input"}) -> (tensor<2x4x8xf32> {nn.name = "y"})
    attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<8x8xf32>
  %b = nn.broadcast %w dims = [1, 2] : tensor<8x8xf32> -> tensor<2x8x8xf32>
  %q = nn.matmul %x, %b : tensor<2x4x8xf32>, tensor<2x8x8xf32> -> tensor<2x4x8xf32>
  %s = nn.matmul %q, %x transpose_b : tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  %p = nn.softmax %s : tensor<2x4x4xf32>
  %index = nn.index [16, 4, 1] : tensor<2x4x4xi64>
  %seed = nn.read @ashlar.seed : tensor<i64>
  %step = nn.read @ashlar.step : tensor<i64>
  %stream = nn.constant dense<3> : tensor<i32>
  %u = nn.random uniform %index, %seed, %step, %stream : (tensor<2x4x4xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x4x4xf32>
  %ratio = nn.constant dense<0.25> : tensor<2x4x4xf32>
  %kept = nn.constant dense<1.33333337> : tensor<2x4x4xf32>
  %none = nn.constant dense<0.0> : tensor<2x4x4xf32>
  %keep = nn.compare ge %u, %ratio : tensor<2x4x4xf32> -> tensor<2x4x4xi1>
  %mask = nn.select %keep, %kept, %none : tensor<2x4x4xi1>, tensor<2x4x4xf32>
  %d = nn.mul %p, %mask {nn.training_only} : tensor<2x4x4xf32>
  %y = nn.matmul %d, %x : tensor<2x4x4xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}
