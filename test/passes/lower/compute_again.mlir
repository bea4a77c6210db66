// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda},canonicalize,cse,ashlar-order-ops,ashlar-fuse{target=cuda}))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,canonicalize,cse,ashlar-order-ops,ashlar-fuse))' | FileCheck %s --check-prefix=CPU

// What the gradient of a softmax takes of it is not stored in f32: its narrow operand and two numbers a row are there, or small. On a cpu the
// exponentials would take longer than the memory.
// CHECK-LABEL: @softmax
// CHECK: %[[F:.*]]:3 = exec.fusion rows(%arg0) : (tensor<64x64x256xbf16>) -> (tensor<64x64x256xbf16>, tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK: exec.fusion gemm(%[[F]]#0, %arg1)
// CHECK: exec.fusion rows(%arg2, %[[F]]#1, %[[F]]#2, %arg0)
// CHECK: nn.cast
// CHECK: nn.sub
// CHECK: nn.exp
// CHECK: nn.mul
// CHECK: nn.reduce sum
// CPU-LABEL: @softmax
// CPU: exec.fusion rows(%arg0) : (tensor<64x64x256xbf16>) -> (tensor<64x64x256xf32>, tensor<64x64x256xbf16>)
func.func @softmax(%s: tensor<64x64x256xbf16>, %v: tensor<64x256x64xbf16>, %dp: tensor<64x64x256xbf16>) -> (tensor<64x64x64xbf16>, tensor<64x64x256xbf16>) {
  %w = nn.cast %s : tensor<64x64x256xbf16> -> tensor<64x64x256xf32>
  %p = nn.softmax %w : tensor<64x64x256xf32>
  %n = nn.cast %p : tensor<64x64x256xf32> -> tensor<64x64x256xbf16>
  %o = nn.matmul %n, %v : tensor<64x64x256xbf16>, tensor<64x256x64xbf16> -> tensor<64x64x64xbf16>
  %dpw = nn.cast %dp : tensor<64x64x256xbf16> -> tensor<64x64x256xf32>
  %m = nn.mul %dpw, %p : tensor<64x64x256xf32>
  %r = nn.reduce sum %m dims = [2] : tensor<64x64x256xf32> -> tensor<64x64xf32>
  %b = nn.broadcast %r dims = [0, 1] : tensor<64x64xf32> -> tensor<64x64x256xf32>
  %d = nn.sub %dpw, %b : tensor<64x64x256xf32>
  %ds = nn.mul %p, %d : tensor<64x64x256xf32>
  %dsn = nn.cast %ds : tensor<64x64x256xf32> -> tensor<64x64x256xbf16>
  return %o, %dsn : tensor<64x64x64xbf16>, tensor<64x64x256xbf16>
}

// -----

// A norm: its operand and two numbers a row. The relu is stored, since a product reads it.
// CHECK-LABEL: @norm
// CHECK: %[[F:.*]]:3 = exec.fusion rows(%arg0) : (tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64xf32>, tensor<64xf32>)
// CHECK: %[[O:.*]] = exec.fusion gemm(%[[F]]#0, %arg1)
// CHECK: exec.fusion loop(%[[O]], %arg0, %[[F]]#1, %[[F]]#2)
// CPU-LABEL: @norm
// CPU: %[[F:.*]]:3 = exec.fusion rows(%arg0) : (tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64xf32>, tensor<64xf32>)
// CPU: %[[O:.*]] = exec.fusion gemm(%[[F]]#0, %arg1)
// CPU: exec.fusion loop(%[[O]], %arg0, %[[F]]#1, %[[F]]#2)
func.func @norm(%x: tensor<64x256xf32>, %w: tensor<256x256xf32>) -> tensor<64x256xf32> {
  %i = nn.constant dense<0.00390625> : tensor<64xf32>
  %s = nn.reduce sum %x dims = [1] : tensor<64x256xf32> -> tensor<64xf32>
  %m = nn.mul %s, %i : tensor<64xf32>
  %b = nn.broadcast %m dims = [0] : tensor<64xf32> -> tensor<64x256xf32>
  %d = nn.sub %x, %b : tensor<64x256xf32>
  %q = nn.mul %d, %d : tensor<64x256xf32>
  %v = nn.reduce sum %q dims = [1] : tensor<64x256xf32> -> tensor<64xf32>
  %r = nn.sqrt %v : tensor<64xf32>
  %rb = nn.broadcast %r dims = [0] : tensor<64xf32> -> tensor<64x256xf32>
  %y = nn.mul %d, %rb : tensor<64x256xf32>
  %h = nn.relu %y : tensor<64x256xf32>
  %o = nn.matmul %h, %w : tensor<64x256xf32>, tensor<256x256xf32> -> tensor<64x256xf32>
  %g = nn.mul %o, %y : tensor<64x256xf32>
  %t = nn.add %g, %x : tensor<64x256xf32>
  return %t : tensor<64x256xf32>
}

