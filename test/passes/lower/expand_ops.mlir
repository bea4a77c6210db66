// RUN: ashlar-opt %s -split-input-file -ashlar-expand-ops | FileCheck %s
// RUN: ashlar-opt %s -split-input-file "-ashlar-expand-ops=gemm-flops=64" | FileCheck %s --check-prefix=SMALL
// RUN: ashlar-opt %s -split-input-file "-ashlar-expand-ops=target=cuda" | FileCheck %s --check-prefix=CUDA

// Softmax becomes a maximum, a shift, a sum and one quotient a row.
// CHECK-LABEL: @softmax
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[MAX:.*]] = nn.reduce max %{{.*}} dims = [1]
  // CHECK: %[[ROWS:.*]] = nn.broadcast %[[MAX]] dims = [0]
  // CHECK: %[[SHIFTED:.*]] = nn.sub %{{.*}}, %[[ROWS]]
  // CHECK: %[[EXP:.*]] = nn.exp %[[SHIFTED]]
  // CHECK: %[[SUM:.*]] = nn.reduce sum %[[EXP]] dims = [1]
  // CHECK: %[[RECIPROCAL:.*]] = nn.div %{{.*}}, %[[SUM]] : tensor<4xf32>
  // CHECK: %[[RECIPROCALS:.*]] = nn.broadcast %[[RECIPROCAL]] dims = [0]
  // CHECK: nn.mul %[[EXP]], %[[RECIPROCALS]]
  // CHECK-NOT: nn.softmax
  %y = nn.softmax %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Log-softmax subtracts the logarithm of the sum.
// CHECK-LABEL: @log_softmax
func.func @log_softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[SUM:.*]] = nn.reduce sum
  // CHECK: %[[LOG:.*]] = nn.log %[[SUM]]
  // CHECK: %[[LOGS:.*]] = nn.broadcast %[[LOG]] dims = [0]
  // CHECK: nn.sub %{{.*}}, %[[LOGS]]
  // CHECK-NOT: nn.log_softmax
  %y = nn.log_softmax %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Cross entropy picks the shifted logit of the label, and gives 0 to a label out of range.
