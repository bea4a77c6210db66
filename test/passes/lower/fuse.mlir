// RUN: ashlar-opt %s -split-input-file -ashlar-fuse | FileCheck %s

// A chain of element-wise ops and the bias they read is one loop.
// CHECK-LABEL: @chain
func.func @chain(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[R:.*]] = exec.fusion loop(%arg0, %arg1)
  // CHECK: nn.broadcast
  // CHECK: nn.add
  // CHECK: nn.exp
  // CHECK: return %[[R]]
  %bb = nn.broadcast %b dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %s = nn.add %x, %bb : tensor<4x8xf32>
  %e = nn.exp %s : tensor<4x8xf32>
  return %e : tensor<4x8xf32>
}

// -----

// A softmax is one rows fusion: the broadcasts of its row values are inside.
// CHECK-LABEL: @softmax
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: exec.fusion rows(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NOT: exec.fusion
  %m = nn.reduce max %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %mb = nn.broadcast %m dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %s = nn.sub %x, %mb : tensor<4x8xf32>
  %e = nn.exp %s : tensor<4x8xf32>
  %t = nn.reduce sum %e dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %tb = nn.broadcast %t dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %y = nn.div %e, %tb : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A value and its sum over the leading dim come from one columns fusion.
// CHECK-LABEL: @bias_gradient
func.func @bias_gradient(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  // CHECK: exec.fusion columns(%arg0, %arg1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  %p = nn.mul %x, %y : tensor<4x8xf32>
  %s = nn.reduce sum %p dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %p, %s : tensor<4x8xf32>, tensor<8xf32>
}

// -----

// Bias and activation join the library's product.
// CHECK-LABEL: @gemm
func.func @gemm(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<64x64xf32> {
  // CHECK: exec.fusion gemm(%arg0, %arg1, %arg2)
  // CHECK: nn.matmul
  // CHECK: nn.add
  // CHECK: nn.relu
  // CHECK-NOT: exec.fusion
  %y = nn.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %bb = nn.broadcast %b dims = [1] : tensor<64xf32> -> tensor<64x64xf32>
  %s = nn.add %y, %bb : tensor<64x64xf32>
  %r = nn.relu %s : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}

// -----

// Sums of integers stand alone.
// CHECK-LABEL: @gemm_of_bytes
func.func @gemm_of_bytes(%x: tensor<64x64xui8>, %w: tensor<64x64xi8>, %b: tensor<64xi32>) -> tensor<64x64xi32> {
  // CHECK: %[[SUMS:.*]] = exec.fusion gemm(%arg0, %arg1)
  // CHECK: exec.fusion loop({{.*}}%[[SUMS]]{{.*}})
  %p = nn.matmul %x, %w : tensor<64x64xui8>, tensor<64x64xi8> -> tensor<64x64xi32>
  %c = nn.broadcast %b dims = [1] : tensor<64xi32> -> tensor<64x64xi32>
  %y = nn.add %p, %c : tensor<64x64xi32>
  return %y : tensor<64x64xi32>
}

// -----

// Not when somebody else needs the value before the activation.
// CHECK-LABEL: @gemm_with_two_users
func.func @gemm_with_two_users(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  // CHECK: exec.fusion gemm
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: nn.matmul
  // CHECK-NEXT: exec.yield
  // CHECK: exec.fusion loop
  %y = nn.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %r = nn.relu %y : tensor<64x64xf32>
  return %y, %r : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A product that reads a value closes its group: the op after it starts another, so groups never form a cycle.
// CHECK-LABEL: @no_cycle
func.func @no_cycle(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // CHECK: %[[E:.*]] = exec.fusion loop(%arg0)
  // CHECK: %[[P:.*]] = exec.fusion gemm(%[[E]], %arg1)
  // CHECK: exec.fusion loop(%[[P]], %[[E]])
  %e = nn.exp %x : tensor<64x64xf32>
  %p = nn.matmul %e, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %s = nn.sub %p, %e : tensor<64x64xf32>
  return %s : tensor<64x64xf32>
}

// -----

// A transpose that a product reads gets a loop of its own; the sum that reads through it keeps its copy.
// CHECK-LABEL: @view_with_two_readers
func.func @view_with_two_readers(%x: tensor<8x64x64xf32>) -> (tensor<8x64x64xf32>, tensor<8x64x64xf32>) {
  // CHECK: exec.fusion loop(%arg0)
  // CHECK: nn.transpose
  // CHECK-NEXT: nn.exp
  // CHECK: %[[T:.*]] = exec.fusion loop(%arg0)
  // CHECK: nn.transpose
  // CHECK-NEXT: exec.yield
  // CHECK: exec.fusion gemm(%[[T]], %arg0)
  %t = nn.transpose %x [0, 2, 1] : tensor<8x64x64xf32> -> tensor<8x64x64xf32>
  %e = nn.exp %t : tensor<8x64x64xf32>
  %p = nn.matmul %t, %x : tensor<8x64x64xf32>, tensor<8x64x64xf32> -> tensor<8x64x64xf32>
  return %p, %e : tensor<8x64x64xf32>, tensor<8x64x64xf32>
}

// -----

nn.variable @w trainable : tensor<8xf32> = #nn.fill<0.0 : f64>
nn.variable @v : tensor<8xf32> = #nn.fill<0.0 : f64>

// A write does not cut a group: momentum and weight are updated in one loop, and both writes follow it.
// CHECK-LABEL: @update
func.func @update(%g: tensor<8xf32>) attributes {nn.program = #nn.program<update>} {
  // CHECK: %[[NEW:.*]]:2 = exec.fusion loop
  // CHECK-NOT: exec.fusion
  // CHECK-DAG: nn.write @v, %[[NEW]]#0
  // CHECK-DAG: nn.write @w, %[[NEW]]#1
  %w = nn.read @w : tensor<8xf32>
  %v = nn.read @v : tensor<8xf32>
  %nv = nn.add %v, %g : tensor<8xf32>
  nn.write @v, %nv : tensor<8xf32>
  %nw = nn.sub %w, %nv : tensor<8xf32>
  nn.write @w, %nw : tensor<8xf32>
  return
}

// -----

// The library reads memory: a splat operand stays a constant outside.
// CHECK-LABEL: @gemm_of_constant
func.func @gemm_of_constant(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // CHECK: %[[C:.*]] = nn.constant dense<2.000000e+00>
  // CHECK: exec.fusion gemm(%arg0, %[[C]])
  %c = nn.constant dense<2.0> : tensor<64x64xf32>
  %y = nn.matmul %x, %c : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// A bias that is a piece of a parameter is in no memory of its own: it is added by a kernel.
// CHECK-LABEL: @sliced_bias
func.func @sliced_bias(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>, %b: tensor<192xf32>) -> tensor<64x64xf32> {
  // CHECK: %[[P:.*]] = exec.fusion gemm(%arg0, %arg1)
  // CHECK: exec.fusion loop(%[[P]], %arg2)
  // CHECK: nn.slice
  %y = nn.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %piece = nn.slice %b [64] to [128] by [1] : tensor<192xf32> -> tensor<64xf32>
  %bb = nn.broadcast %piece dims = [1] : tensor<64xf32> -> tensor<64x64xf32>
  %s = nn.add %y, %bb : tensor<64x64xf32>
  return %s : tensor<64x64xf32>
}

// -----

// A gather is a view: whoever reads it looks the rows up; its operands are in memory.
// CHECK-LABEL: @gather
func.func @gather(%table: tensor<64x8xf32>, %tokens: tensor<4xi64>, %x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[T:.*]] = exec.fusion loop(%arg0)
  // CHECK: nn.relu
  // CHECK: exec.fusion loop(%[[T]], %arg1, %arg2)
  // CHECK: nn.gather
  // CHECK: nn.add
  // CHECK-NOT: exec.fusion
  %t = nn.relu %table : tensor<64x8xf32>
  %rows = nn.gather %t, %tokens : tensor<64x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
  %y = nn.add %rows, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Rows are added up by a kernel of their own, which reads through views; what follows is another one.
// CHECK-LABEL: @scatter
func.func @scatter(%tokens: tensor<4xi64>, %dy: tensor<8x4xf32>) -> tensor<64x8xf32> {
  // CHECK: %[[D:.*]] = exec.fusion loop(%arg1)
  // CHECK: %[[G:.*]] = exec.fusion scatter(%arg0, %[[D]]) : (tensor<4xi64>, tensor<8x4xf32>) -> tensor<64x8xf32>
  // CHECK: nn.transpose
  // CHECK: nn.scatter_add
  // CHECK: exec.fusion loop(%[[G]])
  %d = nn.relu %dy : tensor<8x4xf32>
  %u = nn.transpose %d [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %g = nn.scatter_add %tokens, %u : tensor<4xi64>, tensor<4x8xf32> -> tensor<64x8xf32>
  %y = nn.neg %g : tensor<64x8xf32>
  return %y : tensor<64x8xf32>
}

// -----

// A row value that is repeated along its row is repeated again where another kernel reads it: the row value lies in memory, not its copies.
// CHECK-LABEL: @repeated_again
func.func @repeated_again(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[R:.*]]:2 = exec.fusion rows(%arg0) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>)
  // CHECK: %[[P:.*]] = exec.fusion gemm(%[[R]]#1, %arg1)
  // CHECK: exec.fusion loop({{.*}}) : ({{.*}}tensor<4xf32>{{.*}}) -> tensor<4x8xf32>
  // CHECK: nn.broadcast
  %s = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %b = nn.broadcast %s dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %y = nn.mul %x, %b : tensor<4x8xf32>
  %p = nn.matmul %y, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %z = nn.tanh %p : tensor<4x8xf32>
  %q = nn.mul %z, %b : tensor<4x8xf32>
  return %q : tensor<4x8xf32>
}

// -----

// Both sums of a pair read one loop: the reshape that stands between them moves nothing, and moves behind it.
// CHECK-LABEL: @pair
func.func @pair(%x: tensor<32x8xf32>) -> tensor<2x8xf32> {
  // CHECK: %[[R:.*]]:2 = exec.fusion columns(%arg0) : (tensor<32x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: %[[SUM:.*]] = nn.reshape %[[R]]#0
  // CHECK: %[[SQUARES:.*]] = nn.reshape %[[R]]#1
  // CHECK: exec.fusion loop(%[[SUM]], %[[SQUARES]])
  // CHECK: nn.concat
  // CHECK-NOT: exec.fusion
  %e = nn.exp %x : tensor<32x8xf32>
  %s = nn.reduce sum %e dims = [0] : tensor<32x8xf32> -> tensor<8xf32>
  %s1 = nn.reshape %s : tensor<8xf32> -> tensor<1x8xf32>
  %q = nn.mul %e, %e : tensor<32x8xf32>
  %t = nn.reduce sum %q dims = [0] : tensor<32x8xf32> -> tensor<8xf32>
  %t1 = nn.reshape %t : tensor<8xf32> -> tensor<1x8xf32>
  %c = nn.concat %s1, %t1 dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %y = nn.neg %c : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// Where the reshaped value is read, its group ends.
// CHECK-LABEL: @read_reshaped
func.func @read_reshaped(%x: tensor<32x8xf32>) -> (tensor<256xf32>, tensor<32x8xf32>) {
  // CHECK: %[[A:.*]] = exec.fusion loop(%arg0)
  // CHECK: %[[FLAT:.*]] = nn.reshape %[[A]]
  // CHECK: %[[EXP:.*]] = exec.fusion loop(%[[FLAT]])
  // CHECK: nn.exp
  // CHECK: exec.fusion loop(%[[A]])
  // CHECK: nn.tanh
  %a = nn.neg %x : tensor<32x8xf32>
  %r = nn.reshape %a : tensor<32x8xf32> -> tensor<256xf32>
  %e = nn.exp %r : tensor<256xf32>
  %t = nn.tanh %a : tensor<32x8xf32>
  return %e, %t : tensor<256xf32>, tensor<32x8xf32>
}

// -----

// Many rows to few sums: threads share out segments of the rows, here of the first dim that is larger than 1, and a second kernel adds up the segments.
// CHECK-LABEL: @pixels
func.func @pixels(%x: tensor<1x112x112x64xf32>) -> tensor<64xf32> {
  // CHECK: %[[X:.*]] = nn.reshape %arg0 : tensor<1x112x112x64xf32> -> tensor<1x16x7x112x64xf32>
  // CHECK: %[[P:.*]] = exec.fusion columns(%[[X]]) : (tensor<1x16x7x112x64xf32>) -> tensor<16x64xf32>
  // CHECK: nn.reduce sum %{{.*}} dims = [0, 2, 3]
  // CHECK: exec.fusion columns(%[[P]]) : (tensor<16x64xf32>) -> tensor<64xf32>
  // CHECK: nn.reduce sum %{{.*}} dims = [0]
  %s = nn.reduce sum %x dims = [0, 1, 2] : tensor<1x112x112x64xf32> -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// -----

// Wide rows have enough columns to share out.
// CHECK-LABEL: @wide
func.func @wide(%x: tensor<8192x4096xf32>) -> tensor<4096xf32> {
  // CHECK: exec.fusion columns(%arg0)
  // CHECK-NOT: exec.fusion
  %s = nn.reduce sum %x dims = [0] : tensor<8192x4096xf32> -> tensor<4096xf32>
  return %s : tensor<4096xf32>
}

// -----

// What one device computes alone is no part of a kernel that all run, nor of one of another device.
// CHECK-LABEL: @owners
func.func @owners(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[ALL:.*]] = exec.fusion loop(%arg0)
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: nn.exp
  // CHECK-NEXT: exec.yield
  // CHECK: %[[ZERO:.*]]:2 = exec.fusion loop(%[[ALL]], %{{.*}})
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.neg
  // CHECK-NEXT: exec.yield
  // CHECK: nn.write @a, %[[ZERO]]#0 {dist.owner = 0 : i64}
  // CHECK: dist.broadcast %[[ZERO]]#1
  // CHECK: %[[ONE:.*]] = exec.fusion loop(%[[ALL]])
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: nn.sqrt
  // CHECK: nn.write @b, %[[ONE]] {dist.owner = 1 : i64}
  %e = nn.exp %x : tensor<4xf32>
  %a = nn.read @a : tensor<4xf32>
  %s = nn.add %e, %a : tensor<4xf32>
  %n = nn.neg %s : tensor<4xf32>
  nn.write @a, %s {dist.owner = 0 : i64} : tensor<4xf32>
  %y = dist.broadcast %n root = 0 over ["dp"] {dist.owner = 0 : i64} : tensor<4xf32>
  %t = nn.sqrt %e : tensor<4xf32>
  nn.write @b, %t {dist.owner = 1 : i64} : tensor<4xf32>
  return %y : tensor<4xf32>
}
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {dist.owner = 0 : i64}
nn.variable @b : tensor<4xf32> {dist.owner = 1 : i64}
