// RUN: ashlar-opt %s -split-input-file -ashlar-cut-stages="stages=2 micro-batches=2" | FileCheck %s

// Collectives have no module path. That of a gradient stands with what it takes, on stage 1, whatever the stage of others.
// CHECK-LABEL: module @stage_0
// CHECK: func.func @forward
// CHECK: dist.all_reduce sum
// CHECK: func.func @backward
// CHECK-NOT: = dist.all_reduce
// CHECK: nn.gradient {{.*}} of @a
// CHECK-LABEL: module @stage_1
// CHECK: func.func @backward
// CHECK: dist.all_reduce sum
module {
  dist.mesh @mesh <["x" = 2]>
  nn.variable @a trainable : tensor<4xf32>
  nn.variable @a.gradient state_of @a : tensor<4xf32>
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %a = nn.read @a : tensor<4xf32>
    %part = nn.mul %x, %a {dist.virtual_stage = 0 : i64} : tensor<4xf32> loc("one")
    %h = dist.all_reduce sum %part over ["x"] {dist.virtual_stage = 0 : i64} : tensor<4xf32>
    %y = nn.exp %h {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("two")
    %loss = nn.reduce sum %y dims = [0] {dist.virtual_stage = 1 : i64} : tensor<4xf32> -> tensor<f32> loc("two")
    %d = nn.mul %y, %y : tensor<4xf32> loc("two")
    %sum = dist.all_reduce sum %d over ["x"] : tensor<4xf32>
    %da = nn.mul %sum, %x : tensor<4xf32> loc("one")
    %ga = nn.gradient %da of @a : tensor<4xf32>
    nn.write @a.gradient, %ga : tensor<4xf32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %ga = nn.read @a.gradient : tensor<4xf32>
    nn.write @a, %ga : tensor<4xf32>
    return
  }
}

// -----

// A mask that is computed again is of no stage, as the mask itself: each stage that takes it computes it, and it is not sent.
// CHECK-LABEL: module @stage_0
// CHECK: func.func @backward
// CHECK-NOT: dist.receive {{.*}}xi1>
// CHECK: nn.compare lt
// CHECK-LABEL: module @stage_1
// CHECK: func.func @backward
// CHECK: nn.compare lt
module {
  dist.mesh @mesh <["x" = 2]>
  nn.variable @a trainable : tensor<4xf32>
  nn.variable @a.gradient state_of @a : tensor<4xf32>
  nn.variable @b trainable : tensor<4xf32>
  nn.variable @b.gradient state_of @b : tensor<4xf32>
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %a = nn.read @a : tensor<4xf32>
    %b = nn.read @b : tensor<4xf32>
    %zeros = nn.constant dense<0.0> : tensor<4xf32>
    %size = nn.constant dense<3> : tensor<4xi64>
    %place = nn.index [1] : tensor<4xi64>
    %real = nn.compare lt %place, %size : tensor<4xi64> -> tensor<4xi1> loc("one")
    %h = nn.select %real, %a, %x {dist.virtual_stage = 0 : i64} : tensor<4xi1>, tensor<4xf32> loc("one")
    %y = nn.mul %h, %b {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("two")
    %loss = nn.reduce sum %y dims = [0] {dist.virtual_stage = 1 : i64} : tensor<4xf32> -> tensor<f32> loc("two")
    %d = nn.mul %h, %y : tensor<4xf32> loc("two")
    %later = dist.after %place, %d : tensor<4xi64>, tensor<4xf32>
    %again = nn.compare lt %later, %size : tensor<4xi64> -> tensor<4xi1> loc("one")
    %db = nn.select %again, %d, %zeros : tensor<4xi1>, tensor<4xf32> loc("two")
    %gb = nn.gradient %db of @b : tensor<4xf32>
    nn.write @b.gradient, %gb : tensor<4xf32>
    %da = nn.select %again, %d, %x : tensor<4xi1>, tensor<4xf32> loc("one")
    %ga = nn.gradient %da of @a : tensor<4xf32>
    nn.write @a.gradient, %ga : tensor<4xf32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %ga = nn.read @a.gradient : tensor<4xf32>
    nn.write @a, %ga : tensor<4xf32>
    %gb = nn.read @b.gradient : tensor<4xf32>
    nn.write @b, %gb : tensor<4xf32>
    return
  }
}

// -----

