// SPDX-License-Identifier: Apache-2.0
//
// A step of several micro-batches: as ops, and as numbers.

// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=0.5" -ashlar-accumulate=count=4 | FileCheck %s

// CHECK: nn.variable @w trainable
// CHECK: nn.variable @ashlar.loss_sum internal : tensor<f32> = dense<0.000000e+00>
// CHECK: nn.variable @ashlar.micro_batch internal : tensor<i64> = dense<0>
// CHECK: nn.variable @w.gradient state_of @w : tensor<f32> = dense<0.000000e+00>
nn.variable @w trainable : tensor<f32> = dense<1.0> : tensor<f32>
nn.variable @ashlar.seed internal : tensor<i64> = dense<7> : tensor<i64>
nn.variable @ashlar.step internal : tensor<i64> = dense<0> : tensor<i64>

// The first micro-batch of a step does not look at what the last step left.
// CHECK-LABEL: @train_step
// CHECK: %[[NUMBER:.*]] = nn.read @ashlar.micro_batch
// CHECK: %[[FIRST:.*]] = nn.compare eq %[[NUMBER]], %{{.*}} : tensor<i64> -> tensor<i1>
// Random numbers are those of the micro-batch, not of the step.
// CHECK: %[[STEP:.*]] = nn.read @ashlar.step
// CHECK: %[[BEGIN:.*]] = nn.mul %[[STEP]], %{{.*}} : tensor<i64>
// CHECK: %[[DRAWN:.*]] = nn.add %[[BEGIN]], %[[NUMBER]] : tensor<i64>
// CHECK: nn.random uniform %{{.*}}, %{{.*}}, %[[DRAWN]]
// CHECK: %[[G:.*]] = nn.gradient %{{.*}} of @w
// CHECK: %[[OLD:.*]] = nn.read @w.gradient
// CHECK: %[[MORE:.*]] = nn.add %[[OLD]], %[[G]]
// CHECK: %[[SUM:.*]] = nn.select %[[FIRST]], %[[G]], %[[MORE]]
// CHECK: nn.write @w.gradient, %[[SUM]]
// CHECK-NOT: nn.write @w,
// CHECK: %[[LOSS:.*]] = nn.select %[[FIRST]]
// CHECK: nn.write @ashlar.loss_sum, %[[LOSS]]
// CHECK: nn.write @ashlar.micro_batch
// CHECK: return %[[LOSS]]

// CHECK-LABEL: @update
// CHECK: %[[ALL:.*]] = nn.read @w.gradient
// CHECK: %[[MEAN:.*]] = nn.mul %[[ALL]], %{{.*}} : tensor<f32>
// CHECK: %[[SCALED:.*]] = nn.mul %[[MEAN]], %{{.*}} : tensor<f32>
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[NEXT:.*]] = nn.sub %[[W]], %[[SCALED]]
// CHECK: nn.write @w, %[[NEXT]]
// CHECK: nn.write @ashlar.step
// CHECK: nn.write @ashlar.micro_batch
// CHECK-NEXT: return{{$}}
func.func @train_step() -> (tensor<f32> {nn.name = "loss"}) {
  %w = nn.read @w : tensor<f32>
  %seed = nn.read @ashlar.seed : tensor<i64>
  %step = nn.read @ashlar.step : tensor<i64>
  %index = nn.constant dense<0> : tensor<i64>
  %stream = nn.constant dense<3> : tensor<i32>
  %random = nn.random uniform %index, %seed, %step, %stream : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %nothing = nn.mul %random, %zero : tensor<f32>
  %count = nn.cast %step : tensor<i64> -> tensor<f32>
  %loss = nn.add %w, %nothing : tensor<f32>
  %g = nn.add %count, %w : tensor<f32>
  %gradient = nn.gradient %g of @w : tensor<f32>
  return %loss : tensor<f32>
}

// The gradient is w plus the number of the run, which is the counter of random numbers: 0, 1, then 2, 3. Losses are w / 2, and their sum w.
// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=0.5" -ashlar-accumulate=count=2 -ashlar-interpret=function=train_step,train_step,update,train_step,train_step,update,train_step | FileCheck %s --check-prefix=NUMBERS
// NUMBERS: f32> 0.5{{$}}
// NUMBERS: f32> 1{{$}}
// w = 1 - 0.5 * (1 + 2) / 2
// NUMBERS: f32> 0.125{{$}}
// NUMBERS: f32> 0.25{{$}}
// w = 0.25 - 0.5 * (2.25 + 3.25) / 2
// NUMBERS: f32> -0.5625{{$}}
