// RUN: ashlar-opt %s -split-input-file -ashlar-overlap-collectives | FileCheck %s

// A gradient is summed while the next one is computed; its update comes when the sum is there. 1 MiB takes 1.1 ms of the link, a product of
// 134 MFLOP 1.3 ms of the device.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
nn.variable @w trainable : tensor<512x512xf32> = #nn.fill<0.0 : f64>
// CHECK-LABEL: @gradients
func.func @gradients(%x: tensor<256x512xf32>, %d: tensor<256x512xf32>) -> tensor<512x512xf32> {
  // CHECK: %[[G:.*]] = exec.fusion gemm
  // CHECK: %[[S:.*]] = dist.all_reduce sum %[[G]]
  // CHECK-SAME: exec.overlap = #exec.overlap<duration_ns = 1050576, hidden_ns = 1050576>
  // CHECK: %[[H:.*]] = exec.fusion gemm
  // CHECK: %[[R:.*]] = exec.await %[[S]]
  // CHECK: %[[N:.*]] = exec.fusion loop(%{{.*}}, %[[R]])
  // CHECK: nn.write @w, %[[N]]
  // CHECK: return %[[H]]
  %w = nn.read @w : tensor<512x512xf32>
  %g = exec.fusion gemm(%d, %x) : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<256x512xf32>, %b: tensor<256x512xf32>):
    %r = nn.matmul %a, %b transpose_a : tensor<256x512xf32>, tensor<256x512xf32> -> tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  %s = dist.all_reduce sum %g over ["dp"] : tensor<512x512xf32>
  %n = exec.fusion loop(%w, %s) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>):
    %r = nn.sub %a, %b : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  nn.write @w, %n : tensor<512x512xf32>
  %h = exec.fusion gemm(%x, %d) : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<256x512xf32>, %b: tensor<256x512xf32>):
    %r = nn.matmul %a, %b transpose_a : tensor<256x512xf32>, tensor<256x512xf32> -> tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %h : tensor<512x512xf32>
}
}

// -----

// A link that keeps the device busy hides nothing: the order stays.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000]>}
// CHECK-LABEL: @busy
func.func @busy(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  // CHECK: dist.all_reduce
  // CHECK-NOT: exec.overlap
  // CHECK-NOT: exec.await
  // CHECK: exec.fusion
  %s = dist.all_reduce sum %x over ["dp"] : tensor<512x512xf32>
  %n = exec.fusion loop(%y) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %s, %n : tensor<512x512xf32>, tensor<512x512xf32>
}
}

// -----

// What takes a result at once leaves nothing to hide: the collective stays one instruction, while the other one of the program is split.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
// CHECK-LABEL: @chain
func.func @chain(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  // CHECK: %[[FIRST:.*]] = dist.all_reduce sum %arg0 over ["dp"] : tensor
  // CHECK-NEXT: %[[N:.*]] = exec.fusion loop(%[[FIRST]])
  // CHECK: %[[SECOND:.*]] = dist.all_reduce max %[[N]] over ["dp"] {exec.overlap
  // CHECK-NEXT: exec.fusion loop(%[[N]])
  // CHECK: exec.await %[[SECOND]]
  %s = dist.all_reduce sum %x over ["dp"] : tensor<512x512xf32>
  %n = exec.fusion loop(%s) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  %t = dist.all_reduce max %n over ["dp"] : tensor<512x512xf32>
  %m = exec.fusion loop(%n) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %t, %m : tensor<512x512xf32>, tensor<512x512xf32>
}
}

// -----

