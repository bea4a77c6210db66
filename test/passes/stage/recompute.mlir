// RUN: ashlar-opt %s -ashlar-recompute | FileCheck %s

// What goes from one stage to another is kept where it arrives, a view of something that is computed again too: stage 1 begins with the view, and has
// no copy of what stage 0 makes it of.
// CHECK: %[[H:.*]] = nn.tanh %arg0
// CHECK: %[[VIEW:.*]] = nn.reshape %[[H]]
// CHECK: %[[AGAIN:.*]] = dist.after %[[VIEW]]
// CHECK: nn.exp %[[AGAIN]]
// CHECK-NOT: nn.reshape
module attributes {dist.recompute_rules = [#dist.setting<match = "one", values = {recompute = true}>,
                                           #dist.setting<match = "two", values = {recompute = true}>]} {
  nn.variable @b trainable : tensor<8xf32>
  nn.variable @b.gradient state_of @b : tensor<8xf32>
  func.func @train_step(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %ones = nn.constant dense<1.0> : tensor<8xf32>
    %b = nn.read @b : tensor<8xf32>
    %h = nn.tanh %x {dist.virtual_stage = 0 : i64} : tensor<2x4xf32> loc("one.tanh")
    %view = nn.reshape %h {dist.virtual_stage = 0 : i64} : tensor<2x4xf32> -> tensor<8xf32> loc("one.view")
    %e = nn.exp %view {dist.virtual_stage = 1 : i64} : tensor<8xf32> loc("two.exp")
    %t = nn.tanh %e {dist.virtual_stage = 1 : i64} : tensor<8xf32> loc("two.tanh")
    %y = nn.mul %t, %b {dist.virtual_stage = 1 : i64} : tensor<8xf32> loc("three.mul")
    %loss = nn.reduce sum %y dims = [0] {dist.virtual_stage = 1 : i64} : tensor<8xf32> -> tensor<f32> loc("three.sum")
    %d = nn.mul %ones, %y : tensor<8xf32> loc("three.mul")
    %db = nn.mul %d, %e : tensor<8xf32> loc("two.tanh")
    %gb = nn.gradient %db of @b : tensor<8xf32>
    nn.write @b.gradient, %gb : tensor<8xf32>
    return %loss : tensor<f32>
  }
}
