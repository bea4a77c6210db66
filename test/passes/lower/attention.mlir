// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops))' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda}))' | FileCheck %s --check-prefix=CUDA
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,ashlar-order-ops,ashlar-fuse),ashlar-plan-memory)' | FileCheck %s --check-prefix=EXEC

// An attention and its log-sum-exp are one call, and its three gradients are another one; the last two dims before rows are heads and, with
// all before them, the batch. On cuda, whose library has no f32, they are generated kernels: the attention; what the log-sum-exp lost where it is
// large; the gradient of the query; the ones of key and value.
// CHECK-LABEL: @trained
// CUDA-LABEL: @trained
// CUDA: %[[F:.*]]:2 = exec.fusion attention_kernel(%arg0, %arg1, %arg2)
// CUDA: nn.attention_log_sum
// CUDA: nn.attention %
// CUDA: %[[C:.*]] = exec.fusion attention_kernel(%arg0, %arg1, %[[F]]#0)
// CUDA-NEXT: ^bb0
// CUDA-NEXT: %[[AGAIN:.*]] = nn.attention_log_sum
// CUDA-NEXT: %[[LOST:.*]] = nn.sub %[[AGAIN]],
// CUDA-NEXT: exec.yield %[[LOST]]
// CUDA: %[[Q:.*]] = exec.fusion attention_kernel(%[[F]]#0, %[[C]], %arg0, %arg1, %arg2, %[[F]]#1, %arg3)
// CUDA-NEXT: ^bb0
// CUDA-NEXT: %[[WHOLE:.*]] = nn.add
// CUDA-NEXT: nn.attention_gradient query {{.*}}, %[[WHOLE]],
// CUDA-NEXT: exec.yield
// CUDA: %[[K:.*]]:2 = exec.fusion attention_kernel(%[[F]]#0, %[[C]], %arg0, %arg1, %arg2, %[[F]]#1, %arg3)
// CUDA-NEXT: ^bb0
// CUDA-NEXT: nn.add
// CUDA-NEXT: nn.attention_gradient key
// CUDA-NEXT: nn.attention_gradient value
// CUDA: return %[[F]]#1, %[[K]]#1, %[[Q]], %[[K]]#0
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

