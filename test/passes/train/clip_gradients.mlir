// SPDX-License-Identifier: Apache-2.0
//
// Gradients of a bounded norm: as ops, and as numbers.

// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=1" -ashlar-clip-gradients=max-norm=2.5 | FileCheck %s

// The norm is of all gradients, and every update takes its gradient times one factor; the updates come behind it.
// CHECK: nn.variable @ashlar.gradient_norm internal : tensor<f32> {{.*}}nn.scratch
// CHECK-LABEL: @train_step
// CHECK: %[[GW:.*]] = nn.gradient {{.*}} of @w
// CHECK: %[[GH:.*]] = nn.gradient {{.*}} of @h
// CHECK: %[[W2:.*]] = nn.mul %[[GW]], %[[GW]]
// CHECK: %[[SUMW:.*]] = nn.reduce sum %[[W2]] dims = [0]
// CHECK: %[[WIDE:.*]] = nn.cast %[[GH]] : tensor<2xbf16> -> tensor<2xf32>
// CHECK: %[[H2:.*]] = nn.mul %[[WIDE]], %[[WIDE]]
// CHECK: %[[SUMH:.*]] = nn.reduce sum %[[H2]] dims = [0]
// CHECK: %[[SUM:.*]] = nn.add %[[SUMW]], %[[SUMH]]
// CHECK: %[[NORM:.*]] = nn.sqrt %[[SUM]]
// CHECK: %[[FACTOR:.*]] = nn.min
// CHECK: %[[EVERYWHERE:.*]] = nn.broadcast %[[FACTOR]]
// CHECK: %[[CLIPPED:.*]] = nn.mul %[[GW]], %[[EVERYWHERE]]
// CHECK: %[[NEXT:.*]] = nn.sub %{{.*}}, %[[CLIPPED]]
// CHECK: nn.write @w, %[[NEXT]]
// The log has the norm as it was.
// CHECK: nn.write @ashlar.gradient_norm, %[[NORM]]

nn.variable @w trainable : tensor<2xf32> = dense<0.0> : tensor<2xf32>
nn.variable @h trainable : tensor<2xbf16> = dense<0.0> : tensor<2xbf16>
func.func @train_step() -> (tensor<2xf32> {nn.name = "w"}, tensor<2xbf16> {nn.name = "h"}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<2xf32>
  %h = nn.read @h : tensor<2xbf16>
  %g = nn.constant dense<[-4.0, 2.0]> : tensor<2xf32>
  %gw = nn.gradient %g of @w : tensor<2xf32>
  %g2 = nn.constant dense<[2.0, 1.0]> : tensor<2xbf16>
  %gh = nn.gradient %g2 of @h : tensor<2xbf16>
  return %w, %h : tensor<2xf32>, tensor<2xbf16>
}

// The norm is sqrt(16 + 4 + 4 + 1) = 5: halved, but for the 1e-6; then, with a larger bound, left alone.
// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=1" -ashlar-clip-gradients=max-norm=2.5 -ashlar-interpret=function=train_step,train_step | FileCheck %s --check-prefix=HALF
// HALF: f32> [0, 0]
// HALF: bf16> [0, 0]
// HALF: f32> [{{2|1.99999.*}}, {{-1|-0.99999.*}}]
// HALF: bf16> [-1, -0.5]
// RUN: ashlar-opt %s -ashlar-optimizer="kind=sgd learning-rate=1" -ashlar-clip-gradients=max-norm=5.125 -ashlar-interpret=function=train_step,train_step | FileCheck %s --check-prefix=WHOLE
// WHOLE: f32> [4, -2]
// WHOLE: bf16> [-2, -1]

// A matrix is summed up by rows first, which threads share.
// RUN: sed 's/tensor<2xf32>/tensor<2x3xf32>/g; s/dense<\[-4.0, 2.0\]>/dense<2.0>/' %s | ashlar-opt -ashlar-optimizer="kind=sgd learning-rate=1" -ashlar-clip-gradients | FileCheck %s --check-prefix=MATRIX
// MATRIX: %[[ROWS:.*]] = nn.reduce sum %{{.*}} dims = [1] : tensor<2x3xf32> -> tensor<2xf32>
// MATRIX: nn.reduce sum %[[ROWS]] dims = [0] : tensor<2xf32> -> tensor<f32>

// A gradient that is not finite, as in PyTorch with error_if_nonfinite=False: a NaN makes all gradients NaN ...
// RUN: sed 's/\[2.0, 1.0\]/[0x7FC0, 1.0]/' %s | ashlar-opt -ashlar-optimizer="kind=sgd learning-rate=1" -ashlar-clip-gradients=max-norm=2.5 -ashlar-interpret=function=train_step,train_step | FileCheck %s --check-prefix=NAN
// NAN: f32> [0, 0]
// NAN: f32> [{{-?}}nan, {{-?}}nan]
// NAN-NEXT: bf16> [{{-?}}nan, {{-?}}nan]

// ... of an infinite one the factor is 0, and infinity times 0 is NaN; so it is where only the sum of the squares is too large.
// RUN: sed 's/\[-4.0, 2.0\]/[0x7F800000, 2.0]/' %s | ashlar-opt -ashlar-optimizer="kind=sgd learning-rate=1" -ashlar-clip-gradients=max-norm=2.5 -ashlar-interpret=function=train_step,train_step | FileCheck %s --check-prefix=INFINITE
// INFINITE: f32> [0, 0]
// INFINITE: f32> [{{-?}}nan, 0]
// INFINITE-NEXT: bf16> [0, 0]
// RUN: sed 's/\[-4.0, 2.0\]/[-3.0e38, 2.0]/' %s | ashlar-opt -ashlar-optimizer="kind=sgd learning-rate=1" -ashlar-clip-gradients=max-norm=2.5 -ashlar-interpret=function=train_step,train_step | FileCheck %s --check-prefix=LARGE
// LARGE: f32> [0, 0]
// LARGE: f32> [0, 0]
// LARGE-NEXT: bf16> [0, 0]
