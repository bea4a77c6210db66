// SPDX-License-Identifier: Apache-2.0
//
// The update rules: as ops, and as numbers. The gradient is 2 at every step and w starts at 1.

// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=0.5" | FileCheck %s --check-prefixes=CHECK,SGD
// RUN: ashlar-opt %s -ashlar-optimizer="kind=momentum learning-rate=0.5 momentum=0.25" | FileCheck %s --check-prefixes=CHECK,MOMENTUM
// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=1.0 weight-decay=0.125" | FileCheck %s --check-prefixes=CHECK,DECAY

// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=0.5" -ashlar-interpret=function=train_step,train_step,train_step | FileCheck %s --check-prefix=SGD-NUMBERS
// RUN: ashlar-opt %s -ashlar-optimizer="kind=momentum learning-rate=0.5 momentum=0.25" -ashlar-interpret=function=train_step,train_step,train_step | FileCheck %s --check-prefix=MOMENTUM-NUMBERS
// RUN: ashlar-opt %s -ashlar-optimizer="kind=momentum learning-rate=0.5 momentum=0.25 nesterov=true" -ashlar-interpret=function=train_step,train_step,train_step | FileCheck %s --check-prefix=NESTEROV-NUMBERS
// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=0.5 weight-decay=0.5" -ashlar-interpret=function=train_step,train_step,train_step | FileCheck %s --check-prefix=DECAY-NUMBERS
// RUN: ashlar-opt %s -ashlar-optimizer="kind=momentum learning-rate=0.5 momentum=0.25 weight-decay=0.5" -ashlar-interpret=function=train_step,train_step,train_step | FileCheck %s --check-prefix=BOTH-NUMBERS
// RUN: sed 's/tensor<f32> = dense<1.0> : tensor<f32>/& {nn.weight_decay = 0.5 : f64}/' %s | ashlar-opt -ashlar-optimizer="kind=sgd learning-rate=0.5 weight-decay=0.25" -ashlar-interpret=function=train_step,train_step,train_step | FileCheck %s --check-prefix=DECAY-NUMBERS

// CHECK: nn.variable @ashlar.step internal : tensor<i64> = dense<0>
// CHECK: nn.variable @w trainable
// SGD-NOT: @w.momentum
// MOMENTUM-NEXT: nn.variable @w.momentum state_of @w : tensor<f32> = dense<0.000000e+00>
nn.variable @w trainable : tensor<f32> = dense<1.0> : tensor<f32>

// CHECK-LABEL: @train_step
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[SUM:.*]] = nn.constant dense<2.000000e+00>
// CHECK: %[[G:.*]] = nn.gradient %[[SUM]] of @w

// SGD: %[[SCALED:.*]] = nn.mul %[[G]]
// SGD: %[[NEXT:.*]] = nn.sub %[[W]], %[[SCALED]]
// SGD: nn.write @w, %[[NEXT]]

// MOMENTUM: %[[V:.*]] = nn.read @w.momentum
// MOMENTUM: %[[KEPT:.*]] = nn.mul %[[V]]
// MOMENTUM: %[[VNEXT:.*]] = nn.add %[[KEPT]], %[[G]]
// MOMENTUM: nn.write @w.momentum, %[[VNEXT]]
// MOMENTUM: %[[SCALED:.*]] = nn.mul %[[VNEXT]]
// MOMENTUM: %[[NEXT:.*]] = nn.sub %[[W]], %[[SCALED]]
// MOMENTUM: nn.write @w, %[[NEXT]]

// A learning rate of 1 is no op.
// DECAY: %[[PULL:.*]] = nn.mul %[[W]]
// DECAY-NEXT: %[[D:.*]] = nn.add %[[G]], %[[PULL]]
// DECAY-NEXT: %[[NEXT:.*]] = nn.sub %[[W]], %[[D]]
// DECAY-NEXT: nn.write @w, %[[NEXT]]

// CHECK-NOT: nn.gradient
// CHECK: %[[STEP:.*]] = nn.read @ashlar.step
// CHECK: %[[ONE:.*]] = nn.constant dense<1> : tensor<i64>
// CHECK: %[[AFTER:.*]] = nn.add %[[STEP]], %[[ONE]]
// CHECK: nn.write @ashlar.step, %[[AFTER]]
// CHECK: return
func.func @train_step() -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<f32>
  %g = nn.constant dense<2.0> : tensor<f32>
  %gradient = nn.gradient %g of @w : tensor<f32>
  return %w : tensor<f32>
}

// SGD-NUMBERS: f32> 1{{$}}
// SGD-NUMBERS: f32> 0{{$}}
// SGD-NUMBERS: f32> -1{{$}}

// v = 2, 2.5; w = 1 - 1, - 1.25
// MOMENTUM-NUMBERS: f32> 1{{$}}
// MOMENTUM-NUMBERS: f32> 0{{$}}
// MOMENTUM-NUMBERS: f32> -1.25{{$}}

// d = 2 + 0.25 * 2, 2 + 0.25 * 2.5
// NESTEROV-NUMBERS: f32> 1{{$}}
// NESTEROV-NUMBERS: f32> -0.25{{$}}
// NESTEROV-NUMBERS: f32> -1.5625{{$}}

// d = 2 + 0.5 w = 2.5, 1.875
// DECAY-NUMBERS: f32> 1{{$}}
// DECAY-NUMBERS: f32> -0.25{{$}}
// DECAY-NUMBERS: f32> -1.1875{{$}}

// d = 2.5, 1.875; v = 2.5, 2.5
// BOTH-NUMBERS: f32> 1{{$}}
// BOTH-NUMBERS: f32> -0.25{{$}}
// BOTH-NUMBERS: f32> -1.5{{$}}
