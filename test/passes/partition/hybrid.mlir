// RUN: ashlar-opt %s -split-input-file -ashlar-lift-hybrid -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -canonicalize -ashlar-simplify-collectives -ashlar-verify-partitioned | FileCheck %s

// What goes in comes out, although sums of sums could be one, a sum over slow links could go by the fast ones, a gather could undo a scatter,
// and a slice could have come before the gather.
// CHECK-LABEL: func.func @kept
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
// CHECK-NEXT: %[[A:.*]] = nn.reduce sum %[[X]] dims = [0] : tensor<4x6xf32> -> tensor<6xf32>
// CHECK-NEXT: %[[B:.*]] = dist.all_reduce sum %[[A]] over ["dp"]
// CHECK-NEXT: %[[C:.*]] = nn.exp %[[X]]
// CHECK-NEXT: %[[D:.*]] = nn.reduce sum %[[C]]
// CHECK-NEXT: %[[E:.*]] = dist.all_reduce sum %[[D]] over ["dp"]
// CHECK-NEXT: %[[F:.*]] = nn.add %[[B]], %[[E]] : tensor<6xf32>
// CHECK-NEXT: %[[G:.*]] = nn.reduce sum %[[F]] dims = [0]
// CHECK-NEXT: return %[[F]], %[[G]]
dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000]>}
func.func @kept(%x: tensor<4x6xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<6xf32>, tensor<f32>) {
  %0 = nn.reduce sum %x dims = [0] : tensor<4x6xf32> -> tensor<6xf32>
  %1 = dist.all_reduce sum %0 over ["dp"] : tensor<6xf32>
  %2 = nn.exp %x : tensor<4x6xf32>
  %3 = nn.reduce sum %2 dims = [0] : tensor<4x6xf32> -> tensor<6xf32>
  %4 = dist.all_reduce sum %3 over ["dp"] : tensor<6xf32>
  %5 = nn.add %1, %4 : tensor<6xf32>
  %6 = nn.reduce sum %5 dims = [0] : tensor<6xf32> -> tensor<f32>
  return %5, %6 : tensor<6xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @there_and_back
// CHECK-NEXT: nn.reduce sum
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum %{{.*}} dim = 0 over ["dp"] {{.*}} : tensor<6xf32> -> tensor<3xf32>
// CHECK-NEXT: %[[G:.*]] = dist.all_gather %[[S]] dim = 0 over ["dp"]
// CHECK-NEXT: dist.broadcast %[[G]] root = 1 over ["dp"]
func.func @there_and_back(%x: tensor<4x6xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<6xf32> {
  %0 = nn.reduce sum %x dims = [0] : tensor<4x6xf32> -> tensor<6xf32>
  %1 = dist.reduce_scatter sum %0 dim = 0 over ["dp"] : tensor<6xf32> -> tensor<3xf32>
  %2 = dist.all_gather %1 dim = 0 over ["dp"] : tensor<3xf32> -> tensor<6xf32>
  %3 = dist.broadcast %2 root = 1 over ["dp"] : tensor<6xf32>
  return %3 : tensor<6xf32>
}

// -----

// Nothing is sent over axes of size 1.
// CHECK-LABEL: func.func @unit_axes
// CHECK-NOT: dist.all_reduce
// CHECK-NOT: dist.broadcast
// CHECK: return
dist.mesh @mesh <["dp" = 2, "tp" = 1]>
func.func @unit_axes(%x: tensor<4x6xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x6xf32> -> tensor<4xf32>
  %1 = dist.all_reduce sum %0 over ["tp"] : tensor<4xf32>
  %2 = dist.broadcast %1 root = 0 over ["tp"] : tensor<4xf32>
  return %2 : tensor<4xf32>
}
