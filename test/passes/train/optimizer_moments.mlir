// SPDX-License-Identifier: Apache-2.0
//
// Optimizers with moments: their states, what is computed once a step in f64, and where weight decay goes in.

// RUN: ashlar-opt %s -ashlar-optimizer="kind=adam learning-rate=0.5 weight-decay=0.25" | FileCheck %s --check-prefixes=CHECK,ADAM
// RUN: ashlar-opt %s -ashlar-optimizer="kind=adamw learning-rate=0.5 weight-decay=0.25" | FileCheck %s --check-prefixes=CHECK,ADAMW
// RUN: ashlar-opt %s -ashlar-optimizer="kind=lamb learning-rate=0.5 weight-decay=0.25" | FileCheck %s --check-prefixes=CHECK,LAMB

// CHECK: nn.variable @ashlar.updates internal : tensor<i64> = dense<0>
// CHECK: nn.variable @ashlar.step internal : tensor<i64> = dense<0>
// CHECK: nn.variable @w trainable
// CHECK-NEXT: nn.variable @w.moment1 state_of @w : tensor<4xf32> = dense<0.000000e+00>
// CHECK-NEXT: nn.variable @w.moment2 state_of @w : tensor<4xf32> = dense<0.000000e+00>
nn.variable @w trainable : tensor<4xf32> = dense<1.0> : tensor<4xf32>
// A parameter that is narrower than f32 has wider states.
// CHECK: nn.variable @h trainable : tensor<4xbf16>
// CHECK-NEXT: nn.variable @h.moment1 state_of @h : tensor<4xf32>
// CHECK-NEXT: nn.variable @h.moment2 state_of @h : tensor<4xf32>
nn.variable @h trainable : tensor<4xbf16> = dense<1.0> : tensor<4xbf16>

// CHECK-LABEL: @train_step
// CHECK: %[[UPDATES:.*]] = nn.read @ashlar.updates
// CHECK: %[[T:.*]] = nn.add %[[UPDATES]]
// CHECK: %[[NUMBER:.*]] = nn.cast %[[T]] : tensor<i64> -> tensor<f64>
// CHECK: %[[POWER1:.*]] = nn.pow %{{.*}}, %[[NUMBER]] : tensor<f64>
// CHECK: %[[REST1:.*]] = nn.sub %{{.*}}, %[[POWER1]] : tensor<f64>
// CHECK: %[[MEAN:.*]] = nn.div %{{.*}}, %[[REST1]] : tensor<f64>
// CHECK: %[[POWER2:.*]] = nn.pow %{{.*}}, %[[NUMBER]] : tensor<f64>
// CHECK: nn.sub %{{.*}}, %[[POWER2]] : tensor<f64>
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: %[[H:.*]] = nn.read @h
// CHECK: %[[G:.*]] = nn.gradient {{.*}} of @w

// Adam: decay * w joins the gradient ahead of the moments.
// ADAM: %[[PULL:.*]] = nn.mul %[[W]], %{{.*}} : tensor<4xf32>
// ADAM: %[[D:.*]] = nn.add %[[G]], %[[PULL]]
// ADAM: nn.read @w.moment1
// ADAM: nn.mul %[[D]], %{{.*}} : tensor<4xf32>
// ADAM: nn.write @w.moment1
// ADAM: nn.mul %[[D]], %[[D]]
// ADAM: nn.write @w.moment2

// AdamW: it is taken off the parameter; lr * decay is known here.
// ADAMW: nn.mul %[[G]], %{{.*}} : tensor<4xf32>
// ADAMW: nn.write @w.moment1
// ADAMW: nn.mul %[[G]], %[[G]]
// ADAMW: nn.write @w.moment2
// ADAMW: %[[R:.*]] = nn.div
// ADAMW: %[[STEP:.*]] = nn.mul %[[R]]
// ADAMW: %[[RATE:.*]] = nn.constant dense<1.250000e-01> : tensor<4xf32>
// ADAMW: %[[PULL:.*]] = nn.mul %[[W]], %[[RATE]]
// ADAMW: %[[ALL:.*]] = nn.add %[[STEP]], %[[PULL]]
// ADAMW: nn.sub %[[W]], %[[ALL]]

// Two norms over the whole parameter, and 1 where one of them is 0.
// LAMB: %[[R:.*]] = nn.div
// LAMB: %[[PULL:.*]] = nn.mul %[[W]]
// LAMB: %[[U:.*]] = nn.add %{{.*}}, %[[PULL]]
// LAMB: %[[SQUARES:.*]] = nn.mul %[[W]], %[[W]]
// LAMB: nn.reduce sum %[[SQUARES]] dims = [0]
// LAMB: %[[OFW:.*]] = nn.sqrt
// LAMB: nn.mul %[[U]], %[[U]]
// LAMB: nn.reduce sum
// LAMB: %[[OFU:.*]] = nn.sqrt
// LAMB: %[[RATIO:.*]] = nn.div %[[OFW]], %[[OFU]]
// LAMB: nn.compare gt %[[OFU]]
// LAMB: nn.select {{.*}}, %[[RATIO]]
// LAMB: nn.compare gt %[[OFW]]
// LAMB: nn.broadcast

// CHECK: nn.write @w, %{{.*}} : tensor<4xf32>
// The narrow one is updated in f32, and rounded once.
// CHECK: %[[GH:.*]] = nn.gradient {{.*}} of @h
// CHECK: nn.cast %[[H]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK: nn.cast %[[GH]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK: nn.sub {{.*}} : tensor<4xf32>
// CHECK-NEXT: %[[ROUNDED:.*]] = nn.cast {{.*}} : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: nn.write @h, %[[ROUNDED]]
// CHECK: nn.write @ashlar.updates, %[[T]]
func.func @train_step(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
  %loss = nn.constant dense<0.0> : tensor<f32>
  %w = nn.read @w : tensor<4xf32>
  %h = nn.read @h : tensor<4xbf16>
  %g = nn.gradient %x of @w : tensor<4xf32>
  %gh = nn.gradient %y of @h : tensor<4xbf16>
  return %loss : tensor<f32>
}
