// SPDX-License-Identifier: Apache-2.0
//
// Where a value is converted that is moved first: ahead of the move, once for all that take it.

// RUN: ashlar-opt %s -split-input-file -ashlar-mixed-precision | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-mixed-precision=narrow-tables=true | FileCheck %s --check-prefix=TABLES

// A result of f32 with two views for two products: their gradients meet in the narrow type. A view with a name stays as it is.
// CHECK-LABEL: @views
// CHECK: %[[SOFT:.*]] = nn.softmax
// CHECK: %[[NARROW:.*]] = nn.cast %[[SOFT]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: %[[VIEW:.*]] = nn.transpose %[[NARROW]] [1, 0]
// CHECK: nn.matmul %[[VIEW]], %[[NARROW]]
// CHECK: %[[NAMED:.*]] = nn.transpose %[[SOFT]] [1, 0] {nn.outputs = ["named"]} : tensor<4x4xf32>
// CHECK: %[[OTHER:.*]] = nn.cast %[[NAMED]]
// CHECK: nn.matmul %{{.*}}, %[[OTHER]]
module @views {
  func.func @forward(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {nn.program = #nn.program<run>} {
    %s = nn.softmax %x : tensor<4x4xf32>
    %t = nn.transpose %s [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
    %0 = nn.matmul %t, %s : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %named = nn.transpose %s [1, 0] {nn.outputs = ["named"]} : tensor<4x4xf32> -> tensor<4x4xf32>
    %1 = nn.matmul %0, %named : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}

// -----

// Rows of a trained table are rounded, whatever takes them; with the option the table is, and its rows have their name. Rows of other tables
// follow what takes them.
// CHECK-LABEL: @tables
// CHECK: %[[WIDE:.*]] = nn.gather %{{.*}}, %arg0 {nn.outputs = ["rows"]} : tensor<50x4xf32>, tensor<4xi64> -> tensor<4x4xf32>
// CHECK: %[[ROWS:.*]] = nn.cast %[[WIDE]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// TABLES-LABEL: @tables
// TABLES: %[[TABLE:.*]] = nn.read @table
// TABLES: %[[NARROW:.*]] = nn.cast %[[TABLE]] : tensor<50x4xf32> -> tensor<50x4xbf16>
// TABLES: %[[ROWS:.*]] = nn.gather %[[NARROW]], %arg0 {nn.outputs = ["rows"]} : tensor<50x4xbf16>, tensor<4xi64> -> tensor<4x4xbf16>
// CHECK-DAG: %[[SUMMED:.*]] = nn.cast %[[ROWS]] : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK-DAG: nn.matmul %[[ROWS]], %[[ROWS]]
// TABLES: nn.matmul %[[ROWS]], %[[ROWS]]
// CHECK: nn.softmax %[[SUMMED]]
// TABLES: %[[FROZEN:.*]] = nn.gather %{{.*}}, %arg0 : tensor<50x4xf32>
// TABLES: nn.softmax %[[FROZEN]]
module @tables {
  nn.variable @table trainable : tensor<50x4xf32>
  nn.variable @frozen : tensor<50x4xf32>
  func.func @forward(%tokens: tensor<4xi64>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) attributes {nn.program = #nn.program<run>} {
    %table = nn.read @table : tensor<50x4xf32>
    %0 = nn.gather %table, %tokens {nn.outputs = ["rows"]} : tensor<50x4xf32>, tensor<4xi64> -> tensor<4x4xf32>
    %1 = nn.matmul %0, %0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %2 = nn.softmax %0 : tensor<4x4xf32>
    %frozen = nn.read @frozen : tensor<50x4xf32>
    %3 = nn.gather %frozen, %tokens : tensor<50x4xf32>, tensor<4xi64> -> tensor<4x4xf32>
    %4 = nn.softmax %3 : tensor<4x4xf32>
    return %1, %2, %4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}
