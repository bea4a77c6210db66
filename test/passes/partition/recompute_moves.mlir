// RUN: ashlar-opt %s -ashlar-recompute | FileCheck %s --check-prefix=RULES
// RUN: ashlar-opt %s -ashlar-recompute=moves=0 | FileCheck %s --check-prefix=NONE
// RUN: ashlar-opt %s -ashlar-recompute=moves=1 | FileCheck %s --check-prefix=ONE
// RUN: ashlar-opt %s -ashlar-recompute=moves=2 | FileCheck %s --check-prefix=TWO
// RUN: ashlar-opt %s -ashlar-recompute=moves=100 | FileCheck %s --check-prefix=ALL
// RUN: sed 's/^module {/module attributes {dist.recompute_rules = [#dist.setting<match = "layer0.mlp.up", values = {recompute = false}>]} {/' %s \
// RUN:   | ashlar-opt -ashlar-recompute=moves=100 | FileCheck %s --check-prefix=FORBIDDEN
// RUN: sed 's/^module {/module attributes {dist.recompute_rules = [#dist.setting<match = "layer1", values = {recompute = true}>]} {/' %s \
// RUN:   | ashlar-opt -ashlar-recompute=moves=0 | FileCheck %s --check-prefix=RULED

// By cost, of layers that are alike: first what costs least for its bytes, the exp of both layers from its operand; then the products. layer0 and layer1
// are alike, though the mask that both take stands in the first of them: the parts of layer0 are not decided about apart, or what they give would be kept.

// RULES-NOT: dist.recompute_moves
// RULES-NOT: dist.after
// NONE: module attributes {dist.recompute_moves = 4 : i64}
// NONE-NOT: dist.after

// ONE: module attributes {dist.recompute_moves = 4 : i64}
// ONE-LABEL: func.func @train_step(%arg0
// ONE: %[[H0:.*]] = nn.matmul %arg0,
// ONE: %[[O:.*]] = nn.tanh
// ONE-NOT: nn.matmul %{{.*}} : tensor<4x64xf32>, tensor<64x64xf32>
// ONE: %[[A:.*]] = dist.after %{{.*}}
// ONE-NEXT: nn.exp %[[A]]
// ONE-NOT: dist.after
// ONE: return

// TWO: dist.recompute_moves = 4
// TWO: nn.tanh
// TWO: %[[A:.*]] = dist.after
// TWO-NEXT: nn.exp %[[A]]
// TWO: %[[B:.*]] = dist.after
// TWO-NEXT: nn.exp %[[B]]
// TWO-NOT: dist.after
// TWO: return

// ALL: dist.recompute_moves = 4
// ALL: %[[M:.*]] = nn.broadcast
// ALL: %[[Y0:.*]] = nn.matmul
// ALL: nn.tanh
// ALL: %[[A:.*]] = dist.after
// ALL: %[[H1:.*]] = nn.matmul %[[A]], %{{.*}} : tensor<4x64xf32>, tensor<64x64xf32>
// ALL-NEXT: %[[K1:.*]] = nn.add %[[H1]]
// ALL-NEXT: nn.exp %[[K1]]
// ALL: %[[B:.*]] = dist.after %arg0
// ALL: %[[H0:.*]] = nn.matmul %[[B]]
// ALL-NEXT: %[[K0:.*]] = nn.add %[[H0]]
// ALL-NEXT: nn.exp %[[K0]]
// ALL-NOT: dist.after
// ALL: return

// Where the product of layer0 must not be repeated, the sum behind it is kept, which takes no more.
// FORBIDDEN: dist.recompute_moves = 3
// FORBIDDEN: nn.matmul %arg0,
// FORBIDDEN-NEXT: %[[K0:.*]] = nn.add
// FORBIDDEN: nn.tanh
// FORBIDDEN: nn.matmul %{{.*}} : tensor<4x64xf32>, tensor<64x64xf32>
// FORBIDDEN: %[[B:.*]] = dist.after %[[K0]]
// FORBIDDEN-NEXT: nn.exp %[[B]]
// FORBIDDEN-NOT: dist.after
// FORBIDDEN: return

// Of a module with a rule nothing is decided by cost.
// RULED: dist.recompute_moves = 2
// RULED: nn.tanh
// RULED: dist.after
// RULED: nn.exp
// RULED-NOT: dist.after
// RULED: return
module {
  nn.variable @w0 trainable : tensor<64x64xf32>
  nn.variable @w1 trainable : tensor<64x64xf32>
  nn.variable @v trainable : tensor<64x64xf32>
  nn.variable @m trainable : tensor<64xf32>
  func.func @train_step(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {nn.program = #nn.program<train_step>} {
    %m = nn.read @m : tensor<64xf32>
    %mask = nn.broadcast %m dims = [1] : tensor<64xf32> -> tensor<4x64xf32> loc("layer0.mask")
    %v = nn.read @v : tensor<64x64xf32>
    %w0 = nn.read @w0 : tensor<64x64xf32>
    %h0 = nn.matmul %x, %w0 : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32> loc("layer0.mlp.up")
    %k0 = nn.add %h0, %mask : tensor<4x64xf32> loc("layer0.mlp.act")
    %z0 = nn.exp %k0 : tensor<4x64xf32> loc("layer0.mlp.act")
    %y0 = nn.matmul %z0, %v : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32> loc("layer0.down")
    %w1 = nn.read @w1 : tensor<64x64xf32>
    %h1 = nn.matmul %y0, %w1 : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32> loc("layer1.mlp.up")
    %k1 = nn.add %h1, %mask : tensor<4x64xf32> loc("layer1.mlp.act")
    %z1 = nn.exp %k1 : tensor<4x64xf32> loc("layer1.mlp.act")
    %y1 = nn.matmul %z1, %v : tensor<4x64xf32>, tensor<64x64xf32> -> tensor<4x64xf32> loc("layer1.down")
    %o = nn.tanh %y1 : tensor<4x64xf32> loc("head")
    %d = nn.neg %o : tensor<4x64xf32> loc("head")
    %p1 = nn.mul %d, %z1 : tensor<4x64xf32> loc("layer1.mlp.act")
    %q1 = nn.mul %p1, %k1 : tensor<4x64xf32> loc("layer1.mlp.act")
    %p0 = nn.mul %q1, %z0 : tensor<4x64xf32> loc("layer0.mlp.act")
    %q0 = nn.mul %p0, %k0 : tensor<4x64xf32> loc("layer0.mlp.act")
    %dw = nn.matmul %x, %q0 transpose_a : tensor<4x64xf32>, tensor<4x64xf32> -> tensor<64x64xf32> loc("layer0.mlp.up")
    %g = nn.gradient %dw of @w0 : tensor<64x64xf32>
    return %o : tensor<4x64xf32>
  }
}