// -----

// Nothing of the kernel is left: its product is computed where it is read.
// CHECK-LABEL: @product
// CHECK-NEXT: %[[R:.*]] = exec.fusion loop(%arg0, %arg1) : (tensor<64x256xbf16>, tensor<64x256xbf16>) -> tensor<64x256xf32>
// CHECK: nn.mul
// CHECK-NEXT: nn.neg
// CHECK: return %[[R]]
func.func @product(%x: tensor<64x256xbf16>, %y: tensor<64x256xbf16>) -> tensor<64x256xf32> {
  %v = exec.fusion loop(%x, %y) : (tensor<64x256xbf16>, tensor<64x256xbf16>) -> tensor<64x256xf32> {
  ^bb0(%a: tensor<64x256xbf16>, %b: tensor<64x256xbf16>):
    %c = nn.cast %a : tensor<64x256xbf16> -> tensor<64x256xf32>
    %d = nn.cast %b : tensor<64x256xbf16> -> tensor<64x256xf32>
    %e = nn.mul %c, %d : tensor<64x256xf32>
    exec.yield %e : tensor<64x256xf32>
  }
  %r = exec.fusion loop(%v) : (tensor<64x256xf32>) -> tensor<64x256xf32> {
  ^bb0(%a: tensor<64x256xf32>):
    %c = nn.neg %a : tensor<64x256xf32>
    exec.yield %c : tensor<64x256xf32>
  }
  return %r : tensor<64x256xf32>
}

// -----

// What it is computed from is overwritten before it is read.
// CHECK-LABEL: @overwritten
// CHECK: %[[V:.*]] = exec.fusion loop(%{{.*}}, %arg0) : (tensor<64x256xbf16>, tensor<64x256xbf16>) -> tensor<64x256xf32>
// CHECK: nn.write @w, %arg0
// CHECK: exec.fusion loop(%[[V]])
func.func @overwritten(%y: tensor<64x256xbf16>) -> tensor<64x256xf32> {
  %x = nn.read @w : tensor<64x256xbf16>
  %v = exec.fusion loop(%x, %y) : (tensor<64x256xbf16>, tensor<64x256xbf16>) -> tensor<64x256xf32> {
  ^bb0(%a: tensor<64x256xbf16>, %b: tensor<64x256xbf16>):
    %c = nn.cast %a : tensor<64x256xbf16> -> tensor<64x256xf32>
    %d = nn.cast %b : tensor<64x256xbf16> -> tensor<64x256xf32>
    %e = nn.mul %c, %d : tensor<64x256xf32>
    exec.yield %e : tensor<64x256xf32>
  }
  nn.write @w, %y : tensor<64x256xbf16>
  %r = exec.fusion loop(%v) : (tensor<64x256xf32>) -> tensor<64x256xf32> {
  ^bb0(%a: tensor<64x256xf32>):
    %c = nn.neg %a : tensor<64x256xf32>
    exec.yield %c : tensor<64x256xf32>
  }
  return %r : tensor<64x256xf32>
}
nn.variable @w trainable : tensor<64x256xbf16>

// -----

