// RUN: ashlar-opt %s -split-input-file -verify-diagnostics

// mesh attribute, C1
// expected-error@+1 {{mesh axis "dp" has size 0, which is not positive}}
dist.mesh @mesh <["dp" = 0]>

// -----

// mesh attribute, C3: products are checked, whatever their sizes
// expected-error@+1 {{mesh has 2147483647 devices before axis "b" of size 2147483647, which makes more than 2147483647; use smaller axes}}
dist.mesh @mesh <["a" = 2147483647, "b" = 2147483647, "c" = 2147483647]>

// -----

// mesh attribute, C3
// expected-error@+1 {{mesh has 1 devices before axis "a" of size 2147483648, which makes more than 2147483647; use smaller axes}}
dist.mesh @mesh <["a" = 2147483648]>

// -----

// mesh attribute, C2
// expected-error@+1 {{mesh has axis "dp" twice}}
dist.mesh @mesh <["dp" = 2, "dp" = 2]>

// -----

// mesh op, C1
// expected-note@+1 {{the first one is here}}
dist.mesh @first <["dp" = 2]>
// expected-error@+1 {{is the second mesh of the module}}
dist.mesh @second <["dp" = 2]>

// -----

// mesh op, C2
// expected-error@+1 {{has 3 device_ids for 2 devices}}
dist.mesh @mesh <["dp" = 2]> {device_ids = array<i64: 0, 1, 2>}

// -----

// mesh op, C2
// expected-error@+1 {{has device_ids in which 2 is there twice or is not from 0 to 1}}
dist.mesh @mesh <["dp" = 2]> {device_ids = array<i64: 0, 2>}

// -----

// mesh op, C3
// expected-error@+1 {{has 1 axes but costs of 2}}
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1, 2], bytes_per_us = [1, 2]>}

// -----

// hosts attribute, C1
// expected-error@+1 {{hosts have 0 adapters, which is not positive}}
dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 0, devices_per_rank = 1, links = <latency_ns = [1, 2], bytes_per_us = [1, 2]>>}

// -----

// hosts attribute, C2
// expected-error@+1 {{hosts have 1 links, not one within a host and one between hosts}}
dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 4, devices_per_rank = 1, links = <latency_ns = [1], bytes_per_us = [1]>>}

// -----

// hosts attribute, C2, with pods
// expected-error@+1 {{hosts have 2 links, not one within a host and one between hosts, and one between pods}}
dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 4, hosts_per_pod = 2, uplinks = 1, devices_per_rank = 1, links = <latency_ns = [1, 2], bytes_per_us = [1, 2]>>}

// -----

// hosts attribute, C3
// expected-error@+1 {{hosts have 2 hosts a pod and 0 uplinks, which are not both positive}}
dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 4, hosts_per_pod = 2, devices_per_rank = 1, links = <latency_ns = [1, 2, 3], bytes_per_us = [1, 2, 3]>>}

// -----

// hosts attribute, C4
// expected-error@+1 {{hosts have rails, and 4 ranks, not divisible by 3 adapters}}
dist.mesh @mesh <["dp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 3, rails = true, devices_per_rank = 1, links = <latency_ns = [1, 2], bytes_per_us = [1, 2]>>}

// -----

// costs attribute, C1
// expected-error@+1 {{costs have 1 latencies but 2 rates}}
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1], bytes_per_us = [1, 2]>}

// -----

// costs attribute, C2
// expected-error@+1 {{costs have a latency of -1 ns, which is negative}}
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [-1], bytes_per_us = [1]>}

// -----

// costs attribute, C2
// expected-error@+1 {{costs have a rate of 0 bytes a microsecond, which is not positive}}
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [0], bytes_per_us = [0]>}

// -----

// costs attribute, C3
// expected-error@+1 {{costs name axis 1 in "beside", which is not one of 1}}
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [0], bytes_per_us = [1], beside = [1]>}

// -----

// costs attribute, C3
// expected-error@+1 {{costs name axis 0 in "beside", which is out of order}}
dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [0, 0], bytes_per_us = [1, 1], beside = [1, 0]>}

// -----

