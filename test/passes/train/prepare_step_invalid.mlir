// SPDX-License-Identifier: Apache-2.0
//
// What the preparation of a step refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-prepare-step

// expected-error @+1 {{no @train_step and @update to prepare; run ashlar-accumulate first}}
module @one_batch {
  func.func @train_step() attributes {nn.program = #nn.program<train_step>} {
    return
  }
}

// -----

module @name_taken {
  // expected-error @+1 {{needs a state named @w.bf16, which the model already has}}
  nn.variable @w trainable : tensor<f32>
  nn.variable @w.bf16 trainable : tensor<f32>
  func.func @train_step() -> tensor<bf16> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f32>
    %0 = nn.cast %w : tensor<f32> -> tensor<bf16>
    return %0 : tensor<bf16>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    return
  }
}
