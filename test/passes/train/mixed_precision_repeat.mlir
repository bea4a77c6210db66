// SPDX-License-Identifier: Apache-2.0
//
// Conversions of loops: weights and stacks in front of them, carried values in f32.

// RUN: ashlar-opt %s -split-input-file -ashlar-mixed-precision | FileCheck %s --enable-var-scope
// RUN: ashlar-opt %s -split-input-file -ashlar-mixed-precision=narrow-tables=true | FileCheck %s --check-prefix=TABLES --enable-var-scope

nn.variable @w trainable : tensor<4x4xf32>

// The weight and the rows are converted in front of the loop, the state where it is read. The state stays f32. Only products read the stack
// of states, so it is narrow; the last state is a result of the function.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[FIRST:.*]]: tensor<2x4xf32>, %[[XS:.*]]: tensor<3x2x4xf32>)
// CHECK-DAG: %[[ROWS:.*]] = nn.cast %[[XS]] : tensor<3x2x4xf32> -> tensor<3x2x4xbf16>
// CHECK-DAG: %[[W:.*]] = nn.read @w
// CHECK-DAG: %[[V:.*]] = nn.cast %[[W]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: %[[R:.*]]:2 = nn.repeat 3 carried(%[[H:.*]] = %[[FIRST]]) sliced(%[[X:.*]] = %[[ROWS]]) captured(%[[U:.*]] = %[[V]])
// CHECK-SAME: -> (tensor<2x4xf32>, tensor<3x2x4xbf16>)
// CHECK-NEXT: %[[STATE:.*]] = nn.cast %[[H]] : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK-NEXT: %[[P:.*]] = nn.matmul %[[STATE]], %[[U]]
// CHECK-NEXT: %[[Q:.*]] = nn.matmul %[[X]], %[[U]]
// CHECK-NEXT: %[[S:.*]] = nn.add %[[P]], %[[Q]] : tensor<2x4xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = nn.cast %[[S]] : tensor<2x4xbf16> -> tensor<2x4xf32>
// CHECK-NEXT: %[[NEXT:.*]] = nn.add %[[WIDE]], %[[H]] : tensor<2x4xf32>
// CHECK-NEXT: %[[ROW:.*]] = nn.cast %[[NEXT]] : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK-NEXT: nn.yield %[[NEXT]], %[[ROW]] : tensor<2x4xf32>, tensor<2x4xbf16>
// CHECK: %[[ALL:.*]] = nn.reshape %[[R]]#1 : tensor<3x2x4xbf16> -> tensor<6x4xbf16>
// CHECK: nn.matmul %[[ALL]], %[[V]]
// CHECK: return %[[R]]#0, %{{.*}} : tensor<2x4xf32>, tensor<6x4xf32>
func.func @forward(%first: tensor<2x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<2x4xf32>, tensor<6x4xf32>) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<4x4xf32>
  %last, %rows = nn.repeat 3 carried(%h = %first) sliced(%x = %xs) captured(%v = %w)
      : (tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %q = nn.matmul %x, %v : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %s = nn.add %p, %q : tensor<2x4xf32>
    %next = nn.add %s, %h : tensor<2x4xf32>
    nn.yield %next, %next : tensor<2x4xf32>, tensor<2x4xf32>
  }
  %all = nn.reshape %rows : tensor<3x2x4xf32> -> tensor<6x4xf32>
  %y = nn.matmul %all, %w : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  return %last, %y : tensor<2x4xf32>, tensor<6x4xf32>
}

// -----

nn.variable @w trainable : tensor<4x4xf32>

