// RUN: ashlar-opt %s -ashlar-cut-stages="stages=2 micro-batches=2" | FileCheck %s

// The update of stage 1 has two rounds: the first one writes the moment of @b, the second one waits for the norm of stage 0. The moment is
// cheap to compute, but not again from a variable that has been written: it goes from one program to the next.

// CHECK: module @stage_1
// CHECK: func.func @update() attributes
// CHECK: %[[M:.*]] = nn.mul
// CHECK-NEXT: dist.keep %[[M]] "[[NAME:passed:#1]]" : tensor<4x2xf32>
// CHECK-NEXT: nn.write @b.moment, %[[M]]
// CHECK: func.func @update_1() attributes
// CHECK: dist.take "[[NAME]]" : tensor<4x2xf32>
// CHECK-NOT: nn.read @b.moment
// CHECK: nn.write @b,

module attributes {dist.stage_rules = [#dist.setting<match = "one", values = {dist.stage = 0 : i64}>,
                                       #dist.setting<match = "two", values = {dist.stage = 1 : i64}>]} {
  nn.variable @ashlar.micro_batch internal : tensor<i64>
  nn.variable @a trainable : tensor<2x4xf32>
  nn.variable @b trainable : tensor<4x2xf32>
  nn.variable @b.moment state_of @b : tensor<4x2xf32>
  func.func @train_step(%x: tensor<3x2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %number = nn.read @ashlar.micro_batch : tensor<i64>
    %one = nn.constant dense<1> : tensor<i64>
    %a = nn.read @a : tensor<2x4xf32>
    %h = nn.matmul %x, %a : tensor<3x2xf32>, tensor<2x4xf32> -> tensor<3x4xf32> loc("one")
    %b = nn.read @b : tensor<4x2xf32>
    %y = nn.matmul %h, %b : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<3x2xf32> loc("two")
    %rows = nn.reduce sum %y dims = [1] : tensor<3x2xf32> -> tensor<3xf32> loc("loss")
    %loss = nn.reduce sum %rows dims = [0] : tensor<3xf32> -> tensor<f32> loc("loss")
    %next = nn.add %number, %one : tensor<i64>
    nn.write @ashlar.micro_batch, %next : tensor<i64>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %zero = nn.constant dense<0> : tensor<i64>
    %half = nn.constant dense<0.5> : tensor<4x2xf32>
    %a = nn.read @a : tensor<2x4xf32>
    %norms = nn.reduce max %a dims = [1] : tensor<2x4xf32> -> tensor<2xf32>
    %norm = nn.reduce max %norms dims = [0] : tensor<2xf32> -> tensor<f32>
    %moment = nn.read @b.moment : tensor<4x2xf32>
    %decayed = nn.mul %moment, %half : tensor<4x2xf32>
    nn.write @b.moment, %decayed : tensor<4x2xf32>
    %scale = nn.broadcast %norm dims = [] : tensor<f32> -> tensor<4x2xf32>
    %step = nn.div %decayed, %scale : tensor<4x2xf32>
    nn.write @b, %step : tensor<4x2xf32>
    nn.write @a, %a : tensor<2x4xf32>
    nn.write @ashlar.micro_batch, %zero : tensor<i64>
    return
  }
}
