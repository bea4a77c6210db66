// RUN: ashlar-opt %s -split-input-file -ashlar-plan-memory -ashlar-verify-exec | FileCheck %s

// The new value of a variable is computed over the old one: the kernel has one buffer for both, and nothing is copied.
// CHECK: exec.variant @default arena [[#ARENA:]]
// CHECK-SAME: lower_bound_bytes = [[#ARENA]]
// CHECK: exec.tensor @w variable <arena, [[#W:]], memref<4xf32>>
// CHECK: exec.tensor @g input <arena, [[#G:]], memref<4xf32>>
// CHECK: exec.program @train_step inputs [@g] outputs []
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#W]], memref<4xf32>>, #exec.buffer<arena, [[#G]], memref<4xf32>>]
// CHECK-SAME: reads [0, 1] writes [0] extent 4
// CHECK-NEXT: }
// CHECK: func.func @loop_0(%{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32>, %{{.*}}: index, %{{.*}}: index)
// CHECK-NOT: nn.variable
nn.variable @w trainable : tensor<4xf32>
func.func @train_step(%g: tensor<4xf32> {nn.name = "g"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf32>
  %next = exec.fusion loop(%w, %g) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %r = nn.sub %a, %b : tensor<4xf32>
    exec.yield %r : tensor<4xf32>
  }
  nn.write @w, %next : tensor<4xf32>
  return
}

// -----

// The old value is still returned, so the new one has a place of its own and goes into the variable after the output was copied.
// CHECK: exec.tensor @w variable <arena, [[#W:]], memref<4xf32>>
// CHECK: exec.tensor @old output <arena, [[#OLD:]], memref<4xf32>>
// CHECK: exec.kernel @loop_0 [#exec.buffer<arena, [[#W]], memref<4xf32>>, #exec.buffer<arena, [[#TMP:]], memref<4xf32>>]
// CHECK-NEXT: exec.copy <arena, [[#W]], memref<4xf32>> to <arena, [[#OLD]], memref<4xf32>>
// CHECK-NEXT: exec.copy <arena, [[#TMP]], memref<4xf32>> to <arena, [[#W]], memref<4xf32>>
nn.variable @w trainable : tensor<4xf32>
func.func @train_step() -> (tensor<4xf32> {nn.name = "old"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf32>
  %next = exec.fusion loop(%w) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = nn.neg %a : tensor<4xf32>
    exec.yield %r : tensor<4xf32>
  }
  nn.write @w, %next : tensor<4xf32>
  return %w : tensor<4xf32>
}

// -----

// Two variables swap their values: each goes through a temporary.
// CHECK: exec.tensor @a variable <arena, [[#A:]], memref<2xf32>>
// CHECK: exec.tensor @b variable <arena, [[#B:]], memref<2xf32>>
// CHECK: exec.copy <arena, [[#B]], memref<2xf32>> to <arena, [[#OLDB:]], memref<2xf32>>
// CHECK-NEXT: exec.copy <arena, [[#A]], memref<2xf32>> to <arena, [[#OLDA:]], memref<2xf32>>
// CHECK-NEXT: exec.copy <arena, [[#OLDB]], memref<2xf32>> to <arena, [[#A]], memref<2xf32>>
// CHECK-NEXT: exec.copy <arena, [[#OLDA]], memref<2xf32>> to <arena, [[#B]], memref<2xf32>>
nn.variable @a : tensor<2xf32>
nn.variable @b : tensor<2xf32>
func.func @swap() {
  %a = nn.read @a : tensor<2xf32>
  %b = nn.read @b : tensor<2xf32>
  nn.write @a, %b : tensor<2xf32>
  nn.write @b, %a : tensor<2xf32>
  return
}

// -----

