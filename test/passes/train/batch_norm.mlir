// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization in training: moments of the batch, and running statistics that follow them.

// RUN: ashlar-opt %s -ashlar-batch-norm -split-input-file | FileCheck %s
// RUN: ashlar-opt %s -ashlar-batch-norm=replicas=2 -split-input-file | FileCheck %s --check-prefix=REPLICAS

nn.variable @scale trainable : tensor<4xf32>
nn.variable @mean : tensor<4xf32>
nn.variable @variance : tensor<4xf32>

// The running variance moves toward the unbiased one: 0.1 * 40 / 39. The name of the result stays.
// CHECK-LABEL: @train_step
// CHECK-DAG: %[[MEAN:.*]] = nn.read @mean
// CHECK-DAG: %[[VARIANCE:.*]] = nn.read @variance
// CHECK: %[[M:.*]] = nn.moments %arg0 dims = [0, 2] : tensor<8x4x5xf32> -> tensor<2x4xf32>
// CHECK: nn.slice %[[M]] [0, 0] to [1, 4] by [1, 1]
// CHECK: %[[M0:.*]] = nn.reshape
// CHECK: nn.slice %[[M]] [1, 0] to [2, 4] by [1, 1]
// CHECK: %[[M1:.*]] = nn.reshape
// CHECK: %[[Y:.*]] = nn.normalize %arg0, %{{.*}}, %{{.*}}, %[[M0]], %[[M1]] dims = [1] epsilon = 1.000000e-05 {nn.outputs = ["y"]} :
// CHECK: %[[KEPT:.*]] = nn.constant dense<0.89
// CHECK: nn.mul %[[MEAN]], %[[KEPT]]
// CHECK: nn.constant dense<1.000000e-01>
// CHECK: %[[NEXTMEAN:.*]] = nn.add
// CHECK: nn.mul %[[VARIANCE]]
// CHECK: nn.constant dense<0.102564104>
// CHECK: %[[NEXTVARIANCE:.*]] = nn.add
// CHECK: nn.write @mean, %[[NEXTMEAN]] {nn.forward_write}
// CHECK: nn.write @variance, %[[NEXTVARIANCE]] {nn.forward_write}
// CHECK: return %[[Y]]

// Each half of the batch for itself; the variables follow the mean of both.
// REPLICAS-LABEL: @train_step
// REPLICAS: %[[X:.*]] = nn.reshape %arg0 : tensor<8x4x5xf32> -> tensor<2x4x4x5xf32>
// REPLICAS: %[[SCALE:.*]] = nn.broadcast %{{.*}} dims = [1] : tensor<4xf32> -> tensor<2x4xf32>
// REPLICAS: %[[M:.*]] = nn.moments %[[X]] dims = [1, 3] : tensor<2x4x4x5xf32> -> tensor<2x2x4xf32>
// REPLICAS: %[[Y:.*]] = nn.normalize %[[X]], %[[SCALE]], {{.*}} dims = [0, 2]
// REPLICAS: nn.reshape %[[Y]] {nn.outputs = ["y"]} : tensor<2x4x4x5xf32> -> tensor<8x4x5xf32>
// REPLICAS: %[[SUM:.*]] = nn.reduce sum %[[M]] dims = [1] : tensor<2x2x4xf32> -> tensor<2x4xf32>
// REPLICAS: nn.constant dense<5.000000e-01>
// REPLICAS: nn.constant dense<0.105263159>
// REPLICAS: nn.write @mean
func.func @train_step(%x: tensor<8x4x5xf32>) -> tensor<8x4x5xf32> attributes {nn.program = #nn.program<train_step>} {
  %scale = nn.read @scale : tensor<4xf32>
  %mean = nn.read @mean : tensor<4xf32>
  %variance = nn.read @variance : tensor<4xf32>
  %y = nn.normalize %x, %scale, %scale, %mean, %variance dims = [1] epsilon = 1.0e-05
       {momentum = 9.0e-01 : f64, unbiased, nn.outputs = ["y"]} : tensor<8x4x5xf32>, tensor<4xf32>
  return %y : tensor<8x4x5xf32>
}

// Evaluation takes the running statistics.
// CHECK-LABEL: @eval_step
// CHECK-NOT: moments
// CHECK: nn.normalize %arg0, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} dims = [1] epsilon = 1.000000e-05 :
// CHECK-NOT: nn.write
// CHECK: return
func.func @eval_step(%x: tensor<8x4x5xf32>) -> tensor<8x4x5xf32> attributes {nn.program = #nn.program<eval_step>} {
  %scale = nn.read @scale : tensor<4xf32>
  %mean = nn.read @mean : tensor<4xf32>
  %variance = nn.read @variance : tensor<4xf32>
  %y = nn.normalize %x, %scale, %scale, %mean, %variance dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64, unbiased}
       : tensor<8x4x5xf32>, tensor<4xf32>
  return %y : tensor<8x4x5xf32>
}

// -----

nn.variable @mean : tensor<3xf32>
nn.variable @variance : tensor<3xf32>

// A module that runs twice moves its statistics twice, and writes them once. Without `unbiased` the variance counts as it is.
// CHECK-LABEL: @train_step
// CHECK: %[[MEAN:.*]] = nn.read @mean
// CHECK: %[[OLD:.*]] = nn.mul %[[MEAN]]
// CHECK: %[[ONCE:.*]] = nn.add %[[OLD]]
// CHECK: %[[OLD:.*]] = nn.mul %[[ONCE]]
// CHECK: %[[TWICE:.*]] = nn.add %[[OLD]]
// CHECK-NOT: dense<{{0.12|1.25}}
// CHECK: nn.write @mean, %[[TWICE]]
// CHECK: nn.write @variance
// CHECK-NOT: nn.write
func.func @train_step(%x: tensor<6x3xf32>, %s: tensor<3xf32>) -> tensor<6x3xf32> attributes {nn.program = #nn.program<train_step>} {
  %mean = nn.read @mean : tensor<3xf32>
  %variance = nn.read @variance : tensor<3xf32>
  %y = nn.normalize %x, %s, %s, %mean, %variance dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64} : tensor<6x3xf32>, tensor<3xf32>
  %z = nn.normalize %y, %s, %s, %mean, %variance dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64} : tensor<6x3xf32>, tensor<3xf32>
  return %z : tensor<6x3xf32>
}
