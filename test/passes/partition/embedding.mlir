// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// A table split on rows: each device looks up the tokens that it has, and the result is summed once. In backward nothing moves: the
// gradient of the table is born split.

dist.mesh @mesh <["tp" = 4]>
// CHECK: nn.variable @table trainable : tensor<4x8xf32>
nn.variable @table trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}

// CHECK-LABEL: func.func @rows
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<6xi64>
func.func @rows(%tokens: tensor<6xi64>, %dy: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %table = nn.read @table : tensor<16x8xf32>
  // CHECK: %[[DEVICE:.*]] = dist.axis_index over ["tp"]
  // CHECK: %[[START:.*]] = nn.mul %[[DEVICE]],
  // CHECK: %[[STARTS:.*]] = nn.broadcast %[[START]] dims = [] : tensor<i64> -> tensor<6xi64>
  // CHECK: %[[LOCAL:.*]] = nn.sub %[[TOKENS]], %[[STARTS]]
  // CHECK-NEXT: %[[PART:.*]] = nn.gather %{{.*}}, %[[LOCAL]] : tensor<4x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
  // CHECK-NEXT: %[[Y:.*]] = dist.all_reduce sum %[[PART]] over ["tp"] {{.*}} : tensor<6x8xf32>
  %y = nn.gather %table, %tokens : tensor<16x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
  // CHECK-NOT: dist.
  // CHECK: nn.scatter_add %[[LOCAL]], %{{.*}} : tensor<6xi64>, tensor<6x8xf32> -> tensor<4x8xf32>
  // CHECK-NOT: dist.
  %g = nn.scatter_add %tokens, %dy : tensor<6xi64>, tensor<6x8xf32> -> tensor<16x8xf32>
  %new = nn.sub %table, %g : tensor<16x8xf32>
  nn.write @table, %new : tensor<16x8xf32>
  // CHECK: return %[[Y]]
  return %y : tensor<6x8xf32>
}

// -----

// Pieces with padding (10 rows are 3, 3, 3 and 1): numbers behind the end of the piece name nothing, and the table needs no mask.
dist.mesh @mesh <["tp" = 4]>
// CHECK-LABEL: func.func @uneven_rows
func.func @uneven_rows(%table: tensor<10x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}, %tokens: tensor<6xi32>) -> tensor<6x8xf32> {
  // CHECK: %[[SHIFTED:.*]] = nn.sub %arg1,
  // CHECK: %[[HERE:.*]] = nn.compare lt %[[SHIFTED]],
  // CHECK: %[[NONE:.*]] = nn.constant dense<-1> : tensor<6xi32>
  // CHECK-NEXT: %[[LOCAL:.*]] = nn.select %[[HERE]], %[[SHIFTED]], %[[NONE]]
  // CHECK-NEXT: nn.gather %arg0, %[[LOCAL]] : tensor<3x8xf32>, tensor<6xi32> -> tensor<6x8xf32>
  %y = nn.gather %table, %tokens : tensor<10x8xf32>, tensor<6xi32> -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

// A batch with padding: the places that are none have the number -1; the updates need no mask. The sum over the batch is partial.
dist.mesh @mesh <["dp" = 4]>
// CHECK-LABEL: func.func @uneven_places
func.func @uneven_places(%tokens: tensor<6xi64> {dist.layout = #dist.layout<[{"dp"}]>},
                         %dy: tensor<6x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<16x8xf32> {
  // CHECK: %[[NONE:.*]] = nn.constant dense<-1> : tensor<2xi64>
  // CHECK-NEXT: %[[KEPT:.*]] = nn.select %{{.*}}, %arg0, %[[NONE]]
  // CHECK-NEXT: %[[PART:.*]] = nn.scatter_add %[[KEPT]], %arg1 : tensor<2xi64>, tensor<2x8xf32> -> tensor<16x8xf32>
  // CHECK-NEXT: dist.all_reduce sum %[[PART]] over ["dp"]
  %g = nn.scatter_add %tokens, %dy : tensor<6xi64>, tensor<6x8xf32> -> tensor<16x8xf32>
  return %g : tensor<16x8xf32>
}

// -----

// A table for each sample: a split batch, of 6 in pieces of 2, 2, 2 and none, stays split in forward and backward, and no number changes.
dist.mesh @mesh <["dp" = 4]>
// CHECK-LABEL: func.func @batch
func.func @batch(%x: tensor<6x9x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>},
                 %i: tensor<6x5xi64> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<6x5x8xf32>, tensor<6x9x8xf32>) {
  // CHECK-NEXT: %[[Y:.*]] = nn.gather %arg0, %arg1 batch_dims = 1 : tensor<2x9x8xf32>, tensor<2x5xi64> -> tensor<2x5x8xf32>
  // CHECK-NEXT: %[[G:.*]] = nn.scatter_add %arg1, %[[Y]] batch_dims = 1 : tensor<2x5xi64>, tensor<2x5x8xf32> -> tensor<2x9x8xf32>
  // CHECK-NEXT: return %[[Y]], %[[G]]
  %y = nn.gather %x, %i batch_dims = 1 : tensor<6x9x8xf32>, tensor<6x5xi64> -> tensor<6x5x8xf32>
  %g = nn.scatter_add %i, %y batch_dims = 1 : tensor<6x5xi64>, tensor<6x5x8xf32> -> tensor<6x9x8xf32>
  return %y, %g : tensor<6x5x8xf32>, tensor<6x9x8xf32>
}

// -----

// Rows behind a batch dim are counted from the device's piece, as rows without one.
dist.mesh @mesh <["tp" = 3]>
// CHECK-LABEL: func.func @rows_of_a_batch
func.func @rows_of_a_batch(%x: tensor<6x9x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}, {}]>}, %i: tensor<6x5xi64>) -> tensor<6x5x8xf32> {
  // CHECK: %[[STARTS:.*]] = nn.broadcast %{{.*}} dims = [] : tensor<i64> -> tensor<6x5xi64>
  // CHECK: %[[LOCAL:.*]] = nn.sub %arg1, %[[STARTS]]
  // CHECK-NEXT: %[[PART:.*]] = nn.gather %arg0, %[[LOCAL]] batch_dims = 1 : tensor<6x3x8xf32>, tensor<6x5xi64> -> tensor<6x5x8xf32>
  // CHECK-NEXT: dist.all_reduce sum %[[PART]] over ["tp"]
  %y = nn.gather %x, %i batch_dims = 1 : tensor<6x9x8xf32>, tensor<6x5xi64> -> tensor<6x5x8xf32>
  return %y : tensor<6x5x8xf32>
}