// Element-wise ops in a row work in place; the last one computes into the output. Equal fusions share a kernel, whatever
// their tensors are called; others have their own.
// CHECK: exec.tensor @x input <arena, [[#X:]], memref<8xf32>>
// CHECK: exec.tensor @y output <arena, [[#Y:]], memref<8xf32>>
// CHECK: exec.kernel @loop_0 [#exec.buffer<arena, [[#X]], memref<8xf32>>, #exec.buffer<arena, [[#T:]], memref<8xf32>>] reads [0] writes [1]
// CHECK-NEXT: exec.kernel @loop_1 [#exec.buffer<arena, [[#T]], memref<8xf32>>]
// CHECK-NEXT: exec.kernel @loop_1 [#exec.buffer<arena, [[#T]], memref<8xf32>>]
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#T]], memref<8xf32>>, #exec.buffer<arena, [[#Y]], memref<8xf32>>]
// CHECK-NEXT: }
// CHECK-COUNT-2: func.func @loop_
// CHECK-NOT: func.func
func.func @forward(%x: tensor<8xf32> {nn.name = "x"}) -> (tensor<8xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %0 = exec.fusion loop(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %r = nn.relu %a : tensor<8xf32>
    exec.yield %r : tensor<8xf32>
  }
  %1 = exec.fusion loop(%0) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %r = nn.exp %a {nn.outputs = ["first"]} : tensor<8xf32>
    exec.yield %r : tensor<8xf32>
  }
  %2 = exec.fusion loop(%1) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %r = nn.exp %a : tensor<8xf32>
    exec.yield %r : tensor<8xf32>
  }
  %3 = exec.fusion loop(%2) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %r = nn.relu %a : tensor<8xf32>
    exec.yield %r : tensor<8xf32>
  }
  return %3 : tensor<8xf32>
}

// -----

// A matrix product with bias and activation is one library call; its result never overwrites an operand.
// CHECK: exec.gemm [#exec.buffer<arena, [[#X:]], memref<64x32xf32>>, #exec.buffer<arena, {{.*}}, memref<16x32xf32>>, #exec.buffer<arena, {{.*}}, memref<16xf32>>, #exec.buffer<arena, {{.*}}, memref<64x16xf32>>]
// CHECK-SAME: batch 1 m 64 n 16 k 32 transpose_b bias epilogue relu
func.func @forward(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<16x32xf32> {nn.name = "w"}, %b: tensor<16xf32> {nn.name = "b"})
    -> (tensor<64x16xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %y = exec.fusion gemm(%x, %w, %b) : (tensor<64x32xf32>, tensor<16x32xf32>, tensor<16xf32>) -> tensor<64x16xf32> {
  ^bb0(%a: tensor<64x32xf32>, %c: tensor<16x32xf32>, %d: tensor<16xf32>):
    %p = nn.matmul %a, %c transpose_b : tensor<64x32xf32>, tensor<16x32xf32> -> tensor<64x16xf32>
    %e = nn.broadcast %d dims = [1] : tensor<16xf32> -> tensor<64x16xf32>
    %s = nn.add %p, %e : tensor<64x16xf32>
    %r = nn.relu %s : tensor<64x16xf32>
    exec.yield %r : tensor<64x16xf32>
  }
  return %y : tensor<64x16xf32>
}

// -----

// An all-reduce overwrites a temporary that dies, but not an input. An index along two axes is computed from those along one, which the
// runtime leaves at the front of the arena.
// CHECK: exec.variant @default
// CHECK-SAME: axis_names = ["dp", "tp"], axis_sizes = array<i64: 2, 3>
// CHECK-SAME: coordinates_offset = 0
// CHECK: exec.tensor @x input <arena, [[#X:]], memref<4xf32>> global [8] splits [array<i64: 0>]
// CHECK: exec.tensor @sum output <arena, [[#SUM:]], memref<4xf32>>
// CHECK: exec.tensor @index output <arena, [[#INDEX:]], memref<i64>>
// CHECK: exec.kernel @loop_0 [#exec.buffer<arena, 0, memref<i64>>, #exec.buffer<arena, 8, memref<i64>>, #exec.buffer<arena, [[#INDEX]], memref<i64>>]
// CHECK: exec.collective all_reduce <arena, [[#X]], memref<4xf32>> to <arena, [[#T:]], memref<4xf32>> over [0] reduction sum
// CHECK-SAME: cause [#dist.end<kind = op, name = "first">]
// CHECK: exec.collective all_reduce <arena, [[#T]], memref<4xf32>> to <arena, [[#T]], memref<4xf32>> over [1, 0] reduction max
// CHECK: exec.collective broadcast <arena, [[#T]], memref<4xf32>> to <arena, [[#COPY:]], memref<4xf32>> over [1] {{.*}}root = 2
// CHECK: exec.collective all_reduce <arena, [[#COPY]], memref<4xf32>> to <arena, [[#SUM]], memref<4xf32>> over [1] reduction sum
dist.mesh @mesh <["dp" = 2, "tp" = 3]>
func.func @forward(%x: tensor<4xf32> {nn.name = "x", dist.layout = #dist.layout<[{"dp"}]>, dist.global_type = tensor<8xf32>})
    -> (tensor<4xf32> {nn.name = "sum"}, tensor<i64> {nn.name = "index"}) attributes {nn.program = #nn.program<run>} {
  %i = dist.axis_index over ["dp", "tp"] : tensor<i64>
  %0 = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = op, name = "first">]} : tensor<4xf32>
  %1 = dist.all_reduce max %0 over ["tp", "dp"] : tensor<4xf32>
  %b = dist.broadcast %1 root = 2 over ["tp"] : tensor<4xf32>
  %2 = dist.all_reduce sum %b over ["tp"] : tensor<4xf32>
  return %2, %i : tensor<4xf32>, tensor<i64>
}

