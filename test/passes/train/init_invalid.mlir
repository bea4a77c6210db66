// SPDX-License-Identifier: Apache-2.0
//
// What the init pass refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-init

// expected-error @+1 {{@w has no initial value; give one in the model or by an init rule}}
nn.variable @w trainable : tensor<2xf32>

// -----

// expected-error @+1 {{@w of type 'tensor<2xi64>' cannot start with #nn.uniform<0.000000e+00 : f64, 1.000000e+00 : f64>}}
nn.variable @w trainable : tensor<2xi64> = #nn.uniform<0.0 : f64, 1.0 : f64>

// -----

// expected-error @+1 {{@w of type 'tensor<2xf32>' cannot start with "zeros"}}
nn.variable @w trainable : tensor<2xf32> = "zeros"

// -----

// expected-error @+1 {{@init is there already; ashlar-init runs once}}
func.func @init() attributes {nn.program = #nn.program<init>} {
  return
}
