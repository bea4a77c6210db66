// RUN: ashlar-opt %s -split-input-file -ashlar-overlap-collectives | FileCheck %s

// A product that does not wait for the sum is computed while it is underway. Its copy of the backward pass comes after what takes the sum, by an operand
// that is there long before: it is not moved ahead, through views of it either.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
// CHECK-LABEL: @free
func.func @free(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  // CHECK: dist.all_reduce
  // CHECK-SAME: exec.overlap
  // CHECK-NEXT: exec.fusion gemm
  // CHECK: exec.await
  %s = dist.all_reduce sum %x over ["dp"] : tensor<512x512xf32>
  %n = exec.fusion loop(%s) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  %h = exec.fusion gemm(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.matmul %a, %a transpose_a : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %n, %h : tensor<512x512xf32>, tensor<512x512xf32>
}

// CHECK-LABEL: @tied
func.func @tied(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  // CHECK: %[[S:.*]] = dist.all_reduce
  // CHECK-NOT: exec.overlap
  // CHECK: %[[N:.*]] = exec.fusion loop(%[[S]])
  // CHECK: %[[X:.*]] = dist.after %{{.*}}, %[[N]]
  // CHECK: %[[V:.*]] = nn.reshape %[[X]]
  // CHECK-NEXT: exec.fusion gemm(%[[V]])
  %s = dist.all_reduce sum %x over ["dp"] : tensor<512x512xf32>
  %n = exec.fusion loop(%s) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  %t = dist.after %x, %n : tensor<512x512xf32>, tensor<512x512xf32>
  %v = nn.reshape %t : tensor<512x512xf32> -> tensor<512x512xf32>
  %h = exec.fusion gemm(%v) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.matmul %a, %a transpose_a : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %n, %h : tensor<512x512xf32>, tensor<512x512xf32>
}
}
