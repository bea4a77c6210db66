// RUN: ashlar-opt %s -split-input-file '-ashlar-assign-formats=target=cuda' | FileCheck %s

// Weights are read in the order of the library, once for the forward pass and the data gradient; their gradient is put back. Of 1 x 1 windows
// nothing has to move.
// CHECK-LABEL: func.func @weights
// CHECK-SAME: %[[X:.*]]: tensor<8x3x16x16xf32>, %[[W:.*]]: tensor<4x3x3x3xf32>, %[[V:.*]]: tensor<4x4x1x1xf32>
// CHECK-DAG: %[[WL:.*]] = nn.transpose %[[W]] [0, 2, 3, 1] {nn.reordered} : tensor<4x3x3x3xf32> -> tensor<4x3x3x3xf32>
// CHECK-DAG: %[[VL:.*]] = nn.reshape %[[V]] : tensor<4x4x1x1xf32> -> tensor<4x1x1x4xf32>
// CHECK: %[[Y:.*]] = nn.conv %{{.*}}, %[[WL]] channels_last weights_last
// CHECK: %[[Z:.*]] = nn.conv %[[Y]], %[[VL]] channels_last weights_last
// CHECK: nn.conv_data %[[Z]], %[[VL]] channels_last weights_last
// CHECK: %[[DW:.*]] = nn.conv_weights {{.*}} channels_last weights_last {{.*}} -> tensor<4x3x3x3xf32>
// CHECK: %[[BACK:.*]] = nn.transpose %[[DW]] [0, 3, 1, 2] {nn.reordered} : tensor<4x3x3x3xf32> -> tensor<4x3x3x3xf32>
// CHECK: return %[[BACK]]
func.func @weights(%x: tensor<8x3x16x16xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<4x4x1x1xf32>) -> tensor<4x3x3x3xf32> attributes {nn.program = #nn.program<weights>} {
  %y = nn.conv %x, %w windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
     : tensor<8x3x16x16xf32>, tensor<4x3x3x3xf32> -> tensor<8x4x16x16xf32>
  %z = nn.conv %y, %v windows = [#nn.window<1>, #nn.window<1>] : tensor<8x4x16x16xf32>, tensor<4x4x1x1xf32> -> tensor<8x4x16x16xf32>
  %dy = nn.conv_data %z, %v windows = [#nn.window<1>, #nn.window<1>] : tensor<8x4x16x16xf32>, tensor<4x4x1x1xf32> -> tensor<8x4x16x16xf32>
  %dw = nn.conv_weights %x, %dy windows = [#nn.window<3, low = 1, high = 1>, #nn.window<3, low = 1, high = 1>]
     : tensor<8x3x16x16xf32>, tensor<8x4x16x16xf32> -> tensor<4x3x3x3xf32>
  return %dw : tensor<4x3x3x3xf32>
}
