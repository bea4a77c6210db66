// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-verify-exec

// expected-error@+1 {{is left after lowering; only variants, constants and kernels may be}}
func.func @verify_exec_c1() {
  return
}

// -----

exec.variant @verify_exec_c2_outside arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{has a buffer of 128 bytes at offset 0 of an arena of 64 bytes}}
  exec.tensor @x input <arena, 0, memref<32xf32>> global [32] splits [array<i64>]
}

// -----

// Offset and size add up to 64 modulo 2^64.
exec.variant @verify_exec_c2_wrapped arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{has a buffer of 128 bytes at offset 18446744073709551552 of an arena of 64 bytes}}
  exec.tensor @x input <arena, 18446744073709551552, memref<32xf32>> global [32] splits [array<i64>]
}

// -----

exec.variant @verify_exec_c2_sized arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                        devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{[4611686018427387904] of f32 has more than 70368744177664 bytes, the most that a tensor may have}}
  exec.tensor @x input <arena, 0, memref<4611686018427387904xf32>> global [4611686018427387904] splits [array<i64>]
}

// -----

exec.variant @verify_exec_c2_constants arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                            devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<2xf32>> global [2] splits [array<i64>]
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{has a buffer of 8 bytes at offset 64 of constants of 8 bytes}}
    exec.copy <constant, 64, memref<2xf32>> to <arena, 0, memref<2xf32>>
  }
}
exec.constant at 0 = dense<1.0> : tensor<2xf32>

// -----

exec.variant @verify_exec_c2_alignment arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                            devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{has a buffer at offset 16, not a multiple of 64}}
  exec.tensor @x input <arena, 16, memref<2xf32>> global [2] splits [array<i64>]
}

// -----

exec.variant @verify_exec_c3 arena 64 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                  devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<2xf32>> global [2] splits [array<i64>]
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{writes to the constants at offset 0}}
    exec.copy <arena, 0, memref<2xf32>> to <constant, 0, memref<2xf32>>
  }
}
exec.constant at 0 = dense<1.0> : tensor<2xf32>

// -----

exec.variant @verify_exec_c4_tensors arena 256 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  // expected-error@+1 {{shares bytes of the arena with another tensor or the mesh coordinates}}
  exec.tensor @x input <arena, 0, memref<32xf32>> global [32] splits [array<i64>]
  exec.tensor @y input <arena, 64, memref<32xf32>> global [32] splits [array<i64>]
}

// -----

exec.variant @verify_exec_c4_coordinates arena 256 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                               devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @y input <arena, 64, memref<32xf32>> global [32] splits [array<i64>]
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{reads 16 bytes at offset 0 of the arena, which no tensor or earlier instruction left there}}
    exec.copy <arena, 0, memref<4xf32>> to <arena, 192, memref<4xf32>>
  }
}

// -----

// A temporary is overwritten by a larger one that starts before it, then read.
exec.variant @verify_exec_c5 arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                   devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<32xf32>> global [32] splits [array<i64>]
  exec.tensor @y output <arena, 128, memref<4xf32>> global [4] splits [array<i64>]
  exec.tensor @z input <arena, 192, memref<4xf32>> global [4] splits [array<i64>]
  exec.program @p inputs [@x, @z] outputs [@y] {
    exec.copy <arena, 192, memref<4xf32>> to <arena, 320, memref<4xf32>>
    exec.copy <arena, 0, memref<32xf32>> to <arena, 256, memref<32xf32>>
    // expected-error@+1 {{reads 16 bytes at offset 320 of the arena, which no tensor or earlier instruction left there}}
    exec.copy <arena, 320, memref<4xf32>> to <arena, 128, memref<4xf32>>
  }
}

// -----

// The rows that an insert leaves must be there.
exec.variant @verify_exec_c5_insert arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @rows input <arena, 0, memref<1x16xf32>> global [1, 16] splits [array<i64>, array<i64>]
  exec.tensor @at input <arena, 64, memref<i64>> global [] splits []
  exec.program @p inputs [@rows, @at] outputs [] {
    // expected-error@+1 {{reads 128 bytes at offset 128 of the arena, which no tensor or earlier instruction left there}}
    exec.insert [#exec.buffer<arena, 0, memref<1x16xf32>>, #exec.buffer<arena, 64, memref<i64>>, #exec.buffer<arena, 128, memref<2x16xf32>>]
                outer 1 rows 1 of 2 row_bytes 64
  }
}