// -----

// Constants are kept once for all programs; a large splat that is stored is computed instead.
// CHECK: exec.tensor @big variable <arena, [[#BIG:]], memref<128xf32>>
// CHECK: exec.tensor @a variable <arena, [[#A:]], memref<2xf32>>
// CHECK: exec.tensor @b variable <arena, [[#B:]], memref<2xf32>>
// CHECK: exec.program @init
// CHECK-DAG: exec.kernel @loop_0 [#exec.buffer<arena, [[#BIG]], memref<128xf32>>] reads [] writes [0] extent 128
// CHECK-DAG: exec.copy <constant, [[#C:]], memref<2xf32>> to <arena, [[#A]], memref<2xf32>>
// CHECK-DAG: exec.copy <constant, [[#C]], memref<2xf32>> to <arena, [[#B]], memref<2xf32>>
// CHECK: exec.program @forward
// CHECK: exec.copy <constant, [[#C]], memref<2xf32>>
// CHECK: exec.constant at [[#C]] = dense<[1.000000e+00, 2.000000e+00]>
// CHECK-NOT: exec.constant
nn.variable @big trainable : tensor<128xf32>
nn.variable @a trainable : tensor<2xf32>
nn.variable @b trainable : tensor<2xf32>
func.func @init() attributes {nn.program = #nn.program<init>} {
  %s = nn.constant dense<0.5> : tensor<128xf32>
  nn.write @big, %s : tensor<128xf32>
  %0 = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  nn.write @a, %0 : tensor<2xf32>
  nn.write @b, %1 : tensor<2xf32>
  return
}
func.func @forward() -> (tensor<2xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %0 = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// Programs share inputs and outputs of one name. A tensor with the name of a program or of another tensor gets another symbol.
// CHECK: exec.tensor @f.input input
// CHECK-SAME: {outside_name = "f"}
// CHECK: exec.tensor @y output
// CHECK-NOT: exec.tensor
// CHECK: exec.program @f inputs [@f.input] outputs [@y]
// CHECK: exec.program @g inputs [@f.input] outputs [@y]
func.func @f(%x: tensor<2xf32> {nn.name = "f"}) -> (tensor<2xf32> {nn.name = "y"}) {
  return %x : tensor<2xf32>
}
func.func @g(%x: tensor<2xf32> {nn.name = "f"}) -> (tensor<2xf32> {nn.name = "y"}) {
  return %x : tensor<2xf32>
}

// -----

// A reshape between instructions moves nothing: the collective works on the bytes of the kernel's result.
// CHECK: exec.tensor @y output <arena, [[#Y:]], memref<4xf32>>
// CHECK: exec.kernel @loop_0 [{{.*}}, #exec.buffer<arena, [[#T:]], memref<2x2xf32>>]
// CHECK-NEXT: exec.collective all_reduce <arena, [[#T]], memref<4xf32>> to <arena, [[#Y]], memref<4xf32>>
// CHECK-NEXT: }
dist.mesh @mesh <["dp" = 2]>
func.func @forward(%x: tensor<2x2xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %0 = exec.fusion loop(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%a: tensor<2x2xf32>):
    %r = nn.relu %a : tensor<2x2xf32>
    exec.yield %r : tensor<2x2xf32>
  }
  %1 = nn.reshape %0 : tensor<2x2xf32> -> tensor<4xf32>
  %2 = dist.all_reduce sum %1 over ["dp"] : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// A permute names who sends to whom, source before target; the ranks of the mesh points stand on the variant.
// CHECK: exec.variant @default
// CHECK-SAME: device_ids = array<i64: 1, 0>
// CHECK: exec.collective permute <arena, {{[0-9]+}}, memref<4xf32>> to <arena, {{[0-9]+}}, memref<4xf32>> over [0] reduction sum split 0 concat 0 cause [#dist.end<kind = op, name = "fc1">] pairs [1, 0, 0, 1]
dist.mesh @mesh <["dp" = 2]> {device_ids = array<i64: 1, 0>}
func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %0 = dist.permute %x sources = [1, 0] over ["dp"] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What a collective that runs beside others reads stays as it is until it is waited for: the kernel between the two does not overwrite %g,
// though nothing else reads it later. The sum is in the place of its operand where nothing else reads that.
// CHECK: exec.kernel @loop_0 [{{.*}}, #exec.buffer<arena, [[#G:]], memref<64xf32>>]
// CHECK-NEXT: exec.collective all_reduce <arena, [[#G]], memref<64xf32>> to <arena, [[#S:]], memref<64xf32>> over [0] {{.*}} token 1 {overlap =
// CHECK-NEXT: exec.kernel @{{.*}} [#exec.buffer<arena, [[#G]], memref<64xf32>>, #exec.buffer<arena, [[#H:]], memref<64xf32>>] reads [0] writes [1]
// CHECK-NEXT: exec.collective all_reduce <arena, [[#H]], memref<64xf32>> to <arena, [[#H]], memref<64xf32>> over [0] {{.*}} token 2
// CHECK-NEXT: exec.wait 1
// CHECK-NEXT: exec.wait 2
dist.mesh @mesh <["dp" = 2]>
func.func @step(%x: tensor<64xf32> {nn.name = "x"}) -> (tensor<64xf32> {nn.name = "y"}) {
  %g = exec.fusion loop(%x) : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<64xf32>):
    %r = nn.neg %a : tensor<64xf32>
    exec.yield %r : tensor<64xf32>
  }
  %s = dist.all_reduce sum %g over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 2, hidden_ns = 1>} : tensor<64xf32>
  %h = exec.fusion loop(%g) : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<64xf32>):
    %r = nn.exp %a : tensor<64xf32>
    exec.yield %r : tensor<64xf32>
  }
  %t = dist.all_reduce sum %h over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 2, hidden_ns = 1>} : tensor<64xf32>
  %sum = exec.await %s : tensor<64xf32>
  %other = exec.await %t : tensor<64xf32>
  %y = exec.fusion loop(%sum, %other) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<64xf32>, %b: tensor<64xf32>):
    %r = nn.add %a, %b : tensor<64xf32>
    exec.yield %r : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

