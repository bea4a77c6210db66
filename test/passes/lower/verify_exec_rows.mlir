// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-verify-exec=target=cuda -o /dev/null

// On cuda a row begins where any buffer does. One that is copied begins at any element.
exec.variant @verify_exec_c16_cuda arena 256 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                         devices_per_process = 1 : i64, lower_bound_bytes = 256 : i64} {
  exec.tensor @x input <arena, 64, memref<32xf32>> global [32] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    exec.repeat 2 {
      exec.copy <arena, 76, memref<3xf32>, strides = [12]> to <arena, 192, memref<3xf32>>
      // expected-error@+1 {{has a buffer that moves by 12 bytes, not a multiple of 64}}
      exec.kernel @negate [#exec.buffer<arena, 64, memref<3xf32>, strides = [12]>] reads [0] writes [0] extent 1 grain 1
    }
  }
}
func.func private @negate(%x: memref<3xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64} {
  %zero = arith.constant 0 : index
  %old = memref.load %x[%zero] : memref<3xf32>
  %new = arith.negf %old : f32
  memref.store %new, %x[%zero] : memref<3xf32>
  return
}

// -----

exec.variant @verify_exec_c2_cuda arena 192 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                        devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.tensor @x input <arena, 64, memref<32xf32>> global [32] splits [array<i64>]
  exec.program @run inputs [] outputs [] {
    exec.repeat 1 {
      // expected-error@+1 {{has a buffer at offset 80, not a multiple of 64}}
      exec.kernel @negate [#exec.buffer<arena, 80, memref<3xf32>, strides = [64]>] reads [0] writes [0] extent 1 grain 1
    }
  }
}
func.func private @negate(%x: memref<3xf32>, %begin: index, %end: index) attributes {exec.extent = 1 : i64} {
  %zero = arith.constant 0 : index
  %old = memref.load %x[%zero] : memref<3xf32>
  %new = arith.negf %old : f32
  memref.store %new, %x[%zero] : memref<3xf32>
  return
}

// -----

exec.variant @verify_exec_c18 arena 192 attributes {axis_names = [], axis_sizes = array<i64>, coordinates_offset = 0 : i64,
                                                    devices_per_process = 1 : i64, lower_bound_bytes = 192 : i64} {
  exec.tensor @x input <arena, 0, memref<16xf32>> global [16] splits [array<i64>]
  exec.tensor @c input <arena, 64, memref<i1>> global [] splits []
  exec.program @run inputs [] outputs [] {
    // expected-error@+1 {{has a condition, which target cuda does not take}}
    exec.repeat 1 when <arena, 64, memref<i1>> {
      exec.copy <arena, 0, memref<16xf32>> to <arena, 128, memref<16xf32>>
    }
  }
}
