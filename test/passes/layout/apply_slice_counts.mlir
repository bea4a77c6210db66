// RUN: ashlar-opt %s -split-input-file -ashlar-apply-rules | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-apply-rules '-ashlar-propagate-layouts=split-variables=true' -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s --check-prefix=LOCAL

// Each count takes the axis of its size; a dim that two inputs share takes the same.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 2, 4>, array<i64: 4, 1>], origin = "job:5">]} {
  dist.mesh @mesh <["tp" = 4, "dp" = 2]>
  // LOCAL: nn.variable @w trainable : tensor<2x8xf32>
  nn.variable @w trainable : tensor<8x8xf32>
  func.func @f(%x: tensor<8x8xf32> {nn.name = "x"}) -> (tensor<8x8xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<8x8xf32>
    // CHECK: nn.matmul {{.*}} {dist.operand_layouts = [#dist.layout<[{"dp"}, {"tp"}]>, #dist.layout<[{"tp"}, {}]>], dist.origin = [#dist.origin<source = "rule \22fc\22 (job:5)">]}
    // LOCAL: %[[PART:.*]] = nn.matmul {{.*}} : tensor<4x2xf32>, tensor<2x8xf32> -> tensor<4x8xf32>
    // LOCAL: dist.all_reduce sum %[[PART]] over ["tp"]
    %y = nn.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc")
    return %y : tensor<8x8xf32>
  }
}

// -----

// Counts that no axis has are formed from parts and from several axes, in the order of the mesh.
// CHECK-LABEL: module {
// CHECK: dist.mesh @mesh <["a" = 2, "b:(1)2" = 2, "b:(2)3" = 3]>
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 4, 1>, array<i64: 1, 3>]>]} {
  dist.mesh @mesh <["a" = 2, "b" = 6]>
  // LOCAL: nn.variable @w trainable : tensor<12x4xf32>
  nn.variable @w trainable : tensor<12x12xf32>
  func.func @f(%x: tensor<12x12xf32> {nn.name = "x", dist.layout = #dist.layout<[{"a", "b"}, {}]>}) -> tensor<12x12xf32> {
    %w = nn.read @w : tensor<12x12xf32>
    // CHECK: nn.matmul {{.*}} {dist.operand_layouts = [#dist.layout<[{"a", "b:(1)2"}, {}]>, #dist.layout<[{}, {"b:(2)3"}]>]
    // LOCAL: nn.matmul {{.*}} -> tensor<3x4xf32>
    %y = nn.matmul %x, %w : tensor<12x12xf32>, tensor<12x12xf32> -> tensor<12x12xf32> loc("fc")
    return %y : tensor<12x12xf32>
  }
}

// -----

// An output that is split along the summed dim's axes is scattered over them.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 1, 4>, array<i64: 4, 1>], out = [array<i64: 4, 1>]>]} {
  dist.mesh @mesh <["tp" = 4]>
  nn.variable @w trainable : tensor<8x8xf32>
  func.func @f(%x: tensor<8x8xf32> {nn.name = "x"}) -> tensor<8x8xf32> {
    %w = nn.read @w : tensor<8x8xf32>
    // CHECK: nn.matmul {{.*}} {dist.layouts = [#dist.layout<[{"tp"}, {}]>]
    // LOCAL: dist.reduce_scatter sum %{{.*}} dim = 0 over ["tp"]
    // LOCAL-NOT: dist.all
    %y = nn.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc")
    return %y : tensor<8x8xf32>
  }
}

// -----

// A node of the model that became several ops is one op: its inputs are what the ops take from outside, constants left out.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 1, 1>, array<i64: 2, 1>, array<i64: 2>]>]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @w trainable : tensor<8x8xf32>
  nn.variable @b trainable : tensor<8xf32>
  func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %w = nn.read @w : tensor<8x8xf32>
    %b = nn.read @b : tensor<8xf32>
    %two = nn.constant dense<2.0> : tensor<8x8xf32>
    // CHECK: nn.matmul {{.*}} {dist.operand_layouts = [#dist.layout<[{}, {}]>, #dist.layout<[{"tp"}, {}]>]
    %0 = nn.matmul %x, %w transpose_b : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc")
    // CHECK: nn.mul %{{.*}}, %{{.*}} : tensor
    %1 = nn.mul %0, %two : tensor<8x8xf32> loc("fc")
    // CHECK: nn.broadcast {{.*}} {dist.operand_layouts = [#dist.layout<[{"tp"}]>]
    %2 = nn.broadcast %b dims = [1] : tensor<8xf32> -> tensor<8x8xf32> loc("fc")
    // CHECK: nn.add %{{.*}}, %{{.*}} {nn.outputs
    // LOCAL: nn.add {{.*}} : tensor<8x4xf32>
    %y = nn.add %1, %2 {nn.outputs = ["fc.out"]} : tensor<8x8xf32> loc("fc")
    return %y : tensor<8x8xf32>
  }
}