// With a dropout, whose indices are tensors of rows and of keys; a kernel of cuda computes them. Of a key index that differs in heads, too.
// CHECK-LABEL: @dropped
// CUDA-LABEL: @dropped
// CUDA: exec.fusion attention_kernel(%arg0, %arg1, %arg2, %arg4, %{{.*}})
// CUDA: nn.index [768, 256, 16]
// CUDA: nn.index [0, 0, 1]
// CUDA: nn.attention {{.*}} dropout = 2.500000e-01 by
// CUDA: nn.random
// CHECK: %[[F:.*]]:2 = exec.fusion attention(%arg0, %arg1, %arg2, %[[R:.*]], %[[C:.*]], %arg4, %{{.*}})
// CHECK: nn.attention {{.*}} dropout = 2.500000e-01 by
// CHECK: exec.fusion attention(%arg0, %arg1, %arg2, %[[F]]#0, %[[F]]#1, %arg3, %[[R]], %[[C]], %arg4, %{{.*}})
// CHECK: nn.random
// EXEC-LABEL: exec.program @dropped
// EXEC: exec.attention [{{.*}}memref<2x3x16xi64>>, {{.*}}memref<1x1x16xi64>>, {{.*}}memref<i64>>, {{.*}}memref<i64>>, {{.*}}memref<i32>>, {{.*}}memref<2x3x16x8xf32>>, {{.*}}memref<2x3x16xf32>>] batch 2 heads 3 rows 16 keys 16 width 8 columns 8 scale 5.000000e-01 dropout 2.500000e-01
// EXEC: exec.attention backward {{.*}} dropout 2.500000e-01
func.func @dropped(%q: tensor<2x3x16x8xf32> {nn.name = "q"}, %k: tensor<2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x3x16x8xf32> {nn.name = "v"}, %g: tensor<2x3x16x8xf32> {nn.name = "g"}, %seed: tensor<i64> {nn.name = "seed"}) -> (tensor<2x3x16x8xf32> {nn.name = "out0"}, tensor<2x3x16x8xf32> {nn.name = "out1"}, tensor<2x3x16x8xf32> {nn.name = "out2"}, tensor<2x3x16x8xf32> {nn.name = "out3"}, tensor<2x3x16x8xf32> {nn.name = "out4"}) {
  %r = nn.index [768, 256, 16] : tensor<2x3x16xi64>
  %c = nn.index [0, 0, 1] : tensor<1x1x16xi64>
  %of_heads = nn.index [0, 1000, 1] : tensor<1x3x16xi64>
  %stream = nn.constant dense<3> : tensor<i32>
  %l = nn.attention_log_sum %q, %k scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 dropout = 0.25 by %r, %c, %seed, %seed, %stream : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16xi64>, tensor<1x1x16xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3x16x8xf32>
  %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %g scale = 0.5 dropout = 0.25 by %r, %c, %seed, %seed, %stream : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xi64>, tensor<1x1x16xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3x16x8xf32>
  %dk = nn.attention_gradient key %q, %k, %v, %l, %y, %g scale = 0.5 dropout = 0.25 by %r, %c, %seed, %seed, %stream : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xi64>, tensor<1x1x16xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3x16x8xf32>
  %dv = nn.attention_gradient value %q, %k, %v, %l, %y, %g scale = 0.5 dropout = 0.25 by %r, %c, %seed, %seed, %stream : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xi64>, tensor<1x1x16xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3x16x8xf32>
  %z = nn.attention %q, %k, %v, %l scale = 0.5 dropout = 0.25 by %r, %of_heads, %seed, %seed, %stream : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16xi64>, tensor<1x3x16xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x3x16x8xf32>
  return %y, %dq, %dk, %dv, %z : tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>
}

// -----

// A model alone: the log-sum-exp has no reader. The mask of bools is repeated along batch and rows.
// CHECK-LABEL: @masked
// CUDA-LABEL: @masked
// CUDA: exec.fusion attention_kernel(%arg0, %arg1, %arg3, %arg2)
// CHECK: exec.fusion attention(%arg0, %arg1, %arg3, %arg2)
// EXEC-LABEL: exec.program @masked
// EXEC: exec.attention [{{.*}}memref<1x3x1x16xi1>>, {{.*}}] batch 2 heads 3 rows 16 keys 16 width 8 columns 8 scale 1.000000e+00 mask [0, 16, 0, 1]
func.func @masked(%q: tensor<2x3x16x8xf32> {nn.name = "q"}, %k: tensor<2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x3x16x8xf32> {nn.name = "v"}, %m: tensor<1x3x1x16xi1> {nn.name = "m"}) -> (tensor<2x3x16x8xf32> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k mask = %m scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<1x3x1x16xi1>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l mask = %m scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<1x3x1x16xi1>) -> tensor<2x3x16x8xf32>
  return %y : tensor<2x3x16x8xf32>
}

// -----

// Two batch dims, of which the mask has one: the library has one batch dim. It is expanded, and its scores are a product. A kernel has all.
// CHECK-LABEL: @half_of_batch
// CUDA-LABEL: @half_of_batch
// CUDA: exec.fusion attention_kernel(
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
// CUDA-LABEL: @doubles
// CUDA-NOT: exec.fusion
// CHECK-NOT: exec.fusion
func.func @doubles(%q: tensor<4x16x8xf64> {nn.name = "q"}, %k: tensor<4x16x8xf64> {nn.name = "k"}, %v: tensor<4x16x8xf64> {nn.name = "v"}) -> (tensor<4x16x8xf64> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<4x16x8xf64>, tensor<4x16x8xf64>) -> tensor<4x16xf64>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 : (tensor<4x16x8xf64>, tensor<4x16x8xf64>, tensor<4x16x8xf64>, tensor<4x16xf64>) -> tensor<4x16x8xf64>
  return %y : tensor<4x16x8xf64>
}

