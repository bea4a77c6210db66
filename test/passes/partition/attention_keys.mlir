// SPDX-License-Identifier: Apache-2.0
//
// Attention over sharded sequences.

// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts -ashlar-partition \
// RUN:   -canonicalize -ashlar-verify-partitioned | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(ashlar-propagate-layouts,ashlar-insert-redistributions,ashlar-partition,func.func(canonicalize,ashlar-expand-ops))' | FileCheck %s --check-prefix=CALL

// Keys: each device attends to its own ones, which count from their place in the sequence, in one call for both ops. Two collectives move a
// number a row each, the last one the result.

// CHECK-LABEL: func.func @keys
// CHECK-NOT: dist.all
// CHECK: %[[L:.*]] = nn.attention_log_sum %{{.*}} causal at {{.*}} : (tensor<2x3x1x4x8xf32>, tensor<2x3x1x3x8xf32>, tensor<1x1x1x4xi64>, tensor<1x1x1x3xi64>) -> tensor<2x3x1x4xf32>
// CHECK-NOT: dist.all
// CHECK: dist.all_reduce max %{{.*}} over ["cp"] {{.*}} : tensor<2x3x4xf32>
// CHECK-NOT: dist.all
// CHECK: dist.all_reduce sum %{{.*}} over ["cp"] {{.*}} : tensor<2x3x4xf32>
// CHECK-NOT: dist.all
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[L]] {{.*}} -> tensor<2x3x1x4x8xf32>
// CHECK-NOT: nn.attention_log_sum
// CHECK: dist.all_reduce sum %{{.*}} over ["cp"] {{.*}} : tensor<2x3x4x8xf32>
// CHECK-NOT: dist.all
// CHECK: return
// CALL-LABEL: func.func @keys
// CALL: exec.fusion attention
// CALL: dist.all_reduce max
// CALL-NOT: nn.matmul
// CALL: return

dist.mesh @mesh <["cp" = 2]>
func.func @keys(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32> {dist.layout = #dist.layout<[{}, {}, {"cp"}, {}]>},
                %v: tensor<2x3x6x8xf32> {dist.layout = #dist.layout<[{}, {}, {"cp"}, {}]>}) -> tensor<2x3x4x8xf32> {
  %rows = nn.index [0, 0, 1] : tensor<1x1x4xi64>
  %keys = nn.index [0, 0, 1] : tensor<1x1x6xi64>
  %l = nn.attention_log_sum %q, %k scale = 0.5 causal at %rows, %keys diagonal = 2 : (tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>, tensor<1x1x4xi64>, tensor<1x1x6xi64>) -> tensor<2x3x4xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 causal at %rows, %keys diagonal = 2 : (tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x4xf32>, tensor<1x1x4xi64>, tensor<1x1x6xi64>) -> tensor<2x3x4x8xf32>
  return %y : tensor<2x3x4x8xf32>
}

// -----

// Numbers of keys that the devices do not divide are written out.

// CHECK-LABEL: func.func @uneven
// CHECK-NOT: nn.attention
// CHECK: return
// CALL-LABEL: func.func @uneven

dist.mesh @mesh <["cp" = 2]>
func.func @uneven(%q: tensor<4x8xf32>, %k: tensor<5x8xf32> {dist.layout = #dist.layout<[{"cp"}, {}]>}) -> tensor<4xf32> {
  %l = nn.attention_log_sum %q, %k scale = 0.5 : (tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4xf32>
  return %l : tensor<4xf32>
}

// -----

// Rows and keys of one sequence: rows stay where they are, each device has the keys of all.

// CHECK-LABEL: func.func @sequence
// CHECK-NOT: dist.all_reduce
// CHECK: dist.all_gather %{{.*}} dim = 0 over ["cp"]
// CHECK-NOT: dist.all_reduce
// CHECK: nn.attention {{.*}} causal at {{.*}} -> tensor<3x8xf32>
// CHECK-NOT: dist.all_reduce
// CHECK: return
// CALL-LABEL: func.func @sequence
// CALL: exec.fusion attention

dist.mesh @mesh <["cp" = 2]>
func.func @sequence(%x: tensor<6x8xf32> {dist.layout = #dist.layout<[{"cp"}, {}]>}) -> (tensor<6x8xf32> {dist.layout = #dist.layout<[{"cp"}, {}]>}) {
  %at = nn.index [1] : tensor<6xi64>
  %l = nn.attention_log_sum %x, %x scale = 0.5 causal at %at, %at : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6xi64>, tensor<6xi64>) -> tensor<6xf32>
  %y = nn.attention %x, %x, %x, %l scale = 0.5 causal at %at, %at : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6xf32>, tensor<6xi64>, tensor<6xi64>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}
