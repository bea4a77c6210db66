// SPDX-License-Identifier: Apache-2.0
//
// Mixed precision comes before the loss.

// RUN: ashlar-opt %s -verify-diagnostics -ashlar-mixed-precision

// expected-error@+1 {{no function @forward to compute in mixed precision; run ashlar-mixed-precision before ashlar-loss}}
module {
  func.func @train_step() -> () attributes {nn.program = #nn.program<train_step>} {
    return
  }
}
