// SPDX-License-Identifier: Apache-2.0
//
// Constraints of the ops of flat loops, by their labels in repeat.td.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics

func.func @carry_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.repeat_carry' op runs -1 times}}
  %0 = nn.repeat_carry %x loop 0 number 0 count -1 : tensor<4xf32>
  return
}

// -----

func.func @row_c1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'nn.repeat_row' op runs -3 times}}
  %0 = nn.repeat_row %x loop 0 count -3 : tensor<3x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @row_c2(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{has a stack of type 'tensor<3x4xf32>', which is not 2 rows of 'tensor<4xf32>'}}
  %0 = nn.repeat_row %x loop 0 count 2 : tensor<3x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @next_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{is the next value of one that is no result of an nn.repeat_carry}}
  %0 = nn.repeat_next %x of %x : tensor<4xf32>
  return
}

// -----

func.func @stack_c2(%x: tensor<4xf32>) {
  // expected-error @+1 {{has a stack of type 'tensor<3x5xf32>', which is not 3 rows of 'tensor<4xf32>'}}
  %0 = nn.repeat_stack %x loop 0 count 3 : tensor<4xf32> -> tensor<3x5xf32>
  return
}

// -----

func.func @carry_c2(%x: tensor<4xf32>, %c: tensor<1xi1>) {
  // expected-error @+1 {{has a condition of type 'tensor<1xi1>', not one bool}}
  %0 = nn.repeat_carry %x when %c : tensor<1xi1> loop 0 number 0 count 1 : tensor<4xf32>
  return
}
