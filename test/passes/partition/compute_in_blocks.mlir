// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-compute-in-blocks{least-bytes=2048 least-rows=1 time-share=30}))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-compute-in-blocks))' | FileCheck %s --check-prefix=SMALL

// SMALL-NOT: nn.slice

// Logits of 16 samples of 4 tokens, 8 KiB, in four blocks of samples: of what is left, losses and gradients of the rows are joined, the gradient of the
// weight is added up. The one-hot numbers are made outside, and read in pieces.

// CHECK-LABEL: func.func @loss
// CHECK-DAG: %[[ONES:.*]] = nn.index
// CHECK: nn.slice %arg0 [0, 0] to [16, 8] by [1, 1] : tensor<64x8xf32> -> tensor<16x8xf32>
// CHECK: %[[S0:.*]] = nn.matmul {{.*}} : tensor<16x8xf32>, tensor<8x32xf32> -> tensor<16x32xf32>
// CHECK: nn.reshape %[[S0]] : tensor<16x32xf32> -> tensor<4x4x32xf32>
// CHECK: nn.slice %arg2 [0, 0] to [4, 4] by [1, 1]
// CHECK: nn.softmax_cross_entropy
// CHECK: nn.slice {{.*}} [0, 0, 0] to [4, 4, 32] by [1, 1, 1] : tensor<16x4x32xi64>
// CHECK: %[[D0:.*]] = nn.matmul {{.*}} transpose_a : tensor<16x8xf32>, tensor<16x32xf32> -> tensor<8x32xf32>
// CHECK: nn.matmul {{.*}} transpose_b : tensor<16x32xf32>, tensor<8x32xf32> -> tensor<16x8xf32>
// CHECK: %[[X1:.*]] = dist.after %arg0, %[[D0]]
// CHECK: nn.slice %[[X1]] [16, 0] to [32, 8] by [1, 1]
// CHECK: %[[D1:.*]] = nn.matmul {{.*}} transpose_a
// CHECK: nn.add %[[D0]], %[[D1]] : tensor<8x32xf32>
// CHECK: nn.slice {{.*}} [48, 0] to [64, 8] by [1, 1]
// CHECK-NOT: tensor<64x32xf32>
// CHECK: nn.concat {{.*}} dim = 0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
// CHECK: nn.reduce sum

func.func @loss(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>, %labels: tensor<16x4xi64>) -> (tensor<f32>, tensor<64x8xf32>, tensor<8x32xf32>) {
  %scale = nn.constant dense<0.0625> : tensor<16x4x32xf32>
  %s = nn.matmul %x, %w {nn.outputs = ["logits"]} : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %t = nn.reshape %s : tensor<64x32xf32> -> tensor<16x4x32xf32>
  %rows = nn.softmax_cross_entropy %t, %labels : tensor<16x4x32xf32>, tensor<16x4xi64> -> tensor<16x4xf32>
  %loss = nn.reduce sum %rows dims = [0, 1] : tensor<16x4xf32> -> tensor<f32>
  %p = nn.softmax %t : tensor<16x4x32xf32>
  %numbers = nn.index [0, 0, 1] : tensor<16x4x32xi64>
  %wide = nn.broadcast %labels dims = [0, 1] : tensor<16x4xi64> -> tensor<16x4x32xi64>
  %is = nn.compare eq %wide, %numbers : tensor<16x4x32xi64> -> tensor<16x4x32xi1>
  %one = nn.cast %is : tensor<16x4x32xi1> -> tensor<16x4x32xf32>
  %g = nn.sub %p, %one : tensor<16x4x32xf32>
  %h = nn.mul %g, %scale : tensor<16x4x32xf32>
  %d = nn.reshape %h : tensor<16x4x32xf32> -> tensor<64x32xf32>
  %dw = nn.matmul %x, %d transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  %dx = nn.matmul %d, %w transpose_b : tensor<64x32xf32>, tensor<8x32xf32> -> tensor<64x8xf32>
  return %loss, %dx, %dw : tensor<f32>, tensor<64x8xf32>, tensor<8x32xf32>
}

// -----

// Sums over samples of bf16 are kept in f32 up to the last block.

// CHECK-LABEL: func.func @narrow
// CHECK: %[[A:.*]] = nn.matmul {{.*}} transpose_a : tensor<32x8xbf16>, tensor<32x32xbf16> -> tensor<8x32xf32>
// CHECK: %[[B:.*]] = nn.matmul {{.*}} transpose_a : tensor<32x8xbf16>, tensor<32x32xbf16> -> tensor<8x32xf32>
// CHECK: %[[C:.*]] = nn.add %[[A]], %[[B]] : tensor<8x32xf32>
// CHECK: nn.cast %[[C]] : tensor<8x32xf32> -> tensor<8x32xbf16>

func.func @narrow(%x: tensor<64x8xbf16>, %w: tensor<8x32xbf16>) -> tensor<8x32xbf16> {
  %s = nn.matmul %x, %w : tensor<64x8xbf16>, tensor<8x32xbf16> -> tensor<64x32xbf16>
  %e = nn.relu %s : tensor<64x32xbf16>
  %dw = nn.matmul %x, %e transpose_a : tensor<64x8xbf16>, tensor<64x32xbf16> -> tensor<8x32xbf16>
  return %dw : tensor<8x32xbf16>
}

// -----

