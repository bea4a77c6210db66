// SPDX-License-Identifier: Apache-2.0
//
// The loss scale: gradients of a scaled loss, one condition for all updates, and the scale's own update.

// RUN: ashlar-opt %s -ashlar-autodiff=loss-scale=1024 -ashlar-optimizer=kind=momentum \
// RUN:   -ashlar-loss-scale="growth-steps=10 factor=4" | FileCheck %s

// CHECK-DAG: nn.variable @ashlar.loss_scale internal : tensor<f32> = dense<1.024000e+03> : tensor<f32>
// CHECK-DAG: nn.variable @ashlar.good_steps internal : tensor<i64> = dense<0> : tensor<i64>
nn.variable @w trainable : tensor<4xf32>
nn.variable @b trainable : tensor<f32>

// The loss itself is not scaled.
// CHECK-LABEL: @train_step
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[LOSS:.*]] = nn.reduce sum
// CHECK: nn.read @ashlar.loss_scale
// CHECK: %[[DB:.*]] = nn.gradient %{{.*}} of @b
// CHECK: %[[DW:.*]] = nn.gradient %{{.*}} of @w
// CHECK: %[[BADB:.*]] = nn.reduce sum %{{.*}} dims = [] : tensor<f32> -> tensor<f32>
// CHECK: %[[SIZE:.*]] = nn.abs %[[DW]] : tensor<4xf32>
// CHECK: %[[FINITE:.*]] = nn.compare lt %[[SIZE]], %{{.*}} : tensor<4xf32> -> tensor<4xi1>
// CHECK: %[[BAD:.*]] = nn.select %[[FINITE]]
// CHECK: %[[BADW:.*]] = nn.reduce sum %[[BAD]] dims = [0]
// CHECK: %[[COUNT:.*]] = nn.add %[[BADB]], %[[BADW]] : tensor<f32>
// CHECK: %[[GOOD:.*]] = nn.compare eq %[[COUNT]], %{{.*}} : tensor<f32> -> tensor<i1>
// CHECK: %[[SCALE:.*]] = nn.read @ashlar.loss_scale
// CHECK: %[[INVERSE:.*]] = nn.div %{{.*}}, %[[SCALE]] : tensor<f32>
// CHECK: nn.mul %[[DB]], %{{.*}} : tensor<f32>
// CHECK: %[[FACTOR:.*]] = nn.broadcast %[[INVERSE]] dims = [] : tensor<f32> -> tensor<4xf32>
// CHECK: %[[G:.*]] = nn.mul %[[DW]], %[[FACTOR]] : tensor<4xf32>

// State and parameter keep their values in a step that is left out; the step counts all the same.
// CHECK: nn.write @b.momentum
// CHECK: %[[V:.*]] = nn.read @w.momentum
// CHECK: %[[NEXTV:.*]] = nn.add %{{.*}}, %[[G]]
// CHECK: %[[CHOICE:.*]] = nn.broadcast %[[GOOD]] dims = [] : tensor<i1> -> tensor<4xi1>
// CHECK: %[[KEPT:.*]] = nn.select %[[CHOICE]], %[[NEXTV]], %[[V]]
// CHECK: nn.write @w.momentum, %[[KEPT]]
// CHECK: %[[NEXT:.*]] = nn.sub %[[W]], %{{.*}} : tensor<4xf32>
// CHECK: %[[KEPT:.*]] = nn.select %{{.*}}, %[[NEXT]], %[[W]]
// CHECK: nn.write @w, %[[KEPT]]
// CHECK: %[[STEP:.*]] = nn.add
// CHECK: nn.write @ashlar.step, %[[STEP]]

// CHECK: %[[STEPS:.*]] = nn.read @ashlar.good_steps
// CHECK: %[[NEXT:.*]] = nn.add %[[STEPS]], %{{.*}} : tensor<i64>
// CHECK: %[[TEN:.*]] = nn.constant dense<10> : tensor<i64>
// CHECK: %[[DUE:.*]] = nn.compare ge %[[NEXT]], %[[TEN]]
// CHECK: %[[FOUR:.*]] = nn.constant dense<4.000000e+00>
// CHECK: %[[GROWN:.*]] = nn.mul %[[SCALE]], %[[FOUR]]
// CHECK: nn.min %[[GROWN]]
// CHECK: %[[QUARTER:.*]] = nn.constant dense<2.500000e-01>
// CHECK: %[[SHRUNK:.*]] = nn.mul %[[SCALE]], %[[QUARTER]]
// CHECK: nn.max %[[SHRUNK]]
// CHECK: nn.write @ashlar.loss_scale
// CHECK: nn.write @ashlar.good_steps
// CHECK: return %[[LOSS]]
func.func @train_step(%x: tensor<4xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf32>
  %b = nn.read @b : tensor<f32>
  %0 = nn.mul %w, %x : tensor<4xf32>
  %1 = nn.broadcast %b dims = [] : tensor<f32> -> tensor<4xf32>
  %2 = nn.add %0, %1 : tensor<4xf32>
  %3 = nn.reduce sum %2 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %3 : tensor<f32>
}