// -----

exec.variant @verify_exec_c17 arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                    devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x variable <arena, 0, memref<1x16xf32>> global [1, 16] splits [array<i64>, array<i64>]
  exec.tensor @at input <arena, 64, memref<i64>> global [] splits []
  exec.program @p inputs [@at] outputs [] {
    // expected-error@+1 {{writes to its own rows or index at offset 0 of the arena}}
    exec.insert [#exec.buffer<arena, 0, memref<1x16xf32>>, #exec.buffer<arena, 64, memref<i64>>, #exec.buffer<arena, 0, memref<1x16xf32>>]
                outer 1 rows 1 of 1 row_bytes 64
  }
}

// -----

func.func @update(%a: memref<16xf32>, %begin: index, %end: index) attributes {nn.program = #nn.program<update>, exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %x = memref.load %a[%begin] : memref<16xf32>
  memref.store %x, %a[%begin] : memref<16xf32>
  return
}
exec.variant @verify_exec_c5_in_place arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                            devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{reads 64 bytes at offset 0 of the arena, which no tensor or earlier instruction left there}}
    exec.kernel @update [#exec.buffer<arena, 0, memref<16xf32>>] reads [0] writes [0] extent 1 grain 1
  }
}

// -----

func.func @two_results(%a: memref<16xf32>, %b: memref<32xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%begin] : memref<16xf32>
  memref.store %zero, %b[%begin] : memref<32xf32>
  return
}
exec.variant @verify_exec_c6 arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                   devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{writes two buffers that share bytes, one at offset 64 of the arena}}
    exec.kernel @two_results [#exec.buffer<arena, 64, memref<16xf32>>, #exec.buffer<arena, 0, memref<32xf32>>] reads [] writes [0, 1] extent 1 grain 1
  }
}

// -----

exec.variant @verify_exec_c7_missing arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{calls @missing, which is not a kernel}}
    exec.kernel @missing [] reads [] writes [] extent 1 grain 1
  }
}

// -----

func.func @one_buffer(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  return
}
exec.variant @verify_exec_c7_count arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                         devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{passes 0 buffers to a kernel of 1}}
    exec.kernel @one_buffer [] reads [] writes [] extent 1 grain 1
  }
}

// -----

func.func @one_buffer(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  return
}
exec.variant @verify_exec_c7_type arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                        devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<8xf32>> global [8] splits [array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{passes a buffer of type 'memref<8xf32>' where the kernel has 'memref<16xf32>'}}
    exec.kernel @one_buffer [#exec.buffer<arena, 0, memref<8xf32>>] reads [0] writes [] extent 1 grain 1
  }
}

// -----

func.func @fill(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%begin] : memref<16xf32>
  return
}
exec.variant @verify_exec_c8_stored arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{says that it only reads buffer 0, but @fill stores to it}}
    exec.kernel @fill [#exec.buffer<arena, 0, memref<16xf32>>] reads [0] writes [] extent 1 grain 1
  }
}

// -----

func.func @one_buffer(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  return
}
exec.variant @verify_exec_c8_not_stored arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                              devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{says that it writes buffer 0, but @one_buffer stores nothing there}}
    exec.kernel @one_buffer [#exec.buffer<arena, 0, memref<16xf32>>] reads [0] writes [0] extent 1 grain 1
  }
}

// -----

// Every kind with the shapes that it makes says nothing.
exec.variant @collectives_fit arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    exec.collective all_reduce <arena, 64, memref<6x4xf32>> to <arena, 64, memref<6x4xf32>> over [0, 1] reduction sum split 0 concat 0
    exec.collective all_gather <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x12xf32>> over [1] reduction sum split 0 concat 1
    exec.collective reduce_scatter <arena, 64, memref<6x4xf32>> to <arena, 192, memref<2x4xf32>> over [1] reduction sum split 0 concat 0
    exec.collective all_to_all <arena, 64, memref<6x4xf32>> to <arena, 192, memref<3x8xf32>> over [0] reduction sum split 0 concat 1
    exec.collective slice <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x2xf32>> over [0] reduction sum split 1 concat 0
    exec.collective broadcast <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x4xf32>> over [1] reduction sum split 0 concat 0 {root = 2 : i64}
    exec.collective permute <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x4xf32>> over [1] reduction sum split 0 concat 0 pairs [0, 1, 0, 2]
  }
}