// -----

// The log-sum-exp of other scores is an operand like any other.
// CHECK-LABEL: @other_scores
// CUDA-LABEL: @other_scores
// CUDA-NOT: exec.fusion
// CHECK-NOT: exec.fusion
func.func @other_scores(%q: tensor<2x3x16x8xf32> {nn.name = "q"}, %k: tensor<2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x3x16x8xf32> {nn.name = "v"}) -> (tensor<2x3x16x8xf32> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>) -> tensor<2x3x16x8xf32>
  return %y : tensor<2x3x16x8xf32>
}

// -----

// A matrix each, in bf16. On cuda, no call with another diagonal.
// CHECK-LABEL: @matrices
// CUDA-LABEL: @matrices
// CUDA: exec.fusion attention_kernel(
// CHECK: exec.fusion attention
// EXEC-LABEL: exec.program @matrices
// EXEC: exec.attention [{{.*}}memref<16x8xbf16>>, {{.*}}memref<16xf32>>] batch 1 heads 1 rows 16 keys 16 width 8 columns 8 scale 1.000000e+00 causal diagonal 3
func.func @matrices(%q: tensor<16x8xbf16> {nn.name = "q"}, %k: tensor<16x8xbf16> {nn.name = "k"}, %v: tensor<16x8xbf16> {nn.name = "v"}) -> (tensor<16x8xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 causal diagonal = 3 : (tensor<16x8xbf16>, tensor<16x8xbf16>) -> tensor<16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 causal diagonal = 3 : (tensor<16x8xbf16>, tensor<16x8xbf16>, tensor<16x8xbf16>, tensor<16xf32>) -> tensor<16x8xbf16>
  return %y : tensor<16x8xbf16>
}

// -----

// In bf16, each target has a call of an attention and one of its gradients.
// CHECK-LABEL: @narrow
// CHECK-COUNT-2: exec.fusion attention(
// CUDA-LABEL: @narrow
// CUDA: %[[F:.*]]:2 = exec.fusion attention(%arg0, %arg1, %arg2)
// CUDA: nn.attention {{.*}} scale = 5.000000e-01 causal
// CUDA: exec.fusion attention(%arg0, %arg1, %arg2, %[[F]]#0, %[[F]]#1, %arg3)
// CUDA: nn.attention_gradient value
func.func @narrow(%q: tensor<2x3x16x8xbf16> {nn.name = "q"}, %k: tensor<2x3x16x8xbf16> {nn.name = "k"}, %v: tensor<2x3x16x24xbf16> {nn.name = "v"}, %g: tensor<2x3x16x24xbf16> {nn.name = "g"}) -> (tensor<2x3x16x24xbf16> {nn.name = "out0"}, tensor<2x3x16x8xbf16> {nn.name = "out1"}, tensor<2x3x16x8xbf16> {nn.name = "out2"}, tensor<2x3x16x24xbf16> {nn.name = "out3"}) {
  %l = nn.attention_log_sum %q, %k scale = 0.5 causal : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 causal : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x24xbf16>, tensor<2x3x16xf32>) -> tensor<2x3x16x24xbf16>
  %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %g scale = 0.5 causal : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x24xbf16>, tensor<2x3x16xf32>, tensor<2x3x16x24xbf16>, tensor<2x3x16x24xbf16>) -> tensor<2x3x16x8xbf16>
  %dk = nn.attention_gradient key %q, %k, %v, %l, %y, %g scale = 0.5 causal : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x24xbf16>, tensor<2x3x16xf32>, tensor<2x3x16x24xbf16>, tensor<2x3x16x24xbf16>) -> tensor<2x3x16x8xbf16>
  %dv = nn.attention_gradient value %q, %k, %v, %l, %y, %g scale = 0.5 causal : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x24xbf16>, tensor<2x3x16xf32>, tensor<2x3x16x24xbf16>, tensor<2x3x16x24xbf16>) -> tensor<2x3x16x24xbf16>
  return %y, %dq, %dk, %dv : tensor<2x3x16x24xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x24xbf16>
}

