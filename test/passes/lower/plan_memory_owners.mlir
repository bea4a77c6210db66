// RUN: ashlar-opt %s -split-input-file -ashlar-plan-memory -ashlar-verify-exec | FileCheck %s

// What devices 0 and 1 keep alone begins at the same place, behind what all hold. A kernel, or a copy, of one device says so. The owner of @w
// computes its next value over the old one, and the broadcast is in place.

// CHECK: exec.tensor @w variable <arena, [[#W:]], memref<16xf32>>
// CHECK: exec.tensor @w.m state <arena, [[#OWNED:]], memref<16xf32>> {{.*}} {exec.owner = 1 : i64
// CHECK: exec.tensor @w.v state <arena, [[#OWNED + 64]], memref<16xf32>> {{.*}} {exec.owner = 1 : i64
// CHECK: exec.tensor @v.m state <arena, [[#OWNED]], memref<32xf32>> {{.*}} {exec.owner = 0 : i64
// CHECK: exec.tensor @g input <arena, [[#OWNED + 128]],
// CHECK: exec.program @train_step
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#W]], memref<16xf32>>, #exec.buffer<arena, [[#OWNED]], memref<16xf32>>] reads [0, 1] writes [1, 0] {{.*}} {exec.owner = 1 : i64}
// CHECK-NEXT: exec.collective broadcast <arena, [[#W]], memref<16xf32>> to <arena, [[#W]], memref<16xf32>> over [0] {{.*}} {root = 1 : i64}
// CHECK-NEXT: exec.copy <arena, {{.*}}> to <arena, [[#OWNED + 64]], memref<16xf32>> {exec.owner = 1 : i64}
// CHECK-NEXT: }
dist.mesh @mesh <["dp" = 2]>
nn.variable @w trainable : tensor<16xf32>
nn.variable @w.m state_of @w : tensor<16xf32> {dist.owner = 1 : i64}
nn.variable @w.v state_of @w : tensor<16xf32> {dist.owner = 1 : i64}
nn.variable @v trainable : tensor<32xf32>
nn.variable @v.m state_of @v : tensor<32xf32> {dist.owner = 0 : i64}
func.func @train_step(%g: tensor<16xf32> {nn.name = "g"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<16xf32>
  %m = nn.read @w.m : tensor<16xf32>
  %n:2 = exec.fusion loop(%w, %m) : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
    %r = nn.mul %a, %b : tensor<16xf32>
    %s = nn.sub %a, %r : tensor<16xf32>
    exec.yield %r, %s : tensor<16xf32>, tensor<16xf32>
  }
  nn.write @w.m, %n#0 {dist.owner = 1 : i64} : tensor<16xf32>
  %p = dist.broadcast %n#1 root = 1 over ["dp"] {dist.owner = 1 : i64} : tensor<16xf32>
  nn.write @w, %p : tensor<16xf32>
  nn.write @w.v, %g {dist.owner = 1 : i64} : tensor<16xf32>
  return
}

// -----

// All devices wait for a collective, even where one of them alone has a use for the sum.

// CHECK-LABEL: exec.tensor @h input
// CHECK: exec.collective all_reduce {{.*}} token 1
// CHECK-NEXT: exec.wait 1{{$}}
// CHECK-NEXT: exec.copy {{.*}} {exec.owner = 1 : i64}
dist.mesh @mesh <["dp" = 2]>
nn.variable @w trainable : tensor<16xf32>
nn.variable @w.m state_of @w : tensor<16xf32> {dist.owner = 1 : i64}
func.func @train_step(%h: tensor<16xf32> {nn.name = "h"}) attributes {nn.program = #nn.program<train_step>} {
  %s = dist.all_reduce sum %h over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 9, hidden_ns = 9>} : tensor<16xf32>
  %t = exec.await %s : tensor<16xf32>
  nn.write @w.m, %t {dist.owner = 1 : i64} : tensor<16xf32>
  return
}
