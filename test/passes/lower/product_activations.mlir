// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda}))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops))' | FileCheck %s --check-prefix=CPU
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda},ashlar-order-ops,ashlar-fuse{target=cuda}),ashlar-plan-memory{target=cuda})' | FileCheck %s --check-prefix=EXEC

// CPU-NOT: product_with

// Relu: the forward product writes a mask in rows of 128 bits; the select on the sign of the activation is gone. The gradients of weight and
// bias read the result.
// CHECK-LABEL: @relu
// CHECK: %[[Y:.*]], %[[MASK:.*]] = exec.product_with_auxiliary relu %arg0, %arg1 bias %arg2 : (tensor<64x32xbf16>, tensor<32x24xbf16>, tensor<24xbf16>) -> (tensor<64x24xbf16>, tensor<64x16xi8>)
// CHECK: %[[D:.*]] = exec.product_with_slope relu %arg3, %arg4, %[[MASK]] transpose_b : (tensor<64x40xbf16>, tensor<24x40xbf16>, tensor<64x16xi8>) -> tensor<64x24xbf16>
// CHECK-NOT: nn.{{compare|select|relu|reduce}}
// CHECK: exec.product_with_sums rhs %arg0, %[[D]] transpose_a
// EXEC-LABEL: exec.program @relu
// EXEC: exec.gemm [{{.*}}memref<64x32xbf16>>, {{.*}}memref<32x24xbf16>>, {{.*}}memref<24xbf16>>, {{.*}}memref<64x24xbf16>>, {{.*}}memref<64x16xi8>>] batch 1 m 64 n 24 k 32 bias epilogue relu auxiliary written
// EXEC: exec.gemm [{{.*}}memref<64x40xbf16>>, {{.*}}memref<24x40xbf16>>, {{.*}}memref<64x16xi8>>, {{.*}}memref<64x24xbf16>>] batch 1 m 64 n 24 k 40 transpose_b epilogue relu auxiliary read
func.func @relu(%x: tensor<64x32xbf16> {nn.name = "x"}, %w: tensor<32x24xbf16> {nn.name = "w"}, %b: tensor<24xbf16> {nn.name = "b"}, %dout: tensor<64x40xbf16> {nn.name = "dout"}, %v: tensor<24x40xbf16> {nn.name = "v"}) -> (tensor<64x24xbf16> {nn.name = "out1"}, tensor<32x24xf32> {nn.name = "out2"}, tensor<24xf32> {nn.name = "out3"}) {
  %zero = nn.constant dense<0.0> : tensor<64x24xbf16>
  %p = nn.matmul %x, %w : tensor<64x32xbf16>, tensor<32x24xbf16> -> tensor<64x24xbf16>
  %bias = nn.broadcast %b dims = [1] : tensor<24xbf16> -> tensor<64x24xbf16>
  %z = nn.add %p, %bias : tensor<64x24xbf16>
  %y = nn.relu %z : tensor<64x24xbf16>
  %dy = nn.matmul %dout, %v transpose_b : tensor<64x40xbf16>, tensor<24x40xbf16> -> tensor<64x24xbf16>
  %positive = nn.compare gt %y, %zero : tensor<64x24xbf16> -> tensor<64x24xi1>
  %dz = nn.select %positive, %dy, %zero : tensor<64x24xi1>, tensor<64x24xbf16>
  %dw = nn.matmul %x, %dz transpose_a : tensor<64x32xbf16>, tensor<64x24xbf16> -> tensor<32x24xf32>
  %wide = nn.cast %dz : tensor<64x24xbf16> -> tensor<64x24xf32>
  %db = nn.reduce sum %wide dims = [0] : tensor<64x24xf32> -> tensor<24xf32>
  return %y, %dw, %db : tensor<64x24xbf16>, tensor<32x24xf32>, tensor<24xf32>
}

// -----

// The value before a gelu that something else reads comes with it, without a gradient, too; and whatever shape the gelu sees.
// CHECK-LABEL: @gelu_operand
// CHECK: %[[Y:.*]], %[[Z:.*]] = exec.product_with_auxiliary gelu_tanh %arg0, %arg1 : (tensor<64x32xf32>, tensor<32x24xf32>) -> (tensor<64x24xf32>, tensor<64x24xf32>)
// CHECK: %[[SEEN:.*]] = nn.reshape %[[Y]]
// CHECK: return %[[SEEN]], %[[Z]]
func.func @gelu_operand(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x24xf32> {nn.name = "w"}) -> (tensor<4x16x24xf32> {nn.name = "out1"}, tensor<64x24xf32> {nn.name = "out2"}) {
  %z = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %seen = nn.reshape %z : tensor<64x24xf32> -> tensor<4x16x24xf32>
  %y = nn.gelu %seen tanh_approximation : tensor<4x16x24xf32>
  return %y, %z : tensor<4x16x24xf32>, tensor<64x24xf32>
}

