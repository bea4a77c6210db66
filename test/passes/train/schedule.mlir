// SPDX-License-Identifier: Apache-2.0
//
// Learning rates that follow the step. The gradient is 2 at every step and w starts at 1, so two values of w, which are the results of
// the steps, tell the learning rate between them: lr = (w - w') / 2. All numbers are exact in f32.

// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=constant warmup-steps=2" -ashlar-interpret=function=train_step,train_step,train_step,train_step | FileCheck %s --check-prefix=WARMUP
// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=step step-size=2 gamma=0.5" -ashlar-interpret=function=train_step,train_step,train_step,train_step | FileCheck %s --check-prefix=STEP
// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=step step-size=1 gamma=0.5 warmup-steps=2" -ashlar-interpret=function=train_step,train_step,train_step,train_step,train_step | FileCheck %s --check-prefix=STEP-WARMUP
// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=piecewise boundaries=1,3 values=0.25,0.125" -ashlar-interpret=function=train_step,train_step,train_step,train_step,train_step | FileCheck %s --check-prefix=PIECEWISE
// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=cosine decay-steps=2 end-learning-rate=0.25" -ashlar-interpret=function=train_step,train_step,train_step,train_step,train_step | FileCheck %s --check-prefix=COSINE
// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=polynomial decay-steps=4" -ashlar-interpret=function=train_step,train_step,train_step,train_step,train_step,train_step | FileCheck %s --check-prefix=LINEAR
// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=polynomial decay-steps=3 power=2 warmup-steps=1" -ashlar-interpret=function=train_step,train_step,train_step,train_step,train_step | FileCheck %s --check-prefix=SQUARE
// RUN: ashlar-opt %s -ashlar-optimizer="kind=momentum momentum=0.5 learning-rate=0.5 schedule=step step-size=1 gamma=0.5" -ashlar-interpret=function=train_step,train_step,train_step | FileCheck %s --check-prefix=MOMENTUM

// The learning rate is a scalar of f64, made once from the number of the step, and rounded where it is used.
// RUN: ashlar-opt %s -ashlar-optimizer="learning-rate=0.5 schedule=step step-size=2" | FileCheck %s --check-prefix=OPS
// OPS: nn.variable @ashlar.learning_rate internal : tensor<f64> {{.*}}nn.scratch
// OPS-LABEL: @train_step
// OPS: %[[COUNT:.*]] = nn.read @ashlar.step
// OPS: %[[NEXT:.*]] = nn.add %[[COUNT]]
// OPS: nn.cast %[[NEXT]] : tensor<i64> -> tensor<f64>
// OPS: nn.pow {{.*}} : tensor<f64>
// OPS: %[[RATE:.*]] = nn.mul {{.*}} : tensor<f64>
// OPS: nn.gradient
// OPS: nn.cast %[[RATE]] : tensor<f64> -> tensor<f32>
// OPS: nn.write @ashlar.step, %[[NEXT]]
// OPS: nn.write @ashlar.learning_rate, %[[RATE]] : tensor<f64>

nn.variable @w trainable : tensor<f32> = dense<1.0> : tensor<f32>
func.func @train_step() -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<f32>
  %g = nn.constant dense<2.0> : tensor<f32>
  %gradient = nn.gradient %g of @w : tensor<f32>
  return %w : tensor<f32>
}

// lr = 1/4, 1/2, 1/2
// WARMUP: f32> 1{{$}}
// WARMUP: f32> 0.5{{$}}
// WARMUP: f32> -0.5{{$}}
// WARMUP: f32> -1.5{{$}}

// lr = 1/2, 1/2, 1/4
// STEP: f32> 1{{$}}
// STEP: f32> 0{{$}}
// STEP: f32> -1{{$}}
// STEP: f32> -1.5{{$}}

// lr = 1/4, 1/2, then 1/2, 1/4: steps are counted from the end of the warm-up
// STEP-WARMUP: f32> 1{{$}}
// STEP-WARMUP: f32> 0.5{{$}}
// STEP-WARMUP: f32> -0.5{{$}}
// STEP-WARMUP: f32> -1.5{{$}}
// STEP-WARMUP: f32> -2{{$}}

// lr = 1/2, 1/4, 1/4, 1/8
// PIECEWISE: f32> 1{{$}}
// PIECEWISE: f32> 0{{$}}
// PIECEWISE: f32> -0.5{{$}}
// PIECEWISE: f32> -1{{$}}
// PIECEWISE: f32> -1.25{{$}}

// lr = 1/2, 3/8, 1/4, 1/4: the end stays
// COSINE: f32> 1{{$}}
// COSINE: f32> 0{{$}}
// COSINE: f32> -0.75{{$}}
// COSINE: f32> -1.25{{$}}
// COSINE: f32> -1.75{{$}}

// lr = 4/8, 3/8, 2/8, 1/8, 0
// LINEAR: f32> 1{{$}}
// LINEAR: f32> 0{{$}}
// LINEAR: f32> -0.75{{$}}
// LINEAR: f32> -1.25{{$}}
// LINEAR: f32> -1.5{{$}}
// LINEAR: f32> -1.5{{$}}

// lr = 1/2 (warm-up of one step), 1/2, 1/8, 0
// SQUARE: f32> 1{{$}}
// SQUARE: f32> 0{{$}}
// SQUARE: f32> -1{{$}}
// SQUARE: f32> -1.25{{$}}
// SQUARE: f32> -1.25{{$}}

// v = 2, 3; lr = 1/2, 1/4
// MOMENTUM: f32> 1{{$}}
// MOMENTUM: f32> 0{{$}}
// MOMENTUM: f32> -0.75{{$}}
