// RUN: ashlar-opt %s -split-input-file -ashlar-order-ops | FileCheck %s

// An element-wise value waits for its first user.
// CHECK-LABEL: @late
func.func @late(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // CHECK: nn.matmul
  // CHECK-NEXT: nn.exp
  // CHECK-NEXT: nn.add
  %e = nn.exp %x : tensor<64x64xf32>
  %y = nn.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %z = nn.add %y, %e : tensor<64x64xf32>
  return %z : tensor<64x64xf32>
}

// -----

// So does a device's own piece of a tensor, which is cut and not sent.
dist.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: @piece
func.func @piece(%w: tensor<64x64xf32>, %x: tensor<64x64xf32>) -> tensor<32x64xf32> {
  // CHECK: nn.matmul
  // CHECK-NEXT: dist.reduce_scatter
  // CHECK-NEXT: dist.slice
  // CHECK-NEXT: nn.sub
  %s = dist.slice %w dim = 0 over ["dp"] : tensor<64x64xf32> -> tensor<32x64xf32>
  %y = nn.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %g = dist.reduce_scatter sum %y dim = 0 over ["dp"] : tensor<64x64xf32> -> tensor<32x64xf32>
  %z = nn.sub %s, %g : tensor<32x64xf32>
  return %z : tensor<32x64xf32>
}

// -----

// A reduction follows its operand, before the product that also reads it.
// CHECK-LABEL: @reduction_first
func.func @reduction_first(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  // CHECK: %[[N:.*]] = nn.neg
  // CHECK-NEXT: nn.reduce sum %[[N]]
  // CHECK-NEXT: nn.matmul %[[N]]
  %n = nn.neg %x : tensor<64x64xf32>
  %y = nn.matmul %n, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %r = nn.reduce sum %n dims = [0] : tensor<64x64xf32> -> tensor<64xf32>
  return %y, %r : tensor<64x64xf32>, tensor<64xf32>
}

// -----

nn.variable @a trainable : tensor<64x64xf32> = #nn.fill<0.0 : f64>
nn.variable @b trainable : tensor<64x64xf32> = #nn.fill<0.0 : f64>

// The write of @b comes as soon as its new value is there; that of @a only after the product that still needs the old one.
// CHECK-LABEL: @early_writes
func.func @early_writes(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // CHECK: %[[A:.*]] = nn.read @a
  // CHECK: %[[G:.*]] = nn.matmul
  // CHECK: nn.write @b
  // CHECK-NOT: nn.write @a
  // CHECK: nn.matmul %[[G]], %[[A]]
  // CHECK: nn.write @a
  %a = nn.read @a : tensor<64x64xf32>
  %b = nn.read @b : tensor<64x64xf32>
  %g = nn.matmul %x, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %h = nn.matmul %g, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %newA = nn.sub %a, %g : tensor<64x64xf32>
  %newB = nn.sub %b, %g : tensor<64x64xf32>
  nn.write @a, %newA : tensor<64x64xf32>
  nn.write @b, %newB : tensor<64x64xf32>
  return %h : tensor<64x64xf32>
}

// -----

nn.variable @v : tensor<4xf32> = #nn.fill<0.0 : f64>

// A read stays before the write of its variable, even when only the return needs it.
// CHECK-LABEL: @old_value_returned
func.func @old_value_returned(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: nn.read @v
  // CHECK: nn.write @v
  %v = nn.read @v : tensor<4xf32>
  nn.write @v, %x : tensor<4xf32>
  return %v : tensor<4xf32>
}

// -----

// What nobody needs is dropped.
// CHECK-LABEL: @dead
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: nn.exp
  %e = nn.exp %x : tensor<4xf32>
  return %x : tensor<4xf32>
}

// -----

// What follows one reduction waits for another that is being placed.
// CHECK-LABEL: @two_reductions
func.func @two_reductions(%x: tensor<8x6xf32>) -> tensor<6xf32> {
  // CHECK: %[[N:.*]] = nn.neg
  // CHECK-NEXT: %[[S:.*]] = nn.reduce sum %[[N]]
  // CHECK-NEXT: %[[E:.*]] = nn.exp %[[N]]
  // CHECK-NEXT: %[[T:.*]] = nn.reduce sum %[[E]]
  // CHECK-NEXT: nn.add %[[S]], %[[T]]
  %n = nn.neg %x : tensor<8x6xf32>
  %e = nn.exp %n : tensor<8x6xf32>
  %t = nn.reduce sum %e dims = [0] : tensor<8x6xf32> -> tensor<6xf32>
  %s = nn.reduce sum %n dims = [0] : tensor<8x6xf32> -> tensor<6xf32>
  %y = nn.add %s, %t : tensor<6xf32>
  return %y : tensor<6xf32>
}

// A bias that is only converted is ready before the product that adds it.
// CHECK-LABEL: @converted_bias
// CHECK: %[[B:.*]] = nn.cast %{{.*}} : tensor<8xf32> -> tensor<8xbf16>
// CHECK: nn.matmul
// CHECK: nn.broadcast %[[B]]
func.func @converted_bias(%x: tensor<4x4xbf16>, %w: tensor<4x8xbf16>, %bias: tensor<8xf32>) -> tensor<4x8xbf16> {
  %0 = nn.matmul %x, %w : tensor<4x4xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
  %b = nn.cast %bias : tensor<8xf32> -> tensor<8xbf16>
  %1 = nn.broadcast %b dims = [1] : tensor<8xbf16> -> tensor<4x8xbf16>
  %2 = nn.add %0, %1 : tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// An update that one device computes stands where it would for all: its broadcast waits for the last use of the old value, and does not keep
// its place among the products.
// CHECK-LABEL: @broadcast
// CHECK: nn.matmul
// CHECK: nn.matmul
// CHECK: %[[N:.*]] = nn.sub
// CHECK-NEXT: %[[B:.*]] = dist.broadcast %[[N]]
// CHECK-NEXT: nn.write @weight, %[[B]]
// CHECK: nn.matmul
dist.mesh @mesh <["dp" = 2]>
nn.variable @weight : tensor<8x8xf32>
func.func @broadcast(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %w = nn.read @weight : tensor<8x8xf32>
  %g = nn.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %n = nn.sub %w, %g : tensor<8x8xf32>
  %b = dist.broadcast %n root = 1 over ["dp"] {dist.owner = 1 : i64} : tensor<8x8xf32>
  nn.write @weight, %b : tensor<8x8xf32>
  %y = nn.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %z = nn.matmul %y, %y : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}

// -----

// Sums over one tensor stay together, so that one kernel makes them: the update that takes the first comes behind both.
// CHECK-LABEL: @two_sums
// CHECK: nn.reduce
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.reduce
// CHECK: nn.write @bias
func.func @two_sums(%z: tensor<64x64xf32>, %w: tensor<64x8xf32>, %y: tensor<64x8xf32>) -> tensor<8xf32> {
  %x = nn.matmul %z, %w : tensor<64x64xf32>, tensor<64x8xf32> -> tensor<64x8xf32>
  %a = nn.add %x, %y : tensor<64x8xf32>
  %s = nn.reduce sum %a dims = [0] : tensor<64x8xf32> -> tensor<8xf32>
  %b = nn.read @bias : tensor<8xf32>
  %n = nn.sub %b, %s : tensor<8xf32>
  nn.write @bias, %n : tensor<8xf32>
  %m = nn.mul %a, %x : tensor<64x8xf32>
  %t = nn.reduce sum %m dims = [0] : tensor<64x8xf32> -> tensor<8xf32>
  return %t : tensor<8xf32>
}
nn.variable @bias trainable : tensor<8xf32>
