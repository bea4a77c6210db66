// RUN: ashlar-opt %s '-pass-pipeline=builtin.module(func.func(ashlar-fuse),ashlar-plan-memory)' | FileCheck %s

// Two kernels may compute a value each for itself, one to find its maximum and one to see where that is: both must round alike. So only the
// terms of a sum may be reordered, and element-wise ops may not. Found by fuzzing: the gradient of a minimum went nowhere. Nor may any op
// become an approximation.

// CHECK-NOT: arith.subf {{.*}}{{reassoc|nsz}}
// CHECK-NOT: {{arcp|afn}}
// CHECK: arith.addf {{.*}} fastmath<reassoc,nsz>
// CHECK-NOT: arith.subf {{.*}}{{reassoc|nsz}}
// CHECK-NOT: {{arcp|afn}}
func.func @forward(%x: tensor<64x32xf32> {nn.name = "x"}, %y: tensor<64x32xf32> {nn.name = "y"}) -> (tensor<64xf32> {nn.name = "sums"}) attributes {nn.program = #nn.program<run>} {
  %d = nn.sub %x, %y : tensor<64x32xf32>
  %s = nn.reduce sum %d dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  return %s : tensor<64xf32>
}
