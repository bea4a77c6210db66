// SPDX-License-Identifier: Apache-2.0
//
// Losses of models with repeats.

// RUN: ashlar-opt %s -ashlar-loss="kind=mean_squared_error output=inner labels=target" | FileCheck %s
// RUN: ashlar-opt %s -ashlar-loss="kind=mean_squared_error output=again labels=target" | FileCheck %s
// RUN: ashlar-opt %s -ashlar-loss="kind=mean_squared_error output=y labels=target micro-batches=2" | FileCheck %s --check-prefix=BOTH

// The loss is computed from a named result of the repeat, which nothing else reads. The training step keeps the repeat for its gradient; the
// evaluation has the iterations, through which the samples are followed.
// CHECK-LABEL: @train_step
// CHECK: %[[R:.*]]:2 = nn.repeat 3
// CHECK: nn.sub %[[R]]#1
// CHECK-LABEL: @eval_step
// CHECK-NOT: nn.repeat
// CHECK-COUNT-3: nn.tanh
// CHECK-NOT: nn.tanh
// CHECK: return

// The loss of several micro-batches is divided by the samples, in training too.
// BOTH-LABEL: @train_step
// BOTH-NOT: nn.repeat
// BOTH: return
func.func @forward(%x: tensor<4x2xf32> {nn.name = "x"}) -> (tensor<4x2xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %last, %rows = nn.repeat 3 carried(%h = %x) {nn.outputs = ["", "inner"], nn.aliases = [[], ["again"]]}
      : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<3x4x2xf32>) {
    %next = nn.tanh %h : tensor<4x2xf32>
    nn.yield %next, %next : tensor<4x2xf32>, tensor<4x2xf32>
  }
  return %last : tensor<4x2xf32>
}