// -----

exec.variant @verify_exec_c9_axis arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{is over axis 2 of a mesh of 2 axes}}
    exec.collective all_reduce <arena, 64, memref<6x4xf32>> to <arena, 64, memref<6x4xf32>> over [2] reduction sum split 0 concat 0
  }
}

// -----

// Over one axis twice a group would have four members, of which there are two.
exec.variant @verify_exec_c9_twice arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{is over axes [0, 0], which do not part the 6 devices into groups of 4}}
    exec.collective all_reduce <arena, 64, memref<6x4xf32>> to <arena, 64, memref<6x4xf32>> over [0, 0] reduction sum split 0 concat 0
  }
}

// -----

// expected-error@+1 {{has rank 1 in device_ids, which are no order of the ranks of its 6 devices}}
exec.variant @verify_exec_c9_ranks arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64, device_ids = array<i64: 0, 1, 2, 3, 1, 4>} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    exec.collective all_reduce <arena, 64, memref<6x4xf32>> to <arena, 64, memref<6x4xf32>> over [0] reduction sum split 0 concat 0
  }
}

// -----

exec.variant @verify_exec_c10_root arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{has root 3 in groups of 3}}
    exec.collective broadcast <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x4xf32>> over [1] reduction sum split 0 concat 0 {root = 3 : i64}
  }
}

// -----

exec.variant @verify_exec_c10_pair arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{has member 2 in its pairs, in groups of 2}}
    exec.collective permute <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x4xf32>> over [0] reduction sum split 0 concat 0 pairs [0, 2]
  }
}

// -----

exec.variant @verify_exec_c10_target arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{has two pairs with target 2}}
    exec.collective permute <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x4xf32>> over [1] reduction sum split 0 concat 0 pairs [0, 2, 1, 2]
  }
}

// -----

exec.variant @verify_exec_c10_odd arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{has 3 numbers as pairs of source and target}}
    exec.collective permute <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x4xf32>> over [1] reduction sum split 0 concat 0 pairs [0, 2, 1]
  }
}

// -----

// Members would wait for more than they are sent.
exec.variant @verify_exec_c11_gather arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{takes 'memref<6x4xf32>' to 'memref<6x8xf32>', split 0 concat 1, which is no all_gather of 3 devices}}
    exec.collective all_gather <arena, 64, memref<6x4xf32>> to <arena, 192, memref<6x8xf32>> over [1] reduction sum split 0 concat 1
  }
}

// -----

exec.variant @verify_exec_c11_sum arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{takes 'memref<6x4xf32>' to 'memref<4x6xf32>', split 0 concat 0, which is no all_reduce of 3 devices}}
    exec.collective all_reduce <arena, 64, memref<6x4xf32>> to <arena, 192, memref<4x6xf32>> over [1] reduction sum split 0 concat 0
  }
}

// -----

exec.variant @verify_exec_c11_dim arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{takes 'memref<6x4xf32>' to 'memref<2x4xf32>', split 2 concat 0, which is no reduce_scatter of 3 devices}}
    exec.collective reduce_scatter <arena, 64, memref<6x4xf32>> to <arena, 192, memref<2x4xf32>> over [1] reduction sum split 2 concat 0
  }
}

// -----

// 12 rows over 2 devices, of which each needs one more at either side, are 8 rows.
exec.variant @verify_exec_c11_halo arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    exec.collective halo <arena, 64, memref<6x4xf32>> to <arena, 192, memref<8x4xf32>> over [0] reduction sum split 0 concat 0 segments [12, 12, 1, 0, 1, 12, 1, -1, 2]
    // expected-error@+1 {{takes 'memref<6x4xf32>' to 'memref<7x4xf32>', split 0 concat 0, which is no halo of 2 devices}}
    exec.collective halo <arena, 64, memref<6x4xf32>> to <arena, 384, memref<7x4xf32>> over [0] reduction sum split 0 concat 0 segments [12, 12, 1, 0, 1, 12, 1, -1, 2]
  }
}