// CHECK-LABEL: @cross_entropy
func.func @cross_entropy(%x: tensor<4x8xf32>, %l: tensor<4xi32>) -> tensor<4xf32> {
  // CHECK: %[[LABEL:.*]] = nn.cast %{{.*}} : tensor<4xi32> -> tensor<4xi64>
  // CHECK: %[[POSITION:.*]] = nn.index [0, 1]
  // CHECK: %[[IS_LABEL:.*]] = nn.compare eq %[[POSITION]]
  // CHECK: nn.select %[[IS_LABEL]]
  // CHECK: %[[LOSS:.*]] = nn.sub
  // CHECK: %[[LOW:.*]] = nn.compare ge %[[LABEL]]
  // CHECK: %[[HIGH:.*]] = nn.compare lt %[[LABEL]]
  // CHECK: %[[VALID:.*]] = nn.and %[[LOW]], %[[HIGH]]
  // CHECK: nn.select %[[VALID]], %[[LOSS]]
  %y = nn.softmax_cross_entropy %x, %l : tensor<4x8xf32>, tensor<4xi32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A product too small for the library becomes a sum of products; from the threshold on it stays.
// CHECK-LABEL: @small_matmul
// SMALL-LABEL: @small_matmul
func.func @small_matmul(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[X:.*]] = nn.broadcast %{{.*}} dims = [0, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  // CHECK: %[[W:.*]] = nn.broadcast %{{.*}} dims = [1, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  // CHECK: %[[P:.*]] = nn.mul %[[X]], %[[W]]
  // CHECK: nn.reduce sum %[[P]] dims = [2]
  // SMALL: nn.matmul
  %y = nn.matmul %x, %w transpose_b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// The library takes no f64.
// CHECK-LABEL: @f64_matmul
func.func @f64_matmul(%x: tensor<64x64xf64>, %w: tensor<64x64xf64>) -> tensor<64x64xf64> {
  // CHECK-NOT: nn.matmul
  // CHECK: nn.reduce sum
  %y = nn.matmul %x, %w : tensor<64x64xf64>, tensor<64x64xf64> -> tensor<64x64xf64>
  return %y : tensor<64x64xf64>
}

// -----

// Integers of 8 bits are the library's, mixed as they are; where it does not take them, and in small products, they are widened to the type of the sums.
// CHECK-LABEL: @byte_matmul
// CUDA-LABEL: @byte_matmul
func.func @byte_matmul(%x: tensor<64x64xui8>, %w: tensor<64x64xi8>, %few: tensor<2x2xi8>) -> (tensor<64x64xi32>, tensor<2x2xi32>) {
  // CHECK: nn.matmul %{{.*}}, %{{.*}} : tensor<64x64xui8>, tensor<64x64xi8> -> tensor<64x64xi32>
  // CHECK: nn.cast %{{.*}} : tensor<2x2xi8> -> tensor<2x2xi32>
  // CHECK: nn.reduce sum
  // CUDA-NOT: nn.matmul
  // CUDA: nn.cast %{{.*}} : tensor<64x64xui8> -> tensor<64x64xi32>
  // CUDA: nn.cast %{{.*}} : tensor<64x64xi8> -> tensor<64x64xi32>
  %y = nn.matmul %x, %w : tensor<64x64xui8>, tensor<64x64xi8> -> tensor<64x64xi32>
  %z = nn.matmul %few, %few : tensor<2x2xi8>, tensor<2x2xi8> -> tensor<2x2xi32>
  return %y, %z : tensor<64x64xi32>, tensor<2x2xi32>
}

// -----

// The library takes operands of bf16 and f16, and gives its sums in f32 where these are wanted; what is too small for a call is summed in f32
// by a kernel.
// CHECK-LABEL: @narrow_matmul
// CUDA-LABEL: @narrow_matmul
func.func @narrow_matmul(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %s: tensor<2x2xf16>) -> (tensor<64x64xbf16>, tensor<64x64xf32>, tensor<2x2xf16>) {
  // CHECK: nn.matmul %arg0, %arg1 : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  // CHECK: nn.matmul %arg0, %arg1 transpose_a : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  // CHECK: %[[S:.*]] = nn.cast %arg2 : tensor<2x2xf16> -> tensor<2x2xf32>
  // CHECK: nn.reduce sum
  // CUDA: nn.matmul %arg0, %arg1 : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %0 = nn.matmul %x, %w : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  %1 = nn.matmul %x, %w {transpose_a} : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
  %2 = nn.matmul %s, %s : tensor<2x2xf16>, tensor<2x2xf16> -> tensor<2x2xf16>
  return %0, %1, %2 : tensor<64x64xbf16>, tensor<64x64xf32>, tensor<2x2xf16>
}

// -----

// A transpose of the last two dims becomes a flag of the library's product.
// CHECK-LABEL: @transposed_weight
func.func @transposed_weight(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // CHECK: nn.matmul %arg0, %arg1 transpose_b
  %t = nn.transpose %w [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
  %y = nn.matmul %x, %t : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// A weight shared by the batch is not copied: batch and rows become the rows of one product.
// CHECK-LABEL: @batch_of_rows
func.func @batch_of_rows(%x: tensor<8x64x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64x64xf32> {
  // CHECK: %[[ROWS:.*]] = nn.reshape %arg0 : tensor<8x64x64xf32> -> tensor<512x64xf32>
  // CHECK: %[[P:.*]] = nn.matmul %[[ROWS]], %arg1
  // CHECK: nn.reshape %[[P]] : tensor<512x64xf32> -> tensor<8x64x64xf32>
  %b = nn.broadcast %w dims = [1, 2] : tensor<64x64xf32> -> tensor<8x64x64xf32>
  %y = nn.matmul %x, %b : tensor<8x64x64xf32>, tensor<8x64x64xf32> -> tensor<8x64x64xf32>
  return %y : tensor<8x64x64xf32>
}

// -----

// The gradient of such a weight is one product too, which contracts over batch and rows.
// CHECK-LABEL: @sum_over_batch
func.func @sum_over_batch(%x: tensor<8x64x32xf32>, %dy: tensor<8x64x16xf32>) -> tensor<32x16xf32> {
  // CHECK-DAG: %[[X:.*]] = nn.reshape %arg0 : tensor<8x64x32xf32> -> tensor<512x32xf32>
  // CHECK-DAG: %[[DY:.*]] = nn.reshape %arg1 : tensor<8x64x16xf32> -> tensor<512x16xf32>
  // CHECK: %[[P:.*]] = nn.matmul %[[X]], %[[DY]] transpose_a : tensor<512x32xf32>, tensor<512x16xf32> -> tensor<32x16xf32>
  // CHECK: return %[[P]]
  %p = nn.matmul %x, %dy transpose_a : tensor<8x64x32xf32>, tensor<8x64x16xf32> -> tensor<8x32x16xf32>
  %y = nn.reduce sum %p dims = [0] : tensor<8x32x16xf32> -> tensor<32x16xf32>
  return %y : tensor<32x16xf32>
}

// -----

// NCCL does not combine integers of 16 bits.
// CHECK-LABEL: @short_sums
// CUDA-LABEL: @short_sums
dist.mesh @mesh <["dp" = 2]>
func.func @short_sums(%x: tensor<4xui16>, %y: tensor<2xui16>, %z: tensor<4xi8>) -> (tensor<4xui16>, tensor<2xui16>, tensor<4xi8>) {
  // CHECK-NOT: nn.cast
  // CUDA: %[[X:.*]] = nn.cast %arg0 : tensor<4xui16> -> tensor<4xi32>
  // CUDA: %[[Y:.*]] = nn.cast %arg1 : tensor<2xui16> -> tensor<2xi32>
  // CUDA: %[[R:.*]]:2 = dist.all_reduce sum %[[X]], %[[Y]] over ["dp"] : tensor<4xi32>, tensor<2xi32>
  // CUDA: nn.cast %[[R]]#0 : tensor<4xi32> -> tensor<4xui16>
  // CUDA: nn.cast %[[R]]#1 : tensor<2xi32> -> tensor<2xui16>
  // CUDA: dist.all_reduce max %arg2 over ["dp"] : tensor<4xi8>
  %a:2 = dist.all_reduce sum %x, %y over ["dp"] : tensor<4xui16>, tensor<2xui16>
  %b = dist.all_reduce max %z over ["dp"] : tensor<4xi8>
  return %a#0, %a#1, %b : tensor<4xui16>, tensor<2xui16>, tensor<4xi8>
}

// -----

// A conversion stands on the wider side of a change of shape, where what computes the wide value, or reads it, takes it in.
// CHECK-LABEL: @conversions
// CHECK: %[[N:.*]] = nn.cast %arg0 : tensor<4x6xf32> -> tensor<4x6xbf16>
// CHECK: %[[R:.*]] = nn.reshape %[[N]] : tensor<4x6xbf16> -> tensor<24xbf16>
// CHECK: %[[S:.*]] = nn.reshape %arg1 : tensor<24xbf16> -> tensor<4x6xbf16>
// CHECK: %[[W:.*]] = nn.cast %[[S]] : tensor<4x6xbf16> -> tensor<4x6xf32>
// CHECK: return %[[R]], %[[W]]
func.func @conversions(%x: tensor<4x6xf32>, %y: tensor<24xbf16>) -> (tensor<24xbf16>, tensor<4x6xf32>) {
  %a = nn.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %b = nn.cast %a : tensor<24xf32> -> tensor<24xbf16>
  %c = nn.cast %y : tensor<24xbf16> -> tensor<24xf32>
  %d = nn.reshape %c : tensor<24xf32> -> tensor<4x6xf32>
  return %b, %d : tensor<24xbf16>, tensor<4x6xf32>
}

// -----

// A part of a pair that nothing combines is what it was made of, and so is that of the gradient of such parts; what takes some of each, or every
// second element, stays.
// CHECK-LABEL: @parts
// CHECK: %[[PAIR:.*]] = nn.concat %arg0, %arg1
// CHECK: %[[SECOND:.*]] = nn.mul %arg1, %{{.*}} : tensor<1x4xf64>
// CHECK: %[[SOME:.*]] = nn.slice %[[PAIR]] [0, 1] to [1, 4] by [1, 2] : tensor<2x4xf64> -> tensor<1x2xf64>
// CHECK: %[[BOTH:.*]] = nn.slice %[[PAIR]] [0, 1] to [2, 2] by [1, 1]
// CHECK: %[[GRADIENT:.*]] = nn.add %{{.*}}, %arg1 : tensor<1x4xf64>
// CHECK: return %[[SECOND]], %[[SOME]], %[[BOTH]], %[[GRADIENT]]
func.func @parts(%x: tensor<1x4xf64>, %y: tensor<1x4xf64>) -> (tensor<1x4xf64>, tensor<1x2xf64>, tensor<2x1xf64>, tensor<1x4xf64>) {
  %pair = nn.concat %x, %y dim = 0 : (tensor<1x4xf64>, tensor<1x4xf64>) -> tensor<2x4xf64>
  %half = nn.constant dense<0.5> : tensor<2x4xf64>
  %scaled = nn.mul %pair, %half : tensor<2x4xf64>
  %second = nn.slice %scaled [1, 0] to [2, 4] by [1, 1] : tensor<2x4xf64> -> tensor<1x4xf64>
  %some = nn.slice %pair [0, 1] to [1, 4] by [1, 2] : tensor<2x4xf64> -> tensor<1x2xf64>
  %both = nn.slice %pair [0, 1] to [2, 2] by [1, 1] : tensor<2x4xf64> -> tensor<2x1xf64>
  %a = nn.pad %x low = [0, 0] interior = [0, 0] : tensor<1x4xf64> -> tensor<2x4xf64>
  %b = nn.pad %y low = [1, 0] interior = [0, 0] : tensor<1x4xf64> -> tensor<2x4xf64>
  %sum = nn.add %a, %b : tensor<2x4xf64>
  %gradient = nn.slice %sum [1, 0] to [2, 4] by [1, 1] : tensor<2x4xf64> -> tensor<1x4xf64>
  return %second, %some, %both, %gradient : tensor<1x4xf64>, tensor<1x2xf64>, tensor<2x1xf64>, tensor<1x4xf64>
}

// -----

// Keys are moved row by row, and the product takes them transposed; so is the gradient of keys, whose product is made the other way round.
// CHECK-LABEL: @keys
// CHECK: %[[K:.*]] = nn.transpose %arg1 [0, 2, 1, 3] : tensor<2x64x4x32xf32> -> tensor<2x4x64x32xf32>
// CHECK: nn.matmul %arg0, %[[K]] transpose_b : tensor<2x4x64x32xf32>, tensor<2x4x64x32xf32> -> tensor<2x4x64x64xf32>
// CHECK: %[[D:.*]] = nn.matmul %arg2, %arg0 transpose_a : tensor<2x4x64x64xf32>, tensor<2x4x64x32xf32> -> tensor<2x4x64x32xf32>
// CHECK: nn.transpose %[[D]] [0, 2, 1, 3] : tensor<2x4x64x32xf32> -> tensor<2x64x4x32xf32>
// CHECK: nn.matmul %arg3, %arg4 transpose_a transpose_b : tensor<64x32xf32>, tensor<16x64xf32> -> tensor<32x16xf32>
func.func @keys(%q: tensor<2x4x64x32xf32>, %k: tensor<2x64x4x32xf32>, %ds: tensor<2x4x64x64xf32>, %x: tensor<64x32xf32>, %y: tensor<16x64xf32>)
    -> (tensor<2x4x64x64xf32>, tensor<2x64x4x32xf32>, tensor<32x16xf32>) {
  %t = nn.transpose %k [0, 2, 3, 1] : tensor<2x64x4x32xf32> -> tensor<2x4x32x64xf32>
  %s = nn.matmul %q, %t : tensor<2x4x64x32xf32>, tensor<2x4x32x64xf32> -> tensor<2x4x64x64xf32>
  %d = nn.matmul %q, %ds transpose_a : tensor<2x4x64x32xf32>, tensor<2x4x64x64xf32> -> tensor<2x4x32x64xf32>
  %dk = nn.transpose %d [0, 3, 1, 2] : tensor<2x4x32x64xf32> -> tensor<2x64x4x32xf32>
  %p = nn.matmul %y, %x : tensor<16x64xf32>, tensor<64x32xf32> -> tensor<16x32xf32>
  %pt = nn.transpose %p [1, 0] : tensor<16x32xf32> -> tensor<32x16xf32>
  return %s, %dk, %pt : tensor<2x4x64x64xf32>, tensor<2x64x4x32xf32>, tensor<32x16xf32>
}