// -----

// The gradient of a gelu in f32, as autodiff writes it.
// CHECK-LABEL: @gelu(
// CHECK: %[[Y:.*]], %[[Z:.*]] = exec.product_with_auxiliary gelu_tanh %arg0, %arg1 : (tensor<64x32xf32>, tensor<32x24xf32>) -> (tensor<64x24xf32>, tensor<64x24xf32>)
// CHECK-NEXT: %[[D:.*]] = exec.product_with_slope gelu_tanh %arg2, %arg3, %[[Z]] transpose_b : (tensor<64x40xf32>, tensor<24x40xf32>, tensor<64x24xf32>) -> tensor<64x24xf32>
// CHECK: return %[[Y]], %[[D]]
func.func @gelu(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x24xf32> {nn.name = "w"}, %dout: tensor<64x40xf32> {nn.name = "dout"}, %v: tensor<24x40xf32> {nn.name = "v"}, %other: tensor<64x24xf32> {nn.name = "other"}) -> (tensor<64x24xf32> {nn.name = "out1"}, tensor<64x24xf32> {nn.name = "out2"}) {
  %most = nn.constant dense<40.0> : tensor<64x24xf32>
  %least = nn.constant dense<-40.0> : tensor<64x24xf32>
  %cubic = nn.constant dense<0.044715> : tensor<64x24xf32>
  %cubic3 = nn.constant dense<0.134145> : tensor<64x24xf32>
  %root = nn.constant dense<0.79788456080286535588> : tensor<64x24xf32>
  %one = nn.constant dense<1.0> : tensor<64x24xf32>
  %half = nn.constant dense<0.5> : tensor<64x24xf32>
  %z = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %y = nn.gelu %z tanh_approximation : tensor<64x24xf32>
  %dy = nn.matmul %dout, %v transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %below = nn.min %z, %most : tensor<64x24xf32>
  %a = nn.max %below, %least : tensor<64x24xf32>
  %otherbelow = nn.min %other, %most : tensor<64x24xf32>
  %b = nn.max %otherbelow, %least : tensor<64x24xf32>
  %square = nn.mul %a, %a : tensor<64x24xf32>
  %1 = nn.mul %square, %cubic : tensor<64x24xf32>
  %2 = nn.add %1, %one : tensor<64x24xf32>
  %3 = nn.mul %a, %2 : tensor<64x24xf32>
  %4 = nn.mul %3, %root : tensor<64x24xf32>
  %t = nn.tanh %4 : tensor<64x24xf32>
  %5 = nn.mul %square, %cubic3 : tensor<64x24xf32>
  %6 = nn.add %5, %one : tensor<64x24xf32>
  %7 = nn.mul %6, %root : tensor<64x24xf32>
  %8 = nn.mul %t, %t : tensor<64x24xf32>
  %9 = nn.sub %one, %8 : tensor<64x24xf32>
  %10 = nn.mul %9, %7 : tensor<64x24xf32>
  %11 = nn.add %t, %one : tensor<64x24xf32>
  %12 = nn.mul %a, %10 : tensor<64x24xf32>
  %13 = nn.add %11, %12 : tensor<64x24xf32>
  %14 = nn.mul %13, %half : tensor<64x24xf32>
  %dz = nn.mul %dy, %14 : tensor<64x24xf32>
  return %y, %dz : tensor<64x24xf32>, tensor<64x24xf32>
}

// -----