// -----

// The op computes as it is told even where that costs more than what its neighbours have.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "tanh", in = [array<i64: 1, 2>]>]} {
  dist.mesh @mesh <["tp" = 2]>
  func.func @f(%x: tensor<4x4xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}) -> (tensor<4x4xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}) {
    // LOCAL: dist.all_to_all
    // LOCAL: nn.tanh {{.*}} : tensor<4x2xf32>
    // LOCAL: dist.all_to_all
    %y = nn.tanh %x : tensor<4x4xf32> loc("tanh")
    return %y : tensor<4x4xf32>
  }
}

// -----

// Inputs are in the order of the node, not in that of the ops it became: the broadcast of the bias stands before the add.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "add", in = [array<i64: 2, 1>, array<i64: 1>]>]} {
  dist.mesh @mesh <["dp" = 2]>
  nn.variable @b trainable : tensor<8xf32>
  func.func @f(%x: tensor<4x8xf32> {nn.name = "x"}) -> (tensor<4x8xf32> {nn.name = "y"}) {
    %b = nn.read @b : tensor<8xf32>
    // CHECK: nn.broadcast {{.*}} {dist.operand_layouts = [#dist.layout<[{}]>]
    // CHECK: nn.add {{.*}} {dist.operand_layouts = [#dist.layout<[{"dp"}, {}]>, unit]
    // LOCAL: nn.add {{.*}} : tensor<2x8xf32>
    %0 = nn.broadcast %b dims = [1] : tensor<8xf32> -> tensor<4x8xf32> loc("add")
    %y = nn.add %x, %0 : tensor<4x8xf32> loc("add")
    return %y : tensor<4x8xf32>
  }
}

// -----

// An op that two nodes share is an inner op of both.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "key", in = [array<i64: 2, 1, 1>]>]} {
  dist.mesh @mesh <["dp" = 2]>
  nn.variable @w trainable : tensor<8x8xf32>
  func.func @f(%x: tensor<4x2x8xf32> {nn.name = "x"}) -> (tensor<8x8xf32> {nn.name = "q"}, tensor<8x8xf32> {nn.name = "k"}) {
    %w = nn.read @w : tensor<8x8xf32>
    // CHECK: nn.reshape {{.*}} {dist.operand_layouts = [#dist.layout<[{"dp"}, {}, {}]>]
    %rows = nn.reshape %x : tensor<4x2x8xf32> -> tensor<8x8xf32> loc("query")
    %q = nn.matmul %rows, %w {nn.outputs = ["q"]} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("query")
    // LOCAL: nn.matmul {{.*}} -> tensor<4x8xf32>
    %0 = nn.matmul %rows, %w {nn.outputs = ["k"]} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("key")
    return %q, %0 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// A count of 1 takes no axis, not even one of size 1.
// CHECK-LABEL: module {
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 1, 1>, array<i64: 1, 2>]>]} {
  dist.mesh @mesh <["dp" = 1, "tp" = 2]>
  nn.variable @w trainable : tensor<8x8xf32>
  func.func @f(%x: tensor<8x8xf32> {nn.name = "x"}) -> (tensor<8x8xf32> {nn.name = "y"}) {
    %w = nn.read @w : tensor<8x8xf32>
    // CHECK: nn.matmul {{.*}} {dist.operand_layouts = [#dist.layout<[{}, {}]>, #dist.layout<[{}, {"tp"}]>]
    // LOCAL: nn.matmul {{.*}} -> tensor<8x4xf32>
    %y = nn.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc")
    return %y : tensor<8x8xf32>
  }
}

// -----

// The contracted dim takes the same axis on both sides, also through a reshape that another node shares.
// CHECK-LABEL: @shared_reshape
// CHECK: nn.matmul {{.*}} {dist.operand_layouts = [{{.*}}, #dist.layout<[{"dp"}, {}]>]
module attributes {dist.rules = [#dist.rule<match = "key", in = [array<i64: 1, 1, 2>, array<i64: 2, 1>]>]} {
  dist.mesh @mesh <["dp" = 2, "tp" = 2]>
  nn.variable @w trainable : tensor<8x8xf32>
  func.func @shared_reshape(%x: tensor<4x2x8xf32> {nn.name = "x"}) -> (tensor<8x8xf32> {nn.name = "q"}, tensor<8x8xf32> {nn.name = "k"}) {
    %w = nn.read @w : tensor<8x8xf32>
    %rows = nn.reshape %x : tensor<4x2x8xf32> -> tensor<8x8xf32> loc("query")
    %q = nn.matmul %rows, %w {nn.outputs = ["q"]} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("query")
    %0 = nn.matmul %rows, %w {nn.outputs = ["k"]} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("key")
    return %q, %0 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
