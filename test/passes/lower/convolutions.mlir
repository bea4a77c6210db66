// RUN: ashlar-opt %s -split-input-file -ashlar-expand-ops | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,ashlar-order-ops,ashlar-fuse),ashlar-plan-memory)' | FileCheck %s --check-prefix=EXEC

// Windows of several dims are in the call.
// CHECK-LABEL: @channels_last
// CHECK: nn.conv %arg0, %arg1 channels_last
// EXEC-LABEL: exec.program @channels_last
// EXEC-NEXT: exec.conv forward [{{.*}}memref<2x8x9x4xf32>>, {{.*}}memref<6x4x3x2xf32>>, {{.*}}memref<2x4x8x6xf32>>] batch 2 groups 1 channels 4 to 6 dims [#exec.conv_dim<in = 8, out = 4, kernel = 3, stride = 2, dilation = 1, low = 1>, #exec.conv_dim<in = 9, out = 8, kernel = 2, stride = 1, dilation = 1, low = 0>] epilogue none
// EXEC-NOT: exec.kernel
func.func @channels_last(%x: tensor<2x8x9x4xf32> {nn.name = "x"}, %w: tensor<6x4x3x2xf32> {nn.name = "w"}) -> (tensor<2x4x8x6xf32> {nn.name = "y"}) {
  %y = nn.conv %x, %w channels_last windows = [#nn.window<3, stride = 2, low = 1>, #nn.window<2>] : tensor<2x8x9x4xf32>, tensor<6x4x3x2xf32> -> tensor<2x4x8x6xf32>
  return %y : tensor<2x4x8x6xf32>
}

// -----

// The library takes the channels last only: with the channels first a convolution is a kernel.
// CHECK-LABEL: @channels_first
// CHECK-NOT: nn.conv
// CHECK: nn.windows
// CHECK-NOT: nn.conv
// EXEC-LABEL: exec.program @channels_first
// EXEC-NOT: exec.conv
// EXEC: exec.kernel
// EXEC-NOT: exec.conv
func.func @channels_first(%x: tensor<2x4x8x9xf32> {nn.name = "x"}, %w: tensor<6x4x3x2xf32> {nn.name = "w"}) -> (tensor<2x6x4x8xf32> {nn.name = "y"}) {
  %y = nn.conv %x, %w windows = [#nn.window<3, stride = 2, low = 1>, #nn.window<2>] : tensor<2x4x8x9xf32>, tensor<6x4x3x2xf32> -> tensor<2x6x4x8xf32>
  return %y : tensor<2x6x4x8xf32>
}

// -----

// Bias, another tensor and an activation join the call.
// CHECK-LABEL: @epilogue
// EXEC-LABEL: exec.program @epilogue
// EXEC-NEXT: exec.conv forward [{{.*}}memref<2x8x4xf32>>, {{.*}}memref<6x2x1xf32>>, {{.*}}memref<6xf32>>, {{.*}}memref<2x8x6xf32>>, {{.*}}memref<2x8x6xf32>>] batch 2 groups 2 channels 2 to 3 dims [{{.*}}] bias residual epilogue relu
// EXEC-NOT: exec.kernel
func.func @epilogue(%x: tensor<2x8x4xf32> {nn.name = "x"}, %w: tensor<6x2x1xf32> {nn.name = "w"}, %b: tensor<6xf32> {nn.name = "b"},
                    %r: tensor<2x8x6xf32> {nn.name = "r"}) -> (tensor<2x8x6xf32> {nn.name = "y"}) {
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x2x1xf32> -> tensor<2x8x6xf32>
  %repeated = nn.broadcast %b dims = [2] : tensor<6xf32> -> tensor<2x8x6xf32>
  %biased = nn.add %y, %repeated : tensor<2x8x6xf32>
  %sum = nn.add %r, %biased : tensor<2x8x6xf32>
  %a = nn.relu %sum : tensor<2x8x6xf32>
  return %a : tensor<2x8x6xf32>
}

// -----

// A normalization by known statistics joins too: its factor and what it adds are two numbers a channel, computed ahead of the call.
// CHECK-LABEL: @normalized
// CHECK: %[[FACTOR:.*]] = nn.mul %arg2
// CHECK: %[[BIAS:.*]] = nn.sub %arg3, %{{.*}} : tensor<6xf32>
// CHECK: nn.mul %{{.*}} : tensor<2x8x6xf32>
// CHECK-NOT: nn.normalize
// EXEC-LABEL: exec.program @normalized
// EXEC-NEXT: exec.kernel
// EXEC-NEXT: exec.kernel
// EXEC-NEXT: exec.conv forward [{{.*}}memref<2x8x4xf32>>, {{.*}}memref<6x4x1xf32>>, {{.*}}memref<6xf32>>, {{.*}}memref<6xf32>>, {{.*}}memref<2x8x6xf32>>, {{.*}}memref<2x8x6xf32>>] {{.*}} scale bias residual epilogue relu
// EXEC-NOT: exec.kernel
func.func @normalized(%x: tensor<2x8x4xf32> {nn.name = "x"}, %w: tensor<6x4x1xf32> {nn.name = "w"}, %scale: tensor<6xf32> {nn.name = "scale"},
                      %shift: tensor<6xf32> {nn.name = "shift"}, %mean: tensor<6xf32> {nn.name = "mean"}, %variance: tensor<6xf32> {nn.name = "variance"},
                      %r: tensor<2x8x6xf32> {nn.name = "r"}) -> (tensor<2x8x6xf32> {nn.name = "y"}) {
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  %n = nn.normalize %y, %scale, %shift, %mean, %variance dims = [2] epsilon = 1.000000e-05 : tensor<2x8x6xf32>, tensor<6xf32>
  %sum = nn.add %n, %r : tensor<2x8x6xf32>
  %a = nn.relu %sum : tensor<2x8x6xf32>
  return %a : tensor<2x8x6xf32>
}

// -----

// What others read too stays a result of its own; so does what comes in another order, and what is added to a weight.
// CHECK-LABEL: @not_joined
// EXEC-LABEL: exec.program @not_joined
// EXEC: exec.conv forward {{.*}} epilogue none
// EXEC-DAG: exec.conv data {{.*}} epilogue relu
// EXEC-DAG: exec.conv weights {{.*}} epilogue none
// EXEC: exec.kernel
func.func @not_joined(%x: tensor<2x8x4xf32> {nn.name = "x"}, %w: tensor<6x4x1xf32> {nn.name = "w"}, %b: tensor<4xf32> {nn.name = "b"})
    -> (tensor<2x8x6xf32> {nn.name = "y"}, tensor<2x8x4xf32> {nn.name = "dx"}, tensor<6x4x1xf32> {nn.name = "dw"}) {
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  %a = nn.relu %y : tensor<2x8x6xf32>
  %p = nn.mul %a, %y : tensor<2x8x6xf32>
  %dx = nn.conv_data %p, %w channels_last windows = [#nn.window<1>] : tensor<2x8x6xf32>, tensor<6x4x1xf32> -> tensor<2x8x4xf32>
  %r = nn.relu %dx : tensor<2x8x4xf32>
  %repeated = nn.broadcast %b dims = [2] : tensor<4xf32> -> tensor<2x8x4xf32>
  %biased = nn.add %r, %repeated : tensor<2x8x4xf32>
  %dw = nn.conv_weights %x, %p channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<2x8x6xf32> -> tensor<6x4x1xf32>
  %next = nn.add %dw, %w : tensor<6x4x1xf32>
  return %p, %biased, %next : tensor<2x8x6xf32>, tensor<2x8x4xf32>, tensor<6x4x1xf32>
}

// -----

// bf16 is taken as it is, with what follows: no conversion, and no kernel.
// CHECK-LABEL: @narrow
// CHECK-NOT: nn.cast
// CHECK: nn.conv %arg0, %arg1 channels_last {{.*}} : tensor<2x8x4xbf16>, tensor<6x4x1xbf16> -> tensor<2x8x6xbf16>
// CHECK-NOT: nn.cast
// EXEC-LABEL: exec.program @narrow
// EXEC-NEXT: exec.conv forward [{{.*}}memref<2x8x4xbf16>>, {{.*}}memref<6x4x1xbf16>>, {{.*}}memref<6xbf16>>, {{.*}}memref<2x8x6xbf16>>, {{.*}}memref<2x8x6xbf16>>] {{.*}} bias residual epilogue relu
// EXEC-NOT: exec.kernel
func.func @narrow(%x: tensor<2x8x4xbf16> {nn.name = "x"}, %w: tensor<6x4x1xbf16> {nn.name = "w"}, %b: tensor<6xbf16> {nn.name = "b"},
                  %r: tensor<2x8x6xbf16> {nn.name = "r"}) -> (tensor<2x8x6xbf16> {nn.name = "y"}) {
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xbf16>, tensor<6x4x1xbf16> -> tensor<2x8x6xbf16>
  %repeated = nn.broadcast %b dims = [2] : tensor<6xbf16> -> tensor<2x8x6xbf16>
  %biased = nn.add %y, %repeated : tensor<2x8x6xbf16>
  %sum = nn.add %biased, %r : tensor<2x8x6xbf16>
  %a = nn.relu %sum : tensor<2x8x6xbf16>
  return %a : tensor<2x8x6xbf16>
}

// -----

// So is f16, and the gradient of a weight can be given in f32, in which it was added up.
// CHECK-LABEL: @narrow_gradients
// CHECK-NOT: nn.cast
// EXEC-LABEL: exec.program @narrow_gradients
// EXEC-DAG: exec.conv data [{{.*}}memref<2x8x6xf16>>, {{.*}}memref<6x4x1xf16>>, {{.*}}memref<2x8x4xf16>>]
// EXEC-DAG: exec.conv weights [{{.*}}memref<2x8x4xf16>>, {{.*}}memref<2x8x6xf16>>, {{.*}}memref<6x4x1xf32>>]
// EXEC-NOT: exec.kernel
func.func @narrow_gradients(%x: tensor<2x8x4xf16> {nn.name = "x"}, %w: tensor<6x4x1xf16> {nn.name = "w"}, %y: tensor<2x8x6xf16> {nn.name = "y"})
    -> (tensor<2x8x4xf16> {nn.name = "dx"}, tensor<6x4x1xf32> {nn.name = "dw"}) {
  %dx = nn.conv_data %y, %w channels_last windows = [#nn.window<1>] : tensor<2x8x6xf16>, tensor<6x4x1xf16> -> tensor<2x8x4xf16>
  %dw = nn.conv_weights %x, %y channels_last windows = [#nn.window<1>] : tensor<2x8x4xf16>, tensor<2x8x6xf16> -> tensor<6x4x1xf32>
  return %dx, %dw : tensor<2x8x4xf16>, tensor<6x4x1xf32>
}

// -----

// What no library takes is a sum over windows, in a kernel.
// CHECK-LABEL: @double
// CHECK: nn.windows
// CHECK: nn.mul
// CHECK: nn.reduce sum {{.*}} dims = [4, 5] : tensor<2x2x3x8x2x1xf64> -> tensor<2x2x3x8xf64>
// CHECK-NOT: nn.conv
// EXEC-LABEL: exec.program @double
// EXEC-NOT: exec.conv
// EXEC: exec.kernel
// EXEC-NOT: exec.kernel
func.func @double(%x: tensor<2x4x8xf64> {nn.name = "x"}, %w: tensor<6x2x1xf64> {nn.name = "w"}) -> (tensor<2x6x8xf64> {nn.name = "y"}) {
  %y = nn.conv %x, %w windows = [#nn.window<1>] : tensor<2x4x8xf64>, tensor<6x2x1xf64> -> tensor<2x6x8xf64>
  return %y : tensor<2x6x8xf64>
}

// -----

// Sums of nothing are 0.
// CHECK-LABEL: @empty
// CHECK-NOT: nn.conv
// CHECK: nn.constant dense<0.000000e+00> : tensor<6x4x1xf32>
// EXEC-LABEL: exec.program @empty
func.func @empty(%x: tensor<0x8x4xf32> {nn.name = "x"}, %y: tensor<0x8x6xf32> {nn.name = "y"}) -> (tensor<6x4x1xf32> {nn.name = "dw"}) {
  %dw = nn.conv_weights %x, %y channels_last windows = [#nn.window<1>] : tensor<0x8x4xf32>, tensor<0x8x6xf32> -> tensor<6x4x1xf32>
  return %dw : tensor<6x4x1xf32>
}
