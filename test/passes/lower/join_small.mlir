// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-fuse{target=cuda}))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-fuse))' | FileCheck %s --check-prefix=CPU

// Updates of small parameters take less than their launches: one kernel, and the writes behind it. A cpu calls them.
// CHECK-LABEL: @updates
// CHECK: %[[N:.*]]:2 = exec.fusion loop(%[[A:.*]], %arg0, %[[B:.*]]) : (tensor<768xf32>, tensor<768xf32>, tensor<768xf32>) -> (tensor<768xf32>, tensor<768xf32>)
// CHECK: nn.write @a, %[[N]]#0
// CHECK: nn.write @b, %[[N]]#1
// CPU-LABEL: @updates
// CPU-COUNT-2: exec.fusion loop
func.func @updates(%g: tensor<768xf32>) {
  %a = nn.read @a : tensor<768xf32>
  %b = nn.read @b : tensor<768xf32>
  %c = exec.fusion loop(%a, %g) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32> {
  ^bb0(%x: tensor<768xf32>, %y: tensor<768xf32>):
    %z = nn.sub %x, %y : tensor<768xf32>
    exec.yield %z : tensor<768xf32>
  }
  nn.write @a, %c : tensor<768xf32>
  %d = exec.fusion loop(%b, %g) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32> {
  ^bb0(%x: tensor<768xf32>, %y: tensor<768xf32>):
    %z = nn.sub %x, %y : tensor<768xf32>
    exec.yield %z : tensor<768xf32>
  }
  nn.write @b, %d : tensor<768xf32>
  return
}
nn.variable @a trainable : tensor<768xf32>
nn.variable @b trainable : tensor<768xf32>

// -----

// One needs the other, at once or by way of a product.
// CHECK-LABEL: @dependent
// CHECK-COUNT-2: exec.fusion loop
// CHECK: exec.fusion gemm
// CHECK: exec.fusion loop
func.func @dependent(%a: tensor<768xf32>, %g: tensor<768xf32>, %w: tensor<768x768xf32>) -> (tensor<768xf32>, tensor<768xf32>) {
  %c = exec.fusion loop(%a, %g) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32> {
  ^bb0(%x: tensor<768xf32>, %y: tensor<768xf32>):
    %z = nn.sub %x, %y : tensor<768xf32>
    exec.yield %z : tensor<768xf32>
  }
  %d = exec.fusion loop(%c, %g) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32> {
  ^bb0(%x: tensor<768xf32>, %y: tensor<768xf32>):
    %z = nn.sub %x, %y : tensor<768xf32>
    exec.yield %z : tensor<768xf32>
  }
  %m = nn.reshape %d : tensor<768xf32> -> tensor<1x768xf32>
  %p = exec.fusion gemm(%m, %w) : (tensor<1x768xf32>, tensor<768x768xf32>) -> tensor<1x768xf32> {
  ^bb0(%x: tensor<1x768xf32>, %y: tensor<768x768xf32>):
    %z = nn.matmul %x, %y : tensor<1x768xf32>, tensor<768x768xf32> -> tensor<1x768xf32>
    exec.yield %z : tensor<1x768xf32>
  }
  %q = nn.reshape %p : tensor<1x768xf32> -> tensor<768xf32>
  %e = exec.fusion loop(%q, %g) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32> {
  ^bb0(%x: tensor<768xf32>, %y: tensor<768xf32>):
    %z = nn.sub %x, %y : tensor<768xf32>
    exec.yield %z : tensor<768xf32>
  }
  return %c, %e : tensor<768xf32>, tensor<768xf32>
}

// -----

// The second reads what is made late, the first a variable that is overwritten by then: there is no place for both.
// CHECK-LABEL: @overwritten
// CHECK: exec.fusion loop(%{{.*}}, %arg0) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32>
// CHECK: nn.write @a, %arg1
// CHECK: dist.all_reduce
// CHECK: exec.fusion loop(%{{.*}}, %arg0) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32>
func.func @overwritten(%g: tensor<768xf32>, %h: tensor<768xf32>) -> (tensor<768xf32>, tensor<768xf32>) {
  %a = nn.read @a : tensor<768xf32>
  %c = exec.fusion loop(%a, %g) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32> {
  ^bb0(%x: tensor<768xf32>, %y: tensor<768xf32>):
    %z = nn.sub %x, %y : tensor<768xf32>
    exec.yield %z : tensor<768xf32>
  }
  nn.write @a, %h : tensor<768xf32>
  %s = dist.all_reduce sum %h over ["dp"] : tensor<768xf32>
  %d = exec.fusion loop(%s, %g) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32> {
  ^bb0(%x: tensor<768xf32>, %y: tensor<768xf32>):
    %z = nn.sub %x, %y : tensor<768xf32>
    exec.yield %z : tensor<768xf32>
  }
  return %c, %d : tensor<768xf32>, tensor<768xf32>
}
dist.mesh @mesh <["dp" = 2]>
nn.variable @a trainable : tensor<768xf32>

