// RUN: ashlar-opt %s -ashlar-recognize-attention | FileCheck %s

// A loop with several names for one of its results.
// CHECK: nn.repeat 2 carried
func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) attributes {nn.program = #nn.program<run>} {
  %last, %all = nn.repeat 2 carried(%h = %x) {nn.aliases = [["copy"], []], nn.outputs = ["last", "all"]}
      : (tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
    %next = nn.tanh %h : tensor<4xf32>
    nn.yield %next, %next : tensor<4xf32>, tensor<4xf32>
  }
  return %last, %all : tensor<4xf32>, tensor<2x4xf32>
}