// costs attribute, C4
// expected-error@+1 {{costs name halo twice in "kinds"}}
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [0], bytes_per_us = [1], kinds = [<kind = halo, latency_ns = [1], bytes_per_us = [1]>, <kind = halo, latency_ns = [2], bytes_per_us = [1]>]>}

// -----

// costs attribute, C5
// expected-error@+1 {{costs of permute are of 1 axes, and there are 2}}
dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [0, 0], bytes_per_us = [1, 1], kinds = [<kind = permute, latency_ns = [1], bytes_per_us = [1]>]>}

// -----

// costs attribute, parts in their order
// expected-error@+1 {{expected 'kinds'}}
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [0], bytes_per_us = [1], beside = [0], beside = [0]>}

// -----

// device attribute, parts in their order
// expected-error@+1 {{expected 'launch_ns' or 'products' or 'convolutions' or 'attentions'}}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 1, bytes_per_us = 1, launches = 1>} {}

// -----

// kind_costs attribute, C1
// expected-error@+1 {{costs of a slice, which sends nothing}}
module attributes {test.costs = #dist.kind_costs<kind = slice, latency_ns = [1], bytes_per_us = [1]>} {}

// -----

// kind_costs attribute, C2
// expected-error@+1 {{costs of all_gather have 1 latencies but 2 rates}}
module attributes {test.costs = #dist.kind_costs<kind = all_gather, latency_ns = [1], bytes_per_us = [1, 2]>} {}

// -----

// kind_costs attribute, C3
// expected-error@+1 {{costs of all_gather have a latency of -1 ns, which is negative}}
module attributes {test.costs = #dist.kind_costs<kind = all_gather, latency_ns = [-1], bytes_per_us = [1]>} {}

// -----

// kind_costs attribute, C3
// expected-error@+1 {{costs of all_gather have a rate of 0 bytes a microsecond, which is not positive}}
module attributes {test.costs = #dist.kind_costs<kind = all_gather, latency_ns = [1], bytes_per_us = [0]>} {}

// -----

// layout attribute, C1, between dims
// expected-error@+1 {{layout uses axis "dp" twice}}
func.func @layout_c1(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"dp"}]>}) { return }

// -----

// layout attribute, C1, between a dim and the partial axes
// expected-error@+1 {{layout uses axis "dp" twice}}
func.func @layout_c1(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}], partial = sum {"dp"}>}) { return }

// -----

// A reduction that is none.
// expected-error@+1 {{expected sum, max or min, got "mean"}}
func.func @layout_reduction(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}], partial = mean {"dp"}>}) { return }

// -----

