// Without ids and modes, gradients that are reduced between hosts fill buckets by the costs of the links; those within a host stay alone.

// RUN: ashlar-opt %s -split-input-file -ashlar-fuse-collectives | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-fuse-collectives=all-reduce=size:16 | FileCheck %s --check-prefix=SIZE

// Ranks 0 and 1 are on a host, 0 and 2 are not.
// CHECK-LABEL: func.func @train_step
// CHECK-DAG: dist.all_reduce sum %{{.*}}, %{{.*}} over ["dp"] {cause = [{{.*}}"a">, {{.*}}"b">], fusion = #dist.fusion<mode = auto, number = 1, bytes = 760>}
// CHECK-DAG: dist.all_reduce sum %{{[^,]*}} over ["tp"] {cause = [{{[^,]*}}, name = "c">]}
// CHECK-DAG: dist.all_reduce sum %{{[^,]*}} over ["tp"] {cause = [{{[^,]*}}, name = "d">]}

// A mode of the job is another way to say it.
// SIZE-LABEL: func.func @train_step
// SIZE-COUNT-4: fusion = #dist.fusion<mode = size
dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [10, 1], bytes_per_us = [2000, 4000]>,
    hosts = #dist.hosts<ranks_per_host = 2, adapters = 1, devices_per_rank = 1, links = <latency_ns = [1, 10], bytes_per_us = [4000, 4000]>>}
nn.variable @a : tensor<4xf32> {trainable}
nn.variable @b : tensor<4xf32> {trainable}
nn.variable @c : tensor<4xf32> {trainable}
nn.variable @d : tensor<4xf32> {trainable}
func.func @train_step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {nn.program = #nn.program<train_step>} {
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %c = dist.all_reduce sum %x over ["tp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  %y = nn.neg %x : tensor<4xf32>
  %b = dist.all_reduce sum %y over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  %d = dist.all_reduce sum %y over ["tp"] {cause = [#dist.end<kind = gradient, name = "d">]} : tensor<4xf32>
  return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Ids turn it off for all.
// CHECK-LABEL: func.func @train_step
// CHECK-NOT: fusion
// SIZE-LABEL: func.func @train_step
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [2000]>,
    hosts = #dist.hosts<ranks_per_host = 1, adapters = 1, devices_per_rank = 1, links = <latency_ns = [1, 10], bytes_per_us = [4000, 2000]>>}
nn.variable @a : tensor<4xf32> {trainable}
nn.variable @b : tensor<4xf32> {trainable}
nn.variable @c : tensor<4xf32> {trainable, dist.comm_fusion = 0 : i64}
func.func @train_step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {nn.program = #nn.program<train_step>} {
  %y = nn.neg %x : tensor<4xf32>
  %z = nn.exp %x : tensor<4xf32>
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %b = dist.all_reduce sum %y over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  %c = dist.all_reduce sum %z over ["dp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
