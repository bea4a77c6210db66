// SPDX-License-Identifier: Apache-2.0
//
// What the optimizer pass refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-optimizer="kind=momentum"
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="learning-rate=0" 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="weight-decay=-0.5" 2>&1 | FileCheck %s --check-prefix=DECAY
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="kind=momentum momentum=1.5" 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="kind=sgd nesterov=true" 2>&1 | FileCheck %s --check-prefix=NESTEROV

// RATE: got 0.000000e+00, 0.000000e+00 and 9.000000e-01
// DECAY: got 1.000000e-02, -5.000000e-01 and 9.000000e-01
// MOMENTUM: optimizer takes a learning rate above 0, a weight decay of at least 0 and a momentum in [0, 1); got 1.000000e-02, 0.000000e+00 and 1.500000e+00
// NESTEROV: optimizer sgd has no momentum to look ahead by; leave nesterov out or use kind=momentum

// expected-error @+1 {{no function @train_step to optimize; run ashlar-loss and ashlar-autodiff first}}
module @no_train_step {
}

// -----

module @no_gradients {
  // expected-error @+1 {{has no gradients: the loss depends on no trainable variable, or ashlar-autodiff has not run}}
  func.func @train_step(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
}

// -----

module @name_taken {
  // expected-error @+1 {{needs a state named @w.momentum, which the model already has}}
  nn.variable @w trainable : tensor<f32>
  nn.variable @w.momentum trainable : tensor<f32>
  func.func @train_step() -> tensor<f32> {
    %w = nn.read @w : tensor<f32>
    %g = nn.gradient %w of @w : tensor<f32>
    return %w : tensor<f32>
  }
}
