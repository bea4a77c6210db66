// RUN: ashlar-opt %s -verify-diagnostics -ashlar-unroll-repeats

func.func @long(%first: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{has 1048576 iterations of 2 ops, but iterations that stand one after the other have at most 1048576 ops in all}}
  %last = nn.repeat 1048576 carried(%h = %first) : (tensor<4xf32>) -> (tensor<4xf32>) {
    %next = nn.tanh %h : tensor<4xf32>
    nn.yield %next : tensor<4xf32>
  }
  return %last : tensor<4xf32>
}
