// SPDX-License-Identifier: Apache-2.0
//
// Programs of one device with repeats.

// RUN: ashlar-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(ashlar-flatten-repeats),ashlar-propagate-layouts,ashlar-insert-redistributions,ashlar-verify-layouts,ashlar-partition,func.func(ashlar-nest-repeats,canonicalize),ashlar-simplify-collectives,ashlar-verify-partitioned)' | FileCheck %s --enable-var-scope

// Units sharded over tp: each step gathers the state; the weight stays as it is.
// CHECK-LABEL: @units
// CHECK-SAME: %[[XS:.*]]: tensor<3x4x4xf32> {{.*}}%[[W:.*]]: tensor<8x4xf32>
// CHECK-NOT: dist.all_gather
// CHECK: nn.repeat 3 carried(%[[H:.*]] = %{{.*}}) sliced(%[[X:.*]] = %[[XS]]) captured(%[[V:.*]] = %[[W]])
// CHECK-NEXT: %[[ALL:.*]] = dist.all_gather %[[H]] dim = 1 over ["tp"] {{.*}} : tensor<4x4xf32> -> tensor<4x8xf32>
// CHECK-NEXT: %[[P:.*]] = nn.matmul %[[ALL]], %[[V]] : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
// CHECK-NEXT: %[[S:.*]] = nn.add %[[P]], %[[X]]
// CHECK-NEXT: %[[N:.*]] = nn.tanh %[[S]]
// CHECK-NEXT: nn.yield %[[N]]
// CHECK-NOT: dist.all_gather
dist.mesh @mesh <["tp" = 2]>
func.func @units(%xs: tensor<3x4x8xf32> {dist.layout = #dist.layout<[{}, {}, {"tp"}]>}, %w: tensor<8x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>})
    -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) {
  %zero = nn.constant dense<0.0> : tensor<4x8xf32>
  %last = nn.repeat 3 carried(%h = %zero) sliced(%x = %xs) captured(%v = %w)
      : (tensor<4x8xf32>, tensor<3x4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %p = nn.matmul %h, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %s = nn.add %p, %x : tensor<4x8xf32>
    %next = nn.tanh %s : tensor<4x8xf32>
    nn.yield %next : tensor<4x8xf32>
  }
  return %last : tensor<4x8xf32>
}

// -----

// A sharded weight that a sharded batch needs replicated is gathered in front of the loop.
// CHECK-LABEL: @weight
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[ALL:.*]] = dist.all_gather %[[W]] dim = 0 over ["dp"] {{.*}} : tensor<4x8xf32> -> tensor<8x8xf32>
// CHECK: nn.repeat 3 carried(%{{.*}} = %{{.*}}) captured(%{{.*}} = %[[ALL]]) : (tensor<2x8xf32>, tensor<8x8xf32>)
// CHECK-NOT: dist.
// CHECK: return
dist.mesh @mesh <["dp" = 2]>
func.func @weight(%first: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %w: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
    -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  %last = nn.repeat 3 carried(%h = %first) captured(%v = %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %p = nn.matmul %h, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %next = nn.tanh %p : tensor<4x8xf32>
    nn.yield %next : tensor<4x8xf32>
  }
  return %last : tensor<4x8xf32>
}
