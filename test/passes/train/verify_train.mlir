// SPDX-License-Identifier: Apache-2.0
//
// The border of this room: one case for each label of ashlar-verify-train.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-verify-train

// A training module as it has to be.
module @good {
  nn.variable @ashlar.seed : tensor<i64>
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @train_step() -> tensor<f32> {
    %0 = nn.read @w : tensor<f32>
    %1 = nn.gradient %0 of @w : tensor<f32>
    nn.write @w, %1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @eval_step() -> tensor<f32> {
    %0 = nn.read @w : tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

// expected-error @+1 {{no function @init; run ashlar-init}}
module @c1 {
  func.func @forward() {
    return
  }
}

// -----

// expected-error @+1 {{functions are neither @train_step and @eval_step, nor @forward alone}}
module @c2 {
  func.func @init() {
    return
  }
  func.func @train_step() {
    return
  }
}

// -----

module @c3_unused {
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @train_step() {
    %0 = nn.read @w : tensor<f32>
    // expected-error @+1 {{of @w is not used; run ashlar-optimizer}}
    %1 = nn.gradient %0 of @w : tensor<f32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

module @c3_second {
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @train_step() {
    %0 = nn.read @w : tensor<f32>
    // expected-note @+1 {{the first}}
    %1 = nn.gradient %0 of @w : tensor<f32>
    // expected-error @+1 {{is the second of @w}}
    %2 = nn.gradient %1 of @w : tensor<f32>
    nn.write @w, %2 : tensor<f32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

module @c3_elsewhere {
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @forward() {
    %0 = nn.read @w : tensor<f32>
    // expected-error @+1 {{in @forward; gradients belong in @train_step}}
    %1 = nn.gradient %0 of @w : tensor<f32>
    return
  }
}

// -----

module @c4 {
  // expected-error @+1 {{@w still has an init; run ashlar-init}}
  nn.variable @w trainable : tensor<f32> = dense<1.0> : tensor<f32>
  func.func @init() {
    return
  }
  func.func @forward() {
    return
  }
}

// -----

module @c5 {
  // expected-error @+1 {{@w is not written by @init}}
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    return
  }
  func.func @forward() {
    return
  }
}

// -----

module @c6_second_write {
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    %0 = nn.constant dense<1.0> : tensor<f32>
    // expected-note @+1 {{the first}}
    nn.write @w, %0 : tensor<f32>
    // expected-error @+1 {{is the second to @w}}
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @forward() {
    return
  }
}

// -----

module @c6_late_read {
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    %0 = nn.constant dense<1.0> : tensor<f32>
    // expected-note @+1 {{written here}}
    nn.write @w, %0 : tensor<f32>
    // expected-error @+1 {{of @w comes after its write}}
    %1 = nn.read @w : tensor<f32>
    return
  }
  func.func @forward() {
    return
  }
}

// -----

module @c7 {
  nn.variable @w trainable : tensor<f32>
  func.func @init() {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @forward() {
    %0 = nn.read @w : tensor<f32>
    // expected-error @+1 {{in @forward, which may not write}}
    nn.write @w, %0 : tensor<f32>
    return
  }
}
