// RUN: ashlar-opt %s | ashlar-opt | FileCheck %s

// Every op of the tensor form and the buffer form survives printing and parsing.

// CHECK-LABEL: func.func @fusions
func.func @fusions(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> (tensor<4x2xf32>, tensor<4xf32>) {
  // CHECK: exec.fusion gemm(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> {
  // CHECK: exec.yield
  %y = exec.fusion gemm(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> {
  ^bb0(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>):
    %r = nn.matmul %a, %b : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
    exec.yield %r : tensor<4x2xf32>
  }
  // CHECK: exec.fusion rows(%{{.*}}) : (tensor<4x2xf32>) -> tensor<4xf32> {
  %s = exec.fusion rows(%y) : (tensor<4x2xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4x2xf32>):
    %r = nn.reduce sum %a dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
    exec.yield %r : tensor<4xf32>
  }
  return %y, %s : tensor<4x2xf32>, tensor<4xf32>
}

dist.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: func.func @beside
func.func @beside(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  // CHECK: %[[S:.*]]:2 = dist.all_reduce {{.*}} {exec.overlap = #exec.overlap<duration_ns = 52000, hidden_ns = 41000>}
  // CHECK: exec.await %[[S]]#0, %[[S]]#1 : tensor<4xf32>, tensor<8xf32>
  %a, %b = dist.all_reduce sum %x, %y over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 52000, hidden_ns = 41000>} : tensor<4xf32>, tensor<8xf32>
  %c, %d = exec.await %a, %b : tensor<4xf32>, tensor<8xf32>
  return %c, %d : tensor<4xf32>, tensor<8xf32>
}

