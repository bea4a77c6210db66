// SPDX-License-Identifier: Apache-2.0
//
// What a named tensor is to the outside: what lasts from step to step, and of which parameter a state is.

// RUN: ashlar-opt %s -ashlar-plan-memory | FileCheck %s

// CHECK: exec.tensor @w variable {{.*}} {persistent}
nn.variable @w trainable : tensor<4xf32>
// CHECK: exec.tensor @w.momentum state {{.*}} {persistent, state_of = "w"}
nn.variable @w.momentum state_of @w : tensor<4xf32>
// CHECK: exec.tensor @ashlar.loss_scale state {{.*}} {internal, persistent}
nn.variable @ashlar.loss_scale internal : tensor<f32>
// Seed and step are the position of a run, which its checkpoints have themselves.
// CHECK: exec.tensor @ashlar.seed state {{.*}} {internal}
nn.variable @ashlar.seed internal : tensor<i64>
// CHECK: exec.tensor @ashlar.step state {{.*}} {internal}
nn.variable @ashlar.step internal : tensor<i64>
// CHECK: exec.tensor @w.gradient state {{.*}} splits [array<i64>] {state_of = "w"}
nn.variable @w.gradient state_of @w : tensor<4xf32> {nn.scratch}
// CHECK: exec.tensor @x input {{.*}} splits {{[^{]*$}}
// CHECK: exec.tensor @y output {{.*}} splits {{[^{]*$}}
func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  return %x : tensor<4xf32>
}
