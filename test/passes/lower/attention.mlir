// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda}))' | FileCheck %s --check-prefix=CUDA
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,ashlar-order-ops,ashlar-fuse),ashlar-plan-memory)' | FileCheck %s --check-prefix=EXEC

// CUDA-NOT: exec.fusion

// An attention and its log-sum-exp are one call, and its three gradients are another one; the last two dims before rows are heads and, with
// all before them, the batch.
// CHECK-LABEL: @trained
// CHECK: %[[F:.*]]:2 = exec.fusion attention(%arg0, %arg1, %arg2)
// CHECK: %[[L:.*]] = nn.attention_log_sum {{.*}} scale = 5.000000e-01 causal
// CHECK: %[[Y:.*]] = nn.attention {{.*}} scale = 5.000000e-01 causal
// CHECK: exec.yield %[[L]], %[[Y]]
// CHECK: %[[B:.*]]:3 = exec.fusion attention(%arg0, %arg1, %arg2, %[[F]]#0, %[[F]]#1, %arg3)
// CHECK: nn.attention_gradient query
// CHECK: nn.attention_gradient key
// CHECK: nn.attention_gradient value
// CHECK: return %[[F]]#1, %[[B]]#2, %[[B]]#0, %[[B]]#1
// EXEC-LABEL: exec.program @trained
// EXEC: exec.attention [{{.*}}memref<2x2x3x16x8xf32>>, {{.*}}memref<2x2x3x16xf32>>] batch 4 heads 3 rows 16 keys 16 width 8 columns 8 scale 5.000000e-01 causal
// EXEC: exec.attention backward [{{.*}}memref<2x2x3x16x8xf32>>, #exec.buffer<arena, {{[0-9]+}}, memref<2x2x3x16xf32>>, {{.*}}memref<2x2x3x16x8xf32>>] batch 4 heads 3
func.func @trained(%q: tensor<2x2x3x16x8xf32> {nn.name = "q"}, %k: tensor<2x2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x2x3x16x8xf32> {nn.name = "v"}, %g: tensor<2x2x3x16x8xf32> {nn.name = "g"}) -> (tensor<2x2x3x16x8xf32> {nn.name = "out0"}, tensor<2x2x3x16x8xf32> {nn.name = "out1"}, tensor<2x2x3x16x8xf32> {nn.name = "out2"}, tensor<2x2x3x16x8xf32> {nn.name = "out3"}) {
  %l = nn.attention_log_sum %q, %k scale = 0.5 causal : (tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>) -> tensor<2x2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 causal : (tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16xf32>) -> tensor<2x2x3x16x8xf32>
  %dv = nn.attention_gradient value %q, %k, %v, %l, %y, %g scale = 0.5 causal : (tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>) -> tensor<2x2x3x16x8xf32>
  %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %g scale = 0.5 causal : (tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>) -> tensor<2x2x3x16x8xf32>
  %dk = nn.attention_gradient key %q, %k, %v, %l, %y, %g scale = 0.5 causal : (tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>) -> tensor<2x2x3x16x8xf32>
  return %y, %dv, %dq, %dk : tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>
}

// -----

// A model alone: the log-sum-exp has no reader. The mask of bools is repeated along batch and rows.
// CHECK-LABEL: @masked
// CHECK: exec.fusion attention(%arg0, %arg1, %arg3, %arg2)
// EXEC-LABEL: exec.program @masked
// EXEC: exec.attention [{{.*}}memref<1x3x1x16xi1>>, {{.*}}] batch 2 heads 3 rows 16 keys 16 width 8 columns 8 scale 1.000000e+00 mask [0, 16, 0, 1]
func.func @masked(%q: tensor<2x3x16x8xf32> {nn.name = "q"}, %k: tensor<2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x3x16x8xf32> {nn.name = "v"}, %m: tensor<1x3x1x16xi1> {nn.name = "m"}) -> (tensor<2x3x16x8xf32> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k mask = %m scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<1x3x1x16xi1>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l mask = %m scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<1x3x1x16xi1>) -> tensor<2x3x16x8xf32>
  return %y : tensor<2x3x16x8xf32>
}

// -----

// Two batch dims, of which the mask has one: the library has one batch dim. It is expanded, and its scores are a product.
// CHECK-LABEL: @half_of_batch
// CHECK-NOT: exec.fusion
// CHECK: nn.matmul
func.func @half_of_batch(%q: tensor<2x2x3x16x8xf32> {nn.name = "q"}, %k: tensor<2x2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x2x3x16x8xf32> {nn.name = "v"}, %m: tensor<2x1x3x16x16xf32> {nn.name = "m"}) -> (tensor<2x2x3x16x8xf32> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k mask = %m scale = 1.0 : (tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x1x3x16x16xf32>) -> tensor<2x2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l mask = %m scale = 1.0 : (tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16x8xf32>, tensor<2x2x3x16xf32>, tensor<2x1x3x16x16xf32>) -> tensor<2x2x3x16x8xf32>
  return %y : tensor<2x2x3x16x8xf32>
}

// -----

// Nor of f64.
// CHECK-LABEL: @doubles
// CHECK-NOT: exec.fusion
func.func @doubles(%q: tensor<4x16x8xf64> {nn.name = "q"}, %k: tensor<4x16x8xf64> {nn.name = "k"}, %v: tensor<4x16x8xf64> {nn.name = "v"}) -> (tensor<4x16x8xf64> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<4x16x8xf64>, tensor<4x16x8xf64>) -> tensor<4x16xf64>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 : (tensor<4x16x8xf64>, tensor<4x16x8xf64>, tensor<4x16x8xf64>, tensor<4x16xf64>) -> tensor<4x16x8xf64>
  return %y : tensor<4x16x8xf64>
}

// -----

// The log-sum-exp of other scores is an operand like any other.
// CHECK-LABEL: @other_scores
// CHECK-NOT: exec.fusion
func.func @other_scores(%q: tensor<2x3x16x8xf32> {nn.name = "q"}, %k: tensor<2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x3x16x8xf32> {nn.name = "v"}) -> (tensor<2x3x16x8xf32> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>) -> tensor<2x3x16x8xf32>
  return %y : tensor<2x3x16x8xf32>
}

// -----

// A matrix each, in bf16.
// CHECK-LABEL: @matrices
// CHECK: exec.fusion attention
// EXEC-LABEL: exec.program @matrices
// EXEC: exec.attention [{{.*}}memref<16x8xbf16>>, {{.*}}memref<16xf32>>] batch 1 heads 1 rows 16 keys 16 width 8 columns 8 scale 1.000000e+00 causal diagonal 3
func.func @matrices(%q: tensor<16x8xbf16> {nn.name = "q"}, %k: tensor<16x8xbf16> {nn.name = "k"}, %v: tensor<16x8xbf16> {nn.name = "v"}) -> (tensor<16x8xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 causal diagonal = 3 : (tensor<16x8xbf16>, tensor<16x8xbf16>) -> tensor<16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 causal diagonal = 3 : (tensor<16x8xbf16>, tensor<16x8xbf16>, tensor<16x8xbf16>, tensor<16xf32>) -> tensor<16x8xbf16>
  return %y : tensor<16x8xbf16>
}
