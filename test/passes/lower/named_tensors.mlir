// SPDX-License-Identifier: Apache-2.0
//
// What a named tensor is to the outside: what lasts from step to step, and of which parameter a state is.

// RUN: ashlar-opt %s -ashlar-plan-memory | FileCheck %s

// CHECK: exec.tensor @w variable {{.*}} {persistent}
nn.variable @w trainable : tensor<4xf32>
// CHECK: exec.tensor @w.momentum state {{.*}} {persistent, state_of = "w"}
nn.variable @w.momentum state_of @w : tensor<4xf32>
// CHECK: exec.tensor @ashlar.step state {{.*}} {internal, persistent}
nn.variable @ashlar.step internal : tensor<i64>
// CHECK: exec.tensor @x input {{.*}} splits {{[^{]*$}}
// CHECK: exec.tensor @y output {{.*}} splits {{[^{]*$}}
func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  return %x : tensor<4xf32>
}