// A variable that a collective beside others still reads gets its new value by a copy at the end.
// CHECK: exec.tensor @w variable <arena, [[#W:]], memref<64xf32>>
// CHECK: exec.collective all_gather <arena, [[#W]], memref<64xf32>> to
// CHECK-NEXT: exec.kernel @{{.*}} [#exec.buffer<arena, [[#W]], memref<64xf32>>, #exec.buffer<arena, [[#NEW:]], memref<64xf32>>] reads [0] writes [1]
// CHECK: exec.wait 1
// CHECK: exec.copy <arena, [[#NEW]], memref<64xf32>> to <arena, [[#W]], memref<64xf32>>
dist.mesh @mesh <["dp" = 2]>
nn.variable @w trainable : tensor<64xf32>
func.func @gathered() -> (tensor<128xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<64xf32>
  %s = dist.all_gather %w dim = 0 over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 2, hidden_ns = 1>} : tensor<64xf32> -> tensor<128xf32>
  %n = exec.fusion loop(%w) : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<64xf32>):
    %r = nn.neg %a : tensor<64xf32>
    exec.yield %r : tensor<64xf32>
  }
  nn.write @w, %n : tensor<64xf32>
  %y = exec.await %s : tensor<128xf32>
  return %y : tensor<128xf32>
}

// -----

// Members, or the network, read operands of collectives where the arena is: constants are put there.
// CHECK-LABEL: exec.program @gathered_constants
// CHECK: exec.kernel @{{.*}} [#exec.buffer<constant, 0, memref<2xi64>>, #exec.buffer<arena, [[#TABLE:]], memref<2xi64>>]
// CHECK: exec.collective all_gather <arena, [[#TABLE]], memref<2xi64>>
// CHECK: exec.kernel @{{.*}} [#exec.buffer<arena, [[#SPLAT:]], memref<2xi64>>] reads [] writes [0]
// CHECK: exec.collective all_gather <arena, [[#SPLAT]], memref<2xi64>>
dist.mesh @mesh <["x" = 2]>
func.func @gathered_constants() -> (tensor<4xi64> {nn.name = "y"}, tensor<4xi64> {nn.name = "z"}) {
  %table = nn.constant dense<[3, 4]> : tensor<2xi64>
  %splat = nn.constant dense<7> : tensor<2xi64>
  %y = dist.all_gather %table dim = 0 over ["x"] : tensor<2xi64> -> tensor<4xi64>
  %z = dist.all_gather %splat dim = 0 over ["x"] : tensor<2xi64> -> tensor<4xi64>
  return %y, %z : tensor<4xi64>, tensor<4xi64>
}
