// SPDX-License-Identifier: Apache-2.0
//
// What the optimizer pass refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-optimizer="kind=momentum"
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="learning-rate=0" 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="weight-decay=-0.5" 2>&1 | FileCheck %s --check-prefix=DECAY
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="kind=momentum momentum=1.5" 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="kind=sgd nesterov=true" 2>&1 | FileCheck %s --check-prefix=NESTEROV
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="kind=adam beta1=1" 2>&1 | FileCheck %s --check-prefix=BETA
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="kind=lamb epsilon=0" 2>&1 | FileCheck %s --check-prefix=EPSILON
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="warmup-steps=-1" 2>&1 | FileCheck %s --check-prefix=WARMUP
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="schedule=step step-size=0" 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="schedule=piecewise boundaries=3 values=1,2" 2>&1 | FileCheck %s --check-prefix=PIECES
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="schedule=piecewise boundaries=3,3 values=1,2" 2>&1 | FileCheck %s --check-prefix=RISING
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="schedule=piecewise boundaries=3 values=1 warmup-steps=3" 2>&1 | FileCheck %s --check-prefix=RISING
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="schedule=cosine decay-steps=4 warmup-steps=4" 2>&1 | FileCheck %s --check-prefix=DECAYS
// RUN: not ashlar-opt %s -split-input-file -ashlar-optimizer="schedule=polynomial decay-steps=4 power=0" 2>&1 | FileCheck %s --check-prefix=POWER

// BETA: optimizer takes beta1 and beta2 in [0, 1) and an epsilon above 0; got 1.000000e+00, 9.990000e-01 and 1.000000e-08
// EPSILON: optimizer takes beta1 and beta2 in [0, 1) and an epsilon above 0; got 9.000000e-01, 9.990000e-01 and 0.000000e+00
// WARMUP: warm-up of -1 steps; a number of steps is at least 0
// STEP: schedule step takes a size of at least 1 and a gamma above 0; got 0 and 0.10
// PIECES: schedule piecewise takes as many boundaries as values, and at least one; got 1 and 2
// RISING: schedule piecewise takes rising boundaries after the warm-up, and values of at least 0
// DECAYS: a decay takes decay steps above the 4 of the warm-up, an end of at least 0 and a power above 0; got 4, 0.00 and 1.00
// POWER: a decay takes decay steps above the 0 of the warm-up, an end of at least 0 and a power above 0; got 4, 0.00 and 0.00
// RATE: got 0.000000e+00, 0.000000e+00 and 9.000000e-01
// DECAY: got 1.000000e-02, -5.000000e-01 and 9.000000e-01
// MOMENTUM: optimizer takes a learning rate above 0, a weight decay of at least 0 and a momentum in [0, 1); got 1.000000e-02, 0.000000e+00 and 1.500000e+00
// NESTEROV: nesterov looks ahead by momentum, which only kind=momentum has; leave nesterov out or use that

// expected-error @+1 {{no function @train_step to optimize; run ashlar-loss and ashlar-autodiff first}}
module @no_train_step {
}

// -----

module @no_gradients {
  // expected-error @+1 {{nothing is trained: the loss depends on none of the parameters that are trained, }}
  func.func @train_step(%x: tensor<f32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    return %x : tensor<f32>
  }
}

// -----

module @name_taken {
  // expected-error @+1 {{needs a state named @w.momentum, which the model already has}}
  nn.variable @w trainable : tensor<f32>
  nn.variable @w.momentum trainable : tensor<f32>
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<f32>
    %g = nn.gradient %w of @w : tensor<f32>
    return %w : tensor<f32>
  }
}
