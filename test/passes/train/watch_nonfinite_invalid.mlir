// SPDX-License-Identifier: Apache-2.0

// RUN: ashlar-opt %s -split-input-file -ashlar-watch-nonfinite -verify-diagnostics

// expected-error @+1 {{no @train_step with gradients to watch; run ashlar-autodiff and ashlar-optimizer first}}
module {
  func.func @train_step(%x: tensor<4xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %0 = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    return %0 : tensor<f32>
  }
}
