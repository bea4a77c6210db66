// RUN: ashlar-opt %s -ashlar-cut-stages="stages=2 micro-batches=3" | FileCheck %s
// RUN: ashlar-opt %s -ashlar-cut-stages="stages=2 micro-batches=3 schedule=ZERO_BUBBLE" | FileCheck %s --check-prefix=APART
// RUN: sed 's/stage_rules = \[/&#dist.setting<match = "gone", values = {dist.stage = 1 : i64}>, /' %s \
// RUN:   | ashlar-opt -ashlar-cut-stages="stages=2 micro-batches=3" | FileCheck %s
// RUN: not ashlar-opt %s -ashlar-cut-stages="stages=2 micro-batches=1" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not ashlar-opt %s -ashlar-cut-stages="stages=2 micro-batches=3 schedule=FIFO" 2>&1 | FileCheck %s --check-prefix=FIFO
// FEW: error: a pipeline has at least 2 stages, as many micro-batches, and several chunks only with INTERLEAVED or an order; got 2 stages, 1 micro-batches, ONE_F_ONE_B, 1 chunks
// FIFO: for the --schedule option: is "FIFO"; one of GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE
// RUN: sed -e 's/@a\([ ,]\)/@backward\1/g' -e 's/@b\([ ,]\)/@weights\1/g' %s \
// RUN:   | ashlar-opt - -ashlar-cut-stages="stages=2 micro-batches=3 schedule=ZERO_BUBBLE" | FileCheck %s --check-prefix=NAMES

// Variables may have the names of programs.
// NAMES: module @stage_0 attributes {{.*}}#dist.run<"weights.program", 0>{{.*}}#dist.run<"update", 2>, #dist.run<"update_2", 2>
// NAMES: nn.variable @backward trainable
// NAMES: func.func @weights.program({{.*}}) attributes {nn.program = #nn.program<weights>} {
// NAMES: func.func @update() attributes {nn.program = #nn.program<update>} {
// NAMES: func.func @update_2() attributes {nn.program = #nn.program<update, round = 2>} {
// NAMES: nn.write @backward,
// NAMES: module @stage_1 attributes {{.*}}#dist.run<"backward.program", 0>
// NAMES: nn.variable @weights trainable
// NAMES: func.func @backward.program() attributes {nn.program = #nn.program<backward>} {
// NAMES: func.func @weights.program({{.*}}) attributes {nn.program = #nn.program<weights>} {

// A rule of ops that are gone, as partitioning makes equal ops of two modules one, gives nothing a stage.
//
// y = relu(x a) b, the loss is the sum of y. Each stage counts micro-batches for itself; what the first one has computed goes on, and the gradient
// of it comes back. The mask of relu is computed again from its result, which is kept.

// CHECK: module @stage_0 attributes {dist.order = [#dist.repeat<runs = [#dist.run<"forward", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"backward", 0>, #dist.run<"forward", 2>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"backward", 1>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 2>, #dist.run<"update_2", 2>], count = 1, stride = 0>], dist.stage = #dist.stage<index = 0, count = 2, slots = 2>}
// CHECK-NOT: nn.variable @b
// CHECK: func.func @forward(%arg0: tensor<3x2xf32> {dist.slot, nn.name = "x"}) attributes
// CHECK: %[[NUMBER:.*]] = nn.read @ashlar.micro_batch
// CHECK-NEXT: dist.keep %[[NUMBER]] "passed:" : tensor<i64>
// CHECK: nn.matmul
// CHECK-NEXT: %[[H:.*]] = nn.relu
// CHECK-NEXT: dist.send %[[H]] "passed:relu" to [#dist.peer<stage = 1, channel = 0>] {cause = [#dist.end<kind = op, name = "relu">, #dist.end<kind = op, name = "two">]} : tensor<3x4xf32>
// CHECK: nn.write @ashlar.micro_batch
// CHECK-NEXT: return{{$}}
// CHECK: func.func @backward(%arg0: tensor<3x2xf32> {{{[^%]*}}}) attributes
// CHECK: %[[H:.*]] = dist.take "passed:relu" : tensor<3x4xf32>
// CHECK-NEXT: %[[DH:.*]] = dist.receive "passed:two" from <stage = 1, channel = 0> {cause = [#dist.end<kind = op, name = "two">, #dist.end<kind = op, name = "relu">]} : tensor<3x4xf32>
// CHECK-NEXT: %[[NUMBER:.*]] = dist.take "passed:" : tensor<i64>
// CHECK-NEXT: nn.compare eq %[[NUMBER]],
// CHECK: %[[MASK:.*]] = nn.compare gt %[[H]],
// CHECK: nn.select %[[MASK]], %[[DH]],
// CHECK: nn.write @a.gradient
// CHECK: func.func @update() attributes
// CHECK: dist.send {{.*}} to [#dist.peer<stage = 1, channel = 1>] {cause = [#dist.end<kind = op, op = "nn.reduce">, #dist.end<kind = op, op = "nn.max">]} : tensor<f32>
// CHECK-NOT: nn.write
// CHECK: func.func @update_2() attributes
// CHECK: %[[NORM:.*]] = dist.receive {{.*}} from <stage = 1, channel = 1>
// CHECK-NEXT: nn.broadcast %[[NORM]] dims = [] : tensor<f32> -> tensor<2x4xf32>
// CHECK: nn.write @a,
// CHECK: nn.write @ashlar.micro_batch

