// RUN: ashlar-opt %s -ashlar-cut-stages="stages=2 chunks=2 micro-batches=2 schedule=INTERLEAVED" | FileCheck %s

// Two stages of two chunks. The evaluation takes @w in chunk 2, of stage 0; the step in chunk 1, so stage 1 keeps it. In the evaluation stage 1
// computes nothing before chunk 3, which runs too late: a program of chunk 1 passes the parameter on.

// CHECK: module @stage_0
// CHECK-NOT: nn.variable @w
// CHECK: func.func @eval_step_1(
// CHECK: dist.receive {{.*}} from <stage = 1, channel = [[#CHANNEL:]]> {cause = [#dist.end<kind = op, op = "nn.read">, #dist.end<kind = op, name = "c2">]} : tensor<2x2xf32>
// CHECK: module @stage_1
// CHECK: func.func @eval_step_0() attributes
// CHECK-NEXT: %[[W:.*]] = nn.read @w
// CHECK-NEXT: dist.send %[[W]] {{.*}} to [#dist.peer<stage = 0, channel = [[#CHANNEL]]>]
// CHECK-NEXT: return

module attributes {dist.stage_rules = [#dist.setting<match = "c0", values = {dist.stage = 0 : i64}>, #dist.setting<match = "c1", values = {dist.stage = 1 : i64}>,
                                       #dist.setting<match = "c2", values = {dist.stage = 2 : i64}>, #dist.setting<match = "c3", values = {dist.stage = 3 : i64}>]} {
  nn.variable @ashlar.micro_batch internal : tensor<i64>
  nn.variable @a : tensor<2x2xf32>
  nn.variable @w trainable : tensor<2x2xf32>
  nn.variable @w.gradient state_of @w : tensor<2x2xf32>
  func.func @train_step(%x: tensor<3x2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %zero = nn.constant dense<0> : tensor<i64>
    %one = nn.constant dense<1> : tensor<i64>
    %ones = nn.constant dense<1.0> : tensor<3x2xf32>
    %number = nn.read @ashlar.micro_batch : tensor<i64>
    %first = nn.compare eq %number, %zero : tensor<i64> -> tensor<i1>
    %a = nn.read @a : tensor<2x2xf32>
    %h0 = nn.matmul %x, %a : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32> loc("c0")
    %w = nn.read @w : tensor<2x2xf32>
    %h1 = nn.matmul %h0, %w : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32> loc("c1")
    %h2 = nn.tanh %h1 : tensor<3x2xf32> loc("c2")
    %rows = nn.reduce sum %h2 dims = [1] : tensor<3x2xf32> -> tensor<3xf32> loc("c3")
    %loss = nn.reduce sum %rows dims = [0] : tensor<3xf32> -> tensor<f32> loc("c3")
    %squares = nn.mul %h2, %h2 : tensor<3x2xf32> loc("c2")
    %dh1 = nn.sub %ones, %squares : tensor<3x2xf32> loc("c2")
    %dw = nn.matmul %h0, %dh1 transpose_a : tensor<3x2xf32>, tensor<3x2xf32> -> tensor<2x2xf32> loc("c1")
    %g = nn.gradient %dw of @w : tensor<2x2xf32>
    %sum = nn.read @w.gradient : tensor<2x2xf32>
    %firsts = nn.broadcast %first dims = [] : tensor<i1> -> tensor<2x2xi1>
    %more = nn.add %sum, %g : tensor<2x2xf32>
    %new = nn.select %firsts, %g, %more : tensor<2x2xi1>, tensor<2x2xf32>
    nn.write @w.gradient, %new : tensor<2x2xf32>
    %next = nn.add %number, %one : tensor<i64>
    nn.write @ashlar.micro_batch, %next : tensor<i64>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %zero = nn.constant dense<0> : tensor<i64>
    %g = nn.read @w.gradient : tensor<2x2xf32>
    %w = nn.read @w : tensor<2x2xf32>
    %n = nn.sub %w, %g : tensor<2x2xf32>
    nn.write @w, %n : tensor<2x2xf32>
    nn.write @ashlar.micro_batch, %zero : tensor<i64>
    return
  }
  func.func @eval_step(%x: tensor<3x2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<eval_step>} {
    %a = nn.read @a : tensor<2x2xf32>
    %h0 = nn.matmul %x, %a : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32> loc("c0")
    %w = nn.read @w : tensor<2x2xf32>
    %h1 = nn.matmul %h0, %w : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32> loc("c2")
    %rows = nn.reduce sum %h1 dims = [1] : tensor<3x2xf32> -> tensor<3xf32> loc("c3")
    %loss = nn.reduce sum %rows dims = [0] : tensor<3xf32> -> tensor<f32> loc("c3")
    return %loss : tensor<f32>
  }
}
