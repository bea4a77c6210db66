// RUN: ashlar-opt %s -split-input-file | ashlar-opt -split-input-file | FileCheck %s

// Every op and attribute parses and prints the same.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 3]>
dist.mesh @mesh <["dp" = 2, "tp" = 3]>

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<6x12xf32>) {
  // CHECK: dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "fc1.weight">]} : tensor<6x12xf32>
  %0 = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "fc1.weight">]} : tensor<6x12xf32>
  // CHECK: dist.all_reduce sum %{{.*}}, %{{.*}} over ["dp"] {fusion = #dist.fusion<mode = auto, number = 3, bytes = 304000>} : tensor<6x12xf32>, tensor<6x12xf32>
  %l:2 = dist.all_reduce sum %x, %0 over ["dp"] {fusion = #dist.fusion<mode = auto, number = 3, bytes = 304000>} : tensor<6x12xf32>, tensor<6x12xf32>
  // CHECK: dist.all_gather %{{.*}}, %{{.*}} dim = 0, 1 over ["dp", "tp"] : tensor<6x12xf32>, tensor<6x12xf32> -> tensor<36x12xf32>, tensor<6x72xf32>
  %m:2 = dist.all_gather %x, %0 dim = 0, 1 over ["dp", "tp"] : tensor<6x12xf32>, tensor<6x12xf32> -> tensor<36x12xf32>, tensor<6x72xf32>
  // CHECK: dist.all_gather %{{.*}} dim = 0 over ["dp", "tp"] : tensor<6x12xf32> -> tensor<36x12xf32>
  %1 = dist.all_gather %x dim = 0 over ["dp", "tp"] : tensor<6x12xf32> -> tensor<36x12xf32>
  // CHECK: dist.reduce_scatter max %{{.*}} dim = 1 over ["tp"] : tensor<6x12xf32> -> tensor<6x4xf32>
  %2 = dist.reduce_scatter max %x dim = 1 over ["tp"] : tensor<6x12xf32> -> tensor<6x4xf32>
  // CHECK: dist.all_to_all %{{.*}} split_dim = 1 concat_dim = 0 over ["tp"] : tensor<6x12xf32> -> tensor<18x4xf32>
  %3 = dist.all_to_all %x split_dim = 1 concat_dim = 0 over ["tp"] : tensor<6x12xf32> -> tensor<18x4xf32>
  // CHECK: dist.permute %{{.*}} sources = [1, 0] over ["dp"] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  %6 = dist.permute %x sources = [1, 0] over ["dp"] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  // CHECK: dist.broadcast %{{.*}} root = 2 over ["tp"] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  dist.broadcast %x root = 2 over ["tp"] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  // CHECK: dist.halo %{{.*}} dim = 0 size = 11 from <positions = 11> to <positions = 6, step = 2, first = -1, last = 2> over ["dp"] {cause = [#dist.end<kind = op, name = "conv1">]} : tensor<6x12xf32> -> tensor<7x12xf32>
  %7 = dist.halo %x dim = 0 size = 11 from <positions = 11> to <positions = 6, step = 2, first = -1, last = 2> over ["dp"]
    {cause = [#dist.end<kind = op, name = "conv1">]} : tensor<6x12xf32> -> tensor<7x12xf32>
  // CHECK: dist.slice %{{.*}} dim = 0 over ["dp"] : tensor<6x12xf32> -> tensor<3x12xf32>
  %4 = dist.slice %x dim = 0 over ["dp"] : tensor<6x12xf32> -> tensor<3x12xf32>
  // CHECK: %[[R:.*]] = dist.receive "passed:h" from <stage = 0, channel = 1> {cause = [#dist.end<kind = op, name = "fc1">, #dist.end<kind = op, name = "fc2">]} : tensor<6x12xf32>
  %r = dist.receive "passed:h" from <stage = 0, channel = 1> {cause = [#dist.end<kind = op, name = "fc1">, #dist.end<kind = op, name = "fc2">]} : tensor<6x12xf32>
  // CHECK: dist.send %[[R]] "passed:r" to [#dist.peer<stage = 0, channel = 0>, #dist.peer<stage = 2, channel = 1>] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  dist.send %r "passed:r" to [#dist.peer<stage = 0, channel = 0>, #dist.peer<stage = 2, channel = 1>] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  // CHECK: %[[T:.*]] = dist.take "passed:t" : tensor<6x12xf32>
  %t = dist.take "passed:t" : tensor<6x12xf32>
  // CHECK: dist.keep %[[T]] "passed:k" : tensor<6x12xf32>
  dist.keep %t "passed:k" : tensor<6x12xf32>
  // CHECK: dist.axis_index over ["tp", "dp"] : tensor<i64>
  %5 = dist.axis_index over ["tp", "dp"] : tensor<i64>
  return
}

// The axes of a partial layout have no order: they print sorted.
// CHECK-LABEL: func.func @layouts
// CHECK-SAME: #dist.layout<[{"tp", "dp"}, {}]>
func.func @layouts(%x: tensor<6x12xf32> {dist.layout = #dist.layout<[{"tp", "dp"}, {}]>}) {
  // CHECK: from <[{}, {}], partial = sum {"dp", "tp"}> to <[{}, {"dp"}]> {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  %0 = dist.redistribute %x from <[{}, {}], partial = sum {"tp", "dp"}> to <[{}, {"dp"}]> {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<6x12xf32>
  return
}

// -----

// A layout over a whole mesh of three axes, and of a scalar.
dist.mesh @mesh <["a" = 2, "b" = 2, "c" = 1]>
// CHECK-LABEL: func.func @scalar
func.func @scalar(%x: tensor<f32>) {
  // CHECK: from <[], partial = min {"a", "b"}> to <[], partial = min {"b"}> : tensor<f32>
  %0 = dist.redistribute %x from <[], partial = min {"a", "b"}> to <[], partial = min {"b"}> : tensor<f32>
  return
}

// -----

// What the links of a mesh cost, and which rank plays which device.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000], beside = [0]>, device_ids = array<i64: 0, 2, 1, 3>}
dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000], beside = [0]>,
                                        device_ids = array<i64: 0, 2, 1, 3>}

// -----

// A value after another one, of any types.
// CHECK-LABEL: func.func @after
func.func @after(%x: tensor<4x8xf32>, %g: tensor<2xi64>) -> tensor<4x8xf32> {
  // CHECK: %[[Y:.*]] = dist.after %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<2xi64>
  // CHECK-NEXT: return %[[Y]]
  %y = dist.after %x, %g : tensor<4x8xf32>, tensor<2xi64>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK: dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 2, devices_per_rank = 1, links = <latency_ns = [1, 9], bytes_per_us = [500, 90], beside = [1]>>}
dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 2, devices_per_rank = 1, links = <latency_ns = [1, 9], bytes_per_us = [500, 90], beside = [1]>>}

// -----

// CHECK: dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 2, hosts_per_pod = 8, uplinks = 3, devices_per_rank = 1, links = <latency_ns = [1, 9, 12], bytes_per_us = [500, 90, 80]>>}
dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 2, hosts_per_pod = 8, uplinks = 3, devices_per_rank = 1, links = <latency_ns = [1, 9, 12], bytes_per_us = [500, 90, 80]>>}

// -----

// What a machine costs: kinds of collectives, rates by size. What is not said is not printed.
// CHECK: module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 90000, bytes_per_us = 20000, launch_ns = 150, products = [<from = 1, flops_per_us = 9000, narrow_flops_per_us = 8000>, <from = 64, flops_per_us = 90000, narrow_flops_per_us = 80000>], convolutions = [<from = 3, flops_per_us = 7000, narrow_flops_per_us = 7000>]>}
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 90000, bytes_per_us = 20000, launch_ns = 150,
    products = [<from = 1, flops_per_us = 9000, narrow_flops_per_us = 8000>,
                <from = 64, flops_per_us = 90000, narrow_flops_per_us = 80000>],
    convolutions = [<from = 3, flops_per_us = 7000, narrow_flops_per_us = 7000>]>} {
  // CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000], beside = [0], kinds = [<kind = all_gather, latency_ns = [5200, 300], bytes_per_us = [1200, 14000]>]>}
  dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000], beside = [0],
      kinds = [<kind = all_gather, latency_ns = [5200, 300], bytes_per_us = [1200, 14000]>]>}
}

