// SPDX-License-Identifier: Apache-2.0
//
// Settings of the user become attributes of the parameters.

// RUN: ashlar-opt %s -split-input-file -ashlar-apply-settings | FileCheck %s

// A setting is of all trained parameters that its glob matches, and of nothing else; any attribute can be set.
// CHECK: module @globs
// CHECK-NOT: dist.settings
module @globs attributes {dist.settings = [
    #dist.setting<match = "*.bias", values = {nn.weight_decay = 0.0 : f64}>,
    #dist.setting<match = "fc1.*", values = {dist.comm_fusion = 2 : i64, dist.optimizer_parallel = false}>]} {
  // CHECK: nn.variable @fc1.bias trainable : tensor<3xf32> {dist.comm_fusion = 2 : i64, dist.optimizer_parallel = false, nn.weight_decay = 0.000000e+00 : f64}
  nn.variable @fc1.bias trainable : tensor<3xf32>
  // CHECK: nn.variable @fc1.weight trainable : tensor<3x3xf32> {dist.comm_fusion = 2 : i64, dist.optimizer_parallel = false}
  nn.variable @fc1.weight trainable : tensor<3x3xf32>
  // CHECK: nn.variable @fc2.weight trainable : tensor<3x3xf32>{{$}}
  nn.variable @fc2.weight trainable : tensor<3x3xf32>
  // CHECK: nn.variable @fc1.mask : tensor<3xf32>{{$}}
  nn.variable @fc1.mask : tensor<3xf32>
}

// -----

// Of two settings the lower priority holds, wherever it stands; equal ones may say the same, and each attribute is a question of its own.
// CHECK: module @priorities
module @priorities attributes {dist.settings = [
    #dist.setting<match = "*", values = {nn.weight_decay = 1.0 : f64, dist.comm_fusion = 1 : i64}, priority = 2>,
    #dist.setting<match = "a", values = {nn.weight_decay = 2.0 : f64}, priority = 1>,
    #dist.setting<match = "b", values = {nn.weight_decay = 3.0 : f64}, priority = 3>,
    #dist.setting<match = "c", values = {nn.weight_decay = 1.0 : f64}, priority = 2>]} {
  // CHECK: nn.variable @a trainable : tensor<f32> {dist.comm_fusion = 1 : i64, nn.weight_decay = 2.000000e+00 : f64}
  nn.variable @a trainable : tensor<f32>
  // CHECK: nn.variable @b trainable : tensor<f32> {dist.comm_fusion = 1 : i64, nn.weight_decay = 1.000000e+00 : f64}
  nn.variable @b trainable : tensor<f32>
  // CHECK: nn.variable @c trainable : tensor<f32> {dist.comm_fusion = 1 : i64, nn.weight_decay = 1.000000e+00 : f64}
  nn.variable @c trainable : tensor<f32>
}
