// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts="split-variables" -verify-diagnostics | FileCheck %s

// A suggested axis is added when all that is given has propagated, to dims that nothing closes, and propagates from there.

dist.mesh @mesh <["dp" = 2, "tp" = 2]>
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %{{.*}}: tensor<4x6x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}, {}]>
func.func @forward(%x: tensor<4x6x8xf32> {nn.name = "x"}, %given: tensor<4x6x8xf32> {nn.name = "given", dist.layout = #dist.layout<[{"dp"}, {}, {}]>})
    -> (tensor<4x6x8xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  // CHECK: nn.add {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}, {}]>], dist.origins = [
  // CHECK-SAME: #dist.origin<source = "sequence_parallel", axis = "tp">
  %y = nn.add %x, %given {dist.suggested = #dist.layout<[{}, {"tp"}, {}]>} : tensor<4x6x8xf32>
  return %y : tensor<4x6x8xf32>
}

// -----

// A dim that is closed, an axis that is in use, and a dim that the axis does not divide stay.
dist.mesh @mesh <["tp" = 2]>
// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<4x6xf32> {nn.name = "x"}, %odd: tensor<4x5xf32> {nn.name = "odd"}) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x5xf32>) attributes {nn.program = #nn.program<run>} {
  // CHECK: nn.neg %{{.*}} {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<4x6xf32>
  %closed = nn.neg %x {dist.layouts = [#dist.layout<[{}, {}]>], dist.suggested = #dist.layout<[{}, {"tp"}]>} : tensor<4x6xf32>
  // CHECK: nn.exp %{{.*}} {dist.layouts = [#dist.layout<[{"tp"}, {}]>]} : tensor<4x6xf32>
  %used = nn.exp %x {dist.layouts = [#dist.layout<[{"tp"}, {}]>], dist.opens = [array<i64: 0, 1>], dist.suggested = #dist.layout<[{}, {"tp"}]>} : tensor<4x6xf32>
  // CHECK: nn.neg %{{.*}} {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<4x5xf32>
  %uneven = nn.neg %odd {dist.suggested = #dist.layout<[{}, {"tp"}]>} : tensor<4x5xf32>
  return %closed, %used, %uneven : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x5xf32>
}

// -----

dist.mesh @mesh <["tp" = 2]>
func.func @forward(%x: tensor<4x6xf32> {nn.name = "x"}) -> tensor<4x6xf32> attributes {nn.program = #nn.program<run>} {
  // expected-error @+1 {{'nn.neg' op has dist.suggested #dist.layout<[{}]>, not a #dist.layout of its first result}}
  %y = nn.neg %x {dist.suggested = #dist.layout<[{}]>} : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// An axis of size 1 splits nothing: in a dim of two factors nobody could say which of them it belongs to, so a suggestion of it is left out.
// CHECK-LABEL: func.func @forward
// CHECK: nn.reshape {{.*}}dist.layouts = [#dist.layout<[{"z"}, {}]>]
module {
  dist.mesh @mesh <["y" = 1, "z" = 2]>
  nn.variable @w trainable : tensor<4xf32> {dist.layout = #dist.layout<[{"z"}]>}
  func.func @forward() -> (tensor<2x2xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<4xf32>
    %x = nn.reshape %w : tensor<4xf32> -> tensor<2x2xf32>
    %y = nn.abs %x {dist.suggested = #dist.layout<[{}, {"z", "y"}]>} : tensor<2x2xf32>
    return %y : tensor<2x2xf32>
  }
}