// -----

exec.variant @verify_exec_c11_halo_held arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{takes 'memref<6x4xf32>' to 'memref<8x4xf32>', split 0 concat 0, which is no halo of 2 devices}}
    exec.collective halo <arena, 64, memref<6x4xf32>> to <arena, 192, memref<8x4xf32>> over [0] reduction sum split 0 concat 0 segments [12, 5, 2, 0, 2, 12, 1, -1, 2]
  }
}

// -----

exec.variant @verify_exec_c11_scatter arena 1024 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 64, memref<6x4xf32>> global [6, 4] splits [array<i64>, array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{takes 'memref<6x4xf32>' to 'memref<3x4xf32>', split 0 concat 0, which is no reduce_scatter of 3 devices}}
    exec.collective reduce_scatter <arena, 64, memref<6x4xf32>> to <arena, 192, memref<3x4xf32>> over [1] reduction sum split 0 concat 0
  }
}

// -----

// A collective that is started and waited for.
exec.variant @started arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 448 : i64,
                                            devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.tensor @y output <arena, 128, memref<16xf32>> global [16] splits [array<i64>]
  exec.tensor @z output <arena, 192, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x] outputs [@y, @z] {
    exec.collective all_reduce <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
    exec.copy <arena, 0, memref<16xf32>> to <arena, 192, memref<16xf32>>
    exec.wait 1
    exec.copy <arena, 64, memref<16xf32>> to <arena, 128, memref<16xf32>>
  }
}

// -----

exec.variant @verify_exec_c12_target arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 448 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.tensor @y output <arena, 128, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x] outputs [@y] {
    exec.collective all_reduce <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
    // expected-error@+1 {{uses 64 bytes at offset 64 of the arena while a collective that is under way does}}
    exec.copy <arena, 64, memref<16xf32>> to <arena, 128, memref<16xf32>>
    exec.wait 1
  }
}

// -----

exec.variant @verify_exec_c12_source arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 448 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.tensor @y input <arena, 128, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x, @y] outputs [] {
    exec.collective all_reduce <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
    // expected-error@+1 {{uses 64 bytes at offset 0 of the arena while a collective that is under way does}}
    exec.copy <arena, 128, memref<16xf32>> to <arena, 0, memref<16xf32>>
    exec.wait 1
  }
}

// -----

exec.variant @verify_exec_c12_no_wait arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 448 : i64,
                                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x] outputs [] {
    // expected-error@+1 {{is started with the token 7, and nothing waits for it}}
    exec.collective all_reduce <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 7
  }
}

// -----

exec.variant @verify_exec_c12_two_waits arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 448 : i64,
                                                             devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x] outputs [] {
    exec.collective all_reduce <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
    exec.wait 1
    // expected-error@+1 {{waits for the token 1, with which nothing is under way}}
    exec.wait 1
  }
}

// -----

exec.variant @verify_exec_c12_one_token arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 448 : i64,
                                                             devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [@x] outputs [] {
    exec.collective all_reduce <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
    exec.wait 1
    // expected-error@+1 {{has the token 1 of an earlier collective of the program}}
    exec.collective all_reduce <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
    exec.wait 1
  }
}

// -----

func.func @fill(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%begin] : memref<16xf32>
  return
}
// What two devices keep alone may lie at one place; what one of them writes is on it alone, and a broadcast reads on its root.
exec.variant @owners arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                           devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @a state <arena, 64, memref<16xf32>> global [16] splits [array<i64>] {exec.owner = 0 : i64, persistent}
  exec.tensor @b state <arena, 64, memref<16xf32>> global [16] splits [array<i64>] {exec.owner = 1 : i64, persistent}
  exec.program @p inputs [] outputs [] {
    exec.kernel @fill [#exec.buffer<arena, 128, memref<16xf32>>] reads [] writes [0] extent 1 grain 1 {exec.owner = 1 : i64}
    exec.collective broadcast <arena, 128, memref<16xf32>> to <arena, 192, memref<16xf32>> over [0] reduction sum split 0 concat 0 {root = 1 : i64}
    exec.copy <arena, 192, memref<16xf32>> to <arena, 64, memref<16xf32>> {exec.owner = 0 : i64}
  }
}

