// RUN: ashlar-opt %s -split-input-file -ashlar-recompute | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-recompute -cse -canonicalize -cse | FileCheck %s

// Of a module its output y is kept; h and z are computed again from its input, when the gradient of y is there. No pass merges the copies with what
// they repeat. The last product of the module is not repeated, and the name of z in the model is not that of a copy. Parameters are taken as they are.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK-NOT: dist.after
// CHECK: %[[W:.*]] = nn.read @w
// CHECK-NEXT: %[[H:.*]] = nn.matmul %arg0, %[[W]]
// CHECK-NEXT: %[[Z:.*]] = nn.gelu %[[H]] {nn.outputs = ["z"]} :
// CHECK: %[[Y:.*]] = nn.matmul %[[Z]],
// CHECK: %[[O:.*]] = nn.matmul %[[Y]],
// CHECK-NOT: dist.after
// CHECK: %[[DY:.*]] = nn.matmul %[[O]], %{{.*}} transpose_b
// CHECK: %[[X:.*]] = dist.after %arg0, %[[DY]] : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK-NEXT: %[[H2:.*]] = nn.matmul %[[X]], %[[W]]
// CHECK-NEXT: %[[Z2:.*]] = nn.gelu %[[H2]] : tensor
// CHECK-NEXT: nn.matmul %[[Z2]], %[[DY]] transpose_a
// CHECK: %[[DZ:.*]] = nn.matmul %[[DY]], %{{.*}} transpose_b
// CHECK: nn.mul %[[DZ]], %[[H2]]
// CHECK-NOT: dist.after
// CHECK: nn.matmul %arg0, %{{.*}} transpose_a
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>]} {
  nn.variable @w trainable : tensor<8x8xf32>
  nn.variable @v trainable : tensor<8x8xf32>
  nn.variable @u trainable : tensor<8x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<8x8xf32>
    %h = nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer0.up")
    %z = nn.gelu %h {nn.outputs = ["z"]} : tensor<4x8xf32> loc("layer0.act")
    %v = nn.read @v : tensor<8x8xf32>
    %y = nn.matmul %z, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer0.down")
    %u = nn.read @u : tensor<8x8xf32>
    %o = nn.matmul %y, %u : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("head")
    %loss = nn.reduce sum %o dims = [0, 1] : tensor<4x8xf32> -> tensor<f32> loc("loss")
    %du = nn.matmul %y, %o transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("head")
    %gu = nn.gradient %du of @u : tensor<8x8xf32>
    %dy = nn.matmul %o, %u transpose_b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("head")
    %dv = nn.matmul %z, %dy transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("layer0.down")
    %gv = nn.gradient %dv of @v : tensor<8x8xf32>
    %dz = nn.matmul %dy, %v transpose_b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("layer0.down")
    %dh = nn.mul %dz, %h : tensor<4x8xf32> loc("layer0.act")
    %dw = nn.matmul %x, %dh transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("layer0.up")
    %gw = nn.gradient %dw of @w : tensor<8x8xf32>
    return %loss : tensor<f32>
  }
}

// -----

