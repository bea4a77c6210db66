// RUN: ashlar-opt %s '-pass-pipeline=builtin.module(func.func(ashlar-order-ops,ashlar-fuse),ashlar-plan-memory,ashlar-verify-exec)' | FileCheck %s
// RUN: ashlar-opt %s '-pass-pipeline=builtin.module(func.func(ashlar-order-ops,ashlar-fuse{target=cuda}),ashlar-plan-memory{target=cuda},ashlar-verify-exec)' | FileCheck %s

// A kernel of a tensor without elements stores nothing, as it says.
// CHECK: exec.tensor @y output <arena, {{[0-9]*}}, memref<0x4xf64>>
// CHECK: exec.kernel @loop_0 {{.*}} writes [1]
func.func @forward(%x: tensor<2x4xf64> {nn.name = "x"}) -> (tensor<0x4xf64> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %y = nn.slice %x [0, 0] to [0, 4] by [1, 1] : tensor<2x4xf64> -> tensor<0x4xf64>
  return %y : tensor<0x4xf64>
}
