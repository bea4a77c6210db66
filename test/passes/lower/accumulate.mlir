// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{gemm-flops=1},ashlar-order-ops,ashlar-fuse),ashlar-plan-memory)' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{gemm-flops=1 target=cuda},ashlar-order-ops,ashlar-fuse{target=cuda}),ashlar-plan-memory{target=cuda})' | FileCheck %s

// Products are added up where the first one lies, and the last one, an output, in a copy of it: no kernel adds.
// CHECK-LABEL: exec.program @three
// CHECK: exec.gemm [{{.*}}, #exec.buffer<arena, [[#OUT:]], memref<16x16xf32>>] batch 1 m 16 n 16 k 8 epilogue none
// CHECK-NEXT: exec.gemm [{{.*}}, #exec.buffer<arena, [[#OUT]], memref<16x16xf32>>] batch 1 m 16 n 16 k 8 accumulate epilogue none
// CHECK-NEXT: exec.copy <arena, [[#OUT]], memref<16x16xf32>> to <arena, [[#LAST:]], memref<16x16xf32>>
// CHECK-NEXT: exec.gemm [{{.*}}, #exec.buffer<arena, [[#LAST]], memref<16x16xf32>>] batch 1 m 16 n 16 k 8 transpose_b accumulate epilogue relu
// CHECK-NOT: exec.kernel @

func.func @three(%a: tensor<16x8xf32> {nn.name = "a"}, %b: tensor<8x16xf32> {nn.name = "b"}, %c: tensor<16x8xf32> {nn.name = "c"}) -> (tensor<16x16xf32> {nn.name = "out"}) {
  %p = nn.matmul %a, %b : tensor<16x8xf32>, tensor<8x16xf32> -> tensor<16x16xf32>
  %q = nn.matmul %c, %b : tensor<16x8xf32>, tensor<8x16xf32> -> tensor<16x16xf32>
  %s = nn.add %p, %q : tensor<16x16xf32>
  %r = nn.matmul %a, %c transpose_b : tensor<16x8xf32>, tensor<16x8xf32> -> tensor<16x16xf32>
  %t = nn.add %r, %s : tensor<16x16xf32>
  %u = nn.relu %t : tensor<16x16xf32>
  return %u : tensor<16x16xf32>
}

// -----

// A tensor that something else reads stays, and so does an input; a sum of bf16 is rounded once, behind the addition.
// CHECK-LABEL: exec.program @kept
// CHECK-NOT: accumulate

func.func @kept(%a: tensor<16x8xf32> {nn.name = "a"}, %b: tensor<8x16xf32> {nn.name = "b"}, %x: tensor<16x16xf32> {nn.name = "x"}, %n: tensor<16x8xbf16> {nn.name = "n"}, %m: tensor<8x16xbf16> {nn.name = "m"}, %k: tensor<16x16xbf16> {nn.name = "k"})
    -> (tensor<16x16xf32> {nn.name = "out0"}, tensor<16x16xf32> {nn.name = "out1"}, tensor<16x16xf32> {nn.name = "out2"}, tensor<16x16xbf16> {nn.name = "out3"}) {
  %p = nn.matmul %a, %b : tensor<16x8xf32>, tensor<8x16xf32> -> tensor<16x16xf32>
  %y = nn.add %p, %x : tensor<16x16xf32>
  %e = nn.exp %x : tensor<16x16xf32>
  %c = nn.cos %e : tensor<16x16xf32>
  %z = nn.matmul %a, %b : tensor<16x8xf32>, tensor<8x16xf32> -> tensor<16x16xf32>
  %s = nn.add %z, %e : tensor<16x16xf32>
  %w = nn.matmul %n, %m : tensor<16x8xbf16>, tensor<8x16xbf16> -> tensor<16x16xbf16>
  %g = nn.tanh %k : tensor<16x16xbf16>
  %v = nn.add %w, %g : tensor<16x16xbf16>
  return %y, %c, %s, %v : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xbf16>
}