// -----

func.func @fill(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%begin] : memref<16xf32>
  return
}
exec.variant @verify_exec_c5_other_device arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    exec.kernel @fill [#exec.buffer<arena, 128, memref<16xf32>>] reads [] writes [0] extent 1 grain 1 {exec.owner = 1 : i64}
    // expected-error@+1 {{reads 64 bytes at offset 128 of the arena, which no tensor or earlier instruction left there}}
    exec.copy <arena, 128, memref<16xf32>> to <arena, 64, memref<16xf32>>
  }
}

// -----

func.func @fill(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%begin] : memref<16xf32>
  return
}
exec.variant @verify_exec_c5_root arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                        devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    exec.kernel @fill [#exec.buffer<arena, 128, memref<16xf32>>] reads [] writes [0] extent 1 grain 1 {exec.owner = 1 : i64}
    // expected-error@+1 {{reads 64 bytes at offset 128 of the arena, which no tensor or earlier instruction left there}}
    exec.collective broadcast <arena, 128, memref<16xf32>> to <arena, 192, memref<16xf32>> over [0] reduction sum split 0 concat 0 {root = 0 : i64}
  }
}

// -----

func.func @fill(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%begin] : memref<16xf32>
  return
}
// Device 3 of a mesh of 2 x 3, at (1, 0), is member 3 over both axes, and member 1 over the second and then the first.
exec.variant @owners_of_axes arena 512 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                                   devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    exec.kernel @fill [#exec.buffer<arena, 128, memref<16xf32>>] reads [] writes [0] extent 1 grain 1 {exec.owner = 3 : i64}
    exec.collective broadcast <arena, 128, memref<16xf32>> to <arena, 192, memref<16xf32>> over [0, 1] reduction sum split 0 concat 0 {root = 3 : i64}
    exec.kernel @fill [#exec.buffer<arena, 256, memref<16xf32>>] reads [] writes [0] extent 1 grain 1 {exec.owner = 3 : i64}
    exec.collective broadcast <arena, 256, memref<16xf32>> to <arena, 320, memref<16xf32>> over [1, 0] reduction sum split 0 concat 0 {root = 1 : i64}
    exec.copy <arena, 192, memref<16xf32>> to <arena, 384, memref<16xf32>>
    exec.copy <arena, 320, memref<16xf32>> to <arena, 384, memref<16xf32>>
  }
}

// -----

func.func @fill(%a: memref<16xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %a[%begin] : memref<16xf32>
  return
}
exec.variant @verify_exec_c5_root_of_axes arena 512 attributes {axis_names = ["a", "b"], axis_sizes = array<i64: 2, 3>, coordinates_offset = 0 : i64,
                                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.program @p inputs [] outputs [] {
    exec.kernel @fill [#exec.buffer<arena, 128, memref<16xf32>>] reads [] writes [0] extent 1 grain 1 {exec.owner = 4 : i64}
    exec.collective broadcast <arena, 128, memref<16xf32>> to <arena, 192, memref<16xf32>> over [0, 1] reduction sum split 0 concat 0 {root = 4 : i64}
    // expected-error@+1 {{reads 64 bytes at offset 128 of the arena, which no tensor or earlier instruction left there}}
    exec.collective broadcast <arena, 128, memref<16xf32>> to <arena, 192, memref<16xf32>> over [0, 1] reduction sum split 0 concat 0 {root = 5 : i64}
  }
}

// -----

// expected-error@+1 {{has an instruction or a tensor of device 2 on a mesh of 2}}
exec.variant @verify_exec_c13_device arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @a state <arena, 64, memref<16xf32>> global [16] splits [array<i64>] {exec.owner = 2 : i64}
}

// -----