// A result of the function lies in memory.
// CHECK-LABEL: @returned
// CHECK: %[[V:.*]] = exec.fusion loop(%arg0, %arg1)
// CHECK: exec.fusion loop(%[[V]])
func.func @returned(%x: tensor<64x256xbf16>, %y: tensor<64x256xbf16>) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
  %v = exec.fusion loop(%x, %y) : (tensor<64x256xbf16>, tensor<64x256xbf16>) -> tensor<64x256xf32> {
  ^bb0(%a: tensor<64x256xbf16>, %b: tensor<64x256xbf16>):
    %c = nn.cast %a : tensor<64x256xbf16> -> tensor<64x256xf32>
    %d = nn.cast %b : tensor<64x256xbf16> -> tensor<64x256xf32>
    %e = nn.mul %c, %d : tensor<64x256xf32>
    exec.yield %e : tensor<64x256xf32>
  }
  %r = exec.fusion loop(%v) : (tensor<64x256xf32>) -> tensor<64x256xf32> {
  ^bb0(%a: tensor<64x256xf32>):
    %c = nn.neg %a : tensor<64x256xf32>
    exec.yield %c : tensor<64x256xf32>
  }
  return %r, %v : tensor<64x256xf32>, tensor<64x256xf32>
}

// -----

// Read at other places than where it is computed.
// CHECK-LABEL: @transposed
// CHECK: %[[V:.*]] = exec.fusion loop(%arg0, %arg1)
// CHECK: exec.fusion loop(%[[V]])
func.func @transposed(%x: tensor<256x256xbf16>, %y: tensor<256x256xbf16>) -> tensor<256x256xf32> {
  %v = exec.fusion loop(%x, %y) : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xf32> {
  ^bb0(%a: tensor<256x256xbf16>, %b: tensor<256x256xbf16>):
    %c = nn.cast %a : tensor<256x256xbf16> -> tensor<256x256xf32>
    %d = nn.cast %b : tensor<256x256xbf16> -> tensor<256x256xf32>
    %e = nn.mul %c, %d : tensor<256x256xf32>
    exec.yield %e : tensor<256x256xf32>
  }
  %r = exec.fusion loop(%v) : (tensor<256x256xf32>) -> tensor<256x256xf32> {
  ^bb0(%a: tensor<256x256xf32>):
    %t = nn.transpose %a [1, 0] : tensor<256x256xf32> -> tensor<256x256xf32>
    %c = nn.neg %t : tensor<256x256xf32>
    exec.yield %c : tensor<256x256xf32>
  }
  return %r : tensor<256x256xf32>
}

// -----

// One-hot numbers of a vocabulary that is sharded are compared again, too: a device's first column is computed from a scalar.
// CHECK-LABEL: @sharded
// CHECK: %[[P:.*]] = exec.fusion rows({{.*}} -> tensor<64xf32>
// CHECK: %[[S:.*]] = dist.all_reduce sum %[[P]]
// CHECK: exec.fusion loop({{.*}} -> tensor<64x256xbf16>
// CHECK: nn.mul {{.*}} : tensor<i64>
// CHECK: nn.compare eq
dist.mesh @mesh <["tp" = 2]>
func.func @sharded(%s: tensor<64x256xbf16>, %labels: tensor<64xi64>) -> (tensor<64x256xbf16>) {
  %device = dist.axis_index over ["tp"] : tensor<i64>
  %index = nn.index [0, 1] : tensor<64x256xi64>
  %columns = nn.constant dense<256> : tensor<i64>
  %first = nn.mul %device, %columns : tensor<i64>
  %offset = nn.broadcast %first dims = [] : tensor<i64> -> tensor<64x256xi64>
  %numbers = nn.add %index, %offset : tensor<64x256xi64>
  %wide = nn.broadcast %labels dims = [0] : tensor<64xi64> -> tensor<64x256xi64>
  %is = nn.compare eq %numbers, %wide : tensor<64x256xi64> -> tensor<64x256xi1>
  %zero = nn.constant dense<0.0> : tensor<64x256xf32>
  %t = nn.cast %s : tensor<64x256xbf16> -> tensor<64x256xf32>
  %picked = nn.select %is, %t, %zero : tensor<64x256xi1>, tensor<64x256xf32>
  %term = nn.reduce sum %picked dims = [1] : tensor<64x256xf32> -> tensor<64xf32>
  %sum = dist.all_reduce sum %term over ["tp"] : tensor<64xf32>
  %rows = nn.broadcast %sum dims = [0] : tensor<64xf32> -> tensor<64x256xf32>
  %d = nn.sub %t, %rows : tensor<64x256xf32>
  %g = nn.select %is, %d, %t : tensor<64x256xi1>, tensor<64x256xf32>
  %narrow = nn.cast %g : tensor<64x256xf32> -> tensor<64x256xbf16>
  return %narrow : tensor<64x256xbf16>
}
