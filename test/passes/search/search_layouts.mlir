// RUN: ashlar-opt %s -split-input-file -ashlar-search-layouts | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-ashlar-search-layouts=method=ilp' | FileCheck %s

// Many rows by a small matrix: each device takes some rows, the matrix is on all, and nothing is sent. 2 * 1024 * 64 * 64 operations on a device take 104.9 us.
// CHECK: dist.search = #dist.search<strategies = [<kind = propagation, {{.*}}, <kind = search, is_lowered = false, step_ps = 104857600, bytes = 540672>], taken = data_parallel, cost_ps = 104857600, bound_ps = 104857600, units = {{[1-9][0-9]*}}, runners_up = []>
// CHECK: func.func @forward(%arg0: tensor<4096x64xf32> {dist.layout = #dist.layout<[{"x"}, {}]>
module attributes {dist.device = #dist.device<flops_per_us = 80000, narrow_flops_per_us = 80000, bytes_per_us = 20000>} {
  dist.mesh @mesh <["x" = 4]>
  nn.variable @w trainable : tensor<64x64xf32> = dense<0.5> : tensor<64x64xf32>
  func.func @forward(%x: tensor<4096x64xf32>) -> tensor<4096x64xf32> attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<64x64xf32>
    %y = nn.matmul %x, %w : tensor<4096x64xf32>, tensor<64x64xf32> -> tensor<4096x64xf32>
    return %y : tensor<4096x64xf32>
  }
}

// -----

// A pair of wide layers and few rows: columns of the first and rows of the second are split, and one sum is sent.
// CHECK: dist.search
// CHECK: nn.variable @a {{.*}}dist.layout = #dist.layout<[{}, {"x"}]>
// CHECK: nn.variable @b {{.*}}dist.layout = #dist.layout<[{"x"}, {}]>
module attributes {dist.device = #dist.device<flops_per_us = 80000, narrow_flops_per_us = 80000, bytes_per_us = 20000>} {
  dist.mesh @mesh <["x" = 4]>
  nn.variable @a trainable : tensor<64x4096xf32> = dense<0.5> : tensor<64x4096xf32>
  nn.variable @b trainable : tensor<4096x64xf32> = dense<0.5> : tensor<4096x64xf32>
  func.func @forward(%x: tensor<2x64xf32> {dist.layout = #dist.layout<[{}, {}]>}) -> tensor<2x64xf32> attributes {nn.program = #nn.program<run>} {
    %a = nn.read @a : tensor<64x4096xf32>
    %b = nn.read @b : tensor<4096x64xf32>
    %h = nn.matmul %x, %a : tensor<2x64xf32>, tensor<64x4096xf32> -> tensor<2x4096xf32>
    %t = nn.tanh %h : tensor<2x4096xf32>
    %y = nn.matmul %t, %b : tensor<2x4096xf32>, tensor<4096x64xf32> -> tensor<2x64xf32>
    return %y : tensor<2x64xf32>
  }
}

// -----

// A layout that is given is a constraint: the matrix stays split by columns.
// CHECK: dist.search
// CHECK: nn.variable @w {{.*}}dist.layout = #dist.layout<[{}, {"x"}]>
module attributes {dist.device = #dist.device<flops_per_us = 80000, narrow_flops_per_us = 80000, bytes_per_us = 20000>} {
  dist.mesh @mesh <["x" = 4]>
  nn.variable @w trainable : tensor<64x64xf32> = dense<0.5> : tensor<64x64xf32> {dist.layout = #dist.layout<[{}, {"x"}]>}
  func.func @forward(%x: tensor<4096x64xf32>) -> tensor<4096x64xf32> attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<64x64xf32>
    %y = nn.matmul %x, %w : tensor<4096x64xf32>, tensor<64x64xf32> -> tensor<4096x64xf32>
    return %y : tensor<4096x64xf32>
  }
}

// -----

// Asked to explain itself, the search leaves rules that lead to its layouts.
// CHECK: runners_up = [{{.*}}], rules = <[{{.*}}], kind = shortest, others = 0, more_ps = 0>>
// CHECK-NOT: dist.explain_search
module attributes {dist.explain_search, dist.device = #dist.device<flops_per_us = 80000, narrow_flops_per_us = 80000, bytes_per_us = 20000>} {
  dist.mesh @mesh <["x" = 4]>
  nn.variable @w trainable : tensor<64x64xf32> = dense<0.5> : tensor<64x64xf32>
  func.func @forward(%x: tensor<4096x64xf32> {nn.name = "x"}) -> (tensor<4096x64xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
    %w = nn.read @w : tensor<64x64xf32> loc("fc")
    %y = nn.matmul %x, %w : tensor<4096x64xf32>, tensor<64x64xf32> -> tensor<4096x64xf32> loc("fc")
    return %y : tensor<4096x64xf32>
  }
}
