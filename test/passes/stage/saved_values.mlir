// RUN: ashlar-opt %s -ashlar-cut-stages="stages=2 micro-batches=2" | FileCheck %s

// What a backward program takes of its forward program is the cheapest cut between what only products and sums make and what it uses. On stage 0
// it uses the f32 copy of a view of %h, twice: the view is passed on, which has half of the bytes. On stage 1 it uses %d and %e, each a walk over %p and its sums %s,
// which are there: they are passed on, and %q, which no walk of one or two instructions makes.

// CHECK: module @stage_0
// CHECK: func.func @forward(
// CHECK: dist.keep {{.*}} "passed:view" : tensor<32xbf16>
// CHECK-NOT: dist.keep
// CHECK: func.func @backward(%arg0: tensor<4x2xbf16> {dist.slot, nn.name = "x"}) attributes
// CHECK-NEXT: %[[VIEW:.*]] = dist.take "passed:view" : tensor<32xbf16>
// CHECK-NEXT: nn.cast %[[VIEW]] : tensor<32xbf16> -> tensor<32xf32>
// CHECK-NOT: dist.take
// CHECK: module @stage_1
// CHECK: func.func @forward() -> (tensor<f32> {nn.name = "loss"}) attributes
// CHECK: dist.keep {{.*}} "passed:last" : tensor<4x8xf32>
// CHECK-NOT: dist.keep
// CHECK: func.func @backward() attributes
// CHECK: dist.take "passed:last" : tensor<4x8xf32>
// CHECK: %[[P:.*]] = dist.take "passed:p" : tensor<4x8xf32>
// CHECK: %[[S:.*]] = dist.take "passed:s" : tensor<4xf32>
// CHECK-NOT: dist.take
// CHECK: %[[MEANS:.*]] = nn.broadcast %[[S]]
// CHECK: nn.sub %[[P]], %[[MEANS]]

module attributes {dist.stage_rules = [#dist.setting<match = "last", values = {dist.stage = 1 : i64}>]} {
  nn.variable @ashlar.micro_batch internal : tensor<i64>
  nn.variable @a trainable : tensor<2x8xbf16>
  nn.variable @a.gradient state_of @a : tensor<2x8xbf16>
  nn.variable @b trainable : tensor<8x8xf32>
  nn.variable @b.gradient state_of @b : tensor<8x8xf32>
  func.func @train_step(%x: tensor<4x2xbf16> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %zero = nn.constant dense<0> : tensor<i64>
    %one = nn.constant dense<1> : tensor<i64>
    %number = nn.read @ashlar.micro_batch : tensor<i64>
    %a = nn.read @a : tensor<2x8xbf16>
    %h = nn.matmul %x, %a : tensor<4x2xbf16>, tensor<2x8xbf16> -> tensor<4x8xbf16> loc("h")
    %view = nn.reshape %h : tensor<4x8xbf16> -> tensor<32xbf16> loc("view")
    %copy = nn.cast %view : tensor<32xbf16> -> tensor<32xf32> loc("copy")
    %back = nn.reshape %copy : tensor<32xf32> -> tensor<4x8xf32> loc("back")
    %b = nn.read @b : tensor<8x8xf32>
    %p = nn.matmul %back, %b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("p")
    %s = nn.reduce sum %p dims = [1] : tensor<4x8xf32> -> tensor<4xf32> loc("s")
    %means = nn.broadcast %s dims = [0] : tensor<4xf32> -> tensor<4x8xf32> loc("d")
    %d = nn.sub %p, %means : tensor<4x8xf32> loc("d")
    %e = nn.mul %d, %means : tensor<4x8xf32> loc("e")
    %q = nn.exp %e : tensor<4x8xf32> loc("last")
    %rows = nn.reduce sum %q dims = [1] : tensor<4x8xf32> -> tensor<4xf32> loc("last")
    %loss = nn.reduce sum %rows dims = [0] : tensor<4xf32> -> tensor<f32> loc("last")
    %de = nn.mul %q, %e : tensor<4x8xf32> loc("last")
    %dd = nn.mul %de, %d : tensor<4x8xf32> loc("d")
    %dp = nn.mul %dd, %e : tensor<4x8xf32> loc("e")
    %db = nn.matmul %back, %dp transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("p")
    %gb = nn.gradient %db of @b : tensor<8x8xf32>
    nn.write @b.gradient, %gb : tensor<8x8xf32>
    %dback = nn.matmul %dp, %b transpose_b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("p")
    %dcopy = nn.reshape %dback : tensor<4x8xf32> -> tensor<32xf32> loc("back")
    %dview = nn.mul %dcopy, %copy : tensor<32xf32> loc("copy")
    %dviewn = nn.cast %dview : tensor<32xf32> -> tensor<32xbf16> loc("copy")
    %dh = nn.reshape %dviewn : tensor<32xbf16> -> tensor<4x8xbf16> loc("view")
    %da = nn.matmul %x, %dh transpose_a : tensor<4x2xbf16>, tensor<4x8xbf16> -> tensor<2x8xbf16> loc("h")
    %ga = nn.gradient %da of @a : tensor<2x8xbf16>
    nn.write @a.gradient, %ga : tensor<2x8xbf16>
    %next = nn.add %number, %one : tensor<i64>
    nn.write @ashlar.micro_batch, %next : tensor<i64>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %zero = nn.constant dense<0> : tensor<i64>
    %a = nn.read @a : tensor<2x8xbf16>
    %ga = nn.read @a.gradient : tensor<2x8xbf16>
    %na = nn.sub %a, %ga : tensor<2x8xbf16>
    nn.write @a, %na : tensor<2x8xbf16>
    %b = nn.read @b : tensor<8x8xf32>
    %gb = nn.read @b.gradient : tensor<8x8xf32>
    %nb = nn.sub %b, %gb : tensor<8x8xf32>
    nn.write @b, %nb : tensor<8x8xf32>
    nn.write @ashlar.micro_batch, %zero : tensor<i64>
    return
  }
}