// CHECK: module @stage_1 attributes {dist.order = [#dist.repeat<runs = [#dist.run<"forward", 0>, #dist.run<"backward", 0>], count = 3, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 2>, #dist.run<"update_1", 2>], count = 1, stride = 0>], dist.stage = #dist.stage<index = 1, count = 2, slots = 1>}
// CHECK-NOT: nn.variable @a{{[ .]}}
// CHECK: func.func @forward() -> (tensor<f32> {nn.name = "loss"}) attributes
// CHECK: nn.read @b
// CHECK-NEXT: %[[H:.*]] = dist.receive "passed:relu" from <stage = 0, channel = 0>
// CHECK-NEXT: nn.matmul %[[H]]
// CHECK: func.func @backward() attributes
// CHECK-NOT: dist.receive
// CHECK: dist.take "passed:relu" : tensor<3x4xf32>
// CHECK: dist.send {{.*}} "passed:two" to [#dist.peer<stage = 0, channel = 0>]
// CHECK: func.func @update()
// CHECK: dist.keep %{{.*}} "passed:#3" : tensor<f32>
// CHECK: func.func @update_1() attributes
// CHECK: dist.receive {{.*}} from <stage = 0, channel = 1>
// CHECK-NEXT: dist.take "passed:#3"
// CHECK-NEXT: %[[NORM:.*]] = nn.max
// CHECK-NEXT: dist.send %[[NORM]] {{.*}} to [#dist.peer<stage = 0, channel = 1>]
// CHECK-NOT: tensor<2x4xf32>
// CHECK: nn.write @b,

// No other stage waits for what the first one makes of gradients, nor for the gradient of @b.
// APART: module @stage_0 attributes {dist.order = [#dist.repeat<runs = [#dist.run<"forward", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"weights", 0>, #dist.run<"forward", 2>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"weights", 1>], count = 2, stride = 1>, {{.*}}dist.stage = #dist.stage<index = 0
// APART-NOT: func.func @backward
// APART: func.func @weights
// APART: module @stage_1
// APART: func.func @backward
// APART-NOT: @b.gradient
// APART: return
// APART: func.func @weights
// APART: nn.write @b.gradient

