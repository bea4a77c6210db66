// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,ashlar-order-ops,ashlar-fuse),ashlar-plan-memory,ashlar-verify-exec)' | FileCheck %s

// Weights that only @init writes are fixed, behind a reshape and as constants too; what is computed from them in each run is not.
// CHECK-LABEL: exec.program @init
// CHECK: exec.conv forward {{.*}} epilogue none{{$}}
// CHECK-LABEL: exec.program @forward
// CHECK: exec.conv forward {{.*}} epilogue none fixed_weights{{$}}
// CHECK: exec.conv forward {{.*}} epilogue none fixed_weights{{$}}
// CHECK: exec.conv data {{.*}} epilogue none fixed_weights{{$}}
// CHECK: exec.conv forward [{{.*}}constant{{.*}} epilogue none fixed_weights{{$}}
// CHECK: exec.kernel
// CHECK-NEXT: exec.conv forward {{.*}} epilogue none{{$}}
nn.variable @w : tensor<6x4x1xf32>
nn.variable @y : tensor<2x8x6xf32>
func.func @init(%x: tensor<2x8x4xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<init>} {
  %w = nn.constant dense<0.5> : tensor<6x4x1xf32>
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  nn.write @w, %w : tensor<6x4x1xf32>
  nn.write @y, %y : tensor<2x8x6xf32>
  return
}
func.func @forward(%x: tensor<2x8x4xf32> {nn.name = "x"}, %narrow: tensor<6x4x1xf64> {nn.name = "narrow"})
    -> (tensor<2x8x6xf32> {nn.name = "a"}, tensor<2x8x4xf32> {nn.name = "b"}, tensor<2x8x6xf32> {nn.name = "c"}, tensor<2x8x6xf32> {nn.name = "d"},
        tensor<2x1x8x6xf32> {nn.name = "e"}) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<6x4x1xf32>
  %a = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  %plane = nn.reshape %w : tensor<6x4x1xf32> -> tensor<6x4x1x1xf32>
  %planes = nn.reshape %x : tensor<2x8x4xf32> -> tensor<2x1x8x4xf32>
  %e = nn.conv %planes, %plane channels_last windows = [#nn.window<1>, #nn.window<1>] : tensor<2x1x8x4xf32>, tensor<6x4x1x1xf32> -> tensor<2x1x8x6xf32>
  %b = nn.conv_data %a, %w channels_last windows = [#nn.window<1>] : tensor<2x8x6xf32>, tensor<6x4x1xf32> -> tensor<2x8x4xf32>
  %k = nn.constant dense<0.25> : tensor<6x4x1xf32>
  %c = nn.conv %x, %k channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  %cast = nn.cast %narrow : tensor<6x4x1xf64> -> tensor<6x4x1xf32>
  %sum = nn.add %w, %cast : tensor<6x4x1xf32>
  %d = nn.conv %x, %sum channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  return %a, %b, %c, %d, %e : tensor<2x8x6xf32>, tensor<2x8x4xf32>, tensor<2x8x6xf32>, tensor<2x8x6xf32>, tensor<2x1x8x6xf32>
}

// -----

// Weights that a program trains are not, in no program; a variable beside them is.
// CHECK-LABEL: exec.program @train_step
// CHECK: exec.conv forward [{{.*}}memref<6x4x1xf32>{{.*}} epilogue none{{$}}
// CHECK: exec.conv weights {{.*}} epilogue none{{$}}
// CHECK-LABEL: exec.program @eval_step
// CHECK: exec.conv forward [{{.*}}memref<6x4x1xf32>{{.*}} epilogue none{{$}}
// CHECK: exec.conv forward [{{.*}}memref<3x6x1xf32>{{.*}} epilogue none fixed_weights{{$}}
nn.variable @frozen : tensor<3x6x1xf32>
nn.variable @w trainable : tensor<6x4x1xf32>
nn.variable @behind : tensor<3x6x1xf32>
func.func @train_step(%x: tensor<2x8x4xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<6x4x1xf32>
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  %dw = nn.conv_weights %x, %y channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<2x8x6xf32> -> tensor<6x4x1xf32>
  %next = nn.sub %w, %dw : tensor<6x4x1xf32>
  nn.write @w, %next : tensor<6x4x1xf32>
  return
}
func.func @eval_step(%x: tensor<2x8x4xf32> {nn.name = "x"}) -> (tensor<2x8x3xf32> {nn.name = "z"}) attributes {nn.program = #nn.program<eval_step>} {
  %w = nn.read @w : tensor<6x4x1xf32>
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  %v = nn.read @frozen : tensor<3x6x1xf32>
  %z = nn.conv %y, %v channels_last windows = [#nn.window<1>] : tensor<2x8x6xf32>, tensor<3x6x1xf32> -> tensor<2x8x3xf32>
  return %z : tensor<2x8x3xf32>
}

// -----

// Products: what is on the right is ordered once, transposed or not, read through a reshape or twice; what is on the left is not looked at, nor are
// weights that a run computes.
// CHECK-LABEL: exec.program @forward
// CHECK: exec.gemm {{.*}} transpose_b epilogue none fixed_weights{{$}}
// CHECK: exec.gemm {{.*}} epilogue none fixed_weights{{$}}
// CHECK: exec.gemm {{.*}} epilogue none{{$}}
// CHECK: exec.gemm {{.*}} epilogue none{{$}}
nn.variable @w : tensor<64x64xf32>
func.func @init() attributes {nn.program = #nn.program<init>} {
  %w = nn.constant dense<0.5> : tensor<64x64xf32>
  nn.write @w, %w : tensor<64x64xf32>
  return
}
func.func @forward(%x: tensor<64x64xf32> {nn.name = "x"}) -> (tensor<64x64xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<64x64xf32>
  %a = nn.matmul %x, %w transpose_b : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %b = nn.matmul %a, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %c = nn.matmul %w, %b : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %d = nn.matmul %c, %b : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  return %d : tensor<64x64xf32>
}

// -----

// In a repeat, what nothing in it writes is kept: a captured value, and in the inner repeat a row of the outer one, which moves in that. The
// row of the repeat itself, and a value of the body, are not. A variable that only @init writes is fixed.
// CHECK-LABEL: exec.program @forward
// CHECK: exec.repeat 3 {
// CHECK: exec.conv forward [{{.*}}memref<16x8x1xf32>{{.*}} epilogue none kept_weights{{$}}
// CHECK: exec.conv forward [{{.*}}memref<8x16x1xf32>>{{.*}} epilogue none fixed_weights{{$}}
// CHECK: exec.conv forward [{{.*}}memref<24x8x1xf32>, strides = {{.*}} epilogue none{{$}}
// CHECK: exec.repeat 2 {
// CHECK: exec.conv forward [{{.*}}memref<24x24x1xf32>, strides = {{.*}} epilogue none kept_weights{{$}}
// CHECK: }
// CHECK: exec.conv forward [{{.*}}memref<8x24x1xf32>>{{.*}} epilogue none{{$}}
nn.variable @fixed : tensor<8x16x1xf32>
func.func @init() attributes {nn.program = #nn.program<init>} {
  %w = nn.constant dense<0.5> : tensor<8x16x1xf32>
  nn.write @fixed, %w : tensor<8x16x1xf32>
  return
}
func.func @forward(%x: tensor<2x8x8xf32> {nn.name = "x"}, %narrow: tensor<16x8x1xf32> {nn.name = "narrow"}, %rows: tensor<3x24x8x1xf32> {nn.name = "rows"},
                   %squares: tensor<3x24x24x1xf32> {nn.name = "squares"}, %last: tensor<8x24x1xf32> {nn.name = "last"})
    -> (tensor<2x8x8xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %w = nn.exp %narrow : tensor<16x8x1xf32>
  %f = nn.read @fixed : tensor<8x16x1xf32>
  %y = nn.repeat 3 carried(%a = %x) sliced(%row = %rows, %square = %squares) captured(%v = %w, %g = %f, %l = %last)
      : (tensor<2x8x8xf32>, tensor<3x24x8x1xf32>, tensor<3x24x24x1xf32>, tensor<16x8x1xf32>, tensor<8x16x1xf32>, tensor<8x24x1xf32>) -> (tensor<2x8x8xf32>) {
    %b = nn.conv %a, %v channels_last windows = [#nn.window<1>] : tensor<2x8x8xf32>, tensor<16x8x1xf32> -> tensor<2x8x16xf32>
    %c = nn.conv %b, %g channels_last windows = [#nn.window<1>] : tensor<2x8x16xf32>, tensor<8x16x1xf32> -> tensor<2x8x8xf32>
    %d = nn.conv %c, %row channels_last windows = [#nn.window<1>] : tensor<2x8x8xf32>, tensor<24x8x1xf32> -> tensor<2x8x24xf32>
    %e = nn.repeat 2 carried(%h = %d) captured(%s = %square) : (tensor<2x8x24xf32>, tensor<24x24x1xf32>) -> (tensor<2x8x24xf32>) {
      %next = nn.conv %h, %s channels_last windows = [#nn.window<1>] : tensor<2x8x24xf32>, tensor<24x24x1xf32> -> tensor<2x8x24xf32>
      nn.yield %next : tensor<2x8x24xf32>
    }
    %k = nn.neg %l : tensor<8x24x1xf32>
    %z = nn.conv %e, %k channels_last windows = [#nn.window<1>] : tensor<2x8x24xf32>, tensor<8x24x1xf32> -> tensor<2x8x8xf32>
    nn.yield %z : tensor<2x8x8xf32>
  }
  return %y : tensor<2x8x8xf32>
}