// -----

// F16, without a mask and with more keys than rows: cuda alone.
// CHECK-LABEL: @half
// CHECK-NOT: exec.fusion
// CUDA-LABEL: @half
// CUDA: exec.fusion attention(
func.func @half(%q: tensor<2x3x16x8xf16> {nn.name = "q"}, %k: tensor<2x3x20x8xf16> {nn.name = "k"}, %v: tensor<2x3x20x8xf16> {nn.name = "v"}) -> (tensor<2x3x16x8xf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<2x3x16x8xf16>, tensor<2x3x20x8xf16>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 : (tensor<2x3x16x8xf16>, tensor<2x3x20x8xf16>, tensor<2x3x20x8xf16>, tensor<2x3x16xf32>) -> tensor<2x3x16x8xf16>
  return %y : tensor<2x3x16x8xf16>
}

// -----

// Widths that are no multiple of 8 have a kernel on cuda.
// CHECK-LABEL: @odd_width
// CHECK: exec.fusion attention(
// CUDA-LABEL: @odd_width
// CUDA: exec.fusion attention_kernel(
func.func @odd_width(%q: tensor<2x3x16x8xbf16> {nn.name = "q"}, %k: tensor<2x3x16x8xbf16> {nn.name = "k"}, %v: tensor<2x3x16x12xbf16> {nn.name = "v"}) -> (tensor<2x3x16x12xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x12xbf16>, tensor<2x3x16xf32>) -> tensor<2x3x16x12xbf16>
  return %y : tensor<2x3x16x12xbf16>
}

// -----

// On cuda, a mask of the operands' type is repeated for all rows, once for both calls.
// CUDA-LABEL: @narrow_mask
// CUDA: %[[M:.*]] = nn.broadcast {{.*}} -> tensor<2x1x16x16xbf16>
// CUDA: %[[F:.*]]:2 = exec.fusion attention(%arg0, %arg1, %[[M]], %arg2)
// CUDA-NOT: nn.broadcast
// CUDA: exec.fusion attention(%arg0, %arg1, %arg2, %[[F]]#0, %[[F]]#1, %arg4, %[[M]])
func.func @narrow_mask(%q: tensor<2x3x16x8xbf16> {nn.name = "q"}, %k: tensor<2x3x16x8xbf16> {nn.name = "k"}, %v: tensor<2x3x16x8xbf16> {nn.name = "v"}, %m: tensor<2x1x1x16xbf16> {nn.name = "m"}, %g: tensor<2x3x16x8xbf16> {nn.name = "g"}) -> (tensor<2x3x16x8xbf16> {nn.name = "out0"}, tensor<2x3x16x8xbf16> {nn.name = "out1"}) {
  %l = nn.attention_log_sum %q, %k mask = %m scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x1x1x16xbf16>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l mask = %m scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16xf32>, tensor<2x1x1x16xbf16>) -> tensor<2x3x16x8xbf16>
  %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %g mask = %m scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16xf32>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x1x1x16xbf16>) -> tensor<2x3x16x8xbf16>
  return %y, %dq : tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>
}

// -----

// The call there takes no mask of another type, nor one for a number of keys that is no multiple of 8: a kernel repeats it itself.
// CUDA-LABEL: @wide_mask
// CUDA-NOT: nn.broadcast
// CUDA: exec.fusion attention_kernel(
func.func @wide_mask(%q: tensor<2x3x16x8xbf16> {nn.name = "q"}, %k: tensor<2x3x16x8xbf16> {nn.name = "k"}, %v: tensor<2x3x16x8xbf16> {nn.name = "v"}, %m: tensor<2x1x1x16xf32> {nn.name = "m"}) -> (tensor<2x3x16x8xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k mask = %m scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x1x1x16xf32>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l mask = %m scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16xf32>, tensor<2x1x1x16xf32>) -> tensor<2x3x16x8xbf16>
  return %y : tensor<2x3x16x8xbf16>
}

