// SPDX-License-Identifier: Apache-2.0
//
// The loss of a step that is two micro-batches of two samples, as shares that the runs add up: ops, then numbers.

// RUN: ashlar-opt %s -split-input-file -ashlar-loss="kind=model_output output=loss micro-batches=2" | FileCheck %s

// A mean over the batch: what it is multiplied by is that of the step.
// CHECK-LABEL: module @mean
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss"})
// CHECK: %[[SUM:.*]] = nn.reduce sum
// CHECK: %[[QUARTER:.*]] = nn.constant dense<2.500000e-01>
// CHECK: %[[SHARE:.*]] = nn.mul %[[SUM]], %[[QUARTER]]
// CHECK: return %[[SHARE]] : tensor<f32>
// An evaluation has any number of samples: the sum, and how many there are.
// CHECK-LABEL: func.func @eval_step
// CHECK-SAME: %[[SAMPLES:[a-z0-9]*]]: tensor<i64> {nn.internal, nn.name = "ashlar.samples"}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "loss_weight"})
// CHECK: %[[PLACE:.*]] = nn.index [1] : tensor<2xi64>
// CHECK: %[[END:.*]] = nn.broadcast %[[SAMPLES]]
// CHECK: %[[COUNTS:.*]] = nn.compare lt %[[PLACE]], %[[END]]
// CHECK: %[[COUNTED:.*]] = nn.select %[[COUNTS]], %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xf32>
// CHECK: %[[SUM:.*]] = nn.reduce sum %[[COUNTED]]
// CHECK: %[[ONE:.*]] = nn.constant dense<1.000000e+00>
// CHECK: %[[SHARE:.*]] = nn.mul %[[SUM]], %[[ONE]]
// CHECK: %[[WEIGHT:.*]] = nn.cast %[[SAMPLES]]
// CHECK: return %[[SHARE]], %[[WEIGHT]]
module @mean {
  nn.variable @w trainable : tensor<2xf32>
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<2xf32>
    %y = nn.mul %x, %x : tensor<2xf32>
    %sum = nn.reduce sum %y dims = [0] : tensor<2xf32> -> tensor<f32>
    %half = nn.constant dense<0.5> : tensor<f32>
    %loss = nn.mul %sum, %half : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %w = nn.read @w : tensor<2xf32>
    %y = nn.mul %x, %x : tensor<4xf32>
    %sum = nn.reduce sum %y dims = [0] : tensor<4xf32> -> tensor<f32>
    %quarter = nn.constant dense<0.25> : tensor<f32>
    %loss = nn.mul %sum, %quarter : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A sum stays one; what is no part of a sample is added once a step.
// CHECK-LABEL: module @sum
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss"})
// CHECK: %[[SUM:.*]] = nn.reduce sum
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[HALF:.*]] = nn.constant dense<5.000000e-01>
// CHECK: %[[PART:.*]] = nn.mul %[[W]], %[[HALF]]
// CHECK: %[[SHARE:.*]] = nn.add %[[SUM]], %[[PART]]
// CHECK: return %[[SHARE]] : tensor<f32>
// How many batches an evaluation has is not known where the number would have to be added once.
// CHECK-LABEL: func.func @eval_step
// CHECK-NOT: ashlar.samples
// CHECK: return
module @sum {
  nn.variable @w trainable : tensor<f32>
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %sum = nn.reduce sum %x dims = [0] : tensor<2xf32> -> tensor<f32>
    %w = nn.read @w : tensor<f32>
    %loss = nn.add %sum, %w : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %sum = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    %w = nn.read @w : tensor<f32>
    %loss = nn.add %sum, %w : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A quotient by a number of data, here at least 1, and w once: sums of both, and the least.
// CHECK-LABEL: module @quotient
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.least = 1.000000e+00 : f64, nn.name = "loss_weight"})
// CHECK: %[[SUM:.*]] = nn.reduce sum
// CHECK: %[[COUNT:.*]] = nn.reduce sum
// CHECK-NOT: nn.div
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[WEIGHTED:.*]] = nn.mul %[[W]], %{{.*}}
// CHECK: %[[SHARE:.*]] = nn.add %[[SUM]], %[[WEIGHTED]]
// CHECK: return %[[SHARE]], %[[COUNT]]
module @quotient {
  nn.variable @w trainable : tensor<f32>
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}, %mask: tensor<2xf32> {nn.name = "mask"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %y = nn.mul %x, %mask : tensor<2xf32>
    %sum = nn.reduce sum %y dims = [0] : tensor<2xf32> -> tensor<f32>
    %count = nn.reduce sum %mask dims = [0] : tensor<2xf32> -> tensor<f32>
    %one = nn.constant dense<1.0> : tensor<f32>
    %least = nn.max %one, %count : tensor<f32>
    %mean = nn.div %sum, %least : tensor<f32>
    %w = nn.read @w : tensor<f32>
    %loss = nn.add %mean, %w : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}, %mask: tensor<4xf32> {nn.name = "mask"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %y = nn.mul %x, %mask : tensor<4xf32>
    %sum = nn.reduce sum %y dims = [0] : tensor<4xf32> -> tensor<f32>
    %count = nn.reduce sum %mask dims = [0] : tensor<4xf32> -> tensor<f32>
    %one = nn.constant dense<1.0> : tensor<f32>
    %least = nn.max %one, %count : tensor<f32>
    %mean = nn.div %sum, %least : tensor<f32>
    %w = nn.read @w : tensor<f32>
    %loss = nn.add %mean, %w : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Samples in the middle of a dim: the transposed rows of two samples with three parts each, flattened.
// CHECK-LABEL: module @outer
// CHECK-LABEL: func.func @eval_step
// CHECK: %[[PLACE:.*]] = nn.index [1] : tensor<6xi64>
// CHECK: %[[TWO:.*]] = nn.constant dense<2> : tensor<6xi64>
// CHECK: %[[ROUND:.*]] = nn.div %[[PLACE]], %[[TWO]]
// CHECK: %[[BEFORE:.*]] = nn.mul %[[ROUND]], %[[TWO]]
// CHECK: %[[SAMPLE:.*]] = nn.sub %[[PLACE]], %[[BEFORE]]
// CHECK: nn.compare lt %[[SAMPLE]],
module @outer {
  func.func @forward(%x: tensor<2x3xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %t = nn.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    %flat = nn.reshape %t : tensor<3x2xf32> -> tensor<6xf32>
    %loss = nn.reduce sum %flat dims = [0] : tensor<6xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4x3xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %t = nn.transpose %x [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
    %flat = nn.reshape %t : tensor<3x4xf32> -> tensor<12xf32>
    %loss = nn.reduce sum %flat dims = [0] : tensor<12xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Each row divided by the sum over all rows: the sum is a weight.
// CHECK-LABEL: module @shares_of_rows
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "loss_weight"})
// CHECK: %[[COUNT:.*]] = nn.reduce sum %arg1
// CHECK-NOT: nn.div
// CHECK: %[[SHARE:.*]] = nn.reduce sum %arg0
// CHECK: return %[[SHARE]], %[[COUNT]]
module @shares_of_rows {
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}, %mask: tensor<2xf32> {nn.name = "mask"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %count = nn.reduce sum %mask dims = [0] : tensor<2xf32> -> tensor<f32>
    %all = nn.broadcast %count dims = [] : tensor<f32> -> tensor<2xf32>
    %shares = nn.div %x, %all : tensor<2xf32>
    %loss = nn.reduce sum %shares dims = [0] : tensor<2xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}, %mask: tensor<4xf32> {nn.name = "mask"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %count = nn.reduce sum %mask dims = [0] : tensor<4xf32> -> tensor<f32>
    %all = nn.broadcast %count dims = [] : tensor<f32> -> tensor<4xf32>
    %shares = nn.div %x, %all : tensor<4xf32>
    %loss = nn.reduce sum %shares dims = [0] : tensor<4xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