// CHECK: exec.variant @default arena 1024 attributes {axis_names = ["dp", "tp"], axis_sizes = array<i64: 2, 2>
exec.variant @default arena 1024 attributes {axis_names = ["dp", "tp"], axis_sizes = array<i64: 2, 2>, coordinates_offset = 0 : i64,
                                             devices_per_process = 2 : i64, lower_bound_bytes = 1000 : i64} {
  // CHECK: exec.tensor @w variable <arena, 64, memref<8x2xf32>> global [8, 8] splits [array<i64>, array<i64: 1, 0>]
  exec.tensor @w variable <arena, 64, memref<8x2xf32>> global [8, 8] splits [array<i64>, array<i64: 1, 0>]
  // CHECK: exec.tensor @v state
  exec.tensor @v state <arena, 128, memref<i64>> global [] splits []
  // CHECK: exec.tensor @x input {{.*}} {outside_name = "train"}
  exec.tensor @x input <arena, 192, memref<4xi1>> global [4] splits [array<i64>] {outside_name = "train"}
  // CHECK: exec.tensor @y output {{.*}} {counts = ["y.count"]}
  exec.tensor @y output <arena, 256, memref<4xf32>> global [8] splits [array<i64: 0>] {counts = ["y.count"]}
  // CHECK: exec.program @train inputs [@x] outputs [@y] {
  exec.program @train inputs [@x] outputs [@y] {
    // CHECK: exec.kernel @k [#exec.buffer<arena, 192, memref<4xi1>>, #exec.buffer<constant, 0, memref<4xf32>>] reads [0, 1] writes [0] extent 4 grain 2
    exec.kernel @k [#exec.buffer<arena, 192, memref<4xi1>>, #exec.buffer<constant, 0, memref<4xf32>>] reads [0, 1] writes [0] extent 4 grain 2
    // CHECK: exec.gemm [{{.*}}] batch 2 m 3 n 4 k 5 transpose_a transpose_b bias epilogue gelu_tanh
    exec.gemm [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
               #exec.buffer<arena, 64, memref<f32>>] batch 2 m 3 n 4 k 5 transpose_a transpose_b bias epilogue gelu_tanh
    // CHECK: exec.attention [{{.*}}] batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 causal diagonal 1 window 2 softcap 3.000000e+00 mask [0, 0, 5, 1]
    exec.attention [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                    #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>]
                   batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 causal diagonal 1 window 2 softcap 3.000000e+00 mask [0, 0, 5, 1]
    // CHECK: exec.attention [{{.*}}] batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 causal positions
    exec.attention [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                    #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                    #exec.buffer<arena, 64, memref<f32>>]
                   batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 causal positions
    // CHECK: exec.attention [{{.*}}] batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 dropout 2.500000e-01
    exec.attention [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                    #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                    #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                    #exec.buffer<arena, 64, memref<f32>>]
                   batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 dropout 2.500000e-01
    // CHECK: exec.attention [{{.*}}] batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 heads_inside(k, out)
    exec.attention [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                    #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>]
                   batch 2 heads 3 rows 4 keys 5 width 6 columns 7 scale 5.000000e-01 heads_inside(out, k)
    // CHECK: exec.insert [{{.*}}] outer 2 rows 1 of 2 row_bytes 4
    exec.insert [#exec.buffer<arena, 192, memref<2xf32>>, #exec.buffer<arena, 128, memref<i64>>, #exec.buffer<arena, 256, memref<4xf32>>]
                outer 2 rows 1 of 2 row_bytes 4
    // CHECK: exec.gemm [{{.*}}] batch 1 m 1 n 1 k 1 epilogue none
    exec.gemm [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>]
              batch 1 m 1 n 1 k 1 epilogue none
    // CHECK: exec.gemm [{{.*}}] batch 1 m 1 n 1 k 1 transpose_a epilogue none sum_of rhs tf32
    exec.gemm [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
               #exec.buffer<arena, 64, memref<f32>>] batch 1 m 1 n 1 k 1 transpose_a epilogue none sum_of rhs tf32
    // CHECK: exec.gemm [{{.*}}] batch 1 m 1 n 1 k 1 bias epilogue gelu_tanh auxiliary written
    exec.gemm [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
               #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>] batch 1 m 1 n 1 k 1 bias epilogue gelu_tanh auxiliary written
    // CHECK: exec.gemm [{{.*}}] batch 1 m 1 n 1 k 1 epilogue relu auxiliary read
    exec.gemm [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
               #exec.buffer<arena, 64, memref<f32>>] batch 1 m 1 n 1 k 1 epilogue relu auxiliary read
    // CHECK: exec.conv forward [{{.*}}] batch 2 groups 3 channels 4 to 5 dims [#exec.conv_dim<in = 8, out = 4, kernel = 3, stride = 2, dilation = 1, low = -1>] bias residual epilogue relu
    exec.conv forward [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>,
                       #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>] batch 2 groups 3 channels 4 to 5
              dims [#exec.conv_dim<in = 8, out = 4, kernel = 3, stride = 2, dilation = 1, low = -1>] bias residual epilogue relu
    // CHECK: exec.conv weights [{{.*}}] batch 1 groups 1 channels 1 to 1 dims [{{.*}}, {{.*}}] epilogue none
    exec.conv weights [#exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>, #exec.buffer<arena, 64, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>,
                                                     #exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue none
    // CHECK: exec.conv weights [{{.*}}memref<bf16>>, {{.*}}memref<bf16>>, {{.*}}memref<f32>>]
    exec.conv weights [#exec.buffer<arena, 64, memref<bf16>>, #exec.buffer<arena, 64, memref<bf16>>, #exec.buffer<arena, 64, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue none
    // CHECK: exec.collective reduce_scatter <arena, 64, memref<8xf32>> to <arena, 128, memref<2xf32>> over [1, 0] reduction max split 0 concat 0 cause [#dist.end<kind = op, name = "fc1">]
    exec.collective reduce_scatter <arena, 64, memref<8xf32>> to <arena, 128, memref<2xf32>> over [1, 0] reduction max split 0 concat 0 cause [#dist.end<kind = op, name = "fc1">]
    // CHECK: exec.collective all_gather <arena, 64, memref<8xf32>>, <arena, 128, memref<2xf32>> to <arena, 256, memref<16xf32>>, <arena, 320, memref<4xf32>> over [0] reduction sum split 0, 0 concat 0, 0
    exec.collective all_gather <arena, 64, memref<8xf32>>, <arena, 128, memref<2xf32>> to <arena, 256, memref<16xf32>>, <arena, 320, memref<4xf32>> over [0] reduction sum split 0, 0 concat 0, 0
    // CHECK: exec.collective halo <arena, 64, memref<8xf32>> to <arena, 128, memref<10xf32>> over [0] reduction sum split 0 concat 0 segments [16, 16, 1, 0, 1, 16, 1, -1, 2]
    exec.collective halo <arena, 64, memref<8xf32>> to <arena, 128, memref<10xf32>> over [0] reduction sum split 0 concat 0 segments [16, 16, 1, 0, 1, 16, 1, -1, 2]
    // CHECK: exec.collective all_reduce {{.*}} split 0 concat 0 token 3 {overlap = #exec.overlap<duration_ns = 2, hidden_ns = 1>}
    exec.collective all_reduce <arena, 64, memref<8xf32>> to <arena, 64, memref<8xf32>> over [0] reduction sum split 0 concat 0 token 3 {overlap = #exec.overlap<duration_ns = 2, hidden_ns = 1>}
    // CHECK: exec.wait 3
    exec.wait 3
    // CHECK: exec.copy <constant, 0, memref<4xf32>> to <arena, 256, memref<4xf32>>
    exec.copy <constant, 0, memref<4xf32>> to <arena, 256, memref<4xf32>>
  }
}

// CHECK: exec.constant at 0 = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
exec.constant at 0 = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>

// CHECK-LABEL: func.func @activated
func.func @activated(%x: tensor<32x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>, %dy: tensor<32x4xf32>, %v: tensor<16x4xf32>) -> tensor<32x16xf32> {
  // CHECK: exec.product_with_auxiliary relu %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<32x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> (tensor<32x16xf32>, tensor<32x16xi8>)
  %y, %mask = exec.product_with_auxiliary relu %x, %w bias %b : (tensor<32x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> (tensor<32x16xf32>, tensor<32x16xi8>)
  // CHECK: exec.product_with_slope relu %{{.*}}, %{{.*}}, %{{.*}} transpose_b : (tensor<32x4xf32>, tensor<16x4xf32>, tensor<32x16xi8>) -> tensor<32x16xf32>
  %dx = exec.product_with_slope relu %dy, %v, %mask transpose_b : (tensor<32x4xf32>, tensor<16x4xf32>, tensor<32x16xi8>) -> tensor<32x16xf32>
  return %dx : tensor<32x16xf32>
}