exec.variant @verify_exec_c13_collective arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                              devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @a state <arena, 64, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @p inputs [] outputs [] {
    // expected-error@+1 {{is run by one device, but devices meet in it}}
    exec.collective broadcast <arena, 64, memref<16xf32>> to <arena, 128, memref<16xf32>> over [0] reduction sum split 0 concat 0 {exec.owner = 0 : i64}
  }
}

// -----

exec.variant @verify_exec_c10 arena 512 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                    devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @a state <arena, 64, memref<16xf32>> global [16] splits [array<i64>] {exec.owner = 0 : i64, persistent}
  exec.tensor @b state <arena, 64, memref<8xf32>> global [8] splits [array<i64>] {exec.owner = 1 : i64, persistent}
  exec.tensor @g input <arena, 192, memref<16xf32>> global [16] splits [array<i64>]
  // expected-error@+1 {{leaves something else where @b is kept}}
  exec.program @p inputs [@g] outputs [] {
    exec.copy <arena, 192, memref<16xf32>> to <arena, 64, memref<16xf32>>
  }
}

// -----

exec.variant @verify_exec_c15_written arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<1x1xf32>> global [1, 1] splits [array<i64>, array<i64>]
  exec.tensor @w variable <arena, 64, memref<1x1xf32>> global [1, 1] splits [array<i64>, array<i64>]
  exec.program @forward inputs [] outputs [] attributes {nn.program = #nn.program<run>} {
    // expected-error@+1 {{has fixed weights of 4 bytes at offset 64 of the arena, which are no variable that @init alone writes, in @forward}}
    exec.conv forward [#exec.buffer<arena, 0, memref<1x1xf32>>, #exec.buffer<arena, 64, memref<1x1xf32>>, #exec.buffer<arena, 128, memref<1x1xf32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue none fixed_weights
  }
  exec.program @other inputs [] outputs [] {
    exec.copy <arena, 0, memref<1x1xf32>> to <arena, 64, memref<1x1xf32>>
  }
}

// -----

exec.variant @verify_exec_c15_temporary arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<1x1xf32>> global [1, 1] splits [array<i64>, array<i64>]
  exec.tensor @w variable <arena, 64, memref<1x1xf32>> global [1, 1] splits [array<i64>, array<i64>]
  exec.program @forward inputs [] outputs [] attributes {nn.program = #nn.program<run>} {
    exec.copy <arena, 0, memref<1x1xf32>> to <arena, 192, memref<1x1xf32>>
    // expected-error@+1 {{has fixed weights of 4 bytes at offset 192 of the arena, which are no variable that @init alone writes, in @forward}}
    exec.conv forward [#exec.buffer<arena, 0, memref<1x1xf32>>, #exec.buffer<arena, 192, memref<1x1xf32>>, #exec.buffer<arena, 128, memref<1x1xf32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue none fixed_weights
  }
}

// -----

exec.variant @verify_exec_c15_init arena 512 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                devices_per_process = 1 : i64, lower_bound_bytes = 64 : i64} {
  exec.tensor @x input <arena, 0, memref<1x1xf32>> global [1, 1] splits [array<i64>, array<i64>]
  exec.tensor @w variable <arena, 64, memref<1x1xf32>> global [1, 1] splits [array<i64>, array<i64>]
  exec.program @init inputs [] outputs [] attributes {nn.program = #nn.program<init>} {
    // expected-error@+1 {{has fixed weights of 4 bytes at offset 64 of the arena, which are no variable that @init alone writes, in @init}}
    exec.conv forward [#exec.buffer<arena, 0, memref<1x1xf32>>, #exec.buffer<arena, 64, memref<1x1xf32>>, #exec.buffer<arena, 128, memref<1x1xf32>>]
              batch 1 groups 1 channels 1 to 1 dims [#exec.conv_dim<in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, low = 0>] epilogue none fixed_weights
  }
}

// -----

// The body overwrites what its next iteration reads.
exec.variant @verify_exec_c5_repeat arena 192 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.tensor @y input <arena, 64, memref<8xf32>> global [8] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    exec.copy <arena, 0, memref<16xf32>> to <arena, 128, memref<16xf32>>
    exec.repeat 2 {
      // expected-error@+1 {{reads 64 bytes at offset 128 of the arena, which no tensor or earlier instruction left there}}
      exec.copy <arena, 128, memref<16xf32>> to <arena, 0, memref<16xf32>>
      exec.copy <arena, 64, memref<8xf32>> to <arena, 128, memref<8xf32>>
    }
  }
}