// The gradients of two broadcasts of one number are one op, which has the path of the one on stage 0. The parameter that is added on stage 1 takes it, too.
// CHECK-LABEL: module @stage_0
// CHECK: func.func @backward
// CHECK-NOT: nn.reduce
// CHECK: nn.gradient {{.*}} of @a
// CHECK-LABEL: module @stage_1
// CHECK: func.func @backward
// CHECK: %[[SUM:.*]] = nn.reduce sum
// CHECK: nn.gradient %[[SUM]] of @b
module {
  dist.mesh @mesh <["x" = 2]>
  nn.variable @a trainable : tensor<f32>
  nn.variable @a.gradient state_of @a : tensor<f32>
  nn.variable @b trainable : tensor<f32>
  nn.variable @b.gradient state_of @b : tensor<f32>
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %a = nn.read @a : tensor<f32>
    %b = nn.read @b : tensor<f32>
    %as = nn.broadcast %a dims = [] {dist.virtual_stage = 0 : i64} : tensor<f32> -> tensor<4xf32> loc("one")
    %h = nn.add %x, %as {dist.virtual_stage = 0 : i64} : tensor<4xf32> loc("one")
    %bs = nn.broadcast %b dims = [] {dist.virtual_stage = 1 : i64} : tensor<f32> -> tensor<4xf32> loc("two")
    %y = nn.add %h, %bs {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("two")
    %e = nn.exp %y {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("two")
    %loss = nn.reduce sum %e dims = [0] {dist.virtual_stage = 1 : i64} : tensor<4xf32> -> tensor<f32> loc("two")
    %d = nn.mul %e, %e : tensor<4xf32> loc("two")
    %sum = nn.reduce sum %d dims = [0] : tensor<4xf32> -> tensor<f32> loc("one")
    %ga = nn.gradient %sum of @a : tensor<f32>
    nn.write @a.gradient, %ga : tensor<f32>
    %gb = nn.gradient %sum of @b : tensor<f32>
    nn.write @b.gradient, %gb : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %ga = nn.read @a.gradient : tensor<f32>
    nn.write @a, %ga : tensor<f32>
    %gb = nn.read @b.gradient : tensor<f32>
    nn.write @b, %gb : tensor<f32>
    return
  }
}

// -----

// A variable that becomes an input as it is gets it at its stage; and an input that nothing takes stays one of the first program.
// CHECK-LABEL: module @stage_0
// CHECK: func.func @forward({{.*}}nn.name = "unused"
// CHECK: func.func @backward(%[[G:[^:]*]]: tensor<4xf32> {{{.*}}nn.name = "g"
// CHECK: nn.write @a.gradient, %[[G]]
// CHECK-LABEL: module @stage_1
// CHECK-NOT: nn.write @a.gradient
module {
  dist.mesh @mesh <["x" = 2]>
  nn.variable @a trainable : tensor<4xf32>
  nn.variable @a.gradient state_of @a : tensor<4xf32>
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}, %g: tensor<4xf32> {nn.name = "g"}, %unused: tensor<4xf32> {nn.name = "unused"})
      -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %a = nn.read @a : tensor<4xf32>
    %h = nn.mul %x, %a {dist.virtual_stage = 0 : i64} : tensor<4xf32> loc("one")
    %y = nn.exp %h {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("two")
    %loss = nn.reduce sum %y dims = [0] {dist.virtual_stage = 1 : i64} : tensor<4xf32> -> tensor<f32> loc("two")
    nn.write @a.gradient, %g : tensor<4xf32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %ga = nn.read @a.gradient : tensor<4xf32>
    nn.write @a, %ga : tensor<4xf32>
    return
  }
}

// -----

// The gradient of a value with two users in the next stage: their sum goes back, one value, though it has the path of the value's op.
// CHECK-LABEL: module @stage_0
// CHECK: func.func @backward
// CHECK: dist.receive
// CHECK-NOT: dist.receive
// CHECK: nn.gradient
// CHECK-LABEL: module @stage_1
// CHECK: func.func @backward
// CHECK: nn.add
module {
  nn.variable @a trainable : tensor<4xf32>
  nn.variable @a.gradient state_of @a : tensor<4xf32>
  func.func @train_step(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %a = nn.read @a : tensor<4xf32>
    %h = nn.mul %x, %a {dist.virtual_stage = 0 : i64} : tensor<4xf32> loc("one")
    %y = nn.exp %h {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("two")
    %z = nn.tanh %h {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("three")
    %both = nn.mul %y, %z {dist.virtual_stage = 1 : i64} : tensor<4xf32> loc("three")
    %loss = nn.reduce sum %both dims = [0] {dist.virtual_stage = 1 : i64} : tensor<4xf32> -> tensor<f32> loc("three")
    %dy = nn.mul %y, %z : tensor<4xf32> loc("two")
    %dz = nn.mul %z, %z : tensor<4xf32> loc("three")
    %dh = nn.add %dy, %dz : tensor<4xf32> loc("one")
    %da = nn.mul %dh, %x : tensor<4xf32> loc("one")
    %ga = nn.gradient %da of @a : tensor<4xf32>
    nn.write @a.gradient, %ga : tensor<4xf32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %ga = nn.read @a.gradient : tensor<4xf32>
    nn.write @a, %ga : tensor<4xf32>
    return
  }
}
