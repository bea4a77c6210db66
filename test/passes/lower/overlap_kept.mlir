// RUN: ashlar-opt %s -split-input-file -ashlar-overlap-collectives | FileCheck %s

// Gathers that become the values of variables take no further bytes: both start at once. Where they do not, the second one waits until the
// first one is used.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [2000], beside = [0]>}
nn.variable @a : tensor<256x512xf32>
nn.variable @b : tensor<256x512xf32>
nn.variable @a.all : tensor<512x512xf32>
nn.variable @b.all : tensor<512x512xf32>
// CHECK-LABEL: @kept
// CHECK: dist.all_gather
// CHECK-NOT: exec.fusion
// CHECK: dist.all_gather
// CHECK-NEXT: exec.fusion
func.func @kept(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %a = nn.read @a : tensor<256x512xf32>
  %b = nn.read @b : tensor<256x512xf32>
  %ga = dist.all_gather %a dim = 0 over ["dp"] : tensor<256x512xf32> -> tensor<512x512xf32>
  nn.write @a.all, %ga : tensor<512x512xf32>
  %gb = dist.all_gather %b dim = 0 over ["dp"] : tensor<256x512xf32> -> tensor<512x512xf32>
  nn.write @b.all, %gb : tensor<512x512xf32>
  %0 = exec.fusion gemm(%x, %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%l: tensor<512x512xf32>, %r: tensor<512x512xf32>):
    %p = nn.matmul %l, %r : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %p : tensor<512x512xf32>
  }
  %1 = exec.fusion gemm(%0, %ga) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%l: tensor<512x512xf32>, %r: tensor<512x512xf32>):
    %p = nn.matmul %l, %r : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %p : tensor<512x512xf32>
  }
  %2 = exec.fusion gemm(%1, %gb) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%l: tensor<512x512xf32>, %r: tensor<512x512xf32>):
    %p = nn.matmul %l, %r : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %p : tensor<512x512xf32>
  }
  return %2 : tensor<512x512xf32>
}
}

// -----

module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [2000], beside = [0]>}
nn.variable @a : tensor<256x512xf32>
nn.variable @b : tensor<256x512xf32>
// CHECK-LABEL: @temporary
// CHECK: dist.all_gather
// CHECK-NEXT: exec.fusion
// CHECK: dist.all_gather
func.func @temporary(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %a = nn.read @a : tensor<256x512xf32>
  %b = nn.read @b : tensor<256x512xf32>
  %ga = dist.all_gather %a dim = 0 over ["dp"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %gb = dist.all_gather %b dim = 0 over ["dp"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %0 = exec.fusion gemm(%x, %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%l: tensor<512x512xf32>, %r: tensor<512x512xf32>):
    %p = nn.matmul %l, %r : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %p : tensor<512x512xf32>
  }
  %1 = exec.fusion gemm(%0, %ga) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%l: tensor<512x512xf32>, %r: tensor<512x512xf32>):
    %p = nn.matmul %l, %r : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %p : tensor<512x512xf32>
  }
  %2 = exec.fusion gemm(%1, %gb) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%l: tensor<512x512xf32>, %r: tensor<512x512xf32>):
    %p = nn.matmul %l, %r : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %p : tensor<512x512xf32>
  }
  return %2 : tensor<512x512xf32>
}
}
