// SPDX-License-Identifier: Apache-2.0
//
// Mixed precision: what is computed in which type, and where conversions stand.

// RUN: ashlar-opt %s -split-input-file -ashlar-mixed-precision | FileCheck %s

// Input and parameters are converted once; the bias before it is repeated. Results are f32 again, types of the function stay.
nn.variable @w trainable : tensor<8x4xf32>
nn.variable @b trainable : tensor<8xf32>
// CHECK-LABEL: @forward(%arg0: tensor<6x4xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>)
// CHECK: %[[X:.*]] = nn.cast %arg0 : tensor<6x4xf32> -> tensor<6x4xbf16>
// CHECK: %[[READ:.*]] = nn.read @w
// CHECK: %[[W:.*]] = nn.cast %[[READ]] : tensor<8x4xf32> -> tensor<8x4xbf16>
// CHECK: %[[READ:.*]] = nn.read @b
// CHECK: %[[B:.*]] = nn.cast %[[READ]] : tensor<8xf32> -> tensor<8xbf16>
// CHECK: %[[P:.*]] = nn.matmul %[[X]], %[[W]] transpose_b : tensor<6x4xbf16>, tensor<8x4xbf16> -> tensor<6x8xbf16>
// CHECK: %[[ROWS:.*]] = nn.broadcast %[[B]] dims = [1] : tensor<8xbf16> -> tensor<6x8xbf16>
// CHECK: %[[SUM:.*]] = nn.add %[[P]], %[[ROWS]] : tensor<6x8xbf16>
// CHECK: %[[RELU:.*]] = nn.relu %[[SUM]] : tensor<6x8xbf16>
// CHECK: %[[WIDE:.*]] = nn.cast %[[RELU]] : tensor<6x8xbf16> -> tensor<6x8xf32>
// CHECK: nn.matmul %[[X]], %[[W]]
// CHECK-NOT: nn.broadcast
// CHECK: return %[[WIDE]]
func.func @forward(%x: tensor<6x4xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<8x4xf32>
  %b = nn.read @b : tensor<8xf32>
  %0 = nn.matmul %x, %w transpose_b : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  %1 = nn.broadcast %b dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %2 = nn.add %0, %1 : tensor<6x8xf32>
  %3 = nn.relu %2 : tensor<6x8xf32>
  %4 = nn.matmul %x, %w transpose_b : tensor<6x4xf32>, tensor<8x4xf32> -> tensor<6x8xf32>
  return %3, %4 : tensor<6x8xf32>, tensor<6x8xf32>
}

// -----

