// RUN: ashlar-opt %s -split-input-file -verify-diagnostics

func.func @fusion_c1(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{has operands of types 'tensor<4xf32>' but block arguments of types 'tensor<8xf32>'}}
  %y = exec.fusion loop(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<8xf32>):
    %r = nn.constant dense<0.0> : tensor<4xf32>
    exec.yield %r : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

func.func @fusion_c2(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{yields types 'tensor<4xf32>' but has results of types 'tensor<8xf32>'}}
  %y = exec.fusion loop(%x) : (tensor<4xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<4xf32>):
    exec.yield %a : tensor<4xf32>
  }
  return %y : tensor<8xf32>
}

// -----

exec.variant @tensor_c1_rank arena 64 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                  devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{has rank 1 but 2 global sizes and 1 splits}}
  exec.tensor @x input <arena, 0, memref<4xf32>> global [4, 1] splits [array<i64>]
}

// -----

exec.variant @tensor_c1_axis arena 64 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                  devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{dim 0 is split by axis 1 of a mesh with 1 axes}}
  exec.tensor @x input <arena, 0, memref<4xf32>> global [8] splits [array<i64: 1>]
}

// -----

exec.variant @tensor_c1_size arena 64 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                  devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{dim 0 of global size 4 has pieces of size 2 but local size 4}}
  exec.tensor @x input <arena, 0, memref<4xf32>> global [4] splits [array<i64: 0>]
}

// -----

exec.variant @tensor_c2 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                             devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{has rank 1 but 2 counts}}
  exec.tensor @x output <arena, 0, memref<4xf32>> global [4] splits [array<i64>] {counts = ["", "n"]}
}

// -----

exec.variant @kernel_c1_outside arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                     devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{lists a use of buffer 1 but has 1 buffers}}
    exec.kernel @k [#exec.buffer<arena, 0, memref<f32>>] reads [0] writes [1] extent 1 grain 1
  }
}

// -----

exec.variant @kernel_c1_unused arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                    devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{does not list its use of buffer 1; put it into reads or writes}}
    exec.kernel @k [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>] reads [0] writes [] extent 1 grain 1
  }
}

// -----

exec.variant @gemm_c1 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 3 buffers, needs 4}}
    exec.gemm [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
              batch 1 m 1 n 1 k 1 bias epilogue none
  }
}

// -----

exec.variant @gemm_c2 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{sums an operand, which it can only of one batch, with neither bias nor epilogue}}
    exec.gemm [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>,
               #exec.buffer<arena, 0, memref<f32>>] batch 1 m 1 n 1 k 1 epilogue relu sum_of lhs
  }
}

// -----

exec.variant @gemm_c3 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{accumulates, which it can only with neither bias nor sums}}
    exec.gemm [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>,
               #exec.buffer<arena, 0, memref<f32>>] batch 1 m 1 n 1 k 1 bias accumulate epilogue none
  }
}

// -----

exec.variant @gemm_c4_batch arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                 devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has an auxiliary tensor, which it can only of one batch, with an epilogue, and when it does not accumulate}}
    exec.gemm [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>,
               #exec.buffer<arena, 0, memref<f32>>] batch 1 m 1 n 1 k 1 epilogue none auxiliary written
  }
}

// -----

exec.variant @gemm_c4_bias arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{reads an auxiliary tensor, which it can only without bias}}
    exec.gemm [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>,
               #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>] batch 1 m 1 n 1 k 1 bias epilogue relu auxiliary read
  }
}

// -----

exec.variant @attention_c1 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 2 buffers, needs 9}}
    exec.attention backward [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
                   batch 1 heads 1 rows 1 keys 1 width 1 columns 1 scale 1.0
  }
}

// -----

exec.variant @attention_c1_dropout arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                        devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 2 buffers, needs 10}}
    exec.attention [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
                   batch 1 heads 1 rows 1 keys 1 width 1 columns 1 scale 1.0 dropout 0.5
  }
}

// -----

exec.variant @attention_c2 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 1 strides of its mask, which are 4}}
    exec.attention [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>,
                    #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
                   batch 1 heads 1 rows 1 keys 1 width 1 columns 1 scale 1.0 mask [1]
  }
}

// -----

exec.variant @attention_c3 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has heads inside rows of q, d_k, of which it has q, k, v, out}}
    exec.attention [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>,
                    #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
                   batch 1 heads 1 rows 1 keys 1 width 1 columns 1 scale 1.0 heads_inside(q, d_k)
  }
}

