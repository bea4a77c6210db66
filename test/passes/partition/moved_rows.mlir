// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// The first half of the rows: 2 on each device, which takes all of its run.

dist.mesh @mesh <["dp" = 4]>

// CHECK-LABEL: func.func @first_half
// CHECK-SAME: %[[X:arg0]]: tensor<4x2xf32>
func.func @first_half(%x: tensor<16x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<8x2xf32> {
  // CHECK-NEXT: %[[SEGMENT:.*]] = dist.halo %[[X]] dim = 0 size = 16 from <positions = 16> to <positions = 8> over ["dp"]
  // CHECK-SAME: {cause = [#dist.end<kind = op, op = "nn.slice">]} : tensor<4x2xf32> -> tensor<2x2xf32>
  // CHECK-NEXT: return %[[SEGMENT]]
  %y = nn.slice %x [0, 0] to [8, 2] by [1, 1] : tensor<16x2xf32> -> tensor<8x2xf32>
  return %y : tensor<8x2xf32>
}

// Every third row from the second on: a run begins with the first row of the device and ends with its last.
// CHECK-LABEL: func.func @every_third
func.func @every_third(%x: tensor<16x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<5x2xf32> {
  // CHECK-NEXT: %[[SEGMENT:.*]] = dist.halo %arg0 dim = 0 size = 16 from <positions = 16> to <positions = 5, step = 3, first = 1, last = 2> over ["dp"]
  // CHECK-SAME: tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT: nn.slice %[[SEGMENT]] [0, 0] to [4, 2] by [3, 1] : tensor<4x2xf32> -> tensor<2x2xf32>
  %y = nn.slice %x [1, 0] to [16, 2] by [3, 1] : tensor<16x2xf32> -> tensor<5x2xf32>
  return %y : tensor<5x2xf32>
}

// Every second row is there.
// CHECK-LABEL: func.func @every_second
func.func @every_second(%x: tensor<16x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<8x2xf32> {
  // CHECK-NEXT: %[[SEGMENT:.*]] = nn.slice %arg0 [1, 0] to [4, 2] by [1, 1] : tensor<4x2xf32> -> tensor<3x2xf32>
  // CHECK-NEXT: nn.slice %[[SEGMENT]] [0, 0] to [3, 2] by [2, 1] : tensor<3x2xf32> -> tensor<2x2xf32>
  %y = nn.slice %x [1, 0] to [16, 2] by [2, 1] : tensor<16x2xf32> -> tensor<8x2xf32>
  return %y : tensor<8x2xf32>
}

// The run of a pad has its zeros.
// CHECK-LABEL: func.func @pad
func.func @pad(%x: tensor<16x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<20x2xf32> {
  // CHECK-NEXT: %[[SEGMENT:.*]] = dist.halo %arg0 dim = 0 size = 16 from <positions = 16> to <positions = 20, first = -3, last = -2> over ["dp"]
  // CHECK-SAME: tensor<4x2xf32> -> tensor<5x2xf32>
  // CHECK-NEXT: return %[[SEGMENT]]
  %y = nn.pad %x low = [3, 0] interior = [0, 0] : tensor<16x2xf32> -> tensor<20x2xf32>
  return %y : tensor<20x2xf32>
}

// Zeros between rows: blocks of 3 rows of the result, one of which has an element. 48 rows are 16 blocks, 4 on each device.
// CHECK-LABEL: func.func @pad_between
func.func @pad_between(%x: tensor<14x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<48x2xf32> {
  // CHECK-NEXT: %[[SEGMENT:.*]] = dist.halo %arg0 dim = 0 size = 14 from <positions = 14> to <positions = 16, first = -1, last = 0> over ["dp"]
  // CHECK-SAME: tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT: %[[Y:.*]] = nn.pad %[[SEGMENT]] low = [2, 0] interior = [2, 0] : tensor<4x2xf32> -> tensor<12x2xf32>
  // CHECK-NEXT: return %[[Y]]
  %y = nn.pad %x low = [5, 0] interior = [2, 0] : tensor<14x2xf32> -> tensor<48x2xf32>
  return %y : tensor<48x2xf32>
}

// Of the runs of both operands each row is that of the last operand that has begun: the second one begins with row 6.
// CHECK-LABEL: func.func @concat
// CHECK-SAME: %[[X:arg0]]: tensor<2x2xf32>
// CHECK-SAME: %[[Y:arg1]]: tensor<1x2xf32>
func.func @concat(%x: tensor<6x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %y: tensor<2x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<8x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  // CHECK: %[[FIRST:.*]] = dist.halo %[[X]] dim = 0 size = 6 from <positions = 6> to <positions = 8> over ["dp"]
  // CHECK: %[[SECOND:.*]] = dist.halo %[[Y]] dim = 0 size = 2 from <positions = 2> to <positions = 8, first = -6, last = -5> over ["dp"]
  // CHECK: %[[ROW:.*]] = nn.index [1, 0] : tensor<2x2xi64>
  // CHECK: %[[BEGIN:.*]] = nn.constant dense<-6> : tensor<i64>
  // CHECK: %[[BEGUN:.*]] = nn.compare ge
  // CHECK: %[[ROWS:.*]] = nn.select %[[BEGUN]], %[[SECOND]], %[[FIRST]]
  // CHECK-NOT: nn.concat
  // CHECK: return %[[ROWS]]
  %z = nn.concat %x, %y dim = 0 : (tensor<6x2xf32>, tensor<2x2xf32>) -> tensor<8x2xf32>
  return %z : tensor<8x2xf32>
}

// What is repeated along the dim is on every device: its run is made there.
// CHECK-LABEL: func.func @repeated
func.func @repeated(%s: tensor<2xf32> {dist.layout = #dist.layout<[{}]>}) -> (tensor<20x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  // CHECK-NOT: dist.halo
  // CHECK: nn.broadcast %arg0 dims = [1] : tensor<2xf32> -> tensor<5x2xf32>
  // CHECK-NOT: dist.halo
  %x = nn.broadcast %s dims = [1] : tensor<2xf32> -> tensor<16x2xf32>
  %y = nn.pad %x low = [3, 0] interior = [0, 0] : tensor<16x2xf32> -> tensor<20x2xf32>
  return %y : tensor<20x2xf32>
}
