// DEFINE: %{passes} = -ashlar-propagate-layouts -ashlar-split-optimizer='level=3 threshold=0' -ashlar-insert-redistributions -ashlar-verify-layouts \
// DEFINE:   -ashlar-partition -canonicalize -ashlar-simplify-collectives -ashlar-recompute -ashlar-verify-partitioned
// RUN: ashlar-opt %s %{passes} | FileCheck %s --check-prefix=AGAIN
// RUN: sed 's/recompute = true/recompute = true, recompute_param_gather = false/' %s | ashlar-opt - %{passes} | FileCheck %s --check-prefix=KEPT
// RUN: sed 's/recompute = true/recompute_param_gather = false/' %s | ashlar-opt - %{passes} | FileCheck %s --check-prefix=PLAIN

// Level 3, where devices store a part of @w and of @v each: the backward pass gathers them a second time, once for the copies and the gradients together,
// or it keeps what the forward pass gathered, whether values are computed again or not.

// AGAIN-LABEL: func.func @train_step(%arg0
// AGAIN: %[[W:.*]] = dist.all_gather %{{.*}} dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter, name = "w">]}
// AGAIN: %[[H:.*]] = nn.matmul %arg0, %[[W]] :
// AGAIN: nn.exp
// AGAIN: %[[V:.*]] = dist.all_gather %{{.*}} dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter, name = "v">]}
// AGAIN: %[[D:.*]] = nn.neg
// AGAIN-DAG: %[[X:.*]] = dist.after %arg0, %[[D]]
// AGAIN-DAG: %[[READ:.*]] = nn.read @w {dist.read_again}
// AGAIN-DAG: %[[W2:.*]] = dist.all_gather %[[READ]] dim = 0 over ["dp"]
// AGAIN-DAG: nn.matmul %[[X]], %[[W2]] :
// AGAIN-NOT: name = "w">
// AGAIN: %[[V2:.*]] = dist.all_gather %{{.*}} {cause = [#dist.end<kind = parameter, name = "v">]}
// AGAIN: nn.matmul %[[D]], %[[V2]] transpose_b
// AGAIN: nn.matmul %{{.*}}, %[[W2]] transpose_b
// AGAIN-NOT: dist.all_gather
// AGAIN: return

// KEPT-LABEL: func.func @train_step(%arg0
// KEPT: %[[W:.*]] = dist.all_gather {{.*}} name = "w">
// KEPT: nn.matmul %arg0, %[[W]] :
// KEPT: %[[V:.*]] = dist.all_gather {{.*}} name = "v">
// KEPT: %[[D:.*]] = nn.neg
// KEPT-NOT: read_again
// KEPT-NOT: dist.all_gather
// KEPT: %[[X:.*]] = dist.after %arg0, %[[D]]
// KEPT: nn.matmul %[[X]], %{{.*}} : tensor
// KEPT-NOT: read_again
// KEPT-NOT: dist.all_gather
// KEPT: nn.matmul %[[D]], %[[V]] transpose_b
// KEPT: nn.matmul %{{.*}}, %[[W]] transpose_b
// KEPT-NOT: dist.all_gather
// KEPT: return

// PLAIN-LABEL: func.func @train_step
// PLAIN-COUNT-2: dist.all_gather
// PLAIN-NOT: dist.all_gather
// PLAIN-NOT: dist.after
// PLAIN: return

module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>]} {
  dist.mesh @mesh <["dp" = 2]>
  nn.variable @w trainable : tensor<8x8xf32>
  nn.variable @v trainable : tensor<8x8xf32>
  func.func @train_step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<8x8xf32>
    %h = nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer0.up")
    %z = nn.exp %h : tensor<4x8xf32> loc("layer0.act")
    %v = nn.read @v : tensor<8x8xf32>
    %y = nn.matmul %z, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer0.down")
    %o = nn.tanh %y : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %dv = nn.matmul %z, %d transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("layer0.down")
    %gv = nn.gradient %dv of @v : tensor<8x8xf32>
    %dz = nn.matmul %d, %v transpose_b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer0.down")
    %dh = nn.mul %dz, %z : tensor<4x8xf32> loc("layer0.act")
    %dx = nn.matmul %dh, %w transpose_b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer0.up")
    %dw = nn.matmul %dx, %dh transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("layer0.up")
    %gw = nn.gradient %dw of @w : tensor<8x8xf32>
    %wn = nn.sub %w, %gw : tensor<8x8xf32>
    nn.write @w, %wn : tensor<8x8xf32>
    %vn = nn.sub %v, %gv : tensor<8x8xf32>
    nn.write @v, %vn : tensor<8x8xf32>
    return %o : tensor<4x8xf32>
  }
}