// -----

exec.variant @insert_c1 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                             devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 2 buffers, needs 3}}
    exec.insert [#exec.buffer<arena, 0, memref<2xf32>>, #exec.buffer<arena, 0, memref<i64>>]
                outer 2 rows 1 of 2 row_bytes 4
  }
}

// -----

exec.variant @insert_c2_rows arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                  devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 4 bytes in buffer 0, needs 8}}
    exec.insert [#exec.buffer<arena, 0, memref<1xf32>>, #exec.buffer<arena, 0, memref<i64>>, #exec.buffer<arena, 0, memref<4xf32>>]
                outer 2 rows 1 of 2 row_bytes 4
  }
}

// -----

exec.variant @insert_c2_target arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                    devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 8 bytes in buffer 2, needs 16}}
    exec.insert [#exec.buffer<arena, 0, memref<2xf32>>, #exec.buffer<arena, 0, memref<i64>>, #exec.buffer<arena, 0, memref<2xf32>>]
                outer 2 rows 1 of 2 row_bytes 4
  }
}

// -----

exec.variant @insert_c3 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                             devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has an index of type 'memref<1xi64>', needs one i32 or i64}}
    exec.insert [#exec.buffer<arena, 0, memref<2xf32>>, #exec.buffer<arena, 0, memref<1xi64>>, #exec.buffer<arena, 0, memref<4xf32>>]
                outer 2 rows 1 of 2 row_bytes 4
  }
}

// -----

exec.variant @insert_c3_type arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                  devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has an index of type 'memref<i16>', needs one i32 or i64}}
    exec.insert [#exec.buffer<arena, 0, memref<2xf32>>, #exec.buffer<arena, 0, memref<i16>>, #exec.buffer<arena, 0, memref<4xf32>>]
                outer 2 rows 1 of 2 row_bytes 4
  }
}

// -----

exec.variant @conv_c1 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 3 buffers, needs 4}}
    exec.conv data [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] residual epilogue none
  }
}

// -----

exec.variant @conv_c2 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{computes weights, to which it can add neither scale, bias, residual nor epilogue}}
    exec.conv weights [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue relu
  }
}

// -----

exec.variant @conv_c3 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 0 spatial dims, which are 1 to 3}}
    exec.conv forward [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [] epilogue none
  }
}

// -----

exec.variant @conv_c4 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has buffers of element types 'f32' and 'f16'}}
    exec.conv forward [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f16>>, #exec.buffer<arena, 0, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue none
  }
}

// -----

// A bias has the type of the result.
exec.variant @conv_c4_bias arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has buffers of element types 'f32' and 'bf16'}}
    exec.conv forward [#exec.buffer<arena, 0, memref<bf16>>, #exec.buffer<arena, 0, memref<bf16>>, #exec.buffer<arena, 0, memref<bf16>>,
                       #exec.buffer<arena, 0, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] bias epilogue none
  }
}

// -----

exec.variant @conv_c5 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{computes weights that are marked as fixed}}
    exec.conv weights [#exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>, #exec.buffer<arena, 0, memref<f32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue none fixed_weights
  }
}

// -----

func.func @product_with_sums_c1(%x: tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  // expected-error@+1 {{sums none of its operands; specify lhs or rhs}}
  %p, %s = exec.product_with_sums none %x, %x transpose_a : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>, tensor<4xf32>
  return %p, %s : tensor<4x4xf32>, tensor<4xf32>
}

// -----

func.func @product_with_sums_c2_contraction(%x: tensor<8x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  // expected-error@+1 {{cannot multiply [8, 4] and [8, 4]}}
  %p, %s = exec.product_with_sums lhs %x, %x : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>, tensor<4xf32>
  return %p, %s : tensor<4x4xf32>, tensor<4xf32>
}

// -----

func.func @product_with_sums_c2_results(%x: tensor<8x4xf32>, %y: tensor<8x2xf32>) -> (tensor<4x2xf32>, tensor<4xf32>) {
  // expected-error@+1 {{has results of shapes [4, 2] and [4], needs [4, 2] and [2]}}
  %p, %s = exec.product_with_sums rhs %x, %y transpose_a : tensor<8x4xf32>, tensor<8x2xf32> -> tensor<4x2xf32>, tensor<4xf32>
  return %p, %s : tensor<4x2xf32>, tensor<4xf32>
}

// -----

