// RUN: ashlar-opt %s -ashlar-cut-stages="stages=2 micro-batches=2" | FileCheck %s
// RUN: not ashlar-opt %s -ashlar-cut-stages="stages=3 micro-batches=3" 2>&1 | FileCheck %s --check-prefix=FEW
// FEW: error: the model has 3 ops that can be cut, too few for 3 stages

// The last stage adds up the losses: it alone has the sum, and what reads it is not cut off.
// CHECK-LABEL: module @stage_0
// CHECK-NOT: @ashlar.loss_sum
// CHECK-LABEL: module @stage_1
// CHECK: func.func @forward
// CHECK: nn.read @ashlar.loss_sum
// CHECK: nn.write @ashlar.loss_sum
module {
  nn.variable @ashlar.loss_sum internal : tensor<f32>
  nn.variable @b trainable : tensor<f32>
  nn.variable @b.gradient state_of @b : tensor<f32>
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}, %first: tensor<i1> {nn.name = "first"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %y = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32> loc("one")
    %sum = nn.read @ashlar.loss_sum : tensor<f32>
    %more = nn.add %sum, %y : tensor<f32> loc("two")
    %loss = nn.select %first, %y, %more : tensor<i1>, tensor<f32> loc("three")
    nn.write @ashlar.loss_sum, %loss : tensor<f32>
    %gb = nn.gradient %y of @b : tensor<f32>
    nn.write @b.gradient, %gb : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %gb = nn.read @b.gradient : tensor<f32>
    nn.write @b, %gb : tensor<f32>
    return
  }
}
