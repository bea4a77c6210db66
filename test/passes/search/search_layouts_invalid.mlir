// RUN: not ashlar-opt %s -ashlar-search-layouts=method=greedy 2>&1 | FileCheck %s --check-prefix=METHOD
// RUN: not ashlar-opt %s -ashlar-search-layouts=memory-limit=1000 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: ashlar-opt %s -ashlar-search-layouts=memory-limit=100000 | FileCheck %s --check-prefix=FITS

// METHOD: for the --method option: is "greedy"; one of dp, ilp
// LIMIT: error: a device may hold 1000 bytes of parameters, state, inputs, outputs and intermediate values, and the smallest strategy that was found ({{.*}}) is predicted to take {{[0-9]+}}: {{[0-9]+}} of parameters, {{[0-9]+}} of state, {{[0-9]+}} of inputs and outputs, and at most {{[0-9]+}} of intermediate values; give it more devices, a smaller batch, or accumulate
// FITS: dist.search
dist.mesh @mesh <["x" = 2]>
nn.variable @w trainable : tensor<64x64xf32> = dense<0.5> : tensor<64x64xf32>
func.func @forward(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {nn.program = #nn.program<run>} {
  %w = nn.read @w : tensor<64x64xf32>
  %y = nn.matmul %x, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
