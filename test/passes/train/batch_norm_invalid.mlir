// SPDX-License-Identifier: Apache-2.0
//
// What cannot be normalized by its batch.

// RUN: ashlar-opt %s -ashlar-batch-norm=replicas=2 -split-input-file -verify-diagnostics

nn.variable @v : tensor<3xf32>

func.func @train_step(%x: tensor<5x3xf32>) -> tensor<5x3xf32> attributes {nn.program = #nn.program<train_step>} {
  %v = nn.read @v : tensor<3xf32>
  // expected-error @+1 {{normalizes 'tensor<5x3xf32>', whose 5 samples are not 2 equal parts; leave out batch_norm: PER_REPLICA, or choose another global_batch}}
  %y = nn.normalize %x, %v, %v, %v, %v dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64} : tensor<5x3xf32>, tensor<3xf32>
  return %y : tensor<5x3xf32>
}

// -----

nn.variable @v : tensor<3xf32>

// One sample a replica has no unbiased variance.
func.func @train_step(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {nn.program = #nn.program<train_step>} {
  %v = nn.read @v : tensor<3xf32>
  // expected-error @+1 {{normalizes 'tensor<2x3xf32>', one element a channel, which has no unbiased variance; train with a larger batch, or name it in the job's frozen}}
  %y = nn.normalize %x, %v, %v, %v, %v dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64, unbiased} : tensor<2x3xf32>, tensor<3xf32>
  return %y : tensor<2x3xf32>
}

// -----

func.func @train_step(%x: tensor<4x3xf32>, %v: tensor<3xf32>) -> tensor<4x3xf32> attributes {nn.program = #nn.program<train_step>} {
  // expected-error @+1 {{has a momentum, but its mean and variance are not both read from variables}}
  %y = nn.normalize %x, %v, %v, %v, %v dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64} : tensor<4x3xf32>, tensor<3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// expected-error @+1 {{has no batch normalization that is trained, whose statistics 2 replicas could take each for itself; leave out batch_norm: PER_REPLICA}}
module {
  func.func @train_step(%x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {nn.program = #nn.program<train_step>} {
    return %x : tensor<4x3xf32>
  }
}

// -----

nn.variable @v : tensor<3xf32>

// Each iteration would move the running statistics.
func.func @train_step(%xs: tensor<5x4x3xf32>) -> tensor<5x4x3xf32> attributes {nn.program = #nn.program<train_step>} {
  %v = nn.read @v : tensor<3xf32>
  %ys = nn.repeat 5 sliced(%x = %xs) captured(%s = %v) : (tensor<5x4x3xf32>, tensor<3xf32>) -> tensor<5x4x3xf32> {
    // expected-error @+1 {{normalizes by the statistics of a batch in each iteration of a loop, whose running statistics would move in each; name its parameters in the job's frozen}}
    %y = nn.normalize %x, %s, %s, %s, %s dims = [1] epsilon = 1.0e-05 {momentum = 9.0e-01 : f64} : tensor<4x3xf32>, tensor<3xf32>
    nn.yield %y : tensor<4x3xf32>
  }
  return %ys : tensor<5x4x3xf32>
}