// -----

// CUDA-LABEL: @mask_of_12_keys
// CUDA: exec.fusion attention_kernel(
func.func @mask_of_12_keys(%q: tensor<2x3x16x8xbf16> {nn.name = "q"}, %k: tensor<2x3x12x8xbf16> {nn.name = "k"}, %v: tensor<2x3x12x8xbf16> {nn.name = "v"}, %m: tensor<2x3x16x12xbf16> {nn.name = "m"}) -> (tensor<2x3x16x8xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k mask = %m scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x12x8xbf16>, tensor<2x3x16x12xbf16>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l mask = %m scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x12x8xbf16>, tensor<2x3x12x8xbf16>, tensor<2x3x16xf32>, tensor<2x3x16x12xbf16>) -> tensor<2x3x16x8xbf16>
  return %y : tensor<2x3x16x8xbf16>
}

// -----

// One key is too few for the library.
// CUDA-LABEL: @one_key
// CUDA: exec.fusion attention_kernel(
func.func @one_key(%q: tensor<2x3x16x8xbf16> {nn.name = "q"}, %k: tensor<2x3x1x8xbf16> {nn.name = "k"}, %v: tensor<2x3x1x8xbf16> {nn.name = "v"}) -> (tensor<2x3x16x8xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x1x8xbf16>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 : (tensor<2x3x16x8xbf16>, tensor<2x3x1x8xbf16>, tensor<2x3x1x8xbf16>, tensor<2x3x16xf32>) -> tensor<2x3x16x8xbf16>
  return %y : tensor<2x3x16x8xbf16>
}

// -----

// Nothing to compute.
// CHECK-LABEL: @empty
// CHECK-NOT: exec.fusion
// EXEC-LABEL: exec.program @empty
func.func @empty(%q: tensor<4x0x8xf32> {nn.name = "q"}, %k: tensor<4x3x8xf32> {nn.name = "k"}, %v: tensor<4x3x8xf32> {nn.name = "v"}) -> (tensor<4x0x8xf32> {nn.name = "out"}) {
  %l = nn.attention_log_sum %q, %k scale = 1.0 : (tensor<4x0x8xf32>, tensor<4x3x8xf32>) -> tensor<4x0xf32>
  %y = nn.attention %q, %k, %v, %l scale = 1.0 : (tensor<4x0x8xf32>, tensor<4x3x8xf32>, tensor<4x3x8xf32>, tensor<4x0xf32>) -> tensor<4x0x8xf32>
  return %y : tensor<4x0x8xf32>
}

// -----

