// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// Split rows and columns: each device gets the overlap, along one dim after the other, and the windows stand on it without padding. The
// weights' gradient reads what the convolution has got already.

dist.mesh @mesh <["y" = 2, "x" = 2]>

// CHECK-LABEL: func.func @split_rows_and_columns
// CHECK-SAME: %[[X:arg0]]: tensor<1x2x4x4xf32>
func.func @split_rows_and_columns(%x: tensor<1x2x8x8xf32> {dist.layout = #dist.layout<[{}, {}, {"y"}, {"x"}]>},
                                  %w: tensor<3x2x3x3xf32> {dist.layout = #dist.layout<[{}, {}, {}, {}]>},
                                  %dy: tensor<1x3x8x8xf32> {dist.layout = #dist.layout<[{}, {}, {"y"}, {"x"}]>})
    -> (tensor<1x3x8x8xf32>, tensor<3x2x3x3xf32>) {
  // CHECK: %[[ROWS:.*]] = dist.halo %[[X]] dim = 2 size = 8 from <positions = 8> to <positions = 8, first = -1, last = 2> over ["y"]
  // CHECK-SAME: {cause = [#dist.end<kind = op, name = "conv1">, #dist.end<kind = op, op = "nn.conv_weights">]} : tensor<1x2x4x4xf32> -> tensor<1x2x6x4xf32>
  // CHECK-NEXT: %[[TILE:.*]] = dist.halo %[[ROWS]] dim = 3 size = 8 from <positions = 8> to <positions = 8, first = -1, last = 2> over ["x"]
  // CHECK-SAME: : tensor<1x2x6x4xf32> -> tensor<1x2x6x6xf32>
  // CHECK: nn.conv %[[TILE]], %{{.*}} windows = [#nn.window<3>, #nn.window<3>] : tensor<1x2x6x6xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x4x4xf32>
  %y = nn.conv %x, %w windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
     : tensor<1x2x8x8xf32>, tensor<3x2x3x3xf32> -> tensor<1x3x8x8xf32> loc("conv1")
  // CHECK-NOT: dist.halo
  // CHECK: %[[DW:.*]] = nn.conv_weights %[[TILE]], %{{.*}} windows = [#nn.window<3>, #nn.window<3>]
  // CHECK: dist.all_reduce sum %[[DW]] over ["y", "x"]
  %dw = nn.conv_weights %x, %dy windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
      : tensor<1x2x8x8xf32>, tensor<1x3x8x8xf32> -> tensor<3x2x3x3xf32>
  return %y, %dw : tensor<1x3x8x8xf32>, tensor<3x2x3x3xf32>
}

// -----

// 11 rows are 6 and 5; 6 positions are 3 and 3, and need the rows -1 to 5 and 5 to 11.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @strides_and_uneven_sizes
func.func @strides_and_uneven_sizes(%x: tensor<1x2x11xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}, %w: tensor<3x2x3xf32>)
    -> (tensor<1x3x6xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}) {
  // CHECK: %[[TILE:.*]] = dist.halo %arg0 dim = 2 size = 11 from <positions = 11> to <positions = 6, step = 2, first = -1, last = 2> over ["sp"]
  // CHECK-SAME: : tensor<1x2x6xf32> -> tensor<1x2x7xf32>
  // CHECK-NEXT: nn.conv %[[TILE]], %{{.*}} windows = [#nn.window<3, stride = 2>] : {{.*}} -> tensor<1x3x3xf32>
  %y = nn.conv %x, %w windows = [#nn.window<3, stride = 2, low = 1, high = 1>]
     : tensor<1x2x11xf32>, tensor<3x2x3xf32> -> tensor<1x3x6xf32>
  return %y : tensor<1x3x6xf32>
}

// -----

// Windows of one element that stand in their own piece need nothing from others; what is left over in a piece is left out.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @nothing_to_exchange
func.func @nothing_to_exchange(%x: tensor<1x2x8xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}, %w: tensor<3x2x1xf32>)
    -> (tensor<1x3x4xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}) {
  // CHECK-NEXT: nn.conv %arg0, %{{.*}} windows = [#nn.window<1, stride = 2, high = -1>] : tensor<1x2x4xf32>, tensor<3x2x1xf32> -> tensor<1x3x2xf32>
  // CHECK-NEXT: return
  %y = nn.conv %x, %w windows = [#nn.window<1, stride = 2>] : tensor<1x2x8xf32>, tensor<3x2x1xf32> -> tensor<1x3x4xf32>
  return %y : tensor<1x3x4xf32>
}

// -----

// The gradient of x is made in blocks of two rows: 3 and 3 of them, so 6 rows on each device, which hold 6 and 5. They need the positions
// 0 to 3 and 3 to 6.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @blocks
func.func @blocks(%dy: tensor<1x3x6xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}, %w: tensor<3x2x3xf32>)
    -> (tensor<1x2x11xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}) {
  // CHECK: %[[TILE:.*]] = dist.halo %arg0 dim = 2 size = 6 from <positions = 6> to <positions = 6, last = 2> over ["sp"]
  // CHECK-SAME: : tensor<1x3x3xf32> -> tensor<1x3x4xf32>
  // CHECK-NEXT: %[[DX:.*]] = nn.conv_data %[[TILE]], %{{.*}} windows = [#nn.window<3, stride = 2, low = 1, high = 2>] : {{.*}} -> tensor<1x2x6xf32>
  // CHECK-NEXT: return %[[DX]]
  %dx = nn.conv_data %dy, %w windows = [#nn.window<3, stride = 2, low = 1, high = 1>]
      : tensor<1x3x6xf32>, tensor<3x2x3xf32> -> tensor<1x2x11xf32>
  return %dx : tensor<1x2x11xf32>
}

// -----

// 26 rows are 13 and 13, but blocks of two are made 7 and 6 a device: the row in the middle goes over.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @blocks_that_are_no_pieces
func.func @blocks_that_are_no_pieces(%dy: tensor<1x3x13xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}, %w: tensor<3x2x3xf32>)
    -> (tensor<1x2x26xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}) {
  // CHECK: %[[BLOCKS:.*]] = nn.conv_data {{.*}} -> tensor<1x2x14xf32>
  // CHECK-NEXT: %[[DX:.*]] = dist.halo %[[BLOCKS]] dim = 2 size = 26 from <positions = 13, step = 2, last = 2> to <positions = 26> over ["sp"]
  // CHECK-SAME: : tensor<1x2x14xf32> -> tensor<1x2x13xf32>
  // CHECK-NEXT: return %[[DX]]
  %dx = nn.conv_data %dy, %w windows = [#nn.window<3, stride = 2, low = 1, high = 1>]
      : tensor<1x3x13xf32>, tensor<3x2x3xf32> -> tensor<1x2x26xf32>
  return %dx : tensor<1x2x26xf32>
}

// -----

// Every device makes its run of a constant itself.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @constants_are_not_sent
func.func @constants_are_not_sent(%w: tensor<3x2x3xf32>) -> (tensor<1x3x8xf32> {dist.layout = #dist.layout<[{}, {}, {"sp"}]>}) {
  // CHECK-NOT: dist.halo
  // CHECK: %[[TILE:.*]] = nn.select {{.*}} tensor<1x2x6xf32>
  // CHECK: nn.conv %[[TILE]]
  %x = nn.constant dense<1.0> : tensor<1x2x8xf32>
  %y = nn.conv %x, %w windows = [#nn.window<3, low = 1, high = 1>] : tensor<1x2x8xf32>, tensor<3x2x3xf32> -> tensor<1x3x8xf32>
  return %y : tensor<1x3x8xf32>
}

// -----

// A gradient that goes to every place of a window is exchanged before it is repeated.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @repeated_after_the_exchange
func.func @repeated_after_the_exchange(%dy: tensor<2x8xf32> {dist.layout = #dist.layout<[{}, {"sp"}]>})
    -> (tensor<2x8x3xf32> {dist.layout = #dist.layout<[{}, {"sp"}, {}]>}) {
  // CHECK-NEXT: %[[TILE:.*]] = dist.halo %arg0 dim = 1 size = 8 from <positions = 8> to <positions = 8, first = -1, last = 2> over ["sp"]
  // CHECK-SAME: : tensor<2x4xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: %[[ALL:.*]] = nn.broadcast %[[TILE]] dims = [0, 1] : tensor<2x6xf32> -> tensor<2x6x3xf32>
  // CHECK-NEXT: nn.unwindows %[[ALL]] dims = [1] [#nn.window<3, low = 2, high = 2>] : tensor<2x6x3xf32> -> tensor<2x4x3xf32>
  %all = nn.broadcast %dy dims = [0, 1] : tensor<2x8xf32> -> tensor<2x8x3xf32>
  %each = nn.unwindows %all dims = [1] [#nn.window<3, low = 1, high = 1>] : tensor<2x8x3xf32> -> tensor<2x8x3xf32>
  return %each : tensor<2x8x3xf32>
}

// -----

// A pooling is a reduction of its windows where it is split, and the padding is none of the elements on any device.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @pooling
func.func @pooling(%x: tensor<2x8xf32> {dist.layout = #dist.layout<[{}, {"sp"}]>})
    -> (tensor<2x8xf32> {dist.layout = #dist.layout<[{}, {"sp"}]>}) {
  // CHECK: dist.halo %arg0 dim = 1 {{.*}} : tensor<2x4xf32> -> tensor<2x6xf32>
  // CHECK-NOT: dist.halo
  // CHECK: nn.reduce max {{.*}} -> tensor<2x4xf32>
  %y = nn.max_pool %x dims = [1] [#nn.window<3, low = 1, high = 1>] : tensor<2x8xf32> -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// A linear resize to 13 of 8 rows: positions 0 to 6 read rows 0 to 4, positions 7 to 12 rows 4 to 7. So one row is sent, and each device finds
// its positions and its rows by their numbers.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @resized_rows
// CHECK-SAME: %[[X:arg0]]: tensor<2x4xf32>
func.func @resized_rows(%x: tensor<2x8xf32> {dist.layout = #dist.layout<[{}, {"sp"}]>})
    -> (tensor<2x13xf32> {dist.layout = #dist.layout<[{}, {"sp"}]>}) {
  // CHECK: %[[ROWS:.*]] = dist.halo %[[X]] dim = 1 size = 8 from <positions = 8> to <positions = 2, step = 4, last = 5> over ["sp"]
  // CHECK-SAME: : tensor<2x4xf32> -> tensor<2x5xf32>
  // CHECK: %[[DEVICE:.*]] = dist.axis_index over ["sp"]
  // CHECK-DAG: %[[SEVEN:.*]] = nn.constant dense<7> : tensor<i64>
  // CHECK-DAG: %[[POSITION:.*]] = nn.mul %[[DEVICE]], %[[SEVEN]]
  // CHECK-DAG: %[[FOUR:.*]] = nn.constant dense<4> : tensor<i64>
  // CHECK-DAG: %[[ROW:.*]] = nn.mul %[[DEVICE]], %[[FOUR]]
  // CHECK: nn.resample %[[ROWS]] starts %[[POSITION]], %[[ROW]] : tensor<i64>, tensor<i64> dim = 1 {{.*}} : tensor<2x5xf32> -> tensor<2x7xf32>
  %y = nn.resample %x dim = 1
    places = dense<[[0, -1], [0, 1], [0, 1], [1, 2], [2, 3], [2, 3], [3, 4], [4, 5], [4, 5], [5, 6], [5, 6], [6, 7], [7, -1]]> : tensor<13x2xi64>
    weights = dense<0.5> : tensor<13x2xf64> : tensor<2x8xf32> -> tensor<2x13xf32>
  return %y : tensor<2x13xf32>
}

// -----

// Each row twice: a device has the rows that its positions read.

dist.mesh @mesh <["sp" = 2]>

// CHECK-LABEL: func.func @doubled_rows
// CHECK-NOT: dist.halo
// CHECK: nn.resample %arg0 starts %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64> dim = 0 {{.*}} : tensor<2xf32> -> tensor<4xf32>
func.func @doubled_rows(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"sp"}]>}) -> (tensor<8xf32> {dist.layout = #dist.layout<[{"sp"}]>}) {
  %y = nn.resample %x dim = 0 places = dense<[[0], [0], [1], [1], [2], [2], [3], [3]]> : tensor<8x1xi64> : tensor<4xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}
