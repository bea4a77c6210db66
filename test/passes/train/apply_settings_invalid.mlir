// SPDX-License-Identifier: Apache-2.0
//
// Settings that cannot be followed. Errors are at the rule, which is not in the module.

// RUN: not ashlar-opt %s -split-input-file -ashlar-apply-settings 2>&1 | FileCheck %s

// CHECK: error: job.txtpb:3: rule "*.bais": matches no parameter that is trained; nearest names: "fc1.bias"
module @no_match attributes {dist.settings = [
    #dist.setting<match = "*.bais", values = {nn.weight_decay = 0.0 : f64}, origin = "job.txtpb:3">]} {
  nn.variable @fc1.bias trainable : tensor<3xf32>
}

// -----

// CHECK: error: rule "fc1.mask": matches no parameter that is trained; nearest names: "fc1.bias"
module @not_trained attributes {dist.settings = [#dist.setting<match = "fc1.mask", values = {nn.weight_decay = 0.0 : f64}>]} {
  nn.variable @fc1.mask : tensor<3xf32>
  nn.variable @fc1.bias trainable : tensor<3xf32>
}

// -----

// CHECK: error: job.txtpb:5: rule "fc1.bias": gives parameter "fc1.bias" the weight_decay 0.25 but rule "*.bias" (job.txtpb:4) gives it 0; make them agree, or let the priority of one be lower
module @contradiction attributes {dist.settings = [
    #dist.setting<match = "*.bias", values = {nn.weight_decay = 0.0 : f64}, origin = "job.txtpb:4">,
    #dist.setting<match = "fc1.bias", values = {nn.weight_decay = 0.25 : f64}, origin = "job.txtpb:5">]} {
  nn.variable @fc1.bias trainable : tensor<3xf32>
}

// -----

// CHECK: error: rule "b": gives parameter "b" the comm_fusion 2 but rule "?" gives it 1; make them agree, or let the priority of one be lower
module @contradiction_of_numbers attributes {dist.settings = [
    #dist.setting<match = "?", values = {dist.comm_fusion = 1 : i64}>, #dist.setting<match = "b", values = {dist.comm_fusion = 2 : i64}>]} {
  nn.variable @b trainable : tensor<3xf32>
}

// -----

// CHECK: error: dist.settings holds something other than settings: 1 : i64
module @no_settings attributes {dist.settings = [1]} {
}