// One factor of the expression is of another tensor.
// CHECK-LABEL: @gelu_lookalike
// CHECK: exec.product_with_auxiliary
// CHECK-NOT: product_with_slope
func.func @gelu_lookalike(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x24xf32> {nn.name = "w"}, %dout: tensor<64x40xf32> {nn.name = "dout"}, %v: tensor<24x40xf32> {nn.name = "v"}, %other: tensor<64x24xf32> {nn.name = "other"}) -> (tensor<64x24xf32> {nn.name = "out1"}, tensor<64x24xf32> {nn.name = "out2"}) {
  %most = nn.constant dense<40.0> : tensor<64x24xf32>
  %least = nn.constant dense<-40.0> : tensor<64x24xf32>
  %cubic = nn.constant dense<0.044715> : tensor<64x24xf32>
  %cubic3 = nn.constant dense<0.134145> : tensor<64x24xf32>
  %root = nn.constant dense<0.79788456080286535588> : tensor<64x24xf32>
  %one = nn.constant dense<1.0> : tensor<64x24xf32>
  %half = nn.constant dense<0.5> : tensor<64x24xf32>
  %z = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %y = nn.gelu %z tanh_approximation : tensor<64x24xf32>
  %dy = nn.matmul %dout, %v transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %below = nn.min %z, %most : tensor<64x24xf32>
  %a = nn.max %below, %least : tensor<64x24xf32>
  %otherbelow = nn.min %other, %most : tensor<64x24xf32>
  %b = nn.max %otherbelow, %least : tensor<64x24xf32>
  %square = nn.mul %a, %a : tensor<64x24xf32>
  %1 = nn.mul %square, %cubic : tensor<64x24xf32>
  %2 = nn.add %1, %one : tensor<64x24xf32>
  %3 = nn.mul %a, %2 : tensor<64x24xf32>
  %4 = nn.mul %3, %root : tensor<64x24xf32>
  %t = nn.tanh %4 : tensor<64x24xf32>
  %5 = nn.mul %square, %cubic3 : tensor<64x24xf32>
  %6 = nn.add %5, %one : tensor<64x24xf32>
  %7 = nn.mul %6, %root : tensor<64x24xf32>
  %8 = nn.mul %t, %t : tensor<64x24xf32>
  %9 = nn.sub %one, %8 : tensor<64x24xf32>
  %10 = nn.mul %9, %7 : tensor<64x24xf32>
  %11 = nn.add %t, %one : tensor<64x24xf32>
  %12 = nn.mul %b, %10 : tensor<64x24xf32>
  %13 = nn.add %11, %12 : tensor<64x24xf32>
  %14 = nn.mul %13, %half : tensor<64x24xf32>
  %dz = nn.mul %dy, %14 : tensor<64x24xf32>
  return %y, %dz : tensor<64x24xf32>, tensor<64x24xf32>
}

// -----

// An exact gelu stays a kernel; a gelu alone joins its product without the value before it.
// CHECK-LABEL: @gelu_others
// CHECK-NOT: product_with
func.func @gelu_others(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x24xf32> {nn.name = "w"}) -> (tensor<64x24xf32> {nn.name = "out1"}, tensor<64x24xf32> {nn.name = "out2"}, tensor<64x24xf32> {nn.name = "out3"}) {
  %z = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %y = nn.gelu %z : tensor<64x24xf32>
  %alone = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %u = nn.gelu %alone tanh_approximation : tensor<64x24xf32>
  return %y, %z, %u : tensor<64x24xf32>, tensor<64x24xf32>, tensor<64x24xf32>
}

// -----

// The operand of a relu that something else reads would not be there: the mask is all that is kept.
// CHECK-LABEL: @relu_operand
// CHECK-NOT: product_with
func.func @relu_operand(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x24xf32> {nn.name = "w"}, %dout: tensor<64x40xf32> {nn.name = "dout"}, %v: tensor<24x40xf32> {nn.name = "v"}) -> (tensor<64x24xf32> {nn.name = "out1"}, tensor<64x24xf32> {nn.name = "out2"}) {
  %zero = nn.constant dense<0.0> : tensor<64x24xf32>
  %z = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %y = nn.relu %z : tensor<64x24xf32>
  %dy = nn.matmul %dout, %v transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %positive = nn.compare gt %y, %zero : tensor<64x24xf32> -> tensor<64x24xi1>
  %dz = nn.select %positive, %dy, %zero : tensor<64x24xi1>, tensor<64x24xf32>
  return %dz, %z : tensor<64x24xf32>, tensor<64x24xf32>
}

// -----

