// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts | FileCheck %s

dist.mesh @mesh <["dp" = 4, "tp" = 2]>

// A sum that is wanted whole and in pieces is made once; the pieces are cut from it.
// CHECK-LABEL: func.func @whole_and_pieces
func.func @whole_and_pieces(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}, tensor<16xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  %s = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  // CHECK: %[[TERMS:.*]] = nn.reduce
  // CHECK-NEXT: %[[WHOLE:.*]] = dist.redistribute %[[TERMS]] from <[{}], partial = sum {"dp"}> to <[{}]>
  // CHECK-NEXT: %[[PIECE:.*]] = dist.redistribute %[[WHOLE]] from <[{}]> to <[{"dp"}]>
  // CHECK-NEXT: return %[[WHOLE]], %[[PIECE]]
  return %s, %s : tensor<16xf32>, tensor<16xf32>
}

// -----

dist.mesh @mesh <["dp" = 4, "tp" = 2]>

// A sum of which every user wants pieces is scattered; it is nowhere whole.
// CHECK-LABEL: func.func @pieces_only
func.func @pieces_only(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<16xf32> {dist.layout = #dist.layout<[{"dp"}]>}, tensor<16xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  %s = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  // CHECK: %[[TERMS:.*]] = nn.reduce
  // CHECK-NEXT: %[[PIECE:.*]] = dist.redistribute %[[TERMS]] from <[{}], partial = sum {"dp"}> to <[{"dp"}]>
  // CHECK-NEXT: return %[[PIECE]], %[[PIECE]]
  return %s, %s : tensor<16xf32>, tensor<16xf32>
}

// -----

dist.mesh @mesh <["dp" = 4, "tp" = 2]>

// A value that is wanted whole and split otherwise is gathered once; the other pieces are cut from what was gathered.
// CHECK-LABEL: func.func @gather_once
func.func @gather_once(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}, tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {}]>}) {
  // CHECK-NEXT: %[[WHOLE:.*]] = dist.redistribute %arg0 from <[{"dp"}, {}]> to <[{}, {}]>
  // CHECK-NEXT: %[[PIECE:.*]] = dist.redistribute %[[WHOLE]] from <[{}, {}]> to <[{}, {"dp"}]>
  // CHECK-NEXT: return %[[PIECE]], %[[WHOLE]]
  return %x, %x : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

dist.mesh @mesh <["dp" = 4, "tp" = 2]>

// Pieces of a value that is whole are all cut from it: nothing waits for nothing.
// CHECK-LABEL: func.func @side_by_side
func.func @side_by_side(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {}]>})
    -> (tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) {
  // CHECK-DAG: dist.redistribute %arg0 from <[{}, {}]> to <[{"dp"}, {}]>
  // CHECK-DAG: dist.redistribute %arg0 from <[{}, {}]> to <[{"dp"}, {"tp"}]>
  // CHECK: return
  return %x, %x : tensor<8x16xf32>, tensor<8x16xf32>
}
