// SPDX-License-Identifier: Apache-2.0
//
// A step of two micro-batches whose losses have weights: loss and gradients are divided once by the sum of the weights.

// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=1.0" -ashlar-accumulate=count=2 | FileCheck %s
// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=1.0" -ashlar-accumulate=count=2 -ashlar-interpret=function=train_step,train_step,update,train_step,train_step,update | FileCheck %s --check-prefix=NUMBERS

// CHECK-LABEL: @train_step
// CHECK: nn.write @ashlar.loss_sum
// CHECK: nn.write @ashlar.loss_weight
// CHECK-LABEL: @update
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss"})
// CHECK: %[[WEIGHT:.*]] = nn.read @ashlar.loss_weight
// CHECK: nn.max
// CHECK: %[[LOSS:.*]] = nn.cast %{{.*}} : tensor<f64> -> tensor<f32>
// CHECK: nn.write @w
// CHECK: return %[[LOSS]] : tensor<f32>
nn.variable @w trainable : tensor<f32> = dense<1.0> : tensor<f32>
func.func @train_step() -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.least = 0.125 : f64, nn.name = "loss_weight"}) attributes {nn.program = #nn.program<train_step>} {
  %x = nn.constant dense<3.0> : tensor<f32>
  %weight = nn.constant dense<0.25> : tensor<f32>
  %w = nn.read @w : tensor<f32>
  %loss = nn.mul %w, %x : tensor<f32>
  %gradient = nn.gradient %x of @w : tensor<f32>
  return %loss, %weight : tensor<f32>, tensor<f32>
}

// The loss: (3 + 3) / (0.25 + 0.25). Then w = 1 - (3 + 3) / (0.25 + 0.25) and the loss (-33 - 33) / (0.25 + 0.25).
// NUMBERS: f32> 12{{$}}
// NUMBERS: f32> -132{{$}}
