// SPDX-License-Identifier: Apache-2.0
//
// One case for each constraint of nn.repeat; named after its label in repeat.td.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics

func.func @c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.repeat' op runs -1 times}}
  %0 = nn.repeat -1 carried(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @c2_yielded(%x: tensor<4xf32>) {
  // expected-error @+1 {{carries 'tensor<4xf32>' as value 0 but its body yields 'tensor<1x4xf32>'; a carried value keeps its type}}
  %0 = nn.repeat 3 carried(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %1 = nn.reshape %a : tensor<4xf32> -> tensor<1x4xf32>
    nn.yield %1 : tensor<1x4xf32>
  }
  return
}

// -----

func.func @c2_result(%x: tensor<4xf32>) {
  // expected-error @+1 {{carries 'tensor<4xf32>' as value 0 but returns 'tensor<3x4xf32>'}}
  %0 = nn.repeat 3 carried(%a = %x) : (tensor<4xf32>) -> tensor<3x4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @c2_argument(%x: tensor<4xf32>) {
  // expected-error @+1 {{carries 'tensor<4xf32>' as value 0 but its body takes 'tensor<5xf32>'}}
  %0 = "nn.repeat"(%x) <{count = 3 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>}> ({
  ^bb0(%a: tensor<5xf32>):
    "nn.yield"(%a) : (tensor<5xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @c3_rows(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{slices 'tensor<4x2xf32>' as tensor 0, which has not 3 rows}}
  %0 = nn.repeat 3 sliced(%a = %x) : (tensor<4x2xf32>) -> tensor<3x2xf32> {
    nn.yield %a : tensor<2xf32>
  }
  return
}

// -----

func.func @c3_rank(%x: tensor<f32>) {
  // expected-error @+1 {{slices 'tensor<f32>', which has no dim 0}}
  %0 = nn.repeat 3 sliced(%a = %x) : (tensor<f32>) -> tensor<3x2xf32> {
    nn.yield %a : tensor<2xf32>
  }
  return
}

// -----

func.func @c3_argument(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{slices 'tensor<3x4xf32>' as tensor 0 but its body takes 'tensor<3x4xf32>'}}
  %0 = "nn.repeat"(%x) <{count = 3 : i64, operandSegmentSizes = array<i32: 0, 1, 0, 0>}> ({
  ^bb0(%a: tensor<3x4xf32>):
    "nn.yield"(%a) : (tensor<3x4xf32>) -> ()
  }) : (tensor<3x4xf32>) -> tensor<3x3x4xf32>
  return
}

// -----

func.func @c4(%x: tensor<4xf32>) {
  // expected-error @+1 {{captures 'tensor<4xf32>' as value 0 but its body takes 'tensor<4xf64>'}}
  %0 = "nn.repeat"(%x) <{count = 3 : i64, operandSegmentSizes = array<i32: 0, 0, 1, 0>}> ({
  ^bb0(%a: tensor<4xf64>):
    "nn.yield"(%a) : (tensor<4xf64>) -> ()
  }) : (tensor<4xf32>) -> tensor<3x4xf64>
  return
}

// -----

func.func @c5(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{stacks 'tensor<4xf32>' to 'tensor<3x4xf32>' as result 0 but returns 'tensor<2x4xf32>'}}
  %0 = nn.repeat 3 sliced(%a = %x) : (tensor<3x4xf32>) -> tensor<2x4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

nn.variable @w : tensor<4xf32>
func.func @c6(%x: tensor<4xf32>) {
  %0 = nn.repeat 3 carried(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'nn.write' op has an effect, which the body of an nn.repeat may not have}}
    nn.write @w, %a : tensor<4xf32>
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @arguments(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 1 operands but a body of 0 arguments}}
  %0 = "nn.repeat"(%x) <{count = 3 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>}> ({
    %1 = nn.constant dense<1.0> : tensor<4xf32>
    "nn.yield"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @results(%x: tensor<4xf32>) {
  // expected-error @+1 {{carries 1 values and has 1 results but its body yields 2}}
  %0 = nn.repeat 3 carried(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    nn.yield %a, %a : tensor<4xf32>, tensor<4xf32>
  }
  return
}

// -----

func.func @types(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 1 operands but 2 types}}
  %0 = nn.repeat 3 carried(%a = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @c7_condition(%x: tensor<4xf32>, %c: tensor<1xi1>) {
  // expected-error @+1 {{has a condition of type 'tensor<1xi1>', not one bool}}
  %0 = nn.repeat 1 when %c carried(%a = %x) : (tensor<4xf32>, tensor<1xi1>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @c7_count(%x: tensor<4xf32>, %c: tensor<i1>) {
  // expected-error @+1 {{has a condition and 2 iterations, 0 sliced operands and 1 results for 1 carried values; with a condition it runs once}}
  %0 = nn.repeat 2 when %c carried(%a = %x) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @c7_rows(%x: tensor<4xf32>, %xs: tensor<1x4xf32>, %c: tensor<i1>) {
  // expected-error @+1 {{has a condition and 1 iterations, 1 sliced operands and 2 results for 1 carried values}}
  %0, %1 = nn.repeat 1 when %c carried(%a = %x) sliced(%b = %xs)
      : (tensor<4xf32>, tensor<1x4xf32>, tensor<i1>) -> (tensor<4xf32>, tensor<1x4xf32>) {
    nn.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  return
}
