// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda}))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda},ashlar-order-ops,ashlar-fuse{target=cuda}),ashlar-plan-memory{target=cuda})' | FileCheck %s --check-prefix=EXEC

// bf16 is taken as it is. Bias and activation are a kernel behind the call.
// CHECK-LABEL: @narrow
// CHECK-NOT: nn.cast
// EXEC-LABEL: exec.program @narrow
// EXEC-NEXT: exec.conv forward [{{.*}}memref<2x8x4xbf16>>, {{.*}}memref<6x1x4xbf16>>, {{.*}}memref<2x8x6xbf16>>] batch 2 groups 1 channels 4 to 6 dims [{{.*}}] epilogue none
// EXEC-NEXT: exec.kernel
// EXEC-NOT: exec.kernel
func.func @narrow(%x: tensor<2x8x4xbf16> {nn.name = "x"}, %w: tensor<6x1x4xbf16> {nn.name = "w"}, %b: tensor<6xbf16> {nn.name = "b"})
    -> (tensor<2x8x6xbf16> {nn.name = "y"}) {
  %y = nn.conv %x, %w channels_last weights_last windows = [#nn.window<1>] : tensor<2x8x4xbf16>, tensor<6x1x4xbf16> -> tensor<2x8x6xbf16>
  %repeated = nn.broadcast %b dims = [2] : tensor<6xbf16> -> tensor<2x8x6xbf16>
  %biased = nn.add %y, %repeated : tensor<2x8x6xbf16>
  %a = nn.relu %biased : tensor<2x8x6xbf16>
  return %a : tensor<2x8x6xbf16>
}

// -----

// A gradient in f32 of bf16 is one in bf16 that is converted: the library takes operands and result of one type.
// CHECK-LABEL: @wide_sums
// CHECK: %[[DW:.*]] = nn.conv_weights %arg0, %arg1 {{.*}} : tensor<2x8x4xbf16>, tensor<2x8x6xbf16> -> tensor<6x1x4xbf16>
// CHECK: nn.cast %[[DW]] : tensor<6x1x4xbf16> -> tensor<6x1x4xf32>
// EXEC-LABEL: exec.program @wide_sums
// EXEC: exec.conv weights {{.*}}memref<2x8x4xbf16>{{.*}} epilogue none
// EXEC-NOT: tf32
// EXEC: exec.kernel
func.func @wide_sums(%x: tensor<2x8x4xbf16> {nn.name = "x"}, %y: tensor<2x8x6xbf16> {nn.name = "y"}) -> (tensor<6x1x4xf32> {nn.name = "dw"}) {
  %dw = nn.conv_weights %x, %y channels_last weights_last windows = [#nn.window<1>] : tensor<2x8x4xbf16>, tensor<2x8x6xbf16> -> tensor<6x1x4xf32>
  return %dw : tensor<6x1x4xf32>
}

// -----

// CHECK-LABEL: @wide_data
// CHECK: nn.conv_data {{.*}} : tensor<2x8x6xbf16>, tensor<6x1x4xbf16> -> tensor<2x8x4xbf16>
// CHECK: nn.cast {{.*}} : tensor<2x8x4xbf16> -> tensor<2x8x4xf32>
func.func @wide_data(%y: tensor<2x8x6xbf16> {nn.name = "y"}, %w: tensor<6x1x4xbf16> {nn.name = "w"}) -> (tensor<2x8x4xf32> {nn.name = "dx"}) {
  %dx = nn.conv_data %y, %w channels_last weights_last windows = [#nn.window<1>] : tensor<2x8x6xbf16>, tensor<6x1x4xbf16> -> tensor<2x8x4xf32>
  return %dx : tensor<2x8x4xf32>
}

// -----

// Of f32 operands tf32 would round.
// EXEC-LABEL: exec.program @plain
// EXEC: exec.conv weights {{.*}} epilogue none
// EXEC-NOT: tf32
func.func @plain(%x: tensor<2x8x4xf32> {nn.name = "x"}, %y: tensor<2x8x6xf32> {nn.name = "y"}) -> (tensor<6x1x4xf32> {nn.name = "dw"}) {
  %dw = nn.conv_weights %x, %y channels_last weights_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<2x8x6xf32> -> tensor<6x1x4xf32>
  return %dw : tensor<6x1x4xf32>
}

// -----

// More padding behind than in front is put on, or cut off, ahead of the call: windows of 3, 2 apart, over 8 elements and one behind. Where the
// last windows do not reach that far, as much in front as behind gives the same.
// CHECK-LABEL: @padding
// CHECK: %[[PADDED:.*]] = nn.pad %{{.*}} low = [0, 0, 0] {{.*}} -> tensor<2x9x4xf32>
// CHECK: nn.conv %[[PADDED]], %arg1 channels_last weights_last windows = [#nn.window<3, stride = 2>] : tensor<2x9x4xf32>
// CHECK: %[[DX:.*]] = nn.conv_data %{{.*}}, %arg1 channels_last weights_last windows = [#nn.window<3, stride = 2>] {{.*}} -> tensor<2x9x4xf32>
// CHECK: nn.slice %[[DX]] [0, 0, 0] to [2, 8, 4]
// CHECK: nn.conv %arg0, %arg1 channels_last weights_last windows = [#nn.window<3, stride = 2, low = 1>]
func.func @padding(%x: tensor<2x8x4xf32> {nn.name = "x"}, %w: tensor<6x3x4xf32> {nn.name = "w"})
    -> (tensor<2x8x4xf32> {nn.name = "dx"}, tensor<2x4x6xf32> {nn.name = "even"}) {
  %y = nn.conv %x, %w channels_last weights_last windows = [#nn.window<3, stride = 2, high = 1>] : tensor<2x8x4xf32>, tensor<6x3x4xf32> -> tensor<2x4x6xf32>
  %dx = nn.conv_data %y, %w channels_last weights_last windows = [#nn.window<3, stride = 2, high = 1>] : tensor<2x4x6xf32>, tensor<6x3x4xf32> -> tensor<2x8x4xf32>
  %even = nn.conv %x, %w channels_last weights_last windows = [#nn.window<3, stride = 2, low = 1>] : tensor<2x8x4xf32>, tensor<6x3x4xf32> -> tensor<2x4x6xf32>
  return %dx, %even : tensor<2x8x4xf32>, tensor<2x4x6xf32>
}

// -----

// The library keeps no weights in an order of its own.
// EXEC-LABEL: exec.program @forward
// EXEC: exec.conv forward
// EXEC-NOT: fixed_weights
nn.variable @w : tensor<6x1x4xf32>
func.func @forward(%x: tensor<2x8x4xf32> {nn.name = "x"}) -> (tensor<2x8x6xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<6x1x4xf32>
  %y = nn.conv %x, %w channels_last weights_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x1x4xf32> -> tensor<2x8x6xf32>
  return %y : tensor<2x8x6xf32>
}
