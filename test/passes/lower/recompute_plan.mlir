// RUN: ashlar-opt %s -ashlar-plan-memory -ashlar-verify-exec | FileCheck %s

// A copy reads the old value of @w behind the kernel that makes the new one: that one has a place of its own, and goes into @w when the copy is done.

// CHECK: exec.tensor @w variable <arena, [[#W:]],
// CHECK: exec.tensor @d input <arena, [[#D:]],
// CHECK: exec.program @train_step
// CHECK-NEXT: exec.kernel @{{.*}} [#exec.buffer<arena, [[#W]], memref<4xf32>>, #exec.buffer<arena, [[#D]], memref<4xf32>>, #exec.buffer<arena, [[#N:]], memref<4xf32>>]
// CHECK-NEXT: exec.kernel @{{.*}} [#exec.buffer<arena, [[#W]], memref<2x2xf32>>, #exec.buffer<arena, {{.*}}] reads [0] writes [1]
// CHECK-NEXT: exec.copy <arena, [[#N]], memref<4xf32>> to <arena, [[#W]], memref<4xf32>>
// CHECK-NEXT: }
nn.variable @w trainable : tensor<4xf32>
func.func @train_step(%d: tensor<4xf32> {nn.name = "d"}) -> (tensor<2x2xf32> {nn.name = "g"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf32>
  %n = exec.fusion loop(%w, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %r = nn.sub %a, %b : tensor<4xf32>
    exec.yield %r : tensor<4xf32>
  }
  %t = dist.after %w, %d : tensor<4xf32>, tensor<4xf32>
  %v = nn.reshape %t : tensor<4xf32> -> tensor<2x2xf32>
  %g = exec.fusion loop(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%a: tensor<2x2xf32>):
    %r = nn.neg %a : tensor<2x2xf32>
    exec.yield %r : tensor<2x2xf32>
  }
  nn.write @w, %n : tensor<4xf32>
  return %g : tensor<2x2xf32>
}
