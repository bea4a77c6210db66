// A mode never asks for what cannot be: of two collectives of which one needs the other, each opens a bucket of its own.

// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=size:1000000 | FileCheck %s
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=index:7 | FileCheck %s

// `b` needs the sum of `a`, and `d` that of `c`: a and c, b and d are one, whatever the order.
// CHECK: %[[F:.*]]:2 = dist.all_reduce {{.*}}"a">, {{.*}}"c">]
// CHECK: %[[S:.*]]:2 = dist.all_reduce {{.*}}"b">, {{.*}}"d">]
// CHECK-NOT: dist.all_reduce
// CHECK: return %[[S]]#0, %[[S]]#1
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {trainable}
nn.variable @b : tensor<4xf32> {trainable}
nn.variable @c : tensor<4xf32> {trainable}
nn.variable @d : tensor<4xf32> {trainable}
func.func @train_step(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {nn.program = #nn.program<train_step>} {
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %a1 = nn.neg %a : tensor<4xf32>
  %b = dist.all_reduce sum %a1 over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  %c = dist.all_reduce sum %y over ["dp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  %c1 = nn.neg %c : tensor<4xf32>
  %d = dist.all_reduce sum %c1 over ["dp"] {cause = [#dist.end<kind = gradient, name = "d">]} : tensor<4xf32>
  return %b, %d : tensor<4xf32>, tensor<4xf32>
}
