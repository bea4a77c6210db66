// SPDX-License-Identifier: Apache-2.0
//
// Options that are enums: another value is refused with all names, and a pipeline prints as it is read.

// RUN: not ashlar-opt %s -ashlar-mixed-precision=type=f8 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: for the --type option: is "f8"; one of bf16, f16{{$}}
// RUN: not ashlar-opt %s -ashlar-loss=kind=hinge 2>&1 | FileCheck %s --check-prefix=LOSS
// LOSS: for the --kind option: is "hinge"; one of softmax_cross_entropy, mean_squared_error, negative_log_likelihood, model_output{{$}}
// RUN: not ashlar-opt %s -ashlar-optimizer=kind=SGD 2>&1 | FileCheck %s --check-prefix=OPTIMIZER
// OPTIMIZER: for the --kind option: is "SGD"; one of sgd, momentum, adam, adamw, lamb{{$}}
// RUN: not ashlar-opt %s -ashlar-optimizer=schedule=linear 2>&1 | FileCheck %s --check-prefix=RATE
// RATE: for the --schedule option: is "linear"; one of constant, step, piecewise, cosine, polynomial{{$}}
// RUN: not ashlar-opt %s -ashlar-search-layouts=method=greedy 2>&1 | FileCheck %s --check-prefix=METHOD
// METHOD: for the --method option: is "greedy"; one of dp, ilp{{$}}
// RUN: not ashlar-opt %s -ashlar-cut-stages=schedule=FIFO 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: for the --schedule option: is "FIFO"; one of GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE{{$}}
// RUN: not ashlar-opt %s -ashlar-fuse=target= 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: for the --target option: is ""; one of cpu, cuda{{$}}

// RUN: ashlar-opt %s --dump-pass-pipeline \
// RUN:   --pass-pipeline="builtin.module(ashlar-mixed-precision{type=f16},func.func(ashlar-fuse{target=cuda}))" 2>&1 | FileCheck %s --check-prefix=PRINTED
// PRINTED: ashlar-mixed-precision{narrow-tables=false type=f16}
// PRINTED: ashlar-fuse{target=cuda}

// RUN: ashlar-opt --help | FileCheck %s --check-prefix=HELP
// HELP: --ashlar-optimizer
// HELP: --kind=<sgd|momentum|adam|adamw|lamb> - the update rule
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> attributes {nn.program = #nn.program<run>} {
  return %x : tensor<2xf32>
}