// -----

exec.variant @verify_exec_c2_moving arena 128 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                          devices_per_process = 1 : i64, lower_bound_bytes = 128 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    exec.repeat 2 {
      // expected-error@+1 {{has a buffer of 128 bytes at offset 64 of an arena of 128 bytes}}
      exec.copy <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>, strides = [64]>
    }
  }
}

// -----

exec.variant @verify_exec_c16 arena 192 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                    devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    // expected-error@+1 {{has a buffer that moves in 1 repeats but is in 0}}
    exec.copy <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>, strides = [64]>
  }
}

// -----

// A row of a cpu begins at any element, but at one.
exec.variant @verify_exec_c16_element arena 192 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                            devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.tensor @x input <arena, 64, memref<32xf32>> global [32] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    exec.repeat 2 {
      // expected-error@+1 {{has a buffer that moves by 6 bytes, not a multiple of 4}}
      exec.kernel @negate [#exec.buffer<arena, 64, memref<2xf32>, strides = [6]>] reads [0] writes [0] extent 1 grain 1
    }
  }
}
func.func private @negate(%x: memref<2xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64} {
  %zero = arith.constant 0 : index
  %old = memref.load %x[%zero] : memref<2xf32>
  %new = arith.negf %old : f32
  memref.store %new, %x[%zero] : memref<2xf32>
  return
}

// -----

exec.variant @verify_exec_c2_element arena 192 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                           devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.tensor @x input <arena, 64, memref<32xf32>> global [32] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    exec.repeat 2 {
      // expected-error@+1 {{has a buffer at offset 66, not a multiple of 4}}
      exec.kernel @negate [#exec.buffer<arena, 66, memref<2xf32>, strides = [8]>] reads [0] writes [0] extent 1 grain 1
    }
  }
}
func.func private @negate(%x: memref<2xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64} {
  %zero = arith.constant 0 : index
  %old = memref.load %x[%zero] : memref<2xf32>
  %new = arith.negf %old : f32
  memref.store %new, %x[%zero] : memref<2xf32>
  return
}

// -----

// A collective that is started in an iteration ends in it.
exec.variant @verify_exec_c12_repeat arena 192 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                                           devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.tensor @x input <arena, 64, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    exec.repeat 2 {
      // expected-error@+1 {{is started with the token 1, and nothing waits for it}}
      exec.collective all_reduce <arena, 64, memref<16xf32>> to <arena, 64, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
    }
    exec.wait 1
  }
}

// -----

// What the body alone wrote may not be there behind it.
exec.variant @verify_exec_c5_condition arena 256 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                             devices_per_process = 1 : i64, lower_bound_bytes = 256 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.tensor @c input <arena, 64, memref<i1>> global [] splits []
  exec.program @run inputs [] outputs [] {
    exec.copy <arena, 0, memref<16xf32>> to <arena, 128, memref<16xf32>>
    exec.repeat 1 when <arena, 64, memref<i1>> {
      exec.copy <arena, 0, memref<16xf32>> to <arena, 128, memref<16xf32>>
      exec.copy <arena, 128, memref<16xf32>> to <arena, 192, memref<16xf32>>
    }
    exec.copy <arena, 128, memref<16xf32>> to <arena, 0, memref<16xf32>>
    // expected-error@+1 {{reads 64 bytes at offset 192 of the arena, which no tensor or earlier instruction left there}}
    exec.copy <arena, 192, memref<16xf32>> to <arena, 0, memref<16xf32>>
  }
}

// -----

exec.variant @verify_exec_c5_unknown arena 128 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                           devices_per_process = 1 : i64, lower_bound_bytes = 128 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    // expected-error@+1 {{reads 1 bytes at offset 64 of the arena, which no tensor or earlier instruction left there}}
    exec.repeat 1 when <arena, 64, memref<i1>> {
      exec.copy <arena, 0, memref<16xf32>> to <arena, 64, memref<16xf32>>
    }
  }
}
