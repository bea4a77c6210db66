// SPDX-License-Identifier: Apache-2.0
//
// Stages of loops: a loop has one, by a rule for it or for an op of its body.

// RUN: not ashlar-opt %s -split-input-file -ashlar-assign-stages=stages=2 2>&1 > /dev/null | FileCheck %s --check-prefix=ERROR
// RUN: not ashlar-opt %s -split-input-file -ashlar-assign-stages=stages=2 2> /dev/null | FileCheck %s

// ERROR: error: rule "scan/mul" puts op "scan/mul" (nn.mul) on stage 1, but it is in a loop, op "scan" (nn.repeat), on stage 0, and a loop has one; give both the same pipeline_stage
module attributes {dist.stage_rules = [#dist.setting<match = "scan", values = {dist.stage = 0 : i64}>,
                                       #dist.setting<match = "scan/mul", values = {dist.stage = 1 : i64}>]} {
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %last = nn.repeat 3 carried(%h = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      %next = nn.mul %h, %h : tensor<4xf32> loc("scan/mul")
      nn.yield %next : tensor<4xf32>
    } loc("scan")
    %y = nn.tanh %last : tensor<4xf32> loc("last")
    %loss = nn.reduce sum %y dims = [0] : tensor<4xf32> -> tensor<f32> loc("loss")
    return %loss : tensor<f32>
  }
}

// -----

// The loop is on the stage of its op, and so is all behind it.
// CHECK: module attributes
// CHECK: nn.tanh {{.*}}dist.virtual_stage = 0
// CHECK: nn.repeat {{.*}}dist.virtual_stage = 1
module attributes {dist.stage_rules = [#dist.setting<match = "scan/mul", values = {dist.stage = 1 : i64}>]} {
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %first = nn.tanh %x : tensor<4xf32> loc("first")
    %last = nn.repeat 3 carried(%h = %first) : (tensor<4xf32>) -> tensor<4xf32> {
      %next = nn.mul %h, %h : tensor<4xf32> loc("scan/mul")
      nn.yield %next : tensor<4xf32>
    } loc("scan")
    %loss = nn.reduce sum %last dims = [0] : tensor<4xf32> -> tensor<f32> loc("loss")
    return %loss : tensor<f32>
  }
}
