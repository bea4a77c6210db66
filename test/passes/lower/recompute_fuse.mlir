// RUN: ashlar-opt %s -split-input-file -canonicalize -cse -ashlar-order-ops -ashlar-fuse | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -canonicalize -cse -ashlar-order-ops -ashlar-fuse -ashlar-plan-memory -ashlar-verify-exec | FileCheck %s --check-prefix=PLAN

// The copy of %h and what takes it are one kernel, which is not that of %h: between them stands the product that the copy comes after. The tie makes no
// instruction: the kernel reads x where it is, and what fuses with it is not kept in memory.

// CHECK-LABEL: func.func @train_step(
// CHECK: %[[X:.*]] = exec.fusion gemm
// CHECK: %[[H:.*]] = exec.fusion loop(%[[X]])
// CHECK: %[[Y:.*]] = exec.fusion gemm(%[[H]],
// CHECK: %[[D:.*]] = exec.fusion gemm(%[[Y]],
// CHECK: %[[T:.*]] = dist.after %[[X]], %[[D]]
// CHECK-NEXT: exec.fusion loop(%[[T]], %[[D]])
// CHECK: nn.exp
// CHECK: nn.mul
// CHECK-NOT: exec.fusion
// CHECK: return

// PLAN: exec.tensor @w input <arena, [[#W:]],
// PLAN: exec.program @train_step
// PLAN-NEXT: exec.gemm [{{.*}}, {{.*}}, #exec.buffer<arena, [[#X:]], memref<256x256xf32>>] batch
// PLAN-NEXT: exec.kernel @{{.*}} [#exec.buffer<arena, [[#X]], memref<256x256xf32>>, #exec.buffer<arena, [[#H:]], memref<256x256xf32>>]
// PLAN-NEXT: exec.gemm [#exec.buffer<arena, [[#H]], {{.*}} #exec.buffer<arena, [[#Y:]], memref<256x256xf32>>] batch
// PLAN-NEXT: exec.gemm [#exec.buffer<arena, [[#Y]], {{.*}} #exec.buffer<arena, [[#H]], memref<256x256xf32>>] batch
// PLAN-NEXT: exec.kernel @{{.*}} [#exec.buffer<arena, [[#X]], memref<256x256xf32>>, #exec.buffer<arena, [[#H]], memref<256x256xf32>>,
// PLAN-NEXT: }
func.func @train_step(%in: tensor<256x256xf32> {nn.name = "in"}, %w: tensor<256x256xf32> {nn.name = "w"}) -> (tensor<256x256xf32> {nn.name = "g"}) attributes {nn.program = #nn.program<train_step>} {
  %x = nn.matmul %in, %w : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  %h = nn.exp %x : tensor<256x256xf32>
  %y = nn.matmul %h, %w : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  %d = nn.matmul %y, %w transpose_b : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  %t = dist.after %x, %d : tensor<256x256xf32>, tensor<256x256xf32>
  %h2 = nn.exp %t : tensor<256x256xf32>
  %g = nn.mul %d, %h2 : tensor<256x256xf32>
  return %g : tensor<256x256xf32>
}

// -----

// The order has the event ahead of the copy, though the copy is all of constants and parameters and nothing else asks for it.

// CHECK-LABEL: func.func @parameter
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[D:.*]] = exec.fusion gemm
// CHECK: %[[T:.*]] = dist.after %[[W]], %[[D]]
// CHECK: exec.fusion gemm(%{{.*}}, %[[T]])

// The copy reads the old value of @w; then the new one is computed over it.
// PLAN: exec.tensor @w variable <arena, [[#W:]],
// PLAN: exec.program @parameter
// PLAN: exec.gemm
// PLAN: exec.gemm {{.*}}#exec.buffer<arena, [[#W]],
// PLAN-NEXT: exec.kernel {{.*}}#exec.buffer<arena, [[#W]],{{.*}} writes [0]
// PLAN-NEXT: }
nn.variable @w trainable : tensor<256x256xf32>
func.func @parameter(%x: tensor<256x256xf32> {nn.name = "x"}) -> (tensor<256x256xf32> {nn.name = "g"}) {
  %w = nn.read @w : tensor<256x256xf32>
  %d = nn.matmul %x, %x : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  %n = nn.sub %w, %d : tensor<256x256xf32>
  nn.write @w, %n : tensor<256x256xf32>
  %t = dist.after %w, %d : tensor<256x256xf32>, tensor<256x256xf32>
  %g = nn.matmul %d, %t transpose_b : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  return %g : tensor<256x256xf32>
}
