// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-compute-in-blocks{least-bytes=2048 least-rows=1 time-share=10}))' | FileCheck %s

// Two products of 32768 operations, and two a number of the logits: 69.6 us, of which 10 % is 7.0 us. A block more has two messages of 1.5 us more: two
// blocks in place of four.

// CHECK-LABEL: func.func @fewer
// CHECK-COUNT-2: dist.all_reduce {{.*}} : tensor<32xf32>
// CHECK-NOT: dist.all_reduce

module attributes {dist.device = #dist.device<flops_per_us = 1000, narrow_flops_per_us = 1000, bytes_per_us = 1000000>} {
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1500], bytes_per_us = [1000000]>}
func.func @fewer(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %m = nn.reduce max %s dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %n = dist.all_reduce max %m over ["tp"] : tensor<64xf32>
  %b = nn.broadcast %n dims = [0] : tensor<64xf32> -> tensor<64x32xf32>
  %e = nn.sub %s, %b : tensor<64x32xf32>
  %dw = nn.matmul %x, %e transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  return %dw : tensor<8x32xf32>
}
}

// -----

// Messages of 4 us: none; launches of 4 us, one for each product: none either.

// CHECK-LABEL: func.func @far
// CHECK-NOT: nn.slice

module attributes {dist.device = #dist.device<flops_per_us = 1000, narrow_flops_per_us = 1000, bytes_per_us = 1000000>} {
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [4000], bytes_per_us = [1000000]>}
func.func @far(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %m = nn.reduce max %s dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %n = dist.all_reduce max %m over ["tp"] : tensor<64xf32>
  %b = nn.broadcast %n dims = [0] : tensor<64xf32> -> tensor<64x32xf32>
  %e = nn.sub %s, %b : tensor<64x32xf32>
  %dw = nn.matmul %x, %e transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  return %dw : tensor<8x32xf32>
}
}

// -----

// CHECK-LABEL: func.func @launched
// CHECK-NOT: nn.slice

module attributes {dist.device = #dist.device<flops_per_us = 1000, narrow_flops_per_us = 1000, bytes_per_us = 1000000, launch_ns = 4000>} {
dist.mesh @mesh <["tp" = 2]>
func.func @launched(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %m = nn.reduce max %s dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %n = dist.all_reduce max %m over ["tp"] : tensor<64xf32>
  %b = nn.broadcast %n dims = [0] : tensor<64xf32> -> tensor<64x32xf32>
  %e = nn.sub %s, %b : tensor<64x32xf32>
  %dw = nn.matmul %x, %e transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  return %dw : tensor<8x32xf32>
}
}

// -----

// A product of f32 is added to the sum of the blocks before, whose memory takes less time than the product; sums of f64 are added by kernels.

// CHECK-LABEL: func.func @in_place
// CHECK-COUNT-2: nn.relu {{.*}} : tensor<32x16xf32>
// CHECK-LABEL: func.func @apart
// CHECK-NOT: nn.slice

module attributes {dist.device = #dist.device<flops_per_us = 1000, narrow_flops_per_us = 1000, bytes_per_us = 700>} {
func.func @in_place(%x: tensor<64x8xf32>, %w: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x16xf32> -> tensor<64x16xf32>
  %e = nn.relu %s : tensor<64x16xf32>
  %dw = nn.matmul %x, %e transpose_a : tensor<64x8xf32>, tensor<64x16xf32> -> tensor<8x16xf32>
  return %dw : tensor<8x16xf32>
}

func.func @apart(%x: tensor<64x8xf64>, %w: tensor<8x16xf64>) -> tensor<8x16xf64> {
  %s = nn.matmul %x, %w : tensor<64x8xf64>, tensor<8x16xf64> -> tensor<64x16xf64>
  %e = nn.relu %s : tensor<64x16xf64>
  %dw = nn.matmul %x, %e transpose_a : tensor<64x8xf64>, tensor<64x16xf64> -> tensor<8x16xf64>
  return %dw : tensor<8x16xf64>
}
}