// Norm and softmax are computed in f32, with all that uses their results, up to the next product.
// CHECK-LABEL: @forward
// CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[WIDE:.*]] = nn.cast %[[P]] : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK: %[[SUM:.*]] = nn.reduce sum %[[WIDE]] dims = [1] : tensor<4x4xf32>
// CHECK: %[[ROWS:.*]] = nn.broadcast %[[SUM]] dims = [0] : tensor<4xf32> -> tensor<4x4xf32>
// CHECK: %[[CENTRED:.*]] = nn.sub %[[WIDE]], %[[ROWS]] : tensor<4x4xf32>
// CHECK: %[[SOFT:.*]] = nn.softmax %[[CENTRED]] : tensor<4x4xf32>
// CHECK: %[[NARROW:.*]] = nn.cast %[[SOFT]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: nn.matmul %[[NARROW]], %{{.*}} -> tensor<4x4xbf16>
func.func @forward(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {nn.program = #nn.program<run>} {
  %0 = nn.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<4x4xf32> -> tensor<4xf32>
  %2 = nn.broadcast %1 dims = [0] : tensor<4xf32> -> tensor<4x4xf32>
  %3 = nn.sub %0, %2 : tensor<4x4xf32>
  %4 = nn.softmax %3 : tensor<4x4xf32>
  %5 = nn.matmul %4, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %5 : tensor<4x4xf32>
}

// -----

// A table is not converted for the sake of some of its rows: they are, and the sum with another tensor from outside is narrow.
// CHECK-LABEL: @forward
// CHECK: %[[ROWS:.*]] = nn.gather %{{.*}}, %arg0 : tensor<50x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
// CHECK: %[[NARROW:.*]] = nn.cast %[[ROWS]] : tensor<6x4xf32> -> tensor<6x4xbf16>
// CHECK: nn.add %[[NARROW]], %{{.*}} : tensor<6x4xbf16>
nn.variable @table trainable : tensor<50x4xf32>
func.func @forward(%tokens: tensor<6xi64>, %positions: tensor<6x4xf32>) -> tensor<6x4xf32> attributes {nn.program = #nn.program<run>} {
  %table = nn.read @table : tensor<50x4xf32>
  %0 = nn.gather %table, %tokens : tensor<50x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
  %1 = nn.add %0, %positions : tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}

// -----

// 0.5 is exact. 0.1 is not: a factor that is wrong in all elements alike is kept, and the product rounded.
// CHECK-LABEL: @forward
// CHECK-DAG: %[[HALF:.*]] = nn.constant dense<5.000000e-01> : tensor<4x4xbf16>
// CHECK-DAG: %[[TENTH:.*]] = nn.constant dense<1.000000e-01> : tensor<4x4xf32>
// CHECK: %[[P:.*]] = nn.matmul
// CHECK: nn.mul %[[P]], %[[HALF]] : tensor<4x4xbf16>
// CHECK: %[[WIDE:.*]] = nn.cast %{{.*}} : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK: %[[PRODUCT:.*]] = nn.mul %[[WIDE]], %[[TENTH]] : tensor<4x4xf32>
// CHECK: %[[ROUNDED:.*]] = nn.cast %[[PRODUCT]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: nn.relu %[[ROUNDED]] : tensor<4x4xbf16>
func.func @forward(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {nn.program = #nn.program<run>} {
  %half = nn.constant dense<0.5> : tensor<4x4xf32>
  %tenth = nn.constant dense<0.1> : tensor<4x4xf32>
  %0 = nn.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = nn.mul %0, %half : tensor<4x4xf32>
  %2 = nn.mul %1, %tenth : tensor<4x4xf32>
  %3 = nn.relu %2 : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// The mask of attention, (1 - keep) * lowest: 1e9 is within bf16 but for its last digits.
// CHECK-LABEL: @forward
// CHECK: nn.add {{.*}} : tensor<4x4xbf16>
func.func @forward(%x: tensor<4x4xf32>, %keep: tensor<4x4xi1>) -> tensor<4x4xf32> attributes {nn.program = #nn.program<run>} {
  %one = nn.constant dense<1.0> : tensor<4x4xf32>
  %lowest = nn.constant dense<-1.0e9> : tensor<4x4xf32>
  %0 = nn.cast %keep : tensor<4x4xi1> -> tensor<4x4xf32>
  %1 = nn.sub %one, %0 : tensor<4x4xf32>
  %2 = nn.mul %1, %lowest : tensor<4x4xf32>
  %3 = nn.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %4 = nn.add %3, %2 : tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}

// -----

// The bits that a model takes are those of f32, and what it makes of bits stays as it is.
// CHECK-LABEL: @forward
// CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[WIDE:.*]] = nn.cast %[[P]] : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK: nn.bitcast %[[WIDE]] : tensor<4x4xf32> -> tensor<4x4xi32>
// CHECK: %[[MADE:.*]] = nn.bitcast %{{.*}} : tensor<4x4xi32> -> tensor<4x4xf32>
// CHECK: nn.neg %[[MADE]] : tensor<4x4xf32>
func.func @forward(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {nn.program = #nn.program<run>} {
  %0 = nn.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = nn.bitcast %0 : tensor<4x4xf32> -> tensor<4x4xi32>
  %2 = nn.not %1 : tensor<4x4xi32>
  %3 = nn.bitcast %2 : tensor<4x4xi32> -> tensor<4x4xf32>
  %4 = nn.neg %3 : tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}

// -----

// Numbers counted in integers stay exact, and so do other float types.
// CHECK-LABEL: @forward
// CHECK: nn.cast %arg0 : tensor<4xi64> -> tensor<4xf32>
// CHECK: nn.add {{.*}} : tensor<4xf32>
// CHECK: nn.exp {{.*}} : tensor<4xf64>
func.func @forward(%i: tensor<4xi64>, %x: tensor<4xf32>, %y: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>) attributes {nn.program = #nn.program<run>} {
  %0 = nn.cast %i : tensor<4xi64> -> tensor<4xf32>
  %1 = nn.add %0, %x : tensor<4xf32>
  %2 = nn.exp %y : tensor<4xf64>
  return %1, %2 : tensor<4xf32>, tensor<4xf64>
}

// -----

// What the model names keeps its name and place, since rules may be about it.
// CHECK-LABEL: @forward
// CHECK: %[[FLAT:.*]] = nn.reshape %arg0 {nn.outputs = ["flat"]} : tensor<4x2x2xf32> -> tensor<4x4xf32>
// CHECK: nn.cast %[[FLAT]]
func.func @forward(%x: tensor<4x2x2xf32>) -> tensor<4x4xf32> attributes {nn.program = #nn.program<run>} {
  %0 = nn.reshape %x {nn.outputs = ["flat"]} : tensor<4x2x2xf32> -> tensor<4x4xf32>
  %1 = nn.matmul %0, %0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// In a model that places its communication itself, a conversion is where it is used.
// CHECK-LABEL: @forward
// CHECK: nn.cast %arg0 {dist.explicit, dist.layouts = [#dist.layout<[{"dp"}, {}]>], dist.operand_layouts = [#dist.layout<[{"dp"}, {}]>]}
// CHECK: nn.cast %{{.*}} {dist.explicit, dist.layouts = [#dist.layout<[{}, {}]>], dist.operand_layouts = [#dist.layout<[{}, {}]>]}
// CHECK: %[[P:.*]] = nn.matmul
// CHECK: nn.cast %[[P]] {dist.explicit, dist.layouts = [#dist.layout<[{"dp"}, {}]>]
dist.mesh @mesh <["dp" = 2]>
nn.variable @w trainable : tensor<4x4xf32> {dist.layout = #dist.layout<[{}, {}]>}
func.func @forward(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<4x4xf32>
  %0 = nn.matmul %x, %w {dist.explicit, dist.layouts = [#dist.layout<[{"dp"}, {}]>], dist.operand_layouts = [#dist.layout<[{"dp"}, {}]>, #dist.layout<[{}, {}]>]} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
