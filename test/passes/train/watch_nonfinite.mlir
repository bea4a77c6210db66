// SPDX-License-Identifier: Apache-2.0
//
// Steps with numbers that are not finite: counted, or left out.

// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff=spreads-nonfinite=true -ashlar-optimizer=kind=sgd \
// RUN:   -ashlar-watch-nonfinite=skips=true | FileCheck %s --check-prefix=SKIP
// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff -ashlar-optimizer=kind=sgd -ashlar-clip-gradients=max-norm=1 \
// RUN:   -ashlar-watch-nonfinite | FileCheck %s --check-prefix=STOP
// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff=spreads-nonfinite=true -ashlar-optimizer=kind=sgd \
// RUN:   -ashlar-clip-gradients=max-norm=1 -ashlar-watch-nonfinite=skips=true | FileCheck %s --check-prefix=CLIPPED
// RUN: ashlar-opt %s -split-input-file -ashlar-autodiff -ashlar-optimizer=kind=sgd -ashlar-watch-nonfinite \
// RUN:   | FileCheck %s --check-prefix=NOTHING

// SKIP-DAG: nn.variable @ashlar.skipped_steps internal : tensor<i64> = dense<0> : tensor<i64>
// STOP-DAG: nn.variable @ashlar.bad_norms internal : tensor<i64> = dense<0> : tensor<i64>
// NOTHING-NOT: bad_norms
nn.variable @w trainable : tensor<4xf32>
nn.variable @mean : tensor<4xf32>

// The gradients begin with 1 + 0 * loss; all elements of them decide on the update, each element of a statistic on itself.
// SKIP-LABEL: @train_step
// SKIP: %[[W:.*]] = nn.read @w
// SKIP: %[[NEXT:.*]] = nn.add %{{.*}}, %arg0
// SKIP: %[[MEAN:.*]] = nn.read @mean
// SKIP: %[[SIZE:.*]] = nn.abs %[[NEXT]]
// SKIP: %[[FINITE:.*]] = nn.compare lt %[[SIZE]]
// SKIP: %[[KEPT:.*]] = nn.select %[[FINITE]], %[[NEXT]], %[[MEAN]]
// SKIP: nn.write @mean, %[[KEPT]]
// SKIP: %[[LOSS:.*]] = nn.reduce sum
// SKIP: %[[ONE:.*]] = nn.constant dense<1.0
// SKIP: %[[NAN:.*]] = nn.mul %[[LOSS]], %{{.*}} : tensor<f32>
// SKIP: nn.add %[[ONE]], %[[NAN]]
// SKIP: nn.gradient %{{.*}} of @w
// SKIP: %[[GOOD:.*]] = nn.compare eq %{{.*}} : tensor<f32> -> tensor<i1>
// SKIP: %[[EVERYWHERE:.*]] = nn.broadcast %[[GOOD]]
// SKIP: %[[KEPT:.*]] = nn.select %[[EVERYWHERE]], %{{.*}}, %[[W]]
// SKIP: nn.write @w, %[[KEPT]]
// SKIP: %[[COUNT:.*]] = nn.read @ashlar.skipped_steps
// SKIP: %[[MORE:.*]] = nn.add %[[COUNT]]
// SKIP: %[[NOW:.*]] = nn.select %[[GOOD]], %[[COUNT]], %[[MORE]]
// SKIP: nn.write @ashlar.skipped_steps, %[[NOW]]

// The norm is there; what is written stays.
// STOP-LABEL: @train_step
// STOP: nn.write @mean, %{{.*}} {nn.forward_write}
// STOP: %[[NORM:.*]] = nn.sqrt %{{.*}} {nn.gradient_norm}
// STOP: %[[SIZE:.*]] = nn.abs %[[NORM]]
// STOP: %[[GOOD:.*]] = nn.compare lt %[[SIZE]], %{{.*}} : tensor<f32> -> tensor<i1>
// STOP-NOT: nn.select
// STOP: nn.write @w
// STOP: %[[NOW:.*]] = nn.select %[[GOOD]]
// STOP: nn.write @ashlar.bad_norms, %[[NOW]]

// CLIPPED-LABEL: @train_step
// CLIPPED: %[[NORM:.*]] = nn.sqrt %{{.*}} {nn.gradient_norm}
// CLIPPED: %[[SIZE:.*]] = nn.abs %[[NORM]]
// CLIPPED: %[[GOOD:.*]] = nn.compare lt %[[SIZE]]
// CLIPPED-NOT: nn.compare eq
// CLIPPED: %[[EVERYWHERE:.*]] = nn.broadcast %[[GOOD]]
// CLIPPED: nn.select %[[EVERYWHERE]]
// CLIPPED: nn.write @w
// CLIPPED: nn.write @ashlar.gradient_norm, %[[NORM]]

// NOTHING-LABEL: @train_step
// NOTHING-NOT: nn.compare
func.func @train_step(%x: tensor<4xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<4xf32>
  %mean = nn.read @mean : tensor<4xf32>
  %next = nn.add %mean, %x : tensor<4xf32>
  nn.write @mean, %next {nn.forward_write} : tensor<4xf32>
  %0 = nn.mul %w, %x : tensor<4xf32>
  %1 = nn.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
