// RUN: ashlar-opt %s -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// Sizes that do not divide: 7 rows on 4 devices are pieces of 2, the last of which ends in one row of padding.

dist.mesh @mesh <["dp" = 4]>

// Rows pass through: padding stays where it is and nothing is masked.
// CHECK-LABEL: func.func @rows(%arg0: tensor<2x3xf32>
// CHECK-NOT: nn.select
// CHECK: return {{.*}} : tensor<2x3xf32>
func.func @rows(%x: tensor<7x3xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<7x3xf32> {
  %y = nn.softmax %x : tensor<7x3xf32>
  return %y : tensor<7x3xf32>
}

// Rows are summed: what lies beyond row 7 counts as 0.
// CHECK-LABEL: func.func @sum(%arg0: tensor<2x3xf32>
// CHECK: %[[SIZE:.*]] = nn.constant dense<7> : tensor<i64>
// CHECK: %[[DEVICE:.*]] = dist.axis_index over ["dp"]
// CHECK: %[[TWO:.*]] = nn.constant dense<2> : tensor<i64>
// CHECK: %[[START:.*]] = nn.mul %[[DEVICE]], %[[TWO]]
// CHECK: %[[COUNT:.*]] = nn.sub %[[SIZE]], %[[START]]
// CHECK: %[[INDEX:.*]] = nn.index [1, 0] : tensor<2x3xi64>
// CHECK: %[[COUNTS:.*]] = nn.broadcast %[[COUNT]] dims = []
// CHECK: %[[VALID:.*]] = nn.compare lt %[[INDEX]], %[[COUNTS]]
// CHECK: %[[ZERO:.*]] = nn.constant dense<0.0{{.*}}> : tensor<2x3xf32>
// CHECK: %[[MASKED:.*]] = nn.select %[[VALID]], %arg0, %[[ZERO]]
// CHECK: nn.reduce sum %[[MASKED]]
// CHECK: dist.all_reduce sum
func.func @sum(%x: tensor<7x3xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<3xf32> {
  %y = nn.reduce sum %x dims = [0] : tensor<7x3xf32> -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// The neutral element of a maximum.
// CHECK-LABEL: func.func @max
// CHECK: nn.constant dense<0xFF800000>
// CHECK: nn.reduce max
func.func @max(%x: tensor<7x3xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<3xf32> {
  %y = nn.reduce max %x dims = [0] : tensor<7x3xf32> -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// A product contracts over 7: both operands are masked, for the padding of either may be infinite.
// CHECK-LABEL: func.func @product
// CHECK-COUNT-2: nn.select
// CHECK: nn.matmul
func.func @product(%x: tensor<7x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                   %y: tensor<7x5xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<4x5xf32> {
  %z = nn.matmul %x, %y transpose_a : tensor<7x4xf32>, tensor<7x5xf32> -> tensor<4x5xf32>
  return %z : tensor<4x5xf32>
}

// A dim that is cut is lengthened before, one that was joined is shortened after.
// CHECK-LABEL: func.func @move(%arg0: tensor<2x5xf32>
// CHECK: %[[PADDED:.*]] = nn.pad %arg0 low = [0, 0] interior = [0, 0] : tensor<2x5xf32> -> tensor<2x8xf32>
// CHECK: %[[MOVED:.*]] = dist.all_to_all %[[PADDED]] split_dim = 1 concat_dim = 0 over ["dp"] {{.*}} : tensor<2x8xf32> -> tensor<8x2xf32>
// CHECK: %[[Y:.*]] = nn.slice %[[MOVED]] [0, 0] to [7, 2] by [1, 1]
// CHECK: return %[[Y]] : tensor<7x2xf32>
func.func @move(%x: tensor<7x5xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<7x5xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}) {
  return %x : tensor<7x5xf32>
}