// A rule that names an op: its value alone, though it is the output of the module around it; from its operand, which is kept.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: %[[H:.*]] = nn.exp %arg0
// CHECK: %[[Z:.*]] = nn.gelu %[[H]]
// CHECK: %[[D:.*]] = nn.neg %{{.*}} : tensor<4x8xf32>
// CHECK: %[[A:.*]] = dist.after %[[H]], %[[D]]
// CHECK-NEXT: %[[Z2:.*]] = nn.gelu %[[A]]
// CHECK-NEXT: %[[P:.*]] = nn.mul %[[D]], %[[Z2]]
// CHECK-NEXT: %[[Q:.*]] = nn.mul %[[P]], %[[H]]
module attributes {dist.recompute_rules = [#dist.setting<match = "layer0.act", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %z = nn.gelu %h : tensor<4x8xf32> loc("layer0.act")
    %o = nn.tanh %z : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %z : tensor<4x8xf32> loc("head")
    %q = nn.mul %p, %h : tensor<4x8xf32> loc("layer0.act")
    %g = nn.gradient %q of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// A rule for a module inside, and one for an op inside that: the innermost one holds, and the op before the module. Copies begin behind the gelu, which is
// kept.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: nn.exp %arg0
// CHECK: %[[Z:.*]] = nn.gelu
// CHECK: %[[D:.*]] = nn.neg
// CHECK-NOT: nn.gelu
// CHECK: %[[A:.*]] = dist.after %[[Z]], %[[D]]
// CHECK-NEXT: %[[S2:.*]] = nn.sqrt %[[A]]
// CHECK-NEXT: %[[P:.*]] = nn.mul %[[D]], %[[S2]]
// CHECK: %[[X:.*]] = dist.after %arg0, %[[P]]
// CHECK-NEXT: %[[H2:.*]] = nn.exp %[[X]]
// CHECK-NEXT: nn.mul %{{.*}}, %[[H2]]
// CHECK-NEXT: nn.mul %{{.*}}, %[[Z]]
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>,
                                           #dist.setting<match = "layer*.mlp", values = {recompute = false}>,
                                           #dist.setting<match = "*.root", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %z = nn.gelu %h : tensor<4x8xf32> loc("layer0.mlp.act")
    %s = nn.sqrt %z : tensor<4x8xf32> loc("layer0.mlp.root")
    %y = nn.exp %s : tensor<4x8xf32> loc("layer0.down")
    %o = nn.tanh %y : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %s : tensor<4x8xf32> loc("layer0.down")
    %q = nn.mul %p, %h : tensor<4x8xf32> loc("layer0.mlp.act")
    %r = nn.mul %q, %z : tensor<4x8xf32> loc("layer0.mlp.act")
    %g = nn.gradient %r of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// A lower priority holds over what reaches further inside.

// CHECK-LABEL: func.func @train_step
// CHECK-NOT: dist.after
// CHECK: return
module attributes {dist.recompute_rules = [#dist.setting<match = "layer0.act", values = {recompute = true}, priority = 1>,
                                           #dist.setting<match = "layer*", values = {recompute = false}>]} {
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %z = nn.gelu %h : tensor<4x8xf32> loc("layer0.act")
    %o = nn.tanh %z : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %z : tensor<4x8xf32> loc("head")
    %g = nn.gradient %p of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// A module with which the backward pass begins keeps its values: there is no gradient that a copy could come after. Without dots in its path an
// op is no module; the rule names it.

// CHECK-LABEL: func.func @train_step
// CHECK-NOT: dist.after
// CHECK: return
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>,
                                           #dist.setting<match = "head", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %o = nn.tanh %h : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %o : tensor<4x8xf32> loc("head")
    %g = nn.gradient %p of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// A view of a parameter and a constant take no memory, so nothing ties what is made of them: the copy reads them as they are. A value of parameters
// alone is made again when the gradient is there. What the module keeps anyway, its input, is tied.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK-DAG: %[[C:.*]] = nn.constant
// CHECK-DAG: %[[W:.*]] = nn.read @w
// CHECK-DAG: %[[B:.*]] = nn.broadcast %[[W]]
// CHECK: %[[D:.*]] = nn.neg
// CHECK-DAG: %[[X:.*]] = dist.after %arg0, %[[D]]
// CHECK: nn.add %[[X]], %[[B]]
// CHECK-NOT: dist.after
// CHECK: nn.mul %{{.*}}, %[[C]]
// CHECK: nn.mul %[[D]],
// CHECK: %[[W2:.*]] = dist.after %[[W]], %[[D]] : tensor<8xf32>, tensor<4x8xf32>
// CHECK-NEXT: %[[E2:.*]] = nn.exp %[[W2]]
// CHECK-NEXT: nn.mul %{{.*}}, %[[E2]]
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>]} {
  nn.variable @w trainable : tensor<8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<8xf32>
    %c = nn.constant dense<2.0> : tensor<4x8xf32>
    %b = nn.broadcast %w dims = [1] : tensor<8xf32> -> tensor<4x8xf32> loc("layer0.bias")
    %e = nn.exp %w : tensor<8xf32> loc("layer0.scale")
    %eb = nn.broadcast %e dims = [1] : tensor<8xf32> -> tensor<4x8xf32> loc("layer0.scale")
    %h = nn.add %x, %b : tensor<4x8xf32> loc("layer0.add")
    %z = nn.mul %h, %c : tensor<4x8xf32> loc("layer0.double")
    %s = nn.mul %z, %eb : tensor<4x8xf32> loc("layer0.product")
    %y = nn.exp %s : tensor<4x8xf32> loc("layer0.out")
    %o = nn.tanh %y : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %z : tensor<4x8xf32> loc("layer0.product")
    %q = nn.reduce sum %p dims = [0] : tensor<4x8xf32> -> tensor<8xf32> loc("layer0.product")
    %r = nn.mul %q, %e : tensor<8xf32> loc("layer0.scale")
    %g = nn.gradient %r of @w : tensor<8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// A mask, which takes no gradient: what it is multiplied with is made behind it, so its copies come after a gradient that is there before it.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: %[[D:.*]] = nn.neg
// CHECK-NEXT: nn.mul %[[D]],
// CHECK-NEXT: %[[X:.*]] = dist.after %arg0, %[[D]]
// CHECK-NEXT: %[[H:.*]] = nn.exp %[[X]]
// CHECK-NEXT: %[[MASK:.*]] = nn.compare gt %[[H]],
// CHECK-NEXT: %[[E:.*]] = nn.mul
// CHECK-NEXT: nn.select %[[MASK]], %[[E]],
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %zeros = nn.constant dense<0.0> : tensor<4x8xf32>
    %h = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %y = nn.gelu %h : tensor<4x8xf32> loc("layer0.act")
    %o = nn.tanh %y : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %f = nn.mul %d, %o : tensor<4x8xf32> loc("head")
    %mask = nn.compare gt %h, %zeros : tensor<4x8xf32> -> tensor<4x8xi1> loc("layer0.act")
    %e = nn.mul %f, %y : tensor<4x8xf32> loc("head")
    %q = nn.select %mask, %e, %zeros : tensor<4x8xi1>, tensor<4x8xf32> loc("layer0.act")
    %g = nn.gradient %q of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// Two modules: the values of each come after the gradient of its own output. A value that both take is tied twice.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: %[[Y0:.*]] = nn.tanh
// CHECK: %[[O:.*]] = nn.sqrt
// CHECK: %[[D1:.*]] = nn.neg %[[O]]
// CHECK: %[[A1:.*]] = dist.after %[[Y0]], %[[D1]]
// CHECK: nn.exp %[[A1]]
// CHECK: %[[D0:.*]] = nn.mul %[[D1]], %{{.*}}
// CHECK: %[[A0:.*]] = dist.after %arg0, %[[D0]]
// CHECK: nn.exp %[[A0]]
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h0 = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %y0 = nn.tanh %h0 : tensor<4x8xf32> loc("layer0.down")
    %h1 = nn.exp %y0 : tensor<4x8xf32> loc("layer1.up")
    %y1 = nn.tanh %h1 : tensor<4x8xf32> loc("layer1.down")
    %o = nn.sqrt %y1 : tensor<4x8xf32> loc("head")
    %d1 = nn.neg %o : tensor<4x8xf32> loc("head")
    %d0 = nn.mul %d1, %h1 : tensor<4x8xf32> loc("layer1.down")
    %d = nn.mul %d0, %h0 : tensor<4x8xf32> loc("layer0.down")
    %g = nn.gradient %d of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// The stages of a pipeline: what goes from one to the other is kept, and of a module that stands on two stages each computes its part again.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: %[[H:.*]] = nn.exp %arg0 {dist.virtual_stage = 0 : i64}
// CHECK: %[[Z:.*]] = nn.gelu %[[H]] {dist.virtual_stage = 0 : i64}
// CHECK: %[[S:.*]] = nn.sqrt %[[Z]] {dist.virtual_stage = 1 : i64}
// CHECK: %[[D:.*]] = nn.neg
// CHECK: %[[A:.*]] = dist.after %[[Z]], %[[D]]
// CHECK-NEXT: %[[S2:.*]] = nn.sqrt %[[A]] {dist.virtual_stage = 1 : i64}
// CHECK-NEXT: nn.mul %[[D]], %[[S2]]
// CHECK: nn.mul %{{.*}}, %[[Z]]
// CHECK: %[[X:.*]] = dist.after %arg0,
// CHECK-NEXT: %[[H2:.*]] = nn.exp %[[X]] {dist.virtual_stage = 0 : i64}
// CHECK-NEXT: nn.mul %{{.*}}, %[[H2]]
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h = nn.exp %x {dist.virtual_stage = 0 : i64} : tensor<4x8xf32> loc("layer0.up")
    %z = nn.gelu %h {dist.virtual_stage = 0 : i64} : tensor<4x8xf32> loc("layer0.act")
    %s = nn.sqrt %z {dist.virtual_stage = 1 : i64} : tensor<4x8xf32> loc("layer0.root")
    %y = nn.exp %s {dist.virtual_stage = 1 : i64} : tensor<4x8xf32> loc("layer0.down")
    %o = nn.tanh %y {dist.virtual_stage = 1 : i64} : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %s : tensor<4x8xf32> loc("layer0.root")
    %q = nn.mul %p, %z : tensor<4x8xf32> loc("layer0.act")
    %r = nn.mul %q, %h : tensor<4x8xf32> loc("layer0.up")
    %g = nn.gradient %r of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// One call computes an attention and its log-sum-exp. The attention is the output of its module and kept, and so is the other: alone it would be
// no call.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK-NOT: dist.after
// CHECK: return
module attributes {dist.recompute_rules = [#dist.setting<match = "core", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<8x8xf32>
  func.func @train_step(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %l = nn.attention_log_sum %q, %k scale = 5.000000e-01 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32> loc("core.mixed")
    %y = nn.attention %q, %k, %v, %l scale = 5.000000e-01 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32> loc("core.mixed")
    %u = nn.read @u : tensor<8x8xf32>
    %o = nn.matmul %y, %u : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("head")
    %loss = nn.reduce sum %o dims = [0, 1] : tensor<4x8xf32> -> tensor<f32> loc("loss")
    %dy = nn.matmul %o, %u transpose_b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("head")
    %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %dy scale = 5.000000e-01 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("core.mixed")
    %du = nn.matmul %dq, %o transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("head")
    %gu = nn.gradient %du of @u : tensor<8x8xf32>
    return %loss : tensor<f32>
  }
}

// -----

// A rule that names the op has both rematerialized.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: %[[DY:.*]] = nn.matmul %{{.*}} transpose_b
// CHECK: %[[L:.*]] = nn.attention_log_sum
// CHECK: %[[Y:.*]] = nn.attention %{{.*}}, %[[L]]
// CHECK: nn.attention_gradient query %{{.*}}, %[[L]], %[[Y]], %[[DY]]
module attributes {dist.recompute_rules = [#dist.setting<match = "core.mixed", values = {recompute = true}>]} {
  nn.variable @u trainable : tensor<8x8xf32>
  func.func @train_step(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %l = nn.attention_log_sum %q, %k scale = 5.000000e-01 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32> loc("core.mixed")
    %y = nn.attention %q, %k, %v, %l scale = 5.000000e-01 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32> loc("core.mixed")
    %u = nn.read @u : tensor<8x8xf32>
    %o = nn.matmul %y, %u : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("head")
    %loss = nn.reduce sum %o dims = [0, 1] : tensor<4x8xf32> -> tensor<f32> loc("loss")
    %dy = nn.matmul %o, %u transpose_b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("head")
    %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %dy scale = 5.000000e-01 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("core.mixed")
    %du = nn.matmul %dq, %o transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("head")
    %gu = nn.gradient %du of @u : tensor<8x8xf32>
    return %loss : tensor<f32>
  }
}
