// SPDX-License-Identifier: Apache-2.0
//
// The border of this room: one case for each label of ashlar-verify-train.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-verify-train

// A training module as it has to be.
module @good {
  nn.variable @ashlar.seed : tensor<i64>
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @train_step() -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %0 = nn.read @w : tensor<f32>
    %1 = nn.gradient %0 of @w : tensor<f32>
    nn.write @w, %1 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @eval_step() -> tensor<f32> attributes {nn.program = #nn.program<eval_step>} {
    %0 = nn.read @w : tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

// expected-error @+1 {{no program of role init; run ashlar-init}}
module @c1 {
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    return
  }
}

// -----

// expected-error @+1 {{programs are neither train_step and eval_step, nor prefill and decode, nor run alone}}
module @c2 {
  func.func @init() attributes {nn.program = #nn.program<init>} {
    return
  }
  func.func @train_step() attributes {nn.program = #nn.program<train_step>} {
    return
  }
}

// -----

module @c3_unused {
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @train_step() attributes {nn.program = #nn.program<train_step>} {
    %0 = nn.read @w : tensor<f32>
    // expected-error @+1 {{of @w is not used; run ashlar-optimizer}}
    %1 = nn.gradient %0 of @w : tensor<f32>
    return
  }
  func.func @eval_step() attributes {nn.program = #nn.program<eval_step>} {
    return
  }
}

// -----

module @c3_second {
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @train_step() attributes {nn.program = #nn.program<train_step>} {
    %0 = nn.read @w : tensor<f32>
    // expected-note @+1 {{the first}}
    %1 = nn.gradient %0 of @w : tensor<f32>
    // expected-error @+1 {{is the second of @w}}
    %2 = nn.gradient %1 of @w : tensor<f32>
    nn.write @w, %2 : tensor<f32>
    return
  }
  func.func @eval_step() attributes {nn.program = #nn.program<eval_step>} {
    return
  }
}

// -----

module @c3_elsewhere {
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    %0 = nn.read @w : tensor<f32>
    // expected-error @+1 {{in @forward; gradients belong in the program train_step}}
    %1 = nn.gradient %0 of @w : tensor<f32>
    return
  }
}

// -----

module @c4 {
  // expected-error @+1 {{@w still has an init; run ashlar-init}}
  nn.variable @w trainable : tensor<f32> = dense<1.0> : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    return
  }
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    return
  }
}

// -----

module @c5 {
  // expected-error @+1 {{@w is not written by @init}}
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    return
  }
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    return
  }
}

// -----

module @c6_second_write {
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    %0 = nn.constant dense<1.0> : tensor<f32>
    // expected-note @+1 {{the first}}
    nn.write @w, %0 : tensor<f32>
    // expected-error @+1 {{is the second to @w}}
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    return
  }
}

// -----

module @c6_late_read {
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    %0 = nn.constant dense<1.0> : tensor<f32>
    // expected-note @+1 {{written here}}
    nn.write @w, %0 : tensor<f32>
    // expected-error @+1 {{of @w comes after its write}}
    %1 = nn.read @w : tensor<f32>
    return
  }
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    return
  }
}

// -----

module @c7 {
  nn.variable @w trainable : tensor<f32>
  func.func @init() attributes {nn.program = #nn.program<init>} {
    %0 = nn.constant dense<1.0> : tensor<f32>
    nn.write @w, %0 : tensor<f32>
    return
  }
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    %0 = nn.read @w : tensor<f32>
    // expected-error @+1 {{in @forward, which may not write}}
    nn.write @w, %0 : tensor<f32>
    return
  }
}

// -----

module @c8_no_role {
  func.func @init() attributes {nn.program = #nn.program<init>} {
    return
  }
  // expected-error @+1 {{@forward has no role; give it nn.program, as attributes {nn.program = #nn.program<train_step>}}}
  func.func @forward() {
    return
  }
}

// -----

module @c8_twice {
  // expected-note @+1 {{the first}}
  func.func @init() attributes {nn.program = #nn.program<init>} {
    return
  }
  // expected-error @+1 {{@other is a second program of #nn.program<init>}}
  func.func @other() attributes {nn.program = #nn.program<init>} {
    return
  }
}
