// SPDX-License-Identifier: Apache-2.0
//
// What the loss pass refuses.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-loss="kind=softmax_cross_entropy output=logits"
// RUN: not ashlar-opt %s -ashlar-loss="kind=hinge" 2>&1 | FileCheck %s --check-prefix=KIND

// KIND: for the --kind option: is "hinge"; one of softmax_cross_entropy, 

// expected-error @+1 {{no function @forward to compute the loss of}}
module @no_forward {
}

// -----

module @missing_name {
  // expected-error @+1 {{no tensor "logits" in the model; nearest names: "logit", "logs", "hidden"}}
  func.func @forward(%x: tensor<4x3xf32>) -> (tensor<4x3xf32> {nn.name = "logit"}) attributes {nn.program = #nn.program<run>} {
    %0 = nn.relu %x {nn.outputs = ["hidden"]} : tensor<4x3xf32>
    %1 = nn.relu %0 {nn.outputs = ["logs"]} : tensor<4x3xf32>
    %2 = nn.relu %1 {nn.outputs = ["something_else"]} : tensor<4x3xf32>
    return %2 : tensor<4x3xf32>
  }
}

// -----

module @integers {
  // expected-error @+1 {{loss is computed from a non-empty tensor of floats with a last dim of classes, not from 'tensor<4x3xi32>'}}
  func.func @forward(%x: tensor<4x3xi32>) -> (tensor<4x3xi32> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    return %x : tensor<4x3xi32>
  }
}

// -----

module @no_classes {
  // expected-error @+1 {{loss is computed from a non-empty tensor of floats with a last dim of classes, not from 'tensor<f32>'}}
  func.func @forward(%x: tensor<f32>) -> (tensor<f32> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    return %x : tensor<f32>
  }
}

// -----

module @wrong_labels {
  // expected-error @+1 {{input "labels" has type 'tensor<4xf32>' but as labels of 'tensor<4x3xf32>' it has to be 'tensor<4xi32>'}}
  func.func @forward(%x: tensor<4x3xf32>, %l: tensor<4xf32> {nn.name = "labels"}) -> (tensor<4x3xf32> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    return %x : tensor<4x3xf32>
  }
}

// -----

module @in_a_loop {
  func.func @forward(%xs: tensor<5x4x3xf32>) -> (tensor<5x4x3xf32> {nn.name = "all"}) attributes {nn.program = #nn.program<run>} {
    // expected-error @+1 {{'nn.repeat' op computes tensor "logits" anew in each iteration; name a tensor outside of the loop}}
    %ys = nn.repeat 5 sliced(%x = %xs) : (tensor<5x4x3xf32>) -> tensor<5x4x3xf32> {
      %y = nn.relu %x {nn.outputs = ["logits"]} : tensor<4x3xf32>
      nn.yield %y : tensor<4x3xf32>
    }
    return %ys : tensor<5x4x3xf32>
  }
}