func.func @no_mesh(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs a dist.mesh in the module}}
  dist.all_reduce sum %x over ["dp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @redistribute_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a layout of rank 2 for a tensor of rank 1}}
  dist.redistribute %x from <[{}, {}]> to <[{}]> : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @redistribute_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{names axis "tp", which is not in mesh #dist.mesh<["dp" = 2]>}}
  dist.redistribute %x from <[{}]> to <[{"tp"}]> : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @redistribute_c3(%x: tensor<4xf32>) {
  // expected-error@+1 {{makes the value partial (sum) over "dp"}}
  dist.redistribute %x from <[{}]> to <[{}], partial = sum {"dp"}> : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @redistribute_c3_kind(%x: tensor<4xf32>) {
  // expected-error@+1 {{makes the value partial (max) over "dp"}}
  dist.redistribute %x from <[{}], partial = sum {"dp"}> to <[{}], partial = max {"dp"}> : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_reduce_c1_none(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no axes}}
  dist.all_reduce sum %x over [] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_reduce_c1_unknown(%x: tensor<4xf32>) {
  // expected-error@+1 {{names axis "tp", which is not in mesh #dist.mesh<["dp" = 2]>}}
  dist.all_reduce sum %x over ["tp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_reduce_c1_twice(%x: tensor<4xf32>) {
  // expected-error@+1 {{names axis "dp" twice}}
  dist.all_reduce sum %x over ["dp", "dp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @broadcast_c1_none(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no axes}}
  dist.broadcast %x root = 0 over [] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @broadcast_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{has root 2 in groups of 2 devices}}
  dist.broadcast %x root = 2 over ["dp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_gather_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{dim 1 is not within rank 1}}
  dist.all_gather %x dim = 1 over ["dp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_gather_c3(%x: tensor<4xf32>) {
  // expected-error@+1 {{has types 'tensor<12xf32>' and 'tensor<4xf32>', which are not 2 to 1 in dim 0 and equal in the rest}}
  dist.all_gather %x dim = 0 over ["dp"] : tensor<4xf32> -> tensor<12xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @reduce_scatter_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{dim -1 is not within rank 1}}
  dist.reduce_scatter sum %x dim = -1 over ["dp"] : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @reduce_scatter_c3(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{which are not 2 to 1 in dim 0 and equal in the rest}}
  dist.reduce_scatter sum %x dim = 0 over ["dp"] : tensor<4x4xf32> -> tensor<4x2xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @slice_c3_rank(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{which are not 2 to 1 in dim 0 and equal in the rest}}
  dist.slice %x dim = 0 over ["dp"] : tensor<4x4xf32> -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_to_all_c2_rank(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{concat_dim 2 is not within rank 2}}
  dist.all_to_all %x split_dim = 1 concat_dim = 2 over ["dp"] : tensor<4x4xf32> -> tensor<8x2xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_to_all_c2_same(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{splits and concatenates the same dim 1}}
  dist.all_to_all %x split_dim = 1 concat_dim = 1 over ["dp"] : tensor<4x4xf32> -> tensor<4x4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_to_all_c3(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{which is not 1 to 2 in dim 1 and 2 to 1 in dim 0}}
  dist.all_to_all %x split_dim = 1 concat_dim = 0 over ["dp"] : tensor<4x4xf32> -> tensor<4x4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @halo_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no axes}}
  dist.halo %x dim = 0 size = 4 from <positions = 4> to <positions = 4> over [] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @halo_c2(%x: tensor<4xf32>) {
  // expected-error@+1 {{dim 1 is not within rank 1}}
  dist.halo %x dim = 1 size = 8 from <positions = 8> to <positions = 8> over ["dp"] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @halo_c3_overlap(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a dim of size 8 in segments #dist.segments<positions = 8, last = 2>, which are no blocks that hold all of it}}
  dist.halo %x dim = 0 size = 8 from <positions = 8, last = 2> to <positions = 8> over ["dp"] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @halo_c3_short(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a dim of size 9 in segments #dist.segments<positions = 8>, which are no blocks that hold all of it}}
  dist.halo %x dim = 0 size = 9 from <positions = 8> to <positions = 8> over ["dp"] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @halo_c4_operand(%x: tensor<5xf32>) {
  // expected-error@+1 {{takes 'tensor<5xf32>' to 'tensor<4xf32>' but the segments of dim 0 are 4 and 4 elements long}}
  dist.halo %x dim = 0 size = 8 from <positions = 8> to <positions = 8> over ["dp"] : tensor<5xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @halo_c4_result(%x: tensor<4xf32>) {
  // expected-error@+1 {{takes 'tensor<4xf32>' to 'tensor<5xf32>' but the segments of dim 0 are 4 and 6 elements long}}
  dist.halo %x dim = 0 size = 8 from <positions = 8> to <positions = 8, first = -1, last = 2> over ["dp"] : tensor<4xf32> -> tensor<5xf32>
  return
}

// -----

// expected-error@+1 {{segments of 0 positions, step 1, first 0 and last 1: positions and step must be at least 1, and first below last}}
func.func private @segments_c1() attributes {test.segments = #dist.segments<positions = 0>}

// -----

// expected-error@+1 {{segments of 4 positions, step 1, first 1 and last 1: positions and step must be at least 1, and first below last}}
func.func private @segments_c2() attributes {test.segments = #dist.segments<positions = 4, first = 1>}

// -----

// expected-error@+1 {{segments of 4 positions, step 1, first -70368744177664 and last 1: numbers must be below 70368744177664}}
func.func private @segments_c3() attributes {test.segments = #dist.segments<positions = 4, first = -70368744177664>}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @permute_c1(%x: tensor<4xf32>) {
  // expected-error@+1 {{has no axes}}
  dist.permute %x sources = [0] over [] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @permute_c2_count(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 3 sources for a group of 2}}
  dist.permute %x sources = [0, 1, 2] over ["dp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @permute_c2_twice(%x: tensor<4xf32>) {
  // expected-error@+1 {{has sources in which 1 is there twice or is not from 0 to 1}}
  dist.permute %x sources = [1, 1] over ["dp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @axis_index_c1() {
  // expected-error@+1 {{names axis "tp"}}
  dist.axis_index over ["tp"] : tensor<i64>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @layouts_count(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 1 results but dist.layouts is}}
  nn.relu %x {dist.layouts = []} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @layouts_rank(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a result of type 'tensor<4xf32>' with layout #dist.layout<[]>}}
  nn.relu %x {dist.layouts = [#dist.layout<[]>]} : tensor<4xf32>
  return
}

// -----

func.func @opens_count(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 1 operands and 1 results but dist.opens is [array<i64>, array<i64>]}}
  nn.relu %x {dist.opens = [array<i64>, array<i64>]} : tensor<4xf32>
  return
}

// -----

func.func @priorities_kind(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 1 operands and 1 results but dist.priorities is [1]}}
  nn.relu %x {dist.priorities = [1]} : tensor<4xf32>
  return
}

// -----

func.func @origins_kind(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 1 operands and 1 results but dist.origins is ["a"]}}
  nn.relu %x {dist.origins = ["a"]} : tensor<4xf32>
  return
}

// -----

func.func @operand_layouts_kind(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 1 operands and 1 results but dist.operand_layouts is [1}}
  nn.relu %x {dist.operand_layouts = [1]} : tensor<4xf32>
  return
}

// -----

// device attribute, C1
// expected-error@+1 {{device has a rate of 0 a microsecond, which is not positive}}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 1, bytes_per_us = 0>} {}

// -----

// device attribute, C2
// expected-error@+1 {{device launches in -1 ns, which is negative}}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 1, bytes_per_us = 1, launch_ns = -1>} {}

// -----

// device attribute, C3
// expected-error@+1 {{device has rates of products from size 4 on and then from 4 on, which does not rise}}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 1, bytes_per_us = 1, products = [<from = 4, flops_per_us = 1, narrow_flops_per_us = 1>, <from = 4, flops_per_us = 2, narrow_flops_per_us = 1>]>} {}

// -----

// device attribute, C3
// expected-error@+1 {{device has rates of attentions from size 2 on and then from 1 on, which does not rise}}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 1, bytes_per_us = 1, attentions = [<from = 2, flops_per_us = 1, narrow_flops_per_us = 1>, <from = 1, flops_per_us = 2, narrow_flops_per_us = 1>]>} {}

// -----

// device attribute, C3
// expected-error@+1 {{device has rates of convolutions from size 4 on and then from 3 on, which does not rise}}
module attributes {dist.device = #dist.device<flops_per_us = 1, narrow_flops_per_us = 1, bytes_per_us = 1, convolutions = [<from = 4, flops_per_us = 1, narrow_flops_per_us = 1>, <from = 3, flops_per_us = 2, narrow_flops_per_us = 1>]>} {}

// -----

// rate attribute, C1
// expected-error@+1 {{rate is from size 0 on, which is not positive}}
module attributes {test.rate = #dist.rate<from = 0, flops_per_us = 1, narrow_flops_per_us = 1>} {}

// -----

// rate attribute, C1
// expected-error@+1 {{rate from size 2 on is 0 a microsecond, which is not positive}}
module attributes {test.rate = #dist.rate<from = 2, flops_per_us = 1, narrow_flops_per_us = 0>} {}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_reduce_c2_none() {
  // expected-error@+1 {{has no operand}}
  "dist.all_reduce"() {axes = ["dp"], reduction = #dist<reduction sum>} : () -> ()
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_reduce_c2_types(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error@+1 {{has operands of element types 'f32' and 'f64'}}
  dist.all_reduce sum %x, %y over ["dp"] : tensor<4xf32>, tensor<4xf64>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_gather_c4(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{has 2 operands, 2 results and 1 dims}}
  dist.all_gather %x, %y dim = 0 over ["dp"] : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>, tensor<8xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @all_gather_c3_second(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) {
  // expected-error@+1 {{has types 'tensor<8x4xf32>' and 'tensor<4x4xf32>', which are not 2 to 1 in dim 1 and equal in the rest}}
  dist.all_gather %x, %y dim = 0, 1 over ["dp"] : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>, tensor<8x4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @reduce_scatter_c4(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error@+1 {{has operands of element types 'f32' and 'f64'}}
  dist.reduce_scatter sum %x, %y dim = 0, 0 over ["dp"] : tensor<4xf32>, tensor<4xf64> -> tensor<2xf32>, tensor<2xf64>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{has dist.owner 2 : i64, not an i64 from 0 to 1}}
nn.variable @owner_beyond_the_mesh : tensor<4xf32> {dist.owner = 2 : i64}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{has dist.owner 1 : i32, not an i64 from 0 to 1}}
nn.variable @owner_of_another_type : tensor<4xf32> {dist.owner = 1 : i32}

// -----

// expected-error@+1 {{needs a dist.mesh in the module}}
nn.variable @owner_without_mesh : tensor<4xf32> {dist.owner = 0 : i64}

// -----

// after op: of tensors only
func.func @after_of_a_number(%x: f32, %g: tensor<4xf32>) {
  // expected-error@+1 {{'dist.after' op operand #0 must be statically shaped tensor}}
  %0 = "dist.after"(%x, %g) : (f32, tensor<4xf32>) -> f32
  return
}

// -----

// after op: the result is the operand
func.func @after_of_another_type(%x: tensor<4xf32>, %g: tensor<4xf32>) {
  // expected-error@+1 {{'dist.after' op failed to verify that all of {input, result} have same type}}
  %0 = "dist.after"(%x, %g) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

// search attribute, C1
// expected-error@+1 {{search took data_parallel, which is not among its 1 strategies}}
module attributes {dist.search = #dist.search<strategies = [<kind = search, is_lowered = false, step_ps = 1, bytes = 2>], taken = data_parallel, cost_ps = 1, bound_ps = 1, units = 8, runners_up = []>} {}

// -----

// search attribute, C2
// expected-error@+1 {{search has the strategy search twice}}
module attributes {dist.search = #dist.search<strategies = [<kind = search, is_lowered = false, step_ps = 1, bytes = 2>, <kind = search, is_lowered = false, step_ps = 3, bytes = 2>], taken = search, cost_ps = 1, bound_ps = 1, units = 8, runners_up = []>} {}

// -----

// difference attribute, C1
// expected-error@+1 {{difference of "x" is of kind input, not parameter or op}}
module attributes {test.difference = #dist.difference<kind = input, name = "x", layout = <[{}]>, taken = <[{"tp"}]>>} {}

// -----

// expected-error@+1 {{has dist.search {}, not a #dist.search}}
module attributes {dist.search = {}} {}

// -----

// expected-error @+1 {{has dist.gradient_type i32, not a type of floats}}
module attributes {dist.gradient_type = i32} {
}

// -----

func.func @receive() {
  // receive, C1
  // expected-error @+1 {{'dist.receive' op has the peer #dist.peer<stage = -1, channel = 0>, but stages and channels are numbered from 0}}
  %h = dist.receive "h" from <stage = -1, channel = 0> : tensor<4xf32>
  return
}

// -----

func.func @send(%h: tensor<4xf32>) {
  // send, C1
  // expected-error @+1 {{'dist.send' op has the peer #dist.peer<stage = 1, channel = -1>, but stages and channels are numbered from 0}}
  dist.send %h "h" to [#dist.peer<stage = 1, channel = -1>] : tensor<4xf32>
  return
}

// -----

func.func @send(%h: tensor<4xf32>) {
  // send, C2
  // expected-error @+1 {{'dist.send' op sends "h" to stage 1 twice}}
  dist.send %h "h" to [#dist.peer<stage = 1, channel = 0>, #dist.peer<stage = 1, channel = 1>] : tensor<4xf32>
  return
}

// -----

func.func @send(%h: tensor<4xf32>) {
  // send, C2
  // expected-error @+1 {{'dist.send' op sends "h" to no stage; use dist.keep for what stays in its stage}}
  dist.send %h "h" to [] : tensor<4xf32>
  return
}
