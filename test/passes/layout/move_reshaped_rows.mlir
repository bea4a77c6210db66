// RUN: ashlar-opt %s -split-input-file -ashlar-move-reshaped-rows | FileCheck %s

// Axes of 4 and 8: 6 rows have no even split, 4 have; nor does a dim that is the same on both sides matter. 3 rows are too few for either.
// CHECK-LABEL: @rows
module {
  dist.mesh @mesh <["x" = 4, "y" = 8]>
  func.func @rows(%six: tensor<6x5x7xf32>, %four: tensor<4x5xf32>, %three: tensor<3x5xf32>, %whole: tensor<30xf32>) {
    // CHECK: nn.reshape %arg{{[0-9]}} {moves_rows} : tensor<6x5x7xf32> -> tensor<30x7xf32>
    nn.reshape %six : tensor<6x5x7xf32> -> tensor<30x7xf32>
    // CHECK: nn.reshape %arg{{[0-9]}} {moves_rows} : tensor<30xf32> -> tensor<6x5xf32>
    nn.reshape %whole : tensor<30xf32> -> tensor<6x5xf32>
    // CHECK: nn.reshape %arg{{[0-9]}} : tensor<6x5x7xf32> -> tensor<6x1x5x7xf32>
    nn.reshape %six : tensor<6x5x7xf32> -> tensor<6x1x5x7xf32>
    // CHECK: nn.reshape %arg{{[0-9]}} : tensor<4x5xf32> -> tensor<20xf32>
    nn.reshape %four : tensor<4x5xf32> -> tensor<20xf32>
    // CHECK: nn.reshape %arg{{[0-9]}} : tensor<3x5xf32> -> tensor<15xf32>
    nn.reshape %three : tensor<3x5xf32> -> tensor<15xf32>
    return
  }
}

// -----

// An axis of 2 or of 3 divides the rows: its even split goes through.
// CHECK-LABEL: @even
// CHECK: nn.reshape %arg{{[0-9]}} : tensor<6x5xf32> -> tensor<30xf32>
module {
  dist.mesh @mesh <["x" = 4, "y" = 3]>
  func.func @even(%x: tensor<6x5xf32>) {
    nn.reshape %x : tensor<6x5xf32> -> tensor<30xf32>
    return
  }
}
