// SPDX-License-Identifier: Apache-2.0
//
// With several outputs the loss needs a name.

// RUN: ashlar-opt %s -verify-diagnostics -ashlar-loss

// expected-error @+1 {{model has 2 outputs; name the one that the loss is computed from}}
func.func @forward(%x: tensor<4x3xf32>) -> (tensor<4x3xf32> {nn.name = "a"}, tensor<4x3xf32> {nn.name = "b"}) attributes {nn.program = #nn.program<run>} {
  return %x, %x : tensor<4x3xf32>, tensor<4x3xf32>
}
