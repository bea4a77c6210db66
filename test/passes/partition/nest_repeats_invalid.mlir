// SPDX-License-Identifier: Apache-2.0
//
// Values that leave a flat loop otherwise than as its results.

// RUN: ashlar-opt %s -split-input-file -ashlar-nest-repeats -verify-diagnostics

// A value of an iteration is none behind the loop.
func.func @returned(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.repeat_carry %x loop 0 number 0 count 2 : tensor<4xf32>
  %s = nn.add %a, %x : tensor<4xf32>
  %last = nn.repeat_next %s of %a : tensor<4xf32>
  // expected-error@+1 {{'func.return' op reads a value of the iterations of loop 0 behind the loop}}
  return %s : tensor<4xf32>
}

// -----

// Nor may an op read a value of an iteration besides a result of the loop.
func.func @mixed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.repeat_carry %x loop 0 number 0 count 2 : tensor<4xf32>
  %s = nn.add %a, %x : tensor<4xf32>
  %last = nn.repeat_next %s of %a : tensor<4xf32>
  // expected-error@+1 {{'nn.add' op reads a value of the iterations of loop 0 behind the loop}}
  %t = nn.add %s, %last : tensor<4xf32>
  return %t : tensor<4xf32>
}
