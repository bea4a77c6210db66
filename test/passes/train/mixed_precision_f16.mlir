// SPDX-License-Identifier: Apache-2.0
//
// Mixed precision in f16, whose range is small.

// RUN: ashlar-opt %s -ashlar-mixed-precision=type=f16 | FileCheck %s

// The mask of attention, (1 - keep) * lowest: 1e9 is beyond f16. Infinite it would make 0 * inf.
// CHECK-LABEL: @forward
// CHECK: %[[LOWEST:.*]] = nn.constant dense<-1.000000e+09> : tensor<4x4xf32>
// CHECK: %[[MASK:.*]] = nn.mul %{{.*}}, %[[LOWEST]] : tensor<4x4xf32>
// CHECK: nn.matmul {{.*}} -> tensor<4x4xf16>
// CHECK: nn.add %{{.*}}, %[[MASK]] : tensor<4x4xf32>
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
