// SPDX-License-Identifier: Apache-2.0
//
// Losses of which sums over micro-batches do not give that of the step: each says which op couples samples, and is computed all the same where
// the mean of the micro-batches is asked for.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-loss="kind=model_output output=loss micro-batches=2"
// RUN: ashlar-opt %s -split-input-file -ashlar-loss="kind=model_output output=loss micro-batches=2 mean-of-micro-batches" | FileCheck %s

// CHECK: module @product_of_means
// CHECK: @train_step
// CHECK: %[[HALF:.*]] = nn.constant dense<5.000000e-01>
// CHECK: %[[SHARE:.*]] = nn.mul %{{.*}}, %[[HALF]]
// CHECK: return %[[SHARE]]
module @product_of_means {
  // expected-error @+1 {{the loss of a step cannot be computed in 2 micro-batches: "balance" (nn.mul) is not linear in a sum over samples; leave out accumulate or pipeline, or take the mean of the micro-batches' losses: micro_batches: MEAN in the job's loss}}
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %sum = nn.reduce sum %x dims = [0] : tensor<2xf32> -> tensor<f32>
    %loss = nn.mul %sum, %sum : tensor<f32> loc("balance")
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %sum = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    %loss = nn.mul %sum, %sum : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Each sample against all others of the batch.
module @contrastive {
  // expected-error @+1 {{"scores" (nn.matmul) takes samples along two dims}}
  func.func @forward(%x: tensor<2x3xf32> {nn.name = "x"}, %y: tensor<2x3xf32> {nn.name = "y"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %scores = nn.matmul %x, %y transpose_b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x2xf32> loc("scores")
    %loss = nn.reduce sum %scores dims = [0, 1] : tensor<2x2xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4x3xf32> {nn.name = "x"}, %y: tensor<4x3xf32> {nn.name = "y"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %scores = nn.matmul %x, %y transpose_b : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x4xf32>
    %loss = nn.reduce sum %scores dims = [0, 1] : tensor<4x4xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Two means with different divisors that only the data give.
module @two_divisors {
  // expected-error @+1 {{"both" (nn.add) takes quotients by different sums over samples}}
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}, %y: tensor<2xf32> {nn.name = "y"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %a = nn.reduce sum %x dims = [0] : tensor<2xf32> -> tensor<f32>
    %b = nn.reduce sum %y dims = [0] : tensor<2xf32> -> tensor<f32>
    %ab = nn.div %a, %b : tensor<f32>
    %ba = nn.div %b, %a : tensor<f32>
    %loss = nn.add %ab, %ba : tensor<f32> loc("both")
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}, %y: tensor<4xf32> {nn.name = "y"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %a = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    %b = nn.reduce sum %y dims = [0] : tensor<4xf32> -> tensor<f32>
    %ab = nn.div %a, %b : tensor<f32>
    %ba = nn.div %b, %a : tensor<f32>
    %loss = nn.add %ab, %ba : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A divisor that is trained: the gradient of the quotient is not that of its dividend.
module @trained_divisor {
  nn.variable @w trainable : tensor<f32>
  // expected-error @+1 {{"quotient" (nn.div) is not linear in a sum over samples}}
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<f32>
    %sum = nn.reduce sum %x dims = [0] : tensor<2xf32> -> tensor<f32>
    %weighted = nn.mul %sum, %w : tensor<f32>
    %loss = nn.div %sum, %weighted : tensor<f32> loc("quotient")
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %w = nn.read @w : tensor<f32>
    %sum = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    %weighted = nn.mul %sum, %w : tensor<f32>
    %loss = nn.div %sum, %weighted : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A fixed batch does not show what is a mean.
module @fixed_batch {
  // expected-error @+1 {{the model has a fixed batch, so it is not known which of its numbers depend on the number of samples}}
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %loss = nn.reduce sum %x dims = [0] : tensor<2xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// The first sample of a batch is another one in each micro-batch.
module @picked {
  // expected-error @+1 {{"first" (nn.gather) picks samples by their number in the batch}}
  func.func @forward(%x: tensor<2x3xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %zero = nn.constant dense<0> : tensor<1xi64>
    %row = nn.gather %x, %zero : tensor<2x3xf32>, tensor<1xi64> -> tensor<1x3xf32> loc("first")
    %loss = nn.reduce sum %row dims = [0, 1] : tensor<1x3xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4x3xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %zero = nn.constant dense<0> : tensor<1xi64>
    %row = nn.gather %x, %zero : tensor<4x3xf32>, tensor<1xi64> -> tensor<1x3xf32>
    %loss = nn.reduce sum %row dims = [0, 1] : tensor<1x3xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// The sums of iterations that are divided by another one each are no sum over samples.
module @divided_in_turn {
  // expected-error @+1 {{"turns" (nn.repeat) divides by a sum over samples of each iteration}}
  func.func @forward(%x: tensor<2x3xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %xs = nn.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    %zero = nn.constant dense<0.0> : tensor<f32>
    %loss = nn.repeat 3 carried(%a = %zero) sliced(%row = %xs) : (tensor<f32>, tensor<3x2xf32>) -> tensor<f32> {
      %square = nn.mul %row, %row : tensor<2xf32>
      %sum = nn.reduce sum %row dims = [0] : tensor<2xf32> -> tensor<f32>
      %squares = nn.reduce sum %square dims = [0] : tensor<2xf32> -> tensor<f32>
      %part = nn.div %sum, %squares : tensor<f32>
      %next = nn.add %a, %part : tensor<f32>
      nn.yield %next : tensor<f32>
    } loc("turns")
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4x3xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %xs = nn.transpose %x [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
    %zero = nn.constant dense<0.0> : tensor<f32>
    %loss = nn.repeat 3 carried(%a = %zero) sliced(%row = %xs) : (tensor<f32>, tensor<3x4xf32>) -> tensor<f32> {
      %square = nn.mul %row, %row : tensor<4xf32>
      %sum = nn.reduce sum %row dims = [0] : tensor<4xf32> -> tensor<f32>
      %squares = nn.reduce sum %square dims = [0] : tensor<4xf32> -> tensor<f32>
      %part = nn.div %sum, %squares : tensor<f32>
      %next = nn.add %a, %part : tensor<f32>
      nn.yield %next : tensor<f32>
    }
    return %loss : tensor<f32>
  }
}

// -----

// Each micro-batch could take another branch than the batch.
module @chosen_by_samples {
  // expected-error @+1 {{"large" (nn.compare) is not linear in a sum over samples}}
  func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<run>} {
    %sum = nn.reduce sum %x dims = [0] : tensor<2xf32> -> tensor<f32>
    %zero = nn.constant dense<0.0> : tensor<f32>
    %large = nn.compare gt %sum, %zero : tensor<f32> -> tensor<i1> loc("large")
    %chosen = nn.repeat 1 when %large carried(%a = %x) captured(%b = %x) : (tensor<2xf32>, tensor<2xf32>, tensor<i1>) -> tensor<2xf32> {
      %e = nn.exp %b : tensor<2xf32>
      nn.yield %e : tensor<2xf32>
    }
    %loss = nn.reduce sum %chosen dims = [0] : tensor<2xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @larger_forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<larger_run>} {
    %sum = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
    %zero = nn.constant dense<0.0> : tensor<f32>
    %large = nn.compare gt %sum, %zero : tensor<f32> -> tensor<i1>
    %chosen = nn.repeat 1 when %large carried(%a = %x) captured(%b = %x) : (tensor<4xf32>, tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
      %e = nn.exp %b : tensor<4xf32>
      nn.yield %e : tensor<4xf32>
    }
    %loss = nn.reduce sum %chosen dims = [0] : tensor<4xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
