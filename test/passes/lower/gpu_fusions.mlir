// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda},ashlar-order-ops,ashlar-fuse{target=cuda}))' | FileCheck %s

// The sum of everything keeps one block busy and leaves the rest of the chip idle: 64 segments first, then their sum, and the mean of it.
// CHECK-LABEL: @mean
// CHECK: %[[R:.*]] = nn.reshape %{{.*}} : tensor<1048576xf32> -> tensor<64x16384xf32>
// CHECK: %[[P:.*]] = exec.fusion rows(%[[R]]) : (tensor<64x16384xf32>) -> tensor<64xf32>
// CHECK: nn.mul
// CHECK: nn.reduce sum %{{.*}} dims = [1] : tensor<64x16384xf32> -> tensor<64xf32>
// CHECK: exec.fusion rows(%[[P]]) : (tensor<64xf32>) -> tensor<f32>
// CHECK: nn.reduce sum %{{.*}} dims = [0] : tensor<64xf32> -> tensor<f32>
// CHECK: nn.mul
func.func @mean(%x: tensor<1048576xf32>) -> tensor<f32> {
  %q = nn.mul %x, %x : tensor<1048576xf32>
  %s = nn.reduce sum %q dims = [0] : tensor<1048576xf32> -> tensor<f32>
  %n = nn.constant dense<9.536743e-07> : tensor<f32>
  %m = nn.mul %s, %n : tensor<f32>
  return %m : tensor<f32>
}

// -----

// Columns: the rows in segments, so that there are blocks enough; what is computed on the way is computed once and keeps its shape.
// CHECK-LABEL: @columns
// CHECK: %[[X:.*]] = nn.reshape %arg0 : tensor<8192x256xf32> -> tensor<[[#S:]]x[[#M:]]x256xf32>
// CHECK: %[[P:.*]]:2 = exec.fusion columns(%[[X]], %arg1) : (tensor<[[#S]]x[[#M]]x256xf32>, tensor<256xf32>) -> (tensor<[[#S]]x[[#M]]x256xf32>, tensor<[[#S]]x256xf32>)
// CHECK: nn.broadcast %{{.*}} dims = [2]
// CHECK: nn.reduce sum %{{.*}} dims = [1]
// CHECK: %[[FULL:.*]] = nn.reshape %[[P]]#0
// CHECK: %[[SUM:.*]] = exec.fusion rows(%[[P]]#1) : (tensor<[[#S]]x256xf32>) -> tensor<256xf32>
// CHECK: return %[[FULL]], %[[SUM]]
func.func @columns(%x: tensor<8192x256xf32>, %b: tensor<256xf32>) -> (tensor<8192x256xf32>, tensor<256xf32>) {
  %c = nn.broadcast %b dims = [1] : tensor<256xf32> -> tensor<8192x256xf32>
  %y = nn.add %x, %c : tensor<8192x256xf32>
  %s = nn.reduce sum %y dims = [0] : tensor<8192x256xf32> -> tensor<256xf32>
  return %y, %s : tensor<8192x256xf32>, tensor<256xf32>
}

// -----

// What a row computes from its reduction stays in one kernel, however long the row.
// CHECK-LABEL: @softmax
// CHECK: exec.fusion rows
// CHECK-NOT: exec.fusion
func.func @softmax(%x: tensor<1x1048576xf32>) -> tensor<1x1048576xf32> {
  %y = nn.softmax %x : tensor<1x1048576xf32>
  return %y : tensor<1x1048576xf32>
}

// -----

