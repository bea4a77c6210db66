// RUN: ashlar-opt %s -ashlar-plan-memory="variant=deterministic devices-per-process=2" -ashlar-verify-exec | FileCheck %s

// The options name the variant and say how many of its devices a process plays; kernels carry the name.
// CHECK: exec.variant @deterministic
// CHECK-SAME: axis_sizes = array<i64: 8>
// CHECK-SAME: devices_per_process = 2
// CHECK: exec.kernel @deterministic_loop_0
// CHECK: func.func @deterministic_loop_0
dist.mesh @mesh <["dp" = 8]>
func.func @forward(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %y = exec.fusion loop(%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    %r = nn.relu %a : tensor<2xf32>
    exec.yield %r : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}
