// RUN: ashlar-opt %s -canonicalize -cse | FileCheck %s
// RUN: ashlar-opt %s -ashlar-expand-ops | FileCheck %s --check-prefix=FIRST
// RUN: ashlar-opt %s -canonicalize -cse -ashlar-order-ops | FileCheck %s --check-prefix=ORDER
// RUN: ashlar-opt %s -canonicalize -cse -ashlar-order-ops -ashlar-fuse -ashlar-plan-memory | FileCheck %s --check-prefix=EXEC
// RUN: ashlar-opt %s -ashlar-order-ops -ashlar-fuse | FileCheck %s --check-prefix=FUSED

// Messages are no computation: a receive without users stays, equal sends are two, and each stands where it was.
// CHECK: func.func @forward
// CHECK-NEXT: %[[H:.*]] = nn.exp %arg0
// CHECK-NEXT: dist.receive "unused"
// CHECK-NEXT: dist.send %[[H]] "h" to [#dist.peer<stage = 1, channel = 0>] {cause = [#dist.end<kind = op, name = "one">, #dist.end<kind = op, name = "two">]}
// CHECK-NEXT: dist.send %[[H]] "again" to [#dist.peer<stage = 1, channel = 1>, #dist.peer<stage = 2, channel = 0>]
// CHECK-NEXT: %[[R:.*]] = dist.receive "r"
// CHECK-NEXT: %[[S:.*]] = nn.add %[[H]], %[[R]]
// CHECK-NEXT: dist.keep %[[S]] "s"
// CHECK-NEXT: %[[Y:.*]] = nn.reduce sum %[[S]]
// CHECK-NEXT: return %[[Y]]

// FIRST: func.func @forward
// FIRST-NEXT: dist.receive "unused"
// FIRST-NEXT: dist.receive "r"
// FIRST-NEXT: nn.exp
// FIRST-NEXT: nn.add
// FIRST-NEXT: nn.reduce
// FIRST-NEXT: dist.send {{.*}} "h"
// FIRST-NEXT: dist.send {{.*}} "again"
// FIRST-NEXT: dist.keep {{.*}} "s"
// FIRST-NEXT: return

// The runtime receives ahead of a program and sends behind it.
// ORDER: func.func @forward
// ORDER-NEXT: dist.receive "unused"
// ORDER-NEXT: dist.receive "r"
// ORDER-NEXT: nn.exp
// ORDER-NEXT: nn.add
// ORDER-NEXT: nn.reduce
// ORDER-NEXT: dist.send {{.*}} "h"
// ORDER-NEXT: dist.send {{.*}} "again"
// ORDER-NEXT: dist.keep {{.*}} "s"
// ORDER-NEXT: return

// One kernel makes all, right in the slot; "again" is a copy.
// FUSED: func.func @forward
// FUSED: exec.fusion
// FUSED-NOT: exec.fusion
// FUSED: func.func @backward
// EXEC: exec.program @forward inputs [@x, @unused, @r] outputs [@y, @h, @again, @s] receives [#exec.transfer<@unused, stage = 1, channel = 0>, #exec.transfer<@r, stage = 2, channel = 0>] sends [#exec.transfer<@h, stage = 1, channel = 0>, #exec.transfer<@again, stage = 1, channel = 1>, #exec.transfer<@again, stage = 2, channel = 0>]
// EXEC-NEXT: exec.kernel
// EXEC-NEXT: exec.copy
// EXEC-NOT: exec.copy
// EXEC: exec.program @backward
module @stage_0 attributes {dist.stage = #dist.stage<index = 0, count = 3, slots = 1>} {
  func.func @forward(%x: tensor<8xf32> {dist.slot, nn.name = "x"}) -> (tensor<f32> {nn.name = "y"}) attributes {nn.program = #nn.program<forward>} {
    %h = nn.exp %x : tensor<8xf32> loc("one")
    %unused = dist.receive "unused" from <stage = 1, channel = 0> : tensor<8xf32>
    dist.send %h "h" to [#dist.peer<stage = 1, channel = 0>] {cause = [#dist.end<kind = op, name = "one">, #dist.end<kind = op, name = "two">]} : tensor<8xf32>
    dist.send %h "again" to [#dist.peer<stage = 1, channel = 1>, #dist.peer<stage = 2, channel = 0>] : tensor<8xf32>
    %r = dist.receive "r" from <stage = 2, channel = 0> : tensor<8xf32>
    %s = nn.add %h, %r : tensor<8xf32> loc("one")
    dist.keep %s "s" : tensor<8xf32>
    %y = nn.reduce sum %s dims = [0] : tensor<8xf32> -> tensor<f32> loc("one")
    return %y : tensor<f32>
  }
  func.func @backward() -> (tensor<8xf32> {nn.name = "d"}) attributes {nn.program = #nn.program<backward>} {
    %s = dist.take "s" : tensor<8xf32>
    %d = nn.exp %s : tensor<8xf32> loc("one")
    return %d : tensor<8xf32>
  }
}