// The library takes bf16 with a bias of it and a relu; sums that are wanted in f32 only come in f32.
// CHECK-LABEL: @products
// CHECK: exec.fusion gemm({{.*}}) : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16>) -> tensor<64x64xbf16>
// CHECK: nn.matmul
// CHECK: nn.add
// CHECK: nn.relu
// CHECK: exec.fusion gemm({{.*}}) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
// CHECK: nn.matmul
// CHECK: nn.cast
func.func @products(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %b: tensor<64xbf16>) -> tensor<64x64xf32> {
  %p = nn.matmul %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %c = nn.broadcast %b dims = [1] : tensor<64xbf16> -> tensor<64x64xbf16>
  %a = nn.add %p, %c : tensor<64x64xbf16>
  %h = nn.relu %a : tensor<64x64xbf16>
  %q = nn.matmul %h, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %y = nn.cast %q : tensor<64x64xbf16> -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// Of the activations cuBLASLt has only relu and the tanh form of gelu.
// CHECK-LABEL: @activations
// CHECK: exec.fusion gemm
// CHECK: nn.gelu {{.*}}tanh
// CHECK: exec.fusion gemm
// CHECK-NOT: nn.gelu
// CHECK: exec.fusion loop
// CHECK: nn.gelu
// CHECK: exec.fusion gemm
// CHECK-NOT: nn.sigmoid
// CHECK: exec.fusion loop
// CHECK: nn.sigmoid
func.func @activations(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = nn.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %1 = nn.gelu %0 tanh_approximation : tensor<64x64xf32>
  %2 = nn.matmul %1, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %3 = nn.gelu %2 : tensor<64x64xf32>
  %4 = nn.matmul %3, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %5 = nn.sigmoid %4 : tensor<64x64xf32>
  return %5 : tensor<64x64xf32>
}

// -----

// A sum of bf16 is computed in f32 and rounded once.
// CHECK-LABEL: @sum
// CHECK: nn.cast {{.*}} : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK: nn.reduce sum {{.*}} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK: nn.cast {{.*}} : tensor<4xf32> -> tensor<4xbf16>
func.func @sum(%x: tensor<4x8xbf16>) -> tensor<4xbf16> {
  %s = nn.reduce sum %x dims = [1] : tensor<4x8xbf16> -> tensor<4xbf16>
  return %s : tensor<4xbf16>
}

// -----

// A product of merged rows keeps its bias and activation: the change of shape comes after them.
// CHECK-LABEL: @merged
// CHECK: exec.fusion gemm({{.*}}) : (tensor<32x64xf32>, tensor<64x16xf32>, tensor<16xf32>) -> tensor<32x16xf32>
// CHECK: nn.matmul
// CHECK: nn.broadcast %{{.*}} dims = [1] : tensor<16xf32> -> tensor<32x16xf32>
// CHECK: nn.add
// CHECK: nn.relu
// CHECK: nn.reshape %{{.*}} : tensor<32x16xf32> -> tensor<4x8x16xf32>
// CHECK-NOT: exec.fusion
func.func @merged(%x: tensor<4x8x64xf32>, %w: tensor<64x16xf32>, %b: tensor<16xf32>) -> tensor<4x8x16xf32> {
  %ws = nn.broadcast %w dims = [1, 2] : tensor<64x16xf32> -> tensor<4x64x16xf32>
  %p = nn.matmul %x, %ws : tensor<4x8x64xf32>, tensor<4x64x16xf32> -> tensor<4x8x16xf32>
  %c = nn.broadcast %b dims = [2] : tensor<16xf32> -> tensor<4x8x16xf32>
  %a = nn.add %p, %c : tensor<4x8x16xf32>
  %h = nn.relu %a : tensor<4x8x16xf32>
  return %h : tensor<4x8x16xf32>
}

// -----

// A product of one element that becomes a scalar: nothing moves, since there is no last dim to keep.
// CHECK-LABEL: @scalar
// CHECK: exec.fusion gemm
// CHECK: exec.fusion loop
func.func @scalar(%x: tensor<1x32768xf32>, %y: tensor<32768x1xf32>, %b: tensor<f32>) -> tensor<f32> {
  %p = nn.matmul %x, %y : tensor<1x32768xf32>, tensor<32768x1xf32> -> tensor<1x1xf32>
  %s = nn.reshape %p : tensor<1x1xf32> -> tensor<f32>
  %r = nn.add %s, %b : tensor<f32>
  return %r : tensor<f32>
}

// -----

// Samples and places of a sequence are cut as one dim, else three blocks would sum up 25 MB: 128 segments of 128 rows, 3 blocks of columns each.
// What repeats a number for each of them is cut as they are.
// CHECK-LABEL: @rows_of_samples
// CHECK: %[[X:.*]] = nn.reshape %arg0 : tensor<16x1024x768xbf16> -> tensor<128x128x768xbf16>
// CHECK: %[[D:.*]] = nn.reshape %arg1 : tensor<16x1024xf32> -> tensor<128x128xf32>
// CHECK: %[[P:.*]] = exec.fusion columns(%[[X]], %[[D]]) : (tensor<128x128x768xbf16>, tensor<128x128xf32>) -> tensor<128x768xf32>
// CHECK: nn.broadcast %{{.*}} dims = [0, 1] : tensor<128x128xf32> -> tensor<128x128x768xf32>
// CHECK: nn.reduce sum %{{.*}} dims = [1] : tensor<128x128x768xf32> -> tensor<128x768xf32>
// CHECK: exec.fusion rows(%[[P]]) : (tensor<128x768xf32>) -> tensor<768xf32>
// CHECK: nn.transpose %{{.*}} [1, 0] : tensor<128x768xf32> -> tensor<768x128xf32>
// CHECK: nn.reduce sum %{{.*}} dims = [1]
func.func @rows_of_samples(%x: tensor<16x1024x768xbf16>, %d: tensor<16x1024xf32>) -> tensor<768xf32> {
  %w = nn.cast %x : tensor<16x1024x768xbf16> -> tensor<16x1024x768xf32>
  %b = nn.broadcast %d dims = [0, 1] : tensor<16x1024xf32> -> tensor<16x1024x768xf32>
  %m = nn.mul %w, %b : tensor<16x1024x768xf32>
  %s = nn.reduce sum %m dims = [0, 1] : tensor<16x1024x768xf32> -> tensor<768xf32>
  return %s : tensor<768xf32>
}

// -----

// What differs from sample to sample keeps them apart: they are cut alone.
// CHECK-LABEL: @samples_apart
// CHECK: exec.fusion columns({{.*}}) : (tensor<{{[0-9]+}}x{{[0-9]+}}x64x768xf32>, tensor<{{[0-9]+}}x{{[0-9]+}}xf32>) -> tensor<{{[0-9]+}}x768xf32>
func.func @samples_apart(%x: tensor<256x64x768xf32>, %d: tensor<256xf32>) -> tensor<768xf32> {
  %b = nn.broadcast %d dims = [0] : tensor<256xf32> -> tensor<256x64x768xf32>
  %m = nn.mul %x, %b : tensor<256x64x768xf32>
  %s = nn.reduce sum %m dims = [0, 1] : tensor<256x64x768xf32> -> tensor<768xf32>
  return %s : tensor<768xf32>
}

// -----

// Logits that kernels alone read come in bf16; a result of the function in f32 comes from the library.
// CHECK-LABEL: @logits
// CHECK: %[[L:.*]] = exec.fusion gemm({{.*}}) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
// CHECK: exec.fusion rows(%[[L]])
// CHECK: exec.fusion gemm({{.*}}) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
func.func @logits(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %l = nn.matmul %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %c = nn.cast %l : tensor<64x64xbf16> -> tensor<64x64xf32>
  %s = nn.softmax %c : tensor<64x64xf32>
  %m = nn.matmul %w, %x : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %d = nn.cast %m : tensor<64x64xbf16> -> tensor<64x64xf32>
  return %s, %d : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// The kernel that adds up the segments finishes the statistics of a batch normalization; the running mean, which takes the place of the old one, is
// a kernel of its own, for all threads of a row would read it.
// CHECK-LABEL: @statistics
// CHECK: exec.fusion columns
// CHECK: exec.fusion rows(
// CHECK: nn.reduce
// CHECK: nn.sqrt
// CHECK: exec.fusion loop(
// CHECK: nn.write @mean
// CHECK: exec.fusion loop(
// CHECK-NOT: exec.fusion
// CHECK: return
func.func @statistics(%x: tensor<65536x64xf32>) -> tensor<65536x64xf32> {
  %s = nn.reduce sum %x dims = [0] : tensor<65536x64xf32> -> tensor<64xf32>
  %n = nn.constant dense<1.52587891E-5> : tensor<64xf32>
  %m = nn.mul %s, %n : tensor<64xf32>
  %d = nn.sqrt %m : tensor<64xf32>
  %old = nn.read @mean : tensor<64xf32>
  %new = nn.add %old, %m : tensor<64xf32>
  nn.write @mean, %new : tensor<64xf32>
  %b = nn.broadcast %d dims = [1] : tensor<64xf32> -> tensor<65536x64xf32>
  %y = nn.mul %x, %b : tensor<65536x64xf32>
  return %y : tensor<65536x64xf32>
}
nn.variable @mean : tensor<64xf32>