// Not the gradient of the relu: another predicate, another threshold, a value in place of zero, the activation of another product.
// CHECK-LABEL: @relu_lookalikes
// CHECK-NOT: product_with
func.func @relu_lookalikes(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x24xf32> {nn.name = "w"}, %dout: tensor<64x40xf32> {nn.name = "dout"}, %v: tensor<24x40xf32> {nn.name = "v"}, %other: tensor<64x24xf32> {nn.name = "other"}) -> (tensor<64x24xf32> {nn.name = "out1"}, tensor<64x24xf32> {nn.name = "out2"}, tensor<64x24xf32> {nn.name = "out3"}, tensor<64x24xf32> {nn.name = "out4"}) {
  %zero = nn.constant dense<0.0> : tensor<64x24xf32>
  %one = nn.constant dense<1.0> : tensor<64x24xf32>
  %z = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %y = nn.relu %z : tensor<64x24xf32>
  %dy = nn.matmul %dout, %v transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %ge = nn.compare ge %y, %zero : tensor<64x24xf32> -> tensor<64x24xi1>
  %a = nn.select %ge, %dy, %zero : tensor<64x24xi1>, tensor<64x24xf32>
  %dy2 = nn.matmul %dout, %v transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %above = nn.compare gt %y, %one : tensor<64x24xf32> -> tensor<64x24xi1>
  %b = nn.select %above, %dy2, %zero : tensor<64x24xi1>, tensor<64x24xf32>
  %dy3 = nn.matmul %dout, %v transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %gt = nn.compare gt %y, %zero : tensor<64x24xf32> -> tensor<64x24xi1>
  %c = nn.select %gt, %dy3, %one : tensor<64x24xi1>, tensor<64x24xf32>
  %dy4 = nn.matmul %dout, %v transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %gt2 = nn.compare gt %other, %zero : tensor<64x24xf32> -> tensor<64x24xi1>
  %d = nn.select %gt2, %dy4, %zero : tensor<64x24xi1>, tensor<64x24xf32>
  return %a, %b, %c, %d : tensor<64x24xf32>, tensor<64x24xf32>, tensor<64x24xf32>, tensor<64x24xf32>
}

// -----

// A product of another shape, one that something else reads, and rows that are no multiple of 8 numbers.
// CHECK-LABEL: @products
// CHECK-NOT: product_with
func.func @products(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x24xf32> {nn.name = "w"}, %dout: tensor<32x40xf32> {nn.name = "dout"}, %v: tensor<48x40xf32> {nn.name = "v"}, %wo: tensor<32x20xf32> {nn.name = "wo"}, %d: tensor<64x40xf32> {nn.name = "d"}, %vo: tensor<20x40xf32> {nn.name = "vo"}, %vs: tensor<24x40xf32> {nn.name = "vs"}) -> (tensor<32x48xf32> {nn.name = "out1"}, tensor<64x24xf32> {nn.name = "out2"}, tensor<64x24xf32> {nn.name = "out3"}, tensor<64x20xf32> {nn.name = "out4"}) {
  %zeros = nn.constant dense<0.0> : tensor<32x48xf32>
  %zero = nn.constant dense<0.0> : tensor<64x24xf32>
  %zeroo = nn.constant dense<0.0> : tensor<64x20xf32>
  %z = nn.matmul %x, %w : tensor<64x32xf32>, tensor<32x24xf32> -> tensor<64x24xf32>
  %y = nn.relu %z : tensor<64x24xf32>
  %flat = nn.reshape %y : tensor<64x24xf32> -> tensor<32x48xf32>
  %dy = nn.matmul %dout, %v transpose_b : tensor<32x40xf32>, tensor<48x40xf32> -> tensor<32x48xf32>
  %positive = nn.compare gt %flat, %zeros : tensor<32x48xf32> -> tensor<32x48xi1>
  %a = nn.select %positive, %dy, %zeros : tensor<32x48xi1>, tensor<32x48xf32>
  %shared = nn.matmul %d, %vs transpose_b : tensor<64x40xf32>, tensor<24x40xf32> -> tensor<64x24xf32>
  %gt = nn.compare gt %y, %zero : tensor<64x24xf32> -> tensor<64x24xi1>
  %b = nn.select %gt, %shared, %zero : tensor<64x24xi1>, tensor<64x24xf32>
  %zo = nn.matmul %x, %wo : tensor<64x32xf32>, tensor<32x20xf32> -> tensor<64x20xf32>
  %yo = nn.relu %zo : tensor<64x20xf32>
  %dyo = nn.matmul %d, %vo transpose_b : tensor<64x40xf32>, tensor<20x40xf32> -> tensor<64x20xf32>
  %go = nn.compare gt %yo, %zeroo : tensor<64x20xf32> -> tensor<64x20xi1>
  %c = nn.select %go, %dyo, %zeroo : tensor<64x20xi1>, tensor<64x20xf32>
  return %a, %b, %shared, %c : tensor<32x48xf32>, tensor<64x24xf32>, tensor<64x24xf32>, tensor<64x20xf32>
}
