// SPDX-License-Identifier: Apache-2.0
//
// What clipping refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-clip-gradients=max-norm=0

// expected-error @+1 {{no @train_step with gradients to clip; run ashlar-autodiff and ashlar-optimizer first}}
module @no_train_step {
}

// -----

// expected-error @+1 {{no @train_step with gradients to clip; run ashlar-autodiff and ashlar-optimizer first}}
module @no_gradients {
  func.func @train_step(%x: tensor<f32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    return %x : tensor<f32>
  }
}

// -----

module @no_norm {
  nn.variable @w trainable : tensor<f32>
  // expected-error @+1 {{gradients are clipped to a norm above 0; got 0.000000e+00}}
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f32>
    %g = nn.gradient %w of @w : tensor<f32>
    return %w : tensor<f32>
  }
}
