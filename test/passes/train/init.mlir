// SPDX-License-Identifier: Apache-2.0
//
// Each kind of initial value, as ops and as numbers.

// RUN: ashlar-opt %s -ashlar-init -ashlar-verify-train | FileCheck %s
// RUN: ashlar-opt %s -ashlar-init -ashlar-interpret="function=init,forward seed=5" | FileCheck %s --check-prefix=NUMBERS
// RUN: ashlar-opt %s -ashlar-init -ashlar-interpret="function=init,forward seed=6" | FileCheck %s --check-prefix=OTHER

// CHECK: nn.variable @ashlar.seed internal : tensor<i64>
// CHECK-NOT: =
// CHECK: nn.variable @dense trainable : tensor<2xf32>
// CHECK-NOT: =
nn.variable @dense trainable : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
nn.variable @fill : tensor<2xi64> = #nn.fill<3.0 : f64>
nn.variable @resource trainable : tensor<2xf32> = dense_resource<two_floats> : tensor<2xf32>
nn.variable @uniform trainable : tensor<2x3xf32> = #nn.uniform<-2.0 : f64, 4.0 : f64>
nn.variable @normal trainable : tensor<2xf64> = #nn.normal<10.0 : f64, 0.5 : f64>
nn.variable @half trainable : tensor<2xf16> = #nn.uniform<0.0 : f64, 1.0 : f64>

// CHECK-LABEL: func.func @init()
// CHECK: %[[DENSE:.*]] = nn.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK: nn.write @dense, %[[DENSE]]
// CHECK: %[[FILL:.*]] = nn.constant dense<3> : tensor<2xi64>
// CHECK: nn.write @fill, %[[FILL]]
// CHECK: nn.constant dense_resource<two_floats>
// CHECK: %[[INDEX:.*]] = nn.index [3, 1] : tensor<2x3xi64>
// CHECK: %[[SEED:.*]] = nn.read @ashlar.seed
// CHECK: %[[ZERO:.*]] = nn.constant dense<0> : tensor<i64>
// The stream is the 32-bit FNV-1a hash of "uniform".
// CHECK: %[[STREAM:.*]] = nn.constant dense<-566797741> : tensor<i32>
// CHECK: %[[U:.*]] = nn.random uniform %[[INDEX]], %[[SEED]], %[[ZERO]], %[[STREAM]]
// CHECK: nn.constant dense<6.000000e+00>
// CHECK: nn.constant dense<-2.000000e+00>
// CHECK: nn.write @uniform
// CHECK: nn.random normal %{{.*}} -> tensor<2xf64>
// CHECK: nn.write @normal
// CHECK: nn.random uniform %{{.*}} -> tensor<2xf32>
// CHECK: nn.cast %{{.*}} : tensor<2xf32> -> tensor<2xf16>
// CHECK: nn.write @half
// CHECK-LABEL: func.func @forward

// The random numbers were computed by another Philox, in another language.
// NUMBERS: result 0: tensor<2xf32> [1, 2]
// NUMBERS: result 1: tensor<2xi64> [3, 3]
// NUMBERS: result 2: tensor<2xf32> [1, -2]
// NUMBERS: result 3: tensor<2x3xf32> {{\[\[}}-1.25526, 0.78547, -1.38484], [2.22539, -0.936577, 1.00411]]
// NUMBERS: result 4: tensor<2xf64> [10.1307, 10.3749]
// NUMBERS: result 5: tensor<2xf16> [0.114563, 0.899414]

// OTHER: result 3: tensor<2x3xf32> {{\[\[}}1.68247, 1.5981, 0.161221], [3.88734, 2.86071, -0.736996]]
func.func @forward() -> (tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2x3xf32>, tensor<2xf64>, tensor<2xf16>) attributes {nn.program = #nn.program<run>} {
  %0 = nn.read @dense : tensor<2xf32>
  %1 = nn.read @fill : tensor<2xi64>
  %2 = nn.read @resource : tensor<2xf32>
  %3 = nn.read @uniform : tensor<2x3xf32>
  %4 = nn.read @normal : tensor<2xf64>
  %5 = nn.read @half : tensor<2xf16>
  return %0, %1, %2, %3, %4, %5 : tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2x3xf32>, tensor<2xf64>, tensor<2xf16>
}

{-#
  dialect_resources: {
    builtin: {
      two_floats: "0x040000000000803F000000C0"
    }
  }
#-}
