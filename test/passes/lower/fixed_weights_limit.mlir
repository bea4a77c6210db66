// RUN: ashlar-opt %s '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,ashlar-order-ops,ashlar-fuse),ashlar-plan-memory{memory-limit=221184})' | FileCheck %s --check-prefix=TWICE
// RUN: ashlar-opt %s '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,ashlar-order-ops,ashlar-fuse),ashlar-plan-memory{memory-limit=221183})' | FileCheck %s --check-prefix=ONCE

// Fixed weights are ordered once where the limit leaves room for their 640 bytes beside 220544 of the rest, and in every run where it does not.
// TWICE: exec.conv forward {{.*}} fixed_weights
// ONCE: exec.conv forward
// ONCE-NOT: fixed_weights
nn.variable @w : tensor<6x4x1xf32>
nn.variable @y : tensor<2x8x6xf32>
func.func @init(%x: tensor<2x8x4xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<init>} {
  %w = nn.constant dense<0.5> : tensor<6x4x1xf32>
  %y = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  nn.write @w, %w : tensor<6x4x1xf32>
  nn.write @y, %y : tensor<2x8x6xf32>
  return
}
func.func @forward(%x: tensor<2x8x4xf32> {nn.name = "x"}) -> (tensor<2x8x6xf32> {nn.name = "a"}) attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<6x4x1xf32>
  %a = nn.conv %x, %w channels_last windows = [#nn.window<1>] : tensor<2x8x4xf32>, tensor<6x4x1xf32> -> tensor<2x8x6xf32>
  return %a : tensor<2x8x6xf32>
}
