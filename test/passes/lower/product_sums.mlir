// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda}))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops))' | FileCheck %s --check-prefix=CPU
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda},ashlar-order-ops,ashlar-fuse{target=cuda}),ashlar-plan-memory{target=cuda})' | FileCheck %s --check-prefix=EXEC

// CPU-NOT: product_with_sums

// The sum is made and used before the product: both move there.
// CHECK-LABEL: @weight_out_in
// CHECK: %[[W:.*]], %[[B:.*]] = exec.product_with_sums lhs %arg0, %arg1 transpose_a : tensor<64x32xf32>, tensor<64x16xf32> -> tensor<32x16xf32>, tensor<32xf32>
// CHECK-NEXT: %[[D:.*]] = nn.mul %[[B]], %[[B]]
// CHECK-NOT: nn.reduce
// CHECK: return %[[W]], %[[D]]
// EXEC-LABEL: exec.program @weight_out_in
// EXEC: exec.gemm [{{.*}}memref<64x32xf32>>, {{.*}}memref<64x16xf32>>, {{.*}}memref<32x16xf32>>, {{.*}}memref<32xf32>>] batch 1 m 32 n 16 k 64 transpose_a epilogue none sum_of lhs
func.func @weight_out_in(%dy: tensor<64x32xf32> {nn.name = "dy"}, %x: tensor<64x16xf32> {nn.name = "x"}) -> (tensor<32x16xf32> {nn.name = "out1"}, tensor<32xf32> {nn.name = "out2"}) {
  %db = nn.reduce sum %dy dims = [0] : tensor<64x32xf32> -> tensor<32xf32>
  %d = nn.mul %db, %db : tensor<32xf32>
  %dw = nn.matmul %dy, %x {transpose_a} : tensor<64x32xf32>, tensor<64x16xf32> -> tensor<32x16xf32>
  return %dw, %d : tensor<32x16xf32>, tensor<32xf32>
}

// -----

// A sequence of rows, seen as a matrix by the product; in bf16 both sum in f32.
// CHECK-LABEL: @weight_in_out
// CHECK: %[[X:.*]] = nn.reshape %arg1
// CHECK: %[[Y:.*]] = nn.reshape %arg0
// CHECK: exec.product_with_sums rhs %[[X]], %[[Y]] transpose_a : tensor<64x16xbf16>, tensor<64x32xbf16> -> tensor<16x32xf32>, tensor<32xf32>
// CHECK-NOT: nn.reduce
// EXEC-LABEL: exec.program @weight_in_out
// EXEC: exec.gemm {{.*}} sum_of rhs
func.func @weight_in_out(%dy: tensor<4x16x32xbf16> {nn.name = "dy"}, %x: tensor<4x16x16xbf16> {nn.name = "x"}) -> (tensor<16x32xf32> {nn.name = "out1"}, tensor<32xf32> {nn.name = "out2"}) {
  %wide = nn.cast %dy : tensor<4x16x32xbf16> -> tensor<4x16x32xf32>
  %db = nn.reduce sum %wide dims = [0, 1] : tensor<4x16x32xf32> -> tensor<32xf32>
  %xs = nn.reshape %x : tensor<4x16x16xbf16> -> tensor<64x16xbf16>
  %dys = nn.reshape %dy : tensor<4x16x32xbf16> -> tensor<64x32xbf16>
  %dw = nn.matmul %xs, %dys {transpose_a} : tensor<64x16xbf16>, tensor<64x32xbf16> -> tensor<16x32xf32>
  return %dw, %db : tensor<16x32xf32>, tensor<32xf32>
}

// -----

// The product and the sum see the same rows of heads in shapes of their own.
// CHECK-LABEL: @heads
// CHECK: exec.product_with_sums rhs %{{.*}}, %{{.*}} transpose_a : tensor<64x16xbf16>, tensor<64x32xbf16> -> tensor<16x32xf32>, tensor<32xf32>
// CHECK-NOT: nn.reduce
func.func @heads(%dy: tensor<4x16x2x16xbf16> {nn.name = "dy"}, %x: tensor<64x16xbf16> {nn.name = "x"}) -> (tensor<16x32xf32> {nn.name = "out1"}, tensor<32xf32> {nn.name = "out2"}) {
  %merged = nn.reshape %dy : tensor<4x16x2x16xbf16> -> tensor<4x16x32xbf16>
  %wide = nn.cast %merged : tensor<4x16x32xbf16> -> tensor<4x16x32xf32>
  %db = nn.reduce sum %wide dims = [0, 1] : tensor<4x16x32xf32> -> tensor<32xf32>
  %dys = nn.reshape %dy : tensor<4x16x2x16xbf16> -> tensor<64x32xbf16>
  %dw = nn.matmul %x, %dys {transpose_a} : tensor<64x16xbf16>, tensor<64x32xbf16> -> tensor<16x32xf32>
  return %dw, %db : tensor<16x32xf32>, tensor<32xf32>
}

