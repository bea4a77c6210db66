// SPDX-License-Identifier: Apache-2.0
//
// A loss of the job that a fixed batch couples, in a loop over its samples.

// RUN: ashlar-opt %s -verify-diagnostics -ashlar-loss="kind=mean_squared_error output=y micro-batches=2"

// Each iteration reads a sample, and what the one before left.
// expected-error @+1 {{in 2 micro-batches: "turns" (nn.repeat) runs its body on samples, one after the other}}
func.func @forward(%x: tensor<2x3xf32> {nn.name = "x"}) -> (tensor<2x3xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %zero = nn.constant dense<0.0> : tensor<3xf32>
  %last, %rows = nn.repeat 2 carried(%a = %zero) sliced(%row = %x) : (tensor<3xf32>, tensor<2x3xf32>) -> (tensor<3xf32>, tensor<2x3xf32>) {
    %sum = nn.add %a, %row : tensor<3xf32>
    %next = nn.tanh %sum : tensor<3xf32>
    nn.yield %next, %next : tensor<3xf32>, tensor<3xf32>
  } loc("turns")
  return %rows : tensor<2x3xf32>
}
