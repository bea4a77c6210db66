// What the modes put together. 4 floats are 16 bytes, 8 are 32.

// RUN: ashlar-opt %s -ashlar-fuse-collectives | FileCheck %s --check-prefix=NONE
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=size:48 | FileCheck %s --check-prefix=SIZE
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=size:47 | FileCheck %s --check-prefix=LESS
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=size:31 | FileCheck %s --check-prefix=SMALL
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=index:2:3 | FileCheck %s --check-prefix=INDEX
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=index:100 | FileCheck %s --check-prefix=ONE
// RUN: ashlar-opt %s -ashlar-fuse-collectives=all-reduce=auto | FileCheck %s --check-prefix=AUTO
// RUN: ashlar-opt %s -ashlar-fuse-collectives="all-gather=size:64 reduce-scatter=index:1" | FileCheck %s --check-prefix=OTHER

// NONE-NOT: dist.fusion

// Buckets of at most 48 bytes: a and b, c and d; e is more than one may hold with another, and `zero` never is in one.
// SIZE: dist.all_reduce sum %{{.*}}, %{{.*}} over ["dp"] {cause = [{{.*}}"a">, {{.*}}"b">], fusion = #dist.fusion<mode = size, number = 1, bytes = 48>}
// SIZE: dist.all_reduce sum %{{.*}}, %{{.*}} over ["dp"] {cause = [{{.*}}"c">, {{.*}}"d">], fusion = #dist.fusion<mode = size, number = 2, bytes = 48>}
// SIZE: dist.all_reduce {{.*}}"zero">]} : tensor<4xf32>
// SIZE: dist.all_reduce {{.*}}"e">], fusion = #dist.fusion<mode = size, number = 3, bytes = 48>} : tensor<8xf32>
// SIZE-NOT: dist.fusion

// One byte less: no two fit.
// LESS-NOT: dist.all_reduce sum %{{[^ ]*}}, %
// LESS: return

// A tensor that is larger than a bucket has one of its own.
// SMALL: {cause = [{{[^,]*}}, name = "a">], fusion
// SMALL: {cause = [{{[^,]*}}, name = "b">], fusion
// SMALL: {cause = [{{[^,]*}}, name = "c">], fusion
// SMALL: {cause = [{{[^,]*}}, name = "d">], fusion

// The first two, the next one, the rest. `zero` is not counted.
// INDEX: {cause = [{{[^,]*}}, name = "a">, {{[^,]*}}, name = "b">], fusion = #dist.fusion<mode = index, number = 1>}
// INDEX: {cause = [{{[^,]*}}, name = "c">], fusion = #dist.fusion<mode = index, number = 2>}
// INDEX: "zero">]}
// INDEX: {cause = [{{[^,]*}}, name = "d">, {{[^,]*}}, name = "e">], fusion = #dist.fusion<mode = index, number = 3>}

// ONE: {cause = [{{.*}}"a">, {{.*}}"b">, {{.*}}"c">, {{.*}}"d">, {{.*}}"e">], fusion = #dist.fusion<mode = index, number = 1>}

// Two devices, 10 ns, 2 bytes/ns: 2 messages take 20 ns, in which 40 bytes could be sent. 19 times that is sent for 760 bytes of operands,
// as a device sends 2 (n-1)/n = 1 times these.
// AUTO: {cause = [{{.*}}"a">, {{.*}}"b">, {{.*}}"c">, {{.*}}"d">, {{.*}}"e">], fusion = #dist.fusion<mode = auto, number = 1, bytes = 760>}

// Whole tensors count: a gather of two pieces of 16 bytes makes 32, and so does what is scattered to 16.
// OTHER: dist.reduce_scatter sum %{{[^,]*}} dim = 0 {{.*}}"a">], fusion = #dist.fusion<mode = index, number = 1>
// OTHER: dist.reduce_scatter sum %{{[^,]*}}, %{{[^,]*}} dim = 0, 0 {{.*}}"b">, {{.*}}"c">], fusion = #dist.fusion<mode = index, number = 2>
// OTHER: dist.all_gather %{{[^,]*}}, %{{[^,]*}} dim = 0, 0 {{.*}}"a">, {{.*}}"b">], fusion = #dist.fusion<mode = size, number = 1, bytes = 64>
// OTHER: dist.all_gather %{{[^,]*}} dim = 0 {{.*}}"c">], fusion = #dist.fusion<mode = size, number = 2, bytes = 64>
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [2000]>}
nn.variable @a : tensor<4xf32> {trainable}
nn.variable @b : tensor<8xf32> {trainable}
nn.variable @c : tensor<4xf32> {trainable}
nn.variable @d : tensor<8xf32> {trainable}
nn.variable @e : tensor<8xf32> {trainable}
nn.variable @zero : tensor<4xf32> {trainable, dist.comm_fusion = 0 : i64}
func.func @train_step(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) attributes {nn.program = #nn.program<train_step>} {
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %b = dist.all_reduce sum %y over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<8xf32>
  %x1 = nn.neg %x : tensor<4xf32>
  %y1 = nn.neg %y : tensor<8xf32>
  %c = dist.all_reduce sum %x1 over ["dp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  %d = dist.all_reduce sum %y1 over ["dp"] {cause = [#dist.end<kind = gradient, name = "d">]} : tensor<8xf32>
  %x2 = nn.exp %x : tensor<4xf32>
  %z = dist.all_reduce sum %x2 over ["dp"] {cause = [#dist.end<kind = gradient, name = "zero">]} : tensor<4xf32>
  %y2 = nn.exp %y : tensor<8xf32>
  %e = dist.all_reduce sum %y2 over ["dp"] {cause = [#dist.end<kind = gradient, name = "e">]} : tensor<8xf32>
  %sa = dist.reduce_scatter sum %y dim = 0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<8xf32> -> tensor<4xf32>
  %sb = dist.reduce_scatter sum %y1 dim = 0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<8xf32> -> tensor<4xf32>
  %sc = dist.reduce_scatter sum %y2 dim = 0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<8xf32> -> tensor<4xf32>
  %ga = dist.all_gather %sa dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter_update, name = "a">]} : tensor<4xf32> -> tensor<8xf32>
  %gb = dist.all_gather %sb dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter_update, name = "b">]} : tensor<4xf32> -> tensor<8xf32>
  %gc = dist.all_gather %sc dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter_update, name = "c">]} : tensor<4xf32> -> tensor<8xf32>
  %s0 = nn.add %a, %c : tensor<4xf32>
  %s1 = nn.add %s0, %z : tensor<4xf32>
  %t0 = nn.add %b, %d : tensor<8xf32>
  %t1 = nn.add %t0, %e : tensor<8xf32>
  %t2 = nn.add %t1, %ga : tensor<8xf32>
  %t3 = nn.add %t2, %gb : tensor<8xf32>
  %t4 = nn.add %t3, %gc : tensor<8xf32>
  return %s1, %t4 : tensor<4xf32>, tensor<8xf32>
}
