// RUN: ashlar-opt %s -split-input-file -ashlar-apply-rules | FileCheck %s

// A rule reaches parameters, inputs, outputs and intermediate tensors by name, in every program, and the result of an op by its path.
// Those that it does not name stay as they are, as does what the compiler keeps for itself.

// CHECK-LABEL: module {
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 4]>
module attributes {dist.rules = [
  #dist.rule<match = "*.weight", layout = "[{\"tp\"}, {?}]", priority = 2, origin = "job:3">,
  #dist.rule<match = "input", layout = "[{dp}, {}]">,
  #dist.rule<match = "output", layout = "[{dp, tp}, {}]">,
  #dist.rule<match = "hidd?n", layout = "[{}, {tp}]">,
  #dist.rule<match = "fc2/MatMul", layout = "[{dp}, {tp, ?}]", origin = "job:7">
]} {
  dist.mesh @mesh <["dp" = 2, "tp" = 4]>
  // CHECK: nn.variable @ashlar.seed internal : tensor<i64>{{$}}
  nn.variable @ashlar.seed internal : tensor<i64>
  // CHECK: nn.variable @fc1.weight trainable
  // CHECK-SAME: {dist.layout = #dist.layout<[{"tp"}, {}]>, dist.open = array<i64: 1>, dist.origin = [#dist.origin<source = "rule \22*.weight\22 (job:3)">], dist.priority = 2 : i64}
  nn.variable @fc1.weight trainable : tensor<8x8xf32>
  // CHECK: nn.variable @fc1.bias trainable : tensor<8xf32>{{$}}
  nn.variable @fc1.bias trainable : tensor<8xf32>
  // CHECK: nn.variable @fc2.weight trainable : tensor<8x8xf32> {dist.layout
  nn.variable @fc2.weight trainable : tensor<8x8xf32>
  // CHECK: func.func @train_step(%{{.*}}: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22input\22">], nn.name = "input"})
  // CHECK-SAME: -> (tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp", "tp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22output\22">], nn.name = "output"})
  func.func @train_step(%x: tensor<8x8xf32> {nn.name = "input"}) -> (tensor<8x8xf32> {nn.name = "output"}) attributes {nn.program = #nn.program<train_step>} {
    %w1 = nn.read @fc1.weight : tensor<8x8xf32>
    %w2 = nn.read @fc2.weight : tensor<8x8xf32>
    // CHECK: nn.matmul {{.*}} {dist.layouts = [#dist.layout<[{}, {"tp"}]>], dist.opens = [array<i64>], dist.origins = {{\[\[}}#dist.origin<source = "rule \22hidd?n\22">]], dist.priorities = array<i64: 0>, nn.outputs = ["hidden"]}
    %0 = nn.matmul %x, %w1 {nn.outputs = ["hidden"]} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc1/MatMul")
    // CHECK: nn.matmul {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}]>], dist.opens = [array<i64: 1>], dist.origins = {{\[\[}}#dist.origin<source = "rule \22fc2/MatMul\22 (job:7)">]]
    %1 = nn.matmul %0, %w2 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc2/MatMul")
    // The gradient of the op is no result of it, and not of its rule: the model's outputs do not depend on it.
    // CHECK: nn.matmul %{{[a-z0-9]+}}, %{{[a-z0-9]+}} transpose_a :
    %2 = nn.matmul %0, %1 transpose_a : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc2/MatMul")
    nn.write @fc2.weight, %2 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  // CHECK: func.func @eval_step(%{{.*}}: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>
  func.func @eval_step(%x: tensor<8x8xf32> {nn.name = "input"}) attributes {nn.program = #nn.program<eval_step>} {
    return
  }
}

// -----

// Of two rules for one tensor the one with the lower priority holds; rules that say the same do not contradict each other.
// CHECK-LABEL: module {
module attributes {dist.rules = [
  #dist.rule<match = "*", layout = "[{}, {tp}]", priority = 1>,
  #dist.rule<match = "a", layout = "[{tp}, {}]">,
  #dist.rule<match = "?", layout = "[{}, {tp}]", priority = 1>
]} {
  dist.mesh @mesh <["tp" = 2]>
  // CHECK: nn.variable @a trainable : tensor<4x4xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22a\22">]}
  nn.variable @a trainable : tensor<4x4xf32>
  // CHECK: nn.variable @b trainable : tensor<4x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>, dist.origin = [#dist.origin<source = "rule \22*\22">], dist.priority = 1 : i64}
  nn.variable @b trainable : tensor<4x4xf32>
}

// -----

// Rules that a lower priority overrides need not agree, wherever they stand.
// CHECK-LABEL: module {
module attributes {dist.rules = [
  #dist.rule<match = "*", layout = "[{}, {tp}]", priority = 1>,
  #dist.rule<match = "?", layout = "[{tp}, {}]", priority = 1>,
  #dist.rule<match = "a", layout = "[{}, {}]">
]} {
  dist.mesh @mesh <["tp" = 2]>
  // CHECK: nn.variable @a trainable : tensor<4x4xf32> {dist.layout = #dist.layout<[{}, {}]>, dist.origin = [#dist.origin<source = "rule \22a\22">]}
  nn.variable @a trainable : tensor<4x4xf32>
}

// -----

// A part of an axis that a rule names makes its parts axes of the mesh, in place and in order, also in layouts that are there already.
// CHECK-LABEL: module {
// CHECK: dist.mesh @mesh <["dp" = 2, "tp:(1)2" = 2, "tp:(2)2" = 2, "tp:(4)3" = 3, "pp" = 1]>
// CHECK-SAME: {costs = #dist.costs<latency_ns = [9, 5, 5, 5, 1], bytes_per_us = [90, 50, 50, 50, 10]>}
module attributes {dist.rules = [
  #dist.rule<match = "a", layout = "[{tp:(2)2}, {dp, tp:(4)3}]">,
  #dist.rule<match = "b", layout = "[{tp}, {}]">,
  #dist.rule<match = "c", layout = "[{tp:(1)4}, {pp:(1)1}]">
]} {
  dist.mesh @mesh <["dp" = 2, "tp" = 12, "pp" = 1]> {costs = #dist.costs<latency_ns = [9, 5, 1], bytes_per_us = [90, 50, 10]>}
  // CHECK: nn.variable @a {{.*}} {dist.layout = #dist.layout<[{"tp:(2)2"}, {"dp", "tp:(4)3"}]>
  nn.variable @a trainable : tensor<12x12xf32>
  // CHECK: nn.variable @b {{.*}} {dist.layout = #dist.layout<[{"tp:(1)2", "tp:(2)2", "tp:(4)3"}, {}]>
  nn.variable @b trainable : tensor<12x12xf32>
  // CHECK: nn.variable @c {{.*}} {dist.layout = #dist.layout<[{"tp:(1)2", "tp:(2)2"}, {"pp"}]>
  nn.variable @c trainable : tensor<12x12xf32>
  // CHECK: func.func @f(%{{.*}}: tensor<24x12xf32> {dist.layout = #dist.layout<[{"tp:(1)2", "tp:(2)2", "tp:(4)3", "dp"}, {}]>})
  func.func @f(%x: tensor<24x12xf32> {dist.layout = #dist.layout<[{"tp", "dp"}, {}]>}) {
    return
  }
}

// -----

// Where the hosts are known the links of parts follow from them: dp:(1)2 joins ranks of two hosts, dp:(2)4 those of one, and a reduction over
// all of dp went by the adapters of four.
// CHECK-LABEL: module {
// CHECK: dist.mesh @mesh <["dp:(1)2" = 2, "dp:(2)4" = 4]>
// CHECK-SAME: costs = #dist.costs<latency_ns = [9, 1], bytes_per_us = [90, 500], beside = [0]>
module attributes {dist.rules = [#dist.rule<match = "a", layout = "[{dp:(2)4}]">]} {
  dist.mesh @mesh <["dp" = 8]> {costs = #dist.costs<latency_ns = [9], bytes_per_us = [90], beside = [0], kinds = [<kind = all_reduce, latency_ns = [9], bytes_per_us = [360]>]>,
    hosts = #dist.hosts<ranks_per_host = 4, adapters = 4, devices_per_rank = 1, links = <latency_ns = [1, 9], bytes_per_us = [500, 90], beside = [1]>>}
  nn.variable @a trainable : tensor<4xf32>
}

// -----

// The whole of an axis, named as a part, is the axis.
// CHECK-LABEL: module {
// CHECK: dist.mesh @mesh <["tp" = 4]>
module attributes {dist.rules = [#dist.rule<match = "a", layout = "[{tp:(1)4}]">]} {
  dist.mesh @mesh <["tp" = 4]>
  // CHECK: nn.variable @a {{.*}} {dist.layout = #dist.layout<[{"tp"}]>
  nn.variable @a trainable : tensor<4xf32>
}

// -----

// Without rules there is nothing to do.
// CHECK-LABEL: module {
// CHECK: nn.variable @a trainable : tensor<4xf32>{{$}}
module {
  dist.mesh @mesh <["tp" = 4]>
  nn.variable @a trainable : tensor<4xf32>
}

// -----

// A tensor with several names is one tensor.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp}]">]} {
  dist.mesh @mesh <["tp" = 4]>
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // CHECK: nn.tanh {{.*}} {dist.layouts = [#dist.layout<[{"tp"}]>]
    %y = nn.tanh %x {nn.aliases = ["b"], nn.outputs = ["a"]} : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