module attributes {dist.stage_rules = [#dist.setting<match = "one", values = {dist.stage = 0 : i64}>,
                                       #dist.setting<match = "two", values = {dist.stage = 1 : i64}>]} {
  nn.variable @ashlar.micro_batch internal : tensor<i64>
  nn.variable @a trainable : tensor<2x4xf32>
  nn.variable @a.gradient state_of @a : tensor<2x4xf32>
  nn.variable @b trainable : tensor<4x2xf32>
  nn.variable @b.gradient state_of @b : tensor<4x2xf32>
  func.func @train_step(%x: tensor<3x2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %zero = nn.constant dense<0> : tensor<i64>
    %one = nn.constant dense<1> : tensor<i64>
    %zeros = nn.constant dense<0.0> : tensor<3x4xf32>
    %ones = nn.constant dense<1.0> : tensor<3x2xf32>
    %number = nn.read @ashlar.micro_batch : tensor<i64>
    %first = nn.compare eq %number, %zero : tensor<i64> -> tensor<i1>
    %a = nn.read @a : tensor<2x4xf32>
    %xa = nn.matmul %x, %a : tensor<3x2xf32>, tensor<2x4xf32> -> tensor<3x4xf32> loc("one")
    %h = nn.relu %xa : tensor<3x4xf32> loc("relu")
    %b = nn.read @b : tensor<4x2xf32>
    %y = nn.matmul %h, %b : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<3x2xf32> loc("two")
    %rows = nn.reduce sum %y dims = [1] : tensor<3x2xf32> -> tensor<3xf32> loc("loss")
    %loss = nn.reduce sum %rows dims = [0] : tensor<3xf32> -> tensor<f32> loc("loss")
    %db = nn.matmul %h, %ones transpose_a : tensor<3x4xf32>, tensor<3x2xf32> -> tensor<4x2xf32> loc("two")
    %gb = nn.gradient %db of @b : tensor<4x2xf32>
    %sumb = nn.read @b.gradient : tensor<4x2xf32>
    %firstb = nn.broadcast %first dims = [] : tensor<i1> -> tensor<4x2xi1>
    %moreb = nn.add %sumb, %gb : tensor<4x2xf32>
    %newb = nn.select %firstb, %gb, %moreb : tensor<4x2xi1>, tensor<4x2xf32>
    nn.write @b.gradient, %newb : tensor<4x2xf32>
    %dh = nn.matmul %ones, %b transpose_b : tensor<3x2xf32>, tensor<4x2xf32> -> tensor<3x4xf32> loc("two")
    %mask = nn.compare gt %h, %zeros : tensor<3x4xf32> -> tensor<3x4xi1> loc("relu")
    %dxa = nn.select %mask, %dh, %zeros : tensor<3x4xi1>, tensor<3x4xf32> loc("relu")
    %da = nn.matmul %x, %dxa transpose_a : tensor<3x2xf32>, tensor<3x4xf32> -> tensor<2x4xf32> loc("one")
    %ga = nn.gradient %da of @a : tensor<2x4xf32>
    %suma = nn.read @a.gradient : tensor<2x4xf32>
    %firsta = nn.broadcast %first dims = [] : tensor<i1> -> tensor<2x4xi1>
    %morea = nn.add %suma, %ga : tensor<2x4xf32>
    %newa = nn.select %firsta, %ga, %morea : tensor<2x4xi1>, tensor<2x4xf32>
    nn.write @a.gradient, %newa : tensor<2x4xf32>
    %next = nn.add %number, %one : tensor<i64>
    nn.write @ashlar.micro_batch, %next : tensor<i64>
    return %loss : tensor<f32>
  }
  // The sum of both norms stands on the last stage, and goes back to the first.
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %zero = nn.constant dense<0> : tensor<i64>
    %a = nn.read @a : tensor<2x4xf32>
    %ga = nn.read @a.gradient : tensor<2x4xf32>
    %b = nn.read @b : tensor<4x2xf32>
    %gb = nn.read @b.gradient : tensor<4x2xf32>
    %normsa = nn.reduce max %ga dims = [1] : tensor<2x4xf32> -> tensor<2xf32>
    %norma = nn.reduce max %normsa dims = [0] : tensor<2xf32> -> tensor<f32>
    %normsb = nn.reduce max %gb dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
    %normb = nn.reduce max %normsb dims = [0] : tensor<4xf32> -> tensor<f32>
    %norm = nn.max %norma, %normb : tensor<f32>
    %scalea = nn.broadcast %norm dims = [] : tensor<f32> -> tensor<2x4xf32>
    %scaleb = nn.broadcast %norm dims = [] : tensor<f32> -> tensor<4x2xf32>
    %stepa = nn.div %ga, %scalea : tensor<2x4xf32>
    %stepb = nn.div %gb, %scaleb : tensor<4x2xf32>
    %newa = nn.sub %a, %stepa : tensor<2x4xf32>
    %newb = nn.sub %b, %stepb : tensor<4x2xf32>
    nn.write @a, %newa : tensor<2x4xf32>
    nn.write @b, %newb : tensor<4x2xf32>
    nn.write @ashlar.micro_batch, %zero : tensor<i64>
    return
  }
}