// Heads are taken out of rows and put back into them: the calls read and write what is around, and no transpose is left but for a reader
// of the gradient of the keys as it was.
// CHECK-LABEL: @heads_inside
// CHECK-NOT: nn.transpose
// CHECK: %[[F:.*]]:2 = exec.fusion attention(%arg0, %arg1, %arg2)
// CHECK-SAME: tensor<2x3x16xf32>, tensor<2x16x3x8xf32>
// CHECK-COUNT-3: nn.transpose %{{.*}} [0, 2, 1, 3]
// CHECK-NEXT: nn.attention_log_sum
// CHECK: %[[Y:.*]] = nn.attention
// CHECK: %[[T:.*]] = nn.transpose %[[Y]] [0, 2, 1, 3]
// CHECK: exec.yield %{{.*}}, %[[T]]
// CHECK-NOT: nn.transpose
// CHECK: %[[B:.*]]:3 = exec.fusion attention(%arg0, %arg1, %arg2, %[[F]]#0, %[[F]]#1, %arg3)
// CHECK-SAME: -> (tensor<2x16x3x8xf32>, tensor<2x16x3x8xf32>, tensor<2x3x16x8xf32>)
// CHECK: exec.yield
// CHECK: %[[BACK:.*]] = nn.transpose %[[B]]#1 [0, 2, 1, 3]
// CHECK-NOT: nn.transpose
// CHECK: return %[[F]]#1, %[[B]]#0, %[[BACK]], %[[B]]#1, %[[B]]#2
// EXEC-LABEL: exec.program @heads_inside
// EXEC-NOT: exec.loop
// EXEC: exec.attention [{{.*}}] batch 2 heads 3 rows 16 keys 16 width 8 columns 8 scale 5.000000e-01 heads_inside(q, k, v, out)
// EXEC: exec.attention backward [{{.*}}] batch 2 heads 3 rows 16 keys 16 width 8 columns 8 scale 5.000000e-01 heads_inside(q, k, v, out, d_out, d_q, d_k)
func.func @heads_inside(%q0: tensor<2x16x3x8xf32> {nn.name = "q"}, %k0: tensor<2x16x3x8xf32> {nn.name = "k"}, %v0: tensor<2x16x3x8xf32> {nn.name = "v"}, %g0: tensor<2x16x3x8xf32> {nn.name = "g"}) -> (tensor<2x16x3x8xf32> {nn.name = "out0"}, tensor<2x16x3x8xf32> {nn.name = "out1"}, tensor<2x3x16x8xf32> {nn.name = "out2"}, tensor<2x16x3x8xf32> {nn.name = "out3"}, tensor<2x3x16x8xf32> {nn.name = "out4"}) {
  %q = nn.transpose %q0 [0, 2, 1, 3] : tensor<2x16x3x8xf32> -> tensor<2x3x16x8xf32>
  %k = nn.transpose %k0 [0, 2, 1, 3] : tensor<2x16x3x8xf32> -> tensor<2x3x16x8xf32>
  %v = nn.transpose %v0 [0, 2, 1, 3] : tensor<2x16x3x8xf32> -> tensor<2x3x16x8xf32>
  %l = nn.attention_log_sum %q, %k scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>) -> tensor<2x3x16x8xf32>
  %y0 = nn.transpose %y [0, 2, 1, 3] : tensor<2x3x16x8xf32> -> tensor<2x16x3x8xf32>
  %g = nn.transpose %g0 [0, 2, 1, 3] : tensor<2x16x3x8xf32> -> tensor<2x3x16x8xf32>
  %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %g scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x16x8xf32>
  %dk = nn.attention_gradient key %q, %k, %v, %l, %y, %g scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x16x8xf32>
  %dv = nn.attention_gradient value %q, %k, %v, %l, %y, %g scale = 0.5 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> tensor<2x3x16x8xf32>
  %dq0 = nn.transpose %dq [0, 2, 1, 3] : tensor<2x3x16x8xf32> -> tensor<2x16x3x8xf32>
  %dk0 = nn.transpose %dk [0, 2, 1, 3] : tensor<2x3x16x8xf32> -> tensor<2x16x3x8xf32>
  return %y0, %dq0, %dk, %dk0, %dv : tensor<2x16x3x8xf32>, tensor<2x16x3x8xf32>, tensor<2x3x16x8xf32>, tensor<2x16x3x8xf32>, tensor<2x3x16x8xf32>
}

// -----