// A gather of the next layer's weight is under way while this layer's product runs; all tensors of one collective are waited for at once.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
nn.variable @v trainable : tensor<256x512xf32> = #nn.fill<0.0 : f64>
nn.variable @w trainable : tensor<256x512xf32> = #nn.fill<0.0 : f64>
nn.variable @b trainable : tensor<256xf32> = #nn.fill<0.0 : f64>
// CHECK-LABEL: @prefetch
func.func @prefetch(%x: tensor<256x512xf32>) -> (tensor<256x512xf32>, tensor<512xf32>) {
  // CHECK: %[[V:.*]] = dist.all_gather
  // CHECK: %[[W:.*]]:2 = dist.all_gather
  // CHECK: exec.fusion gemm(%{{.*}}, %[[V]])
  // CHECK: %[[R:.*]]:2 = exec.await %[[W]]#0, %[[W]]#1
  // CHECK: exec.fusion gemm(%{{.*}}, %[[R]]#0)
  // CHECK: return %{{.*}}, %[[R]]#1
  %vPiece = nn.read @v : tensor<256x512xf32>
  %wPiece = nn.read @w : tensor<256x512xf32>
  %bPiece = nn.read @b : tensor<256xf32>
  %v = dist.all_gather %vPiece dim = 0 over ["dp"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %y = exec.fusion gemm(%x, %v) : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32> {
  ^bb0(%a: tensor<256x512xf32>, %b: tensor<512x512xf32>):
    %r = nn.matmul %a, %b : tensor<256x512xf32>, tensor<512x512xf32> -> tensor<256x512xf32>
    exec.yield %r : tensor<256x512xf32>
  }
  %w, %b = dist.all_gather %wPiece, %bPiece dim = 0, 0 over ["dp"] : tensor<256x512xf32>, tensor<256xf32> -> tensor<512x512xf32>, tensor<512xf32>
  %z = exec.fusion gemm(%y, %w) : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32> {
  ^bb0(%a: tensor<256x512xf32>, %c: tensor<512x512xf32>):
    %r = nn.matmul %a, %c : tensor<256x512xf32>, tensor<512x512xf32> -> tensor<256x512xf32>
    exec.yield %r : tensor<256x512xf32>
  }
  return %z, %b : tensor<256x512xf32>, tensor<512xf32>
}
}

// -----

// Two gathers of 512 KiB each are under way at once: their operands, the pieces of the parameters, lie there anyway and do not count.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
nn.variable @v trainable : tensor<128x512xf32> = #nn.fill<0.0 : f64>
nn.variable @w trainable : tensor<128x512xf32> = #nn.fill<0.0 : f64>
// CHECK-LABEL: @two_gathers
func.func @two_gathers(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  // CHECK: %[[V:.*]] = dist.all_gather
  // CHECK: %[[W:.*]] = dist.all_gather
  // CHECK: exec.fusion gemm(%arg0)
  // CHECK: exec.await %[[V]]
  // CHECK: exec.await %[[W]]
  %vPiece = nn.read @v : tensor<128x512xf32>
  %wPiece = nn.read @w : tensor<128x512xf32>
  %h = exec.fusion gemm(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.matmul %a, %a : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  %v = dist.all_gather %vPiece dim = 0 over ["dp"] : tensor<128x512xf32> -> tensor<256x512xf32>
  %w = dist.all_gather %wPiece dim = 0 over ["dp"] : tensor<128x512xf32> -> tensor<256x512xf32>
  %y = exec.fusion gemm(%h, %v) : (tensor<512x512xf32>, tensor<256x512xf32>) -> tensor<512x256xf32> {
  ^bb0(%a: tensor<512x512xf32>, %b: tensor<256x512xf32>):
    %r = nn.matmul %a, %b transpose_b : tensor<512x512xf32>, tensor<256x512xf32> -> tensor<512x256xf32>
    exec.yield %r : tensor<512x256xf32>
  }
  %z = exec.fusion gemm(%y, %w) : (tensor<512x256xf32>, tensor<256x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x256xf32>, %b: tensor<256x512xf32>):
    %r = nn.matmul %a, %b : tensor<512x256xf32>, tensor<256x512xf32> -> tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %z : tensor<512x512xf32>
}
}

// -----

// In the body of a loop, too: a state is summed while what the other rows make is computed. The wait belongs to the same iteration.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
// CHECK-LABEL: @in_a_loop
func.func @in_a_loop(%x: tensor<512x512xf32>, %first: tensor<512x512xf32>) -> tensor<512x512xf32> {
  // CHECK: nn.repeat 4
  // CHECK: %[[S:.*]] = dist.all_reduce sum
  // CHECK-SAME: exec.overlap
  // CHECK: %[[P:.*]] = exec.fusion gemm
  // CHECK: %[[R:.*]] = exec.await %[[S]]
  // CHECK: exec.fusion loop(%[[R]], %[[P]])
  // CHECK: nn.yield
  %last = nn.repeat 4 carried(%h = %first) captured(%w = %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> (tensor<512x512xf32>) {
    %s = dist.all_reduce sum %h over ["dp"] : tensor<512x512xf32>
    %p = exec.fusion gemm(%w, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
    ^bb0(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>):
      %r = nn.matmul %a, %b : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
      exec.yield %r : tensor<512x512xf32>
    }
    %n = exec.fusion loop(%s, %p) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
    ^bb0(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>):
      %r = nn.sub %a, %b : tensor<512x512xf32>
      exec.yield %r : tensor<512x512xf32>
    }
    nn.yield %n : tensor<512x512xf32>
  }
  return %last : tensor<512x512xf32>
}
}
