// SPDX-License-Identifier: Apache-2.0
//
// What autodiff refuses, and what it warns about.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-autodiff

// expected-error @+1 {{no function @train_step to differentiate; run ashlar-loss first}}
module @no_train_step {
}

// -----

module @no_scalar {
  // expected-error @+1 {{the first has to be the loss, a scalar of floats, and one more at most its weight}}
  func.func @train_step(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<train_step>} {
    return %x : tensor<4xf32>
  }
}

// -----

module @no_gradient {
  nn.variable @w trainable : tensor<f32>
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f32>
    // expected-error @+1 {{has no gradient, but the loss depends on a trainable variable through it}}
    %0 = dist.all_reduce sum %w over ["dp"] : tensor<f32>
    return %0 : tensor<f32>
  }
  dist.mesh @mesh <["dp" = 2]>
}

// -----

module @no_gradient_of_bits {
  nn.variable @w trainable : tensor<f16>
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f16>
    // expected-error @+1 {{has no gradient, but the loss depends on a trainable variable through it}}
    %0 = nn.bitcast %w : tensor<f16> -> tensor<bf16>
    %1 = nn.cast %0 : tensor<bf16> -> tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

module @no_gradient_of_bits_in_a_body {
  nn.variable @w trainable : tensor<f16>
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f16>
    %zero = nn.constant dense<0.0> : tensor<bf16>
    %0 = nn.repeat 2 carried(%s = %zero) captured(%v = %w) : (tensor<bf16>, tensor<f16>) -> tensor<bf16> {
      %1 = nn.repeat 2 carried(%t = %s) captured(%u = %v) : (tensor<bf16>, tensor<f16>) -> tensor<bf16> {
        // expected-error @+1 {{has no gradient, but the loss depends on a trainable variable through it}}
        %2 = nn.bitcast %u : tensor<f16> -> tensor<bf16>
        %3 = nn.add %t, %2 : tensor<bf16>
        nn.yield %3 : tensor<bf16>
      }
      nn.yield %1 : tensor<bf16>
    }
    %1 = nn.cast %0 : tensor<bf16> -> tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

module @untrained {
  // expected-warning @+1 {{trainable variable @unused is not trained: the loss does not depend on it}}
  nn.variable @unused trainable : tensor<f32>
  nn.variable @w trainable : tensor<f32>
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f32>
    return %w : tensor<f32>
  }
}