// A mask and a log-sum-exp are read as they are, and other transposes stay.
// CHECK-LABEL: @heads_stay
// CHECK-DAG: %[[M:.*]] = nn.transpose %arg1 [0, 2, 1, 3]
// CHECK-DAG: %[[Q:.*]] = nn.transpose %arg0 [2, 0, 1, 3]
// CHECK: %[[F:.*]]:2 = exec.fusion attention(%[[Q]], %arg2, %[[M]], %arg3)
// CHECK: nn.transpose %[[F]]#0 [1, 0, 2]
func.func @heads_stay(%q0: tensor<3x16x2x8xf32> {nn.name = "q"}, %m0: tensor<2x16x3x16xf32> {nn.name = "m"}, %k: tensor<2x3x16x8xf32> {nn.name = "k"}, %v: tensor<2x3x16x8xf32> {nn.name = "v"}) -> (tensor<2x3x16x8xf32> {nn.name = "out0"}, tensor<3x2x16xf32> {nn.name = "out1"}) {
  %q = nn.transpose %q0 [2, 0, 1, 3] : tensor<3x16x2x8xf32> -> tensor<2x3x16x8xf32>
  %m = nn.transpose %m0 [0, 2, 1, 3] : tensor<2x16x3x16xf32> -> tensor<2x3x16x16xf32>
  %l = nn.attention_log_sum %q, %k mask = %m scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x16xf32>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l mask = %m scale = 1.0 : (tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16xf32>, tensor<2x3x16x16xf32>) -> tensor<2x3x16x8xf32>
  %l0 = nn.transpose %l [1, 0, 2] : tensor<2x3x16xf32> -> tensor<3x2x16xf32>
  return %y, %l0 : tensor<2x3x16x8xf32>, tensor<3x2x16xf32>
}

// -----

// Windows and softcaps are in the cpu's call, and in a kernel of cuda.
// CHECK-LABEL: @window
// CHECK: exec.fusion attention(
// CUDA-LABEL: @window
// CUDA: exec.fusion attention_kernel(
// EXEC-LABEL: exec.program @window
// EXEC: exec.attention [{{.*}}] batch 1 heads 3 rows 16 keys 16 width 8 columns 8 scale 1.000000e+00 causal window 4 softcap 3.000000e+01
func.func @window(%q: tensor<3x16x8xbf16> {nn.name = "q"}) -> (tensor<3x16x8xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %q scale = 1.0 causal window = 4 softcap = 30.0 : (tensor<3x16x8xbf16>, tensor<3x16x8xbf16>) -> tensor<3x16xf32>
  %y = nn.attention %q, %q, %q, %l scale = 1.0 causal window = 4 softcap = 30.0 : (tensor<3x16x8xbf16>, tensor<3x16x8xbf16>, tensor<3x16x8xbf16>, tensor<3x16xf32>) -> tensor<3x16x8xbf16>
  return %y : tensor<3x16x8xbf16>
}

// -----

// Another window is another score.
// CHECK-LABEL: @other_window
// CHECK-NOT: exec.fusion
func.func @other_window(%q: tensor<3x16x8xbf16> {nn.name = "q"}) -> (tensor<3x16x8xbf16> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %q scale = 1.0 causal : (tensor<3x16x8xbf16>, tensor<3x16x8xbf16>) -> tensor<3x16xf32>
  %y = nn.attention %q, %q, %q, %l scale = 1.0 causal window = 4 : (tensor<3x16x8xbf16>, tensor<3x16x8xbf16>, tensor<3x16x8xbf16>, tensor<3x16xf32>) -> tensor<3x16x8xbf16>
  return %y : tensor<3x16x8xbf16>
}

// -----