// -----

// The rows of the product are others: a head each.
// CHECK-LABEL: @rows_of_heads
// CHECK: nn.reduce sum
// CHECK-NOT: product_with_sums
func.func @rows_of_heads(%dy: tensor<4x16x2x16xbf16> {nn.name = "dy"}, %x: tensor<128x16xbf16> {nn.name = "x"}) -> (tensor<16x16xf32> {nn.name = "out1"}, tensor<32xf32> {nn.name = "out2"}) {
  %merged = nn.reshape %dy : tensor<4x16x2x16xbf16> -> tensor<4x16x32xbf16>
  %wide = nn.cast %merged : tensor<4x16x32xbf16> -> tensor<4x16x32xf32>
  %db = nn.reduce sum %wide dims = [0, 1] : tensor<4x16x32xf32> -> tensor<32xf32>
  %dys = nn.reshape %dy : tensor<4x16x2x16xbf16> -> tensor<128x16xbf16>
  %dw = nn.matmul %x, %dys {transpose_a} : tensor<128x16xbf16>, tensor<128x16xbf16> -> tensor<16x16xf32>
  return %dw, %db : tensor<16x16xf32>, tensor<32xf32>
}

// -----

// Not when the product is used with an activation in the library's call, sums another operand dim, or is too small for the library.
// CHECK-LABEL: @others
// CHECK-COUNT-3: nn.reduce sum
// CHECK-NOT: product_with_sums
// EXEC-LABEL: exec.program @others
func.func @others(%dy: tensor<64x32xf32> {nn.name = "dy"}, %x: tensor<64x16xf32> {nn.name = "x"}, %s: tensor<2x4xf32> {nn.name = "s"})
    -> (tensor<32x16xf32> {nn.name = "out1"}, tensor<32xf32> {nn.name = "out2"}, tensor<64xf32> {nn.name = "out3"}, tensor<64x32xf32> {nn.name = "out4"}, tensor<4xf32> {nn.name = "out5"}) {
  %db = nn.reduce sum %dy dims = [0] : tensor<64x32xf32> -> tensor<32xf32>
  %p = nn.matmul %dy, %x {transpose_a} : tensor<64x32xf32>, tensor<64x16xf32> -> tensor<32x16xf32>
  %h = nn.relu %p : tensor<32x16xf32>
  %rows = nn.reduce sum %x dims = [1] : tensor<64x16xf32> -> tensor<64xf32>
  %q = nn.matmul %x, %h {transpose_b} : tensor<64x16xf32>, tensor<32x16xf32> -> tensor<64x32xf32>
  %small = nn.reduce sum %s dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
  return %h, %db, %rows, %q, %small : tensor<32x16xf32>, tensor<32xf32>, tensor<64xf32>, tensor<64x32xf32>, tensor<4xf32>
}

// -----

// Not when the sum is needed for the product's other operand.
// CHECK-LABEL: @cycle
// CHECK: nn.reduce sum
// CHECK: nn.matmul
// EXEC-LABEL: exec.program @cycle
func.func @cycle(%dy: tensor<64x32xf32> {nn.name = "dy"}, %x: tensor<64x32xf32> {nn.name = "x"}) -> (tensor<32x32xf32> {nn.name = "out1"}) {
  %db = nn.reduce sum %dy dims = [0] : tensor<64x32xf32> -> tensor<32xf32>
  %r = nn.broadcast %db dims = [1] : tensor<32xf32> -> tensor<64x32xf32>
  %y = nn.mul %x, %r : tensor<64x32xf32>
  %dw = nn.matmul %dy, %y {transpose_a} : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<32x32xf32>
  return %dw : tensor<32x32xf32>
}
