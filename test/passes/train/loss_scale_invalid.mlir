// SPDX-License-Identifier: Apache-2.0
//
// What the loss scale pass refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-loss-scale="factor=1"

// expected-error@+1 {{no @train_step with gradients of a scaled loss; run ashlar-autodiff with a loss-scale first}}
module {
  func.func @train_step() -> () attributes {nn.program = #nn.program<train_step>} {
    return
  }
}

// -----

nn.variable @ashlar.loss_scale : tensor<f32>
// expected-error@+1 {{loss scale takes growth steps of at least 1 and a factor above 1; got 2000 and 1.000000e+00}}
func.func @train_step() -> () attributes {nn.program = #nn.program<train_step>} {
  return
}
