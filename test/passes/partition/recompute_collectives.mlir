// RUN: ashlar-opt %s -split-input-file -ashlar-recompute | FileCheck %s

// The sum over tp of a module is repeated with the ops around it; it has no path, and is of the module that takes it.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: nn.exp %arg0
// CHECK: dist.all_reduce sum
// CHECK: %[[D:.*]] = nn.neg
// CHECK: %[[X:.*]] = dist.after %arg0, %[[D]]
// CHECK-NEXT: %[[H:.*]] = nn.exp %[[X]]
// CHECK-NEXT: %[[S:.*]] = dist.all_reduce sum %[[H]] over ["tp"]
// CHECK-NEXT: %[[Z:.*]] = nn.gelu %[[S]]
// CHECK-NEXT: nn.mul %[[D]], %[[Z]]
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %s = dist.all_reduce sum %h over ["tp"] : tensor<4x8xf32>
    %z = nn.gelu %s : tensor<4x8xf32> loc("layer0.act")
    %y = nn.exp %z : tensor<4x8xf32> loc("layer0.down")
    %o = nn.tanh %y : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %z : tensor<4x8xf32> loc("layer0.down")
    %g = nn.gradient %p of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}

// -----

// Without recompute_comm the sum is kept, and the copies begin with it.

// CHECK-LABEL: func.func @train_step(%arg0
// CHECK: %[[S:.*]] = dist.all_reduce sum
// CHECK: %[[D:.*]] = nn.neg
// CHECK-NOT: nn.exp
// CHECK-NOT: dist.all_reduce
// CHECK: %[[A:.*]] = dist.after %[[S]], %[[D]]
// CHECK-NEXT: %[[Z:.*]] = nn.gelu %[[A]]
// CHECK-NEXT: nn.mul %[[D]], %[[Z]]
// CHECK-NOT: dist.all_reduce
module attributes {dist.recompute_rules = [#dist.setting<match = "layer*", values = {recompute = true}>,
                                           #dist.setting<match = "layer0", values = {recompute_comm = false}>]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @u trainable : tensor<4x8xf32>
  func.func @train_step(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<train_step>} {
    %h = nn.exp %x : tensor<4x8xf32> loc("layer0.up")
    %s = dist.all_reduce sum %h over ["tp"] : tensor<4x8xf32>
    %z = nn.gelu %s : tensor<4x8xf32> loc("layer0.act")
    %y = nn.exp %z : tensor<4x8xf32> loc("layer0.down")
    %o = nn.tanh %y : tensor<4x8xf32> loc("head")
    %d = nn.neg %o : tensor<4x8xf32> loc("head")
    %p = nn.mul %d, %z : tensor<4x8xf32> loc("layer0.down")
    %g = nn.gradient %p of @u : tensor<4x8xf32>
    return %o : tensor<4x8xf32>
  }
}
