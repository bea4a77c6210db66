// SPDX-License-Identifier: Apache-2.0
//
// What accumulation refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-accumulate
// RUN: not ashlar-opt %s -split-input-file -ashlar-accumulate=count=1 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: gradients are added up over at least 2 micro-batches of at least one sample; got 1 of 1

// expected-error @+1 {{no @train_step with gradients to add up; run ashlar-autodiff and ashlar-optimizer first}}
module @no_train_step {
}

// -----

module @name_taken {
  // expected-error @+1 {{needs a state named @w.gradient, which the model already has}}
  nn.variable @w trainable : tensor<f32>
  nn.variable @w.gradient trainable : tensor<f32>
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f32>
    %g = nn.gradient %w of @w : tensor<f32>
    return %w : tensor<f32>
  }
}