// -----

// What moves 24 MB each is worth a launch.
// CHECK-LABEL: @large
// CHECK-COUNT-2: exec.fusion loop
func.func @large(%a: tensor<2000000xf32>, %b: tensor<2000000xf32>, %g: tensor<2000000xf32>) -> (tensor<2000000xf32>, tensor<2000000xf32>) {
  %c = exec.fusion loop(%a, %g) : (tensor<2000000xf32>, tensor<2000000xf32>) -> tensor<2000000xf32> {
  ^bb0(%x: tensor<2000000xf32>, %y: tensor<2000000xf32>):
    %z = nn.sub %x, %y : tensor<2000000xf32>
    exec.yield %z : tensor<2000000xf32>
  }
  %d = exec.fusion loop(%b, %g) : (tensor<2000000xf32>, tensor<2000000xf32>) -> tensor<2000000xf32> {
  ^bb0(%x: tensor<2000000xf32>, %y: tensor<2000000xf32>):
    %z = nn.sub %x, %y : tensor<2000000xf32>
    exec.yield %z : tensor<2000000xf32>
  }
  return %c, %d : tensor<2000000xf32>, tensor<2000000xf32>
}

// -----

// What moves 12 MB each is not.
// CHECK-LABEL: @middling
// CHECK: exec.fusion loop
// CHECK-NOT: exec.fusion loop
func.func @middling(%a: tensor<1000000xf32>, %b: tensor<1000000xf32>, %g: tensor<1000000xf32>) -> (tensor<1000000xf32>, tensor<1000000xf32>) {
  %c = exec.fusion loop(%a, %g) : (tensor<1000000xf32>, tensor<1000000xf32>) -> tensor<1000000xf32> {
  ^bb0(%x: tensor<1000000xf32>, %y: tensor<1000000xf32>):
    %z = nn.sub %x, %y : tensor<1000000xf32>
    exec.yield %z : tensor<1000000xf32>
  }
  %d = exec.fusion loop(%b, %g) : (tensor<1000000xf32>, tensor<1000000xf32>) -> tensor<1000000xf32> {
  ^bb0(%x: tensor<1000000xf32>, %y: tensor<1000000xf32>):
    %z = nn.sub %x, %y : tensor<1000000xf32>
    exec.yield %z : tensor<1000000xf32>
  }
  return %c, %d : tensor<1000000xf32>, tensor<1000000xf32>
}

// -----

// Three of 1.6 MB each: the 128 blocks of a kernel would be busy for long, while other multiprocessors are idle.
// CHECK-LABEL: @narrow
// CHECK: exec.fusion loop(%arg0, %arg3, %arg1)
// CHECK: exec.fusion loop(%arg2, %arg3)
func.func @narrow(%a: tensor<131072xf32>, %b: tensor<131072xf32>, %c: tensor<131072xf32>, %g: tensor<131072xf32>)
    -> (tensor<131072xf32>, tensor<131072xf32>, tensor<131072xf32>) {
  %d = exec.fusion loop(%a, %g) : (tensor<131072xf32>, tensor<131072xf32>) -> tensor<131072xf32> {
  ^bb0(%x: tensor<131072xf32>, %y: tensor<131072xf32>):
    %z = nn.sub %x, %y : tensor<131072xf32>
    exec.yield %z : tensor<131072xf32>
  }
  %e = exec.fusion loop(%b, %g) : (tensor<131072xf32>, tensor<131072xf32>) -> tensor<131072xf32> {
  ^bb0(%x: tensor<131072xf32>, %y: tensor<131072xf32>):
    %z = nn.sub %x, %y : tensor<131072xf32>
    exec.yield %z : tensor<131072xf32>
  }
  %f = exec.fusion loop(%c, %g) : (tensor<131072xf32>, tensor<131072xf32>) -> tensor<131072xf32> {
  ^bb0(%x: tensor<131072xf32>, %y: tensor<131072xf32>):
    %z = nn.sub %x, %y : tensor<131072xf32>
    exec.yield %z : tensor<131072xf32>
  }
  return %d, %e, %f : tensor<131072xf32>, tensor<131072xf32>, tensor<131072xf32>
}
