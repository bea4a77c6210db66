// SPDX-License-Identifier: Apache-2.0
//
// What the loss functions return, against numbers worked out by hand.

// RUN: ashlar-opt %s -ashlar-loss="kind=softmax_cross_entropy" -ashlar-interpret='function=eval_step inputs="[dense<[[0., 0.], [1., 1.], [3., 0.]]> : tensor<3x2xf32>, dense<[0, 1, 0]> : tensor<3xi32>, dense<3> : tensor<i64>]"' | FileCheck %s --check-prefix=XENT
// RUN: ashlar-opt %s -ashlar-loss="kind=softmax_cross_entropy" -ashlar-interpret='function=eval_step inputs="[dense<[[0., 0.], [1., 1.], [3., 0.]]> : tensor<3x2xf32>, dense<[0, 1, 0]> : tensor<3xi32>, dense<2> : tensor<i64>]"' | FileCheck %s --check-prefix=XENT2
// RUN: ashlar-opt %s -ashlar-loss="kind=negative_log_likelihood" -ashlar-interpret='function=eval_step inputs="[dense<[[-1., -2.], [-3., -4.], [-5., -6.]]> : tensor<3x2xf32>, dense<[0, 1, 1]> : tensor<3xi32>, dense<3> : tensor<i64>]"' | FileCheck %s --check-prefix=NLL
// RUN: ashlar-opt %s -ashlar-loss="kind=negative_log_likelihood" -ashlar-interpret='function=eval_step inputs="[dense<[[-1., -2.], [-3., -4.], [-5., -6.]]> : tensor<3x2xf32>, dense<[0, 1, 1]> : tensor<3xi32>, dense<1> : tensor<i64>]"' | FileCheck %s --check-prefix=NLL1
// RUN: ashlar-opt %s -ashlar-loss="kind=mean_squared_error" -ashlar-interpret='function=eval_step inputs="[dense<[[1., 2.], [3., 4.], [5., 6.]]> : tensor<3x2xf32>, dense<[[1., 0.], [3., 3.], [5., 5.]]> : tensor<3x2xf32>, dense<2> : tensor<i64>]"' | FileCheck %s --check-prefix=MSE2
// RUN: ashlar-opt %s -ashlar-loss="kind=mean_squared_error" -ashlar-interpret='function=train_step inputs="[dense<[[1., 2.], [3., 4.], [5., 6.]]> : tensor<3x2xf32>, dense<[[1., 0.], [3., 3.], [5., 5.]]> : tensor<3x2xf32>]"' | FileCheck %s --check-prefix=MSE
// RUN: ashlar-opt %s -ashlar-loss="kind=softmax_cross_entropy ignore-index=1" -ashlar-interpret='function=train_step inputs="[dense<[[0., 0.], [1., 1.], [3., 0.]]> : tensor<3x2xf32>, dense<[0, 1, 0]> : tensor<3xi32>]"' | FileCheck %s --check-prefix=IGNORED-STEP
// RUN: ashlar-opt %s -ashlar-loss="kind=softmax_cross_entropy ignore-index=1" -ashlar-interpret='function=eval_step inputs="[dense<[[0., 0.], [1., 1.], [3., 0.]]> : tensor<3x2xf32>, dense<[0, 1, 0]> : tensor<3xi32>, dense<3> : tensor<i64>]"' | FileCheck %s --check-prefix=IGNORED
// RUN: ashlar-opt %s -ashlar-loss="kind=negative_log_likelihood ignore-index=-100" -ashlar-interpret='function=eval_step inputs="[dense<[[-1., -2.], [-3., -4.], [-5., -6.]]> : tensor<3x2xf32>, dense<[-100, 1, 1]> : tensor<3xi32>, dense<2> : tensor<i64>]"' | FileCheck %s --check-prefix=IGNORED-NLL
// RUN: not ashlar-opt %s -ashlar-loss="kind=model_output output=y" 2>&1 | FileCheck %s --check-prefix=OWN

// @eval_step sums: 2 log 2 + log(1 + e^-3). The ties of the first two rows count for class 0 only: the first is right, the second wrong.
// XENT: @eval_step result 0: tensor<f32> 1.43488
// XENT-NEXT: @eval_step result 1: tensor<f32> 3{{$}}
// XENT-NEXT: @eval_step result 2: tensor<i64> 2

// Of two samples: 2 log 2.
// XENT2: @eval_step result 0: tensor<f32> 1.38629
// XENT2-NEXT: @eval_step result 1: tensor<f32> 2{{$}}
// XENT2-NEXT: @eval_step result 2: tensor<i64> 1

// 1 + 4 + 6; only the first label is at the largest entry.
// NLL: @eval_step result 0: tensor<f32> 11{{$}}
// NLL-NEXT: @eval_step result 1: tensor<f32> 3{{$}}
// NLL-NEXT: @eval_step result 2: tensor<i64> 1
// NLL1: @eval_step result 0: tensor<f32> 1{{$}}
// NLL1-NEXT: @eval_step result 1: tensor<f32> 1{{$}}
// NLL1-NEXT: @eval_step result 2: tensor<i64> 1

// (0 + 4 + 0 + 1 + 0 + 1) / 6
// MSE: @train_step result 0: tensor<f32> 1{{$}}

// Of two samples, each the mean of its elements: (0 + 4) / 2 + (0 + 1) / 2
// MSE2: @eval_step result 0: tensor<f32> 2.5{{$}}

// Without the second sample: (log 2 + log(1 + e^-3)) / 2, then the sum and how many rows count, both of them right.
// IGNORED-STEP: @train_step result 0: tensor<f32> 0.370867
// IGNORED: @eval_step result 0: tensor<f32> 0.741735
// IGNORED-NEXT: @eval_step result 1: tensor<f32> 2{{$}}
// IGNORED-NEXT: @eval_step result 2: tensor<i64> 2{{$}}
// IGNORED-NEXT: @eval_step result 3: tensor<i64> 2{{$}}

// Of two samples the first is left out: 4, one row, which is wrong.
// IGNORED-NLL: @eval_step result 0: tensor<f32> 4{{$}}
// IGNORED-NLL-NEXT: @eval_step result 1: tensor<f32> 1{{$}}
// IGNORED-NLL-NEXT: @eval_step result 2: tensor<i64> 0{{$}}
// IGNORED-NLL-NEXT: @eval_step result 3: tensor<i64> 1{{$}}

// A loss is one number; what to make of several is for the model to say.
// OWN: error: model_output "y" has type 'tensor<3x2xf32>' but a loss is one number; reduce it in the model, for example by ReduceMean

func.func @forward(%x: tensor<3x2xf32>) -> (tensor<3x2xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  return %x : tensor<3x2xf32>
}
