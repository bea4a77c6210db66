// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

dist.mesh @mesh <["dp" = 2, "tp" = 2]>

// Types become those of a device's piece; the global ones stay in attributes.
// CHECK-LABEL: func.func @types
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8xf32> {dist.global_type = tensor<4x8xf32>, dist.layout = #dist.layout<[{"dp"}, {}]>}
// CHECK-SAME: -> (tensor<2x8xf32> {dist.global_type = tensor<4x8xf32>, dist.layout = #dist.layout<[{"dp"}, {}]>})
func.func @types(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = nn.relu %[[X]] : tensor<2x8xf32>
  %0 = nn.relu %x : tensor<4x8xf32>
  // CHECK-NEXT: return %[[Y]]
  return %0 : tensor<4x8xf32>
}

// An index counts on where the device's piece begins.
// CHECK-LABEL: func.func @index
func.func @index() -> (tensor<4x8xi64> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) {
  // CHECK: %[[LOCAL:.*]] = nn.index [8, 1] : tensor<2x4xi64>
  // CHECK: %[[ROW:.*]] = dist.axis_index over ["dp"]
  // CHECK: %[[ROWS:.*]] = nn.constant dense<16> : tensor<i64>
  // CHECK: %[[A:.*]] = nn.mul %[[ROW]], %[[ROWS]]
  // CHECK: %[[COL:.*]] = dist.axis_index over ["tp"]
  // CHECK: %[[COLS:.*]] = nn.constant dense<4> : tensor<i64>
  // CHECK: %[[B:.*]] = nn.mul %[[COL]], %[[COLS]]
  // CHECK: %[[OFFSET:.*]] = nn.add %[[A]], %[[B]]
  // CHECK: %[[OFFSETS:.*]] = nn.broadcast %[[OFFSET]] dims = [] : tensor<i64> -> tensor<2x4xi64>
  // CHECK: nn.add %[[LOCAL]], %[[OFFSETS]]
  %0 = nn.index [8, 1] : tensor<4x8xi64>
  return %0 : tensor<4x8xi64>
}

// With stride 0 along the split dim there is nothing to add.
// CHECK-LABEL: func.func @iota
func.func @iota() -> (tensor<4x8xi64> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  // CHECK-NEXT: %[[I:.*]] = nn.index [0, 1] : tensor<2x8xi64>
  // CHECK-NEXT: return %[[I]]
  %0 = nn.index [0, 1] : tensor<4x8xi64>
  return %0 : tensor<4x8xi64>
}

// Equal elements shrink; others are whole, and each device takes its piece.
// CHECK-LABEL: func.func @constants
func.func @constants(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // CHECK-DAG: nn.constant dense<2.000000e+00> : tensor<2xf32>
  %a = nn.constant dense<2.0> : tensor<4xf32>
  // CHECK-DAG: %[[ALL:.*]] = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
  // CHECK-DAG: dist.slice %[[ALL]] dim = 0 over ["dp"] : tensor<4xf32> -> tensor<2xf32>
  %b = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = nn.add %x, %a : tensor<4xf32>
  %1 = nn.add %0, %b : tensor<4xf32>
  nn.write @v, %1 : tensor<4xf32>
  return
}
nn.variable @v : tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}

// A slice ends where the piece ends in the dims that it does not cut.
// CHECK-LABEL: func.func @slice
func.func @slice(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<4x2xf32> {
  // CHECK: nn.slice %{{.*}} [0, 1] to [2, 3] by [1, 1] : tensor<2x8xf32> -> tensor<2x2xf32>
  %0 = nn.slice %x [0, 1] to [4, 3] by [1, 1] : tensor<4x8xf32> -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// Each difference of layouts has its collective.
// CHECK-LABEL: func.func @all_gather
func.func @all_gather(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {}]>}) {
  // CHECK: dist.all_gather %{{.*}} dim = 0 over ["dp"] {cause = [#dist.end<kind = output>]} : tensor<2x8xf32> -> tensor<4x8xf32>
  return %x : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @all_to_all
func.func @all_to_all(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}) {
  // CHECK: dist.all_to_all %{{.*}} split_dim = 1 concat_dim = 0 over ["dp"] {{.*}} : tensor<2x8xf32> -> tensor<4x4xf32>
  return %x : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @own_slice
func.func @own_slice(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {}]>})
    -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}) {
  // CHECK: dist.slice %{{.*}} dim = 0 over ["tp"] : tensor<4x8xf32> -> tensor<2x8xf32>
  return %x : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @reduce_scatter
func.func @reduce_scatter(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<8xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // CHECK: dist.reduce_scatter sum %{{.*}} dim = 0 over ["dp"] {{.*}} : tensor<8xf32> -> tensor<4xf32>
  %0 = nn.reduce sum %x dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

dist.mesh @mesh <["dp" = 1, "tp" = 2]>

// An axis of size 1 neither splits nor makes partial: nothing is sent over it.
// CHECK-LABEL: func.func @unit_axis
func.func @unit_axis(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<8xf32> {dist.layout = #dist.layout<[{}]>}) {
  // CHECK-NEXT: nn.reduce sum
  %0 = nn.reduce sum %x dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  // CHECK-NEXT: return
  return %0 : tensor<8xf32>
}

// -----

// Axes that change places in a dim: the pieces stay as they are and devices swap them.
dist.mesh @mesh <["dp" = 2, "tp" = 2]>
// CHECK-LABEL: func.func @permute
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8xf32>
func.func @permute(%x: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp", "tp"}, {}]>})
    -> (tensor<8x8xf32> {dist.layout = #dist.layout<[{"tp", "dp"}, {}]>}) {
  // CHECK-NEXT: %[[Y:.*]] = dist.permute %[[X]] sources = [0, 2, 1, 3] over ["dp", "tp"] {cause = [#dist.end<kind = output>]} : tensor<2x8xf32>
  // CHECK-NEXT: return %[[Y]]
  return %x : tensor<8x8xf32>
}

// -----

// The costs on the mesh decide: over slow links go half as many bytes when the fast ones help.
dist.mesh @mesh <["slow" = 2, "fast" = 2]> {costs = #dist.costs<latency_ns = [500, 20], bytes_per_us = [500, 20000]>}
// CHECK-LABEL: func.func @hierarchical
func.func @hierarchical(%x: tensor<64x512xf32> {dist.layout = #dist.layout<[{}, {"slow"}]>},
                        %w: tensor<512x512xf32> {dist.layout = #dist.layout<[{"slow"}, {}]>})
    -> (tensor<64x512xf32> {dist.layout = #dist.layout<[{}, {}]>}) {
  // CHECK: %[[P:.*]] = nn.matmul %{{.*}}, %{{.*}} : tensor<64x256xf32>, tensor<256x512xf32> -> tensor<64x512xf32>
  // CHECK-NEXT: %[[HALF:.*]] = dist.slice %[[P]] dim = 0 over ["fast"]
  // CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum %[[HALF]] over ["slow"] {cause = [#dist.end<kind = op, op = "nn.matmul">]} : tensor<32x512xf32>
  // CHECK-NEXT: %[[Y:.*]] = dist.all_gather %[[SUM]] dim = 0 over ["fast"] {cause = [#dist.end<kind = op, op = "nn.matmul">]}
  // CHECK-NEXT: return %[[Y]]
  %0 = nn.matmul %x, %w : tensor<64x512xf32>, tensor<512x512xf32> -> tensor<64x512xf32>
  return %0 : tensor<64x512xf32>
}
