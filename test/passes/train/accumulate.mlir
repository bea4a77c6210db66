// SPDX-License-Identifier: Apache-2.0
//
// A step of several micro-batches: as ops, and as numbers.

// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=0.5" -ashlar-accumulate="count=4 samples=2" | FileCheck %s

// CHECK: nn.variable @w trainable
// CHECK: nn.variable @ashlar.loss_sum internal : tensor<f32> = dense<0.000000e+00>
// CHECK: nn.variable @ashlar.micro_batch internal : tensor<i64> = dense<0>
// CHECK: nn.variable @w.gradient state_of @w : tensor<f32> = dense<0.000000e+00>
nn.variable @w trainable : tensor<f32> = dense<1.0> : tensor<f32>
nn.variable @ashlar.seed internal : tensor<i64> = dense<7> : tensor<i64>
nn.variable @ashlar.step internal : tensor<i64> = dense<0> : tensor<i64>

// The first micro-batch of a step does not look at what the last step left. The sum is linear in the gradient and in itself.
// CHECK-LABEL: @train_step
// CHECK: %[[NUMBER:.*]] = nn.read @ashlar.micro_batch
// CHECK: %[[FIRST:.*]] = nn.compare eq %[[NUMBER]], %{{.*}} : tensor<i64> -> tensor<i1>
// Samples draw by their place in the step; what is no tensor of samples draws the same in all micro-batches.
// CHECK: %[[INDEX:.*]] = nn.index
// CHECK: %[[BEFORE:.*]] = nn.mul %[[NUMBER]], %{{.*}} : tensor<i64>
// CHECK: %[[EVERYWHERE:.*]] = nn.broadcast %[[BEFORE]] dims = [] : tensor<i64> -> tensor<4x3xi64>
// CHECK: %[[PLACE:.*]] = nn.add %[[INDEX]], %[[EVERYWHERE]]
// CHECK: nn.random uniform %[[PLACE]],
// CHECK: %[[SAME:.*]] = nn.index
// CHECK: nn.random uniform %[[SAME]],
// Samples that are not the first dim: no two micro-batches draw the same.
// CHECK: %[[SEQUENCE:.*]] = nn.add %{{.*}} : tensor<3x4xi64>
// CHECK: nn.random uniform %[[SEQUENCE]],
// CHECK: %[[G:.*]] = nn.gradient %{{.*}} of @w
// CHECK: %[[OLD:.*]] = nn.read @w.gradient
// CHECK: %[[SUMMED:.*]] = nn.select %[[FIRST]], %{{.*}}, %[[OLD]]
// CHECK: %[[SUM:.*]] = nn.add %[[SUMMED]], %[[G]]
// CHECK: nn.write @w.gradient, %[[SUM]]
// CHECK-NOT: nn.write @w,
// CHECK: %[[LOSSES:.*]] = nn.select %[[FIRST]]
// CHECK: %[[LOSS:.*]] = nn.add %[[LOSSES]]
// CHECK: nn.write @ashlar.loss_sum, %[[LOSS]] {nn.forward_write}
// CHECK: nn.write @ashlar.micro_batch
// CHECK-NEXT: return{{$}}

// CHECK-LABEL: @update
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss"})
// CHECK: %[[STEPLOSS:.*]] = nn.read @ashlar.loss_sum
// CHECK: %[[ALL:.*]] = nn.read @w.gradient
// CHECK: %[[SCALED:.*]] = nn.mul %[[ALL]], %{{.*}} : tensor<f32>
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[NEXT:.*]] = nn.sub %[[W]], %[[SCALED]]
// CHECK: nn.write @w, %[[NEXT]]
// CHECK: nn.write @ashlar.step
// CHECK: nn.write @ashlar.micro_batch
// CHECK-NEXT: return %[[STEPLOSS]]
func.func @train_step() -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<f32>
  %seed = nn.read @ashlar.seed : tensor<i64>
  %step = nn.read @ashlar.step : tensor<i64>
  %index = nn.index [0, 0] : tensor<4x3xi64>
  %stream = nn.constant dense<3> : tensor<i32>
  %random = nn.random uniform %index, %seed, %step, %stream : (tensor<4x3xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<4x3xf32>
  %row = nn.index [0] : tensor<3xi64>
  %noise = nn.random uniform %row, %seed, %step, %stream : (tensor<3xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<3xf32>
  %places = nn.index [4, 1] : tensor<3x4xi64>
  %mask = nn.random uniform %places, %seed, %step, %stream : (tensor<3x4xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<3x4xf32>
  %masked = nn.reduce sum %mask dims = [0, 1] : tensor<3x4xf32> -> tensor<f32>
  %drawn = nn.reduce sum %random dims = [0, 1] : tensor<4x3xf32> -> tensor<f32>
  %other = nn.reduce sum %noise dims = [0] : tensor<3xf32> -> tensor<f32>
  %two = nn.add %drawn, %other : tensor<f32>
  %both = nn.add %two, %masked : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %nothing = nn.mul %both, %zero : tensor<f32>
  %count = nn.cast %step : tensor<i64> -> tensor<f32>
  %loss = nn.add %w, %nothing : tensor<f32>
  %g = nn.add %count, %w : tensor<f32>
  %gradient = nn.gradient %g of @w : tensor<f32>
  return %loss : tensor<f32>
}

// The gradient is w plus the number of the step. Losses are w, and their sum 2 w.
// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=0.25" -ashlar-accumulate=count=2 -ashlar-interpret=function=train_step,train_step,update,train_step,train_step,update,train_step,train_step,update | FileCheck %s --check-prefix=NUMBERS
// NUMBERS: f32> 2{{$}}
// w = 1 - 0.25 * (1 + 1)
// NUMBERS: f32> 1{{$}}
// w = 0.5 - 0.25 * (1.5 + 1.5)
// NUMBERS: f32> -0.5{{$}}