// Results of more than 256 columns together are of a kernel each; wider heads are expanded.
// CHECK-LABEL: @wide
// CUDA-LABEL: @wide
// CUDA: exec.fusion attention_kernel({{.*}} -> tensor<2x16xf32>
// CUDA-COUNT-2: exec.fusion attention_kernel({{.*}} -> tensor<2x16x160xf32>
// CUDA-NOT: exec.fusion
func.func @wide(%q: tensor<2x16x160xf32> {nn.name = "q"}, %k: tensor<2x16x160xf32> {nn.name = "k"}, %v: tensor<2x16x160xf32> {nn.name = "v"}, %l: tensor<2x16xf32> {nn.name = "l"}, %y: tensor<2x16x160xf32> {nn.name = "y"}, %g: tensor<2x16x160xf32> {nn.name = "g"}) -> (tensor<2x16x160xf32> {nn.name = "out0"}, tensor<2x16x160xf32> {nn.name = "out1"}) {
  %dk = nn.attention_gradient key %q, %k, %v, %l, %y, %g scale = 0.5 : (tensor<2x16x160xf32>, tensor<2x16x160xf32>, tensor<2x16x160xf32>, tensor<2x16xf32>, tensor<2x16x160xf32>, tensor<2x16x160xf32>) -> tensor<2x16x160xf32>
  %dv = nn.attention_gradient value %q, %k, %v, %l, %y, %g scale = 0.5 : (tensor<2x16x160xf32>, tensor<2x16x160xf32>, tensor<2x16x160xf32>, tensor<2x16xf32>, tensor<2x16x160xf32>, tensor<2x16x160xf32>) -> tensor<2x16x160xf32>
  return %dk, %dv : tensor<2x16x160xf32>, tensor<2x16x160xf32>
}

// -----

// CUDA-LABEL: @widest
// CUDA-NOT: exec.fusion
func.func @widest(%q: tensor<2x16x8xf32> {nn.name = "q"}, %v: tensor<2x16x264xf32> {nn.name = "v"}) -> (tensor<2x16x264xf32> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %q scale = 1.0 : (tensor<2x16x8xf32>, tensor<2x16x8xf32>) -> tensor<2x16xf32>
  %y = nn.attention %q, %q, %v, %l scale = 1.0 : (tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x16x264xf32>, tensor<2x16xf32>) -> tensor<2x16x264xf32>
  return %y : tensor<2x16x264xf32>
}

// -----

// A gradient in f32 is none of cuDNN's: all three are kernels. A mask of f64 is added by the model's ops.
// CUDA-LABEL: @mixed
// CUDA: exec.fusion attention(
// CUDA-COUNT-3: exec.fusion attention_kernel(
// CUDA-NOT: nn.matmul
func.func @mixed(%q: tensor<2x3x16x8xbf16> {nn.name = "q"}, %k: tensor<2x3x16x8xbf16> {nn.name = "k"}, %v: tensor<2x3x16x8xbf16> {nn.name = "v"}, %g: tensor<2x3x16x8xbf16> {nn.name = "g"}) -> (tensor<2x3x16x8xbf16> {nn.name = "out0"}, tensor<2x3x16x8xf32> {nn.name = "out1"}, tensor<2x3x16x8xbf16> {nn.name = "out2"}) {
  %l = nn.attention_log_sum %q, %k scale = 0.5 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>) -> tensor<2x3x16xf32>
  %y = nn.attention %q, %k, %v, %l scale = 0.5 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16xf32>) -> tensor<2x3x16x8xbf16>
  %dq = nn.attention_gradient query %q, %k, %v, %l, %y, %g scale = 0.5 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16xf32>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>) -> tensor<2x3x16x8xf32>
  %dk = nn.attention_gradient key %q, %k, %v, %l, %y, %g scale = 0.5 : (tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>, tensor<2x3x16xf32>, tensor<2x3x16x8xbf16>, tensor<2x3x16x8xbf16>) -> tensor<2x3x16x8xbf16>
  return %y, %dq, %dk : tensor<2x3x16x8xbf16>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xbf16>
}

// -----

// CUDA-LABEL: @mask_of_doubles
// CUDA-NOT: exec.fusion
func.func @mask_of_doubles(%q: tensor<2x16x8xf32> {nn.name = "q"}, %m: tensor<2x16x16xf64> {nn.name = "m"}) -> (tensor<2x16x8xf32> {nn.name = "out0"}) {
  %l = nn.attention_log_sum %q, %q mask = %m scale = 1.0 : (tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x16x16xf64>) -> tensor<2x16xf32>
  %y = nn.attention %q, %q, %q, %l mask = %m scale = 1.0 : (tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x16xf32>, tensor<2x16x16xf64>) -> tensor<2x16x8xf32>
  return %y : tensor<2x16x8xf32>
}