// -----

// CHECK: module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 2, bytes_per_us = 3>}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 2, bytes_per_us = 3>} {}

// -----

// CHECK: module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 2, bytes_per_us = 3, convolutions = [<from = 3, flops_per_us = 7, narrow_flops_per_us = 7>], attentions = [<from = 64, flops_per_us = 5, narrow_flops_per_us = 9>]>}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 2, bytes_per_us = 3, convolutions = [<from = 3, flops_per_us = 7, narrow_flops_per_us = 7>], attentions = [<from = 64, flops_per_us = 5, narrow_flops_per_us = 9>]>} {
  // CHECK: {costs = #dist.costs<latency_ns = [1], bytes_per_us = [2], kinds = [<kind = halo, latency_ns = [3], bytes_per_us = [4]>]>}
  dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1], bytes_per_us = [2], kinds = [<kind = halo, latency_ns = [3], bytes_per_us = [4]>]>}
}

// -----

// What a search leaves, with an explanation.
// CHECK: dist.search = #dist.search<strategies = [<kind = data_parallel, is_lowered = false, step_ps = 200, bytes = 30>, <kind = search_without_limit, is_lowered = false, step_ps = 100, bytes = 40>], taken = search_without_limit, cost_ps = 100, bound_ps = 90, units = 70, stopped_s = 6.000000e+02 : f64, runners_up = [<block = "fc1", more_ps = 50, more_bytes = -10, differences = [<kind = parameter, name = "fc1.weight", layout = <[{}, {}]>, taken = <[{"tp"}, {}]>>]>], rules = <[<match = "fc1.weight", layout = "[{tp}, {}]">], kind = shortest, others = 1, more_ps = 10>>
module attributes {dist.search = #dist.search<
  strategies = [<kind = data_parallel, is_lowered = false, step_ps = 200, bytes = 30>, <kind = search_without_limit, is_lowered = false, step_ps = 100, bytes = 40>],
  taken = search_without_limit, cost_ps = 100, bound_ps = 90, units = 70, stopped_s = 600.0,
  runners_up = [<block = "fc1", more_ps = 50, more_bytes = -10,
                 differences = [<kind = parameter, name = "fc1.weight", layout = <[{}, {}]>, taken = <[{"tp"}, {}]>>]>],
  rules = <[<match = "fc1.weight", layout = "[{tp}, {}]">], kind = shortest, others = 1, more_ps = 10>>} {}

// -----

// The least that a search leaves: rules that inference refuses, nothing sent, no runners-up.
// CHECK: dist.search = #dist.search<strategies = [<kind = search, is_lowered = false, step_ps = 1, bytes = 2>], taken = search, cost_ps = 1, bound_ps = 1, units = 8, runners_up = [], rules = <[], kind = enough, others = 0>>
module attributes {dist.search = #dist.search<
  strategies = [<kind = search, is_lowered = false, step_ps = 1, bytes = 2>], taken = search, cost_ps = 1, bound_ps = 1, units = 8,
  runners_up = [], rules = <[], kind = enough, others = 0>>} {}