// The product is a result; a value as large as it is one; a block needs the sum over all samples; and what is made of that outside.

// CHECK-LABEL: func.func @kept
// CHECK-NOT: nn.slice

func.func @kept(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> (tensor<64x32xf32>, tensor<8x32xf32>) {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %e = nn.relu %s : tensor<64x32xf32>
  %d = nn.matmul %x, %e transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  return %e, %d : tensor<64x32xf32>, tensor<8x32xf32>
}

// CHECK-LABEL: func.func @normalized
// CHECK-NOT: nn.slice

func.func @normalized(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> tensor<64xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %m = nn.reduce sum %s dims = [0] : tensor<64x32xf32> -> tensor<32xf32>
  %b = nn.broadcast %m dims = [1] : tensor<32xf32> -> tensor<64x32xf32>
  %c = nn.sub %s, %b : tensor<64x32xf32>
  %p = nn.softmax %c : tensor<64x32xf32>
  %r = nn.reduce max %p dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// CHECK-LABEL: func.func @normalized_outside
// CHECK-NOT: nn.slice

func.func @normalized_outside(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> tensor<64x8xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %m = nn.reduce max %s dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %t = nn.reduce sum %m dims = [0] : tensor<64xf32> -> tensor<f32>
  %b = nn.broadcast %t dims = [] : tensor<f32> -> tensor<64x32xf32>
  %c = nn.sub %s, %b : tensor<64x32xf32>
  %d = nn.matmul %c, %w transpose_b : tensor<64x32xf32>, tensor<8x32xf32> -> tensor<64x8xf32>
  return %d : tensor<64x8xf32>
}

// -----

// A vocabulary that is sharded over two devices: each block has the collectives of its rows.

// CHECK-LABEL: func.func @sharded
// CHECK: %[[S0:.*]] = nn.matmul {{.*}} -> tensor<16x32xf32>
// CHECK: %[[M0:.*]] = nn.reduce max %[[S0]] dims = [1] : tensor<16x32xf32> -> tensor<16xf32>
// CHECK: %[[N0:.*]] = dist.all_reduce max %[[M0]] over ["tp"] : tensor<16xf32>
// CHECK: nn.broadcast %[[N0]] dims = [0] : tensor<16xf32> -> tensor<16x32xf32>
// CHECK: dist.all_reduce sum {{.*}} : tensor<16xf32>
// CHECK: %[[D0:.*]] = nn.matmul {{.*}} transpose_a
// CHECK: dist.after %arg0, %[[D0]]
// CHECK-COUNT-6: dist.all_reduce {{.*}} : tensor<16xf32>
// CHECK-NOT: tensor<64x32xf32>
// CHECK-NOT: dist.all_reduce
// CHECK: return

dist.mesh @mesh <["tp" = 2]>
func.func @sharded(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %m = nn.reduce max %s dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %n = dist.all_reduce max %m over ["tp"] : tensor<64xf32>
  %b = nn.broadcast %n dims = [0] : tensor<64xf32> -> tensor<64x32xf32>
  %c = nn.sub %s, %b : tensor<64x32xf32>
  %e = nn.exp %c : tensor<64x32xf32>
  %t = nn.reduce sum %e dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %u = dist.all_reduce sum %t over ["tp"] : tensor<64xf32>
  %v = nn.broadcast %u dims = [0] : tensor<64xf32> -> tensor<64x32xf32>
  %p = nn.div %e, %v : tensor<64x32xf32>
  %dw = nn.matmul %x, %p transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  return %dw : tensor<8x32xf32>
}

// -----

// Small ops between two layers of large values are in the blocks; with a layer of its own between, there are none.

// CHECK-LABEL: func.func @between
// CHECK-COUNT-4: nn.tanh {{.*}} : tensor<16x4xf32>

func.func @between(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>, %u: tensor<4x32xf32>) -> tensor<8x32xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %h = nn.matmul %s, %u transpose_b : tensor<64x32xf32>, tensor<4x32xf32> -> tensor<64x4xf32>
  %t = nn.tanh %h : tensor<64x4xf32>
  %g = nn.matmul %t, %u : tensor<64x4xf32>, tensor<4x32xf32> -> tensor<64x32xf32>
  %d = nn.mul %g, %s : tensor<64x32xf32>
  %dw = nn.matmul %x, %d transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  return %dw : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @layers
// CHECK-NOT: nn.slice

func.func @layers(%x: tensor<64x8xf32>, %w: tensor<8x32xf32>, %u: tensor<4x32xf32>, %v: tensor<4x4xf32>) -> tensor<8x32xf32> {
  %s = nn.matmul %x, %w : tensor<64x8xf32>, tensor<8x32xf32> -> tensor<64x32xf32>
  %h = nn.matmul %s, %u transpose_b : tensor<64x32xf32>, tensor<4x32xf32> -> tensor<64x4xf32>
  %t = nn.matmul %h, %v : tensor<64x4xf32>, tensor<4x4xf32> -> tensor<64x4xf32>
  %g = nn.matmul %t, %u : tensor<64x4xf32>, tensor<4x32xf32> -> tensor<64x32xf32>
  %d = nn.mul %g, %s : tensor<64x32xf32>
  %dw = nn.matmul %x, %d transpose_a : tensor<64x8xf32>, tensor<64x32xf32> -> tensor<8x32xf32>
  return %dw : tensor<8x32xf32>
}