func.func @product_with_auxiliary_c1(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>) -> tensor<8x16xf32> {
  // expected-error@+1 {{has the activation gelu_erf, needs relu or gelu_tanh}}
  %y, %aux = exec.product_with_auxiliary gelu_erf %x, %w : (tensor<8x4xf32>, tensor<4x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
  return %y : tensor<8x16xf32>
}

// -----

func.func @product_with_auxiliary_c2_contraction(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error@+1 {{cannot multiply [8, 4] and [8, 4]}}
  %y, %aux = exec.product_with_auxiliary gelu_tanh %x, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return %y : tensor<8x4xf32>
}

// -----

func.func @product_with_auxiliary_c2_bias(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>, %b: tensor<16xbf16>) -> tensor<8x16xf32> {
  // expected-error@+1 {{has a bias of type 'tensor<16xbf16>' for a product of type 'tensor<8x16xf32>'}}
  %y, %aux = exec.product_with_auxiliary gelu_tanh %x, %w bias %b : (tensor<8x4xf32>, tensor<4x16xf32>, tensor<16xbf16>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
  return %y : tensor<8x16xf32>
}

// -----

func.func @product_with_auxiliary_c3(%x: tensor<8x4xf32>, %w: tensor<4x136xf32>) -> tensor<8x136xf32> {
  // expected-error@+1 {{has an auxiliary tensor of type 'tensor<8x17xi8>', needs 'tensor<8x32xi8>'}}
  %y, %aux = exec.product_with_auxiliary relu %x, %w : (tensor<8x4xf32>, tensor<4x136xf32>) -> (tensor<8x136xf32>, tensor<8x17xi8>)
  return %y : tensor<8x136xf32>
}

// -----

func.func @product_with_slope_c2_product(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>, %z: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{has a product of shape [8, 8], needs [8, 16]}}
  %y = exec.product_with_slope gelu_tanh %x, %w, %z : (tensor<8x4xf32>, tensor<4x16xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

exec.variant @collective_c1 arena 256 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                      devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 2 sources, 1 targets, 2 split and 2 concat dims; one of each is needed for each source}}
    exec.collective all_reduce <arena, 0, memref<4xf32>>, <arena, 64, memref<4xf32>> to <arena, 0, memref<4xf32>> over [0] reduction sum split 0, 0 concat 0, 0
  }
}

// -----

exec.variant @collective_c2 arena 256 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                      devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has buffers of element types 'f32' and 'i32'}}
    exec.collective all_reduce <arena, 0, memref<4xf32>>, <arena, 64, memref<4xi32>> to <arena, 0, memref<4xf32>>, <arena, 64, memref<4xi32>> over [0] reduction sum split 0, 0 concat 0, 0
  }
}

// -----

exec.variant @collective_c3_token arena 256 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                      devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{is asynchronous and needs a positive token}}
    exec.collective all_reduce <arena, 0, memref<4xf32>> to <arena, 0, memref<4xf32>> over [0] reduction sum split 0 concat 0 token 0
  }
}

// -----

exec.variant @collective_c3_overlap arena 256 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                      devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{is asynchronous and needs a positive token}}
    exec.collective all_reduce <arena, 0, memref<4xf32>> to <arena, 0, memref<4xf32>> over [0] reduction sum split 0 concat 0 {overlap = #exec.overlap<duration_ns = 2, hidden_ns = 1>}
  }
}

// -----

exec.variant @collective_c4 arena 256 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                      devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has 0 segments; halo has 9}}
    exec.collective halo <arena, 0, memref<4xf32>> to <arena, 64, memref<4xf32>> over [0] reduction sum split 0 concat 0
  }
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @await_c1_two_collectives(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = dist.all_reduce sum %x over ["dp"] : tensor<4xf32>
  %b = dist.all_reduce sum %x over ["dp"] : tensor<4xf32>
  // expected-error@+1 {{takes 2 values, which are not the results of one collective}}
  %c, %d = exec.await %a, %b : tensor<4xf32>, tensor<4xf32>
  return %c, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @await_c1_used(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = dist.all_reduce sum %x over ["dp"] : tensor<4xf32>
  // expected-error@+1 {{waits for a collective whose results are used before they are there}}
  %b = exec.await %a : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

exec.variant @repeat_c2 arena 192 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                              devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.program @run inputs [] outputs [] {
    // expected-error@+1 {{has a condition of type 'memref<2xi1>', not one bool}}
    exec.repeat 1 when <arena, 64, memref<2xi1>> {
      exec.copy <arena, 0, memref<16xf32>> to <arena, 128, memref<16xf32>>
    }
  }
}