// A loop in a loop captures the conversion that the outer one captures. Rows of a narrow product are narrow, in the loop and behind it; the
// softmax in the loop is f32, and so are its rows.
// CHECK-LABEL: func.func @forward
// CHECK: %[[V:.*]] = nn.cast %{{.*}} : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: %[[PRODUCT:.*]] = nn.matmul %{{.*}}, %[[V]] : tensor<3x4xbf16>, tensor<4x4xbf16> -> tensor<3x4xbf16>
// CHECK: nn.repeat 3 sliced(%[[ROW:.*]] = %[[PRODUCT]]) captured(%[[OUTER:.*]] = %[[V]]) : (tensor<3x4xbf16>, tensor<4x4xbf16>) -> (tensor<3x2x1x4xbf16>, tensor<3x4xf32>)
// CHECK-NEXT: %[[WIDE:.*]] = nn.cast %[[ROW]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK: nn.repeat 2 captured(%[[X:.*]] = %{{.*}}, %[[INNER:.*]] = %[[OUTER]]) : (tensor<1x4xbf16>, tensor<4x4xbf16>) -> tensor<2x1x4xbf16>
// CHECK-NEXT: nn.matmul %[[X]], %[[INNER]]
// CHECK: nn.softmax %[[WIDE]] : tensor<4xf32>
func.func @forward(%x: tensor<3x4xf32>) -> (tensor<3x2x1x4xf32>, tensor<3x4xf32>) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<4x4xf32>
  %xs = nn.matmul %x, %w : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
  %rows, %weights = nn.repeat 3 sliced(%row = %xs) captured(%v = %w) : (tensor<3x4xf32>, tensor<4x4xf32>) -> (tensor<3x2x1x4xf32>, tensor<3x4xf32>) {
    %m = nn.reshape %row : tensor<4xf32> -> tensor<1x4xf32>
    %both = nn.repeat 2 captured(%n = %m, %u = %v) : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<2x1x4xf32> {
      %p = nn.matmul %n, %u : tensor<1x4xf32>, tensor<4x4xf32> -> tensor<1x4xf32>
      nn.yield %p : tensor<1x4xf32>
    }
    %s = nn.softmax %row : tensor<4xf32>
    nn.yield %both, %s : tensor<2x1x4xf32>, tensor<4xf32>
  }
  return %rows, %weights : tensor<3x2x1x4xf32>, tensor<3x4xf32>
}

// -----

nn.variable @table trainable : tensor<50x4xf32>

// Rows of a trained table that a body takes are rounded; with the option the table is, in front of the loop.
// CHECK-LABEL: func.func @forward
// CHECK: %[[TABLE:.*]] = nn.read @table
// CHECK: nn.repeat 3 sliced(%{{.*}} = %{{.*}}) captured(%[[T:.*]] = %[[TABLE]])
// CHECK-NEXT: %[[WIDE:.*]] = nn.gather %[[T]], %{{.*}} : tensor<50x4xf32>
// CHECK-NEXT: %[[ROWS:.*]] = nn.cast %[[WIDE]]
// CHECK-NEXT: nn.matmul %[[ROWS]], %[[ROWS]]
// TABLES-LABEL: func.func @forward
// TABLES: %[[NARROW:.*]] = nn.cast %{{.*}} : tensor<50x4xf32> -> tensor<50x4xbf16>
// TABLES: nn.repeat 3 sliced(%{{.*}} = %{{.*}}) captured(%[[T:.*]] = %[[NARROW]])
// TABLES-NEXT: nn.gather %[[T]], %{{.*}} : tensor<50x4xbf16>
func.func @forward(%indices: tensor<3x4xi64>) -> tensor<3x4x4xf32> attributes {nn.program = #nn.program<run>} {
  %table = nn.read @table : tensor<50x4xf32>
  %y = nn.repeat 3 sliced(%i = %indices) captured(%t = %table) : (tensor<3x4xi64>, tensor<50x4xf32>) -> tensor<3x4x4xf32> {
    %rows = nn.gather %t, %i : tensor<50x4xf32>, tensor<4xi64> -> tensor<4x4xf32>
    %p = nn.matmul %rows, %rows : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    nn.yield %p : tensor<4x4xf32>
  }
  return %y : tensor<3x4x4xf32>
}
