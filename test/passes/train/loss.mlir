// SPDX-License-Identifier: Apache-2.0
//
// The loss pass: one model, each kind of loss.

// RUN: ashlar-opt %s -ashlar-loss="kind=softmax_cross_entropy output=logits labels=labels" | FileCheck %s --check-prefixes=CHECK,XENT
// RUN: ashlar-opt %s -ashlar-loss="kind=negative_log_likelihood output=log_probabilities labels=classes" | FileCheck %s --check-prefixes=CHECK,NLL
// RUN: ashlar-opt %s -ashlar-loss="kind=mean_squared_error output=logits labels=target" | FileCheck %s --check-prefixes=CHECK,MSE
// RUN: ashlar-opt %s -ashlar-loss="kind=model_output output=own_loss" | FileCheck %s --check-prefixes=CHECK,OWN

// @forward is gone; what only other outputs need is dead.
// CHECK-NOT: @forward
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: {nn.name = "input"}

// A labels argument is added; the mean is the sum times 1/4.
// XENT-SAME: %[[LABELS:[a-z0-9]*]]: tensor<4xi32> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"})
// XENT: %[[MASK:.*]] = nn.mul %{{.*}}, %[[DROP:.*]] {nn.training_only}
// XENT: %[[LOGITS:.*]] = nn.add %[[MASK]]
// XENT-NOT: nn.log_softmax
// XENT: %[[ROWS:.*]] = nn.softmax_cross_entropy %[[LOGITS]], %[[LABELS]]
// XENT: %[[SUM:.*]] = nn.reduce sum %[[ROWS]] dims = [0]
// XENT: %[[SHARE:.*]] = nn.constant dense<2.500000e-01>
// XENT: %[[LOSS:.*]] = nn.mul %[[SUM]], %[[SHARE]]
// XENT: return %[[LOSS]]

// An existing argument of the name is taken, i64 labels too; the loss is minus the mean of the entries at the labels.
// NLL-SAME: %[[LABELS:[a-z0-9]*]]: tensor<4xi64> {nn.name = "classes"}) -> (tensor<f32> {nn.name = "loss"})
// NLL: %[[LOGP:.*]] = nn.log_softmax
// NLL: %[[INDEX:.*]] = nn.index [0, 1] : tensor<4x3xi64>
// NLL: %[[ALONG:.*]] = nn.broadcast %[[LABELS]] dims = [0]
// NLL: %[[HIT:.*]] = nn.compare eq %[[INDEX]], %[[ALONG]]
// NLL: %[[ENTRY:.*]] = nn.select %[[HIT]], %[[LOGP]]
// NLL: %[[PICKED:.*]] = nn.reduce sum %[[ENTRY]] dims = [1]
// NLL: %[[ROWS:.*]] = nn.neg %[[PICKED]]
// NLL: %[[SUM:.*]] = nn.reduce sum %[[ROWS]] dims = [0]
// NLL: nn.constant dense<2.500000e-01>

// MSE-SAME: %[[TARGET:[a-z0-9]*]]: tensor<4x3xf32> {nn.name = "target"}) -> (tensor<f32> {nn.name = "loss"})
// MSE: %[[DIFFERENCE:.*]] = nn.sub %{{.*}}, %[[TARGET]]
// MSE: %[[SQUARE:.*]] = nn.mul %[[DIFFERENCE]], %[[DIFFERENCE]]
// MSE: nn.reduce sum %[[SQUARE]] dims = [0, 1]
// MSE: nn.constant dense<0.0833333358>

// OWN-SAME: -> (tensor<f32> {nn.name = "loss"})
// OWN: %[[OWN:.*]] = nn.reduce sum
// OWN-NEXT: return %[[OWN]]

// The evaluation drops nothing, and counts what is right if there are classes.
// CHECK-LABEL: func.func @eval_step
// XENT-SAME: %[[SAMPLES:[a-z0-9]*]]: tensor<i64> {nn.internal, nn.name = "ashlar.samples"}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "loss_weight"}, tensor<i64> {nn.name = "correct"})
// XENT-NOT: nn.training_only
// XENT: %[[LOGITS:.*]] = nn.add
// XENT: %[[ROWS:.*]] = nn.softmax_cross_entropy %[[LOGITS]]
// XENT: %[[INDEX:.*]] = nn.index [1] : tensor<4xi64>
// XENT: %[[END:.*]] = nn.broadcast %[[SAMPLES]]
// XENT: %[[COUNTS:.*]] = nn.compare lt %[[INDEX]], %[[END]]
// XENT: %[[COUNTED:.*]] = nn.select %[[COUNTS]], %[[ROWS]]
// XENT: %[[SUM:.*]] = nn.reduce sum %[[COUNTED]] dims = [0]
// XENT: %[[LOSS:.*]] = nn.mul %[[SUM]], %{{.*}}
// XENT: %[[MAX:.*]] = nn.reduce max %[[LOGITS]] dims = [1]
// XENT: %[[FIRST:.*]] = nn.reduce min %{{.*}} dims = [1] : tensor<4x3xi64>
// XENT: nn.compare eq %[[FIRST]]
// XENT: %[[CORRECT:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<4xi64> -> tensor<i64>
// XENT: %[[WEIGHT:.*]] = nn.cast %[[SAMPLES]]
// XENT: return %[[LOSS]], %[[WEIGHT]], %[[CORRECT]]
// NLL-SAME: -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "loss_weight"}, tensor<i64> {nn.name = "correct"})
// MSE-SAME: {nn.internal, nn.name = "ashlar.samples"}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "loss_weight"})
// What depends on the number of samples is not seen without @larger_forward: a loss of the model's own is of the whole batch.
// OWN-NOT: ashlar.samples
// OWN-SAME: -> (tensor<f32> {nn.name = "loss"})

func.func @forward(%x: tensor<4x3xf32> {nn.name = "input"}, %classes: tensor<4xi64> {nn.name = "classes"})
    -> (tensor<4x3xf32> {nn.name = "logits"}, tensor<f32> {nn.name = "own_loss"}) attributes {nn.program = #nn.program<run>} {
  %scale = nn.constant dense<2.0> : tensor<4x3xf32>
  %dropped = nn.mul %x, %scale {nn.training_only} : tensor<4x3xf32>
  %logits = nn.add %dropped, %dropped : tensor<4x3xf32>
  %p = nn.log_softmax %logits {nn.outputs = ["log_probabilities"]} : tensor<4x3xf32>
  %own = nn.reduce sum %p dims = [0, 1] : tensor<4x3xf32> -> tensor<f32>
  return %logits, %own : tensor<4x3xf32>, tensor<f32>
}
