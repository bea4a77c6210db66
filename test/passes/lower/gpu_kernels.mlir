// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-fuse{target=cuda}),ashlar-plan-memory{target=cuda})' | FileCheck %s

// A flat loop: a thread reads and writes 16 bytes at once, all before it writes any. 1030 elements are 257 whole vectors and a tail of 2.
// CHECK: exec.kernel @loop_0 [{{.*}}] extent 2 grain 256
// CHECK: func.func @loop_0(%[[X:.*]]: memref<1030xf32>, %[[Y:.*]]: memref<1030xf32>, %[[OUT:.*]]: memref<1030xf32>)
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: arith.cmpi ult, %{{.*}}, %c1028
// CHECK: scf.if
// CHECK: vector.load %[[X]]{{.*}} {alignment = 16 : i64} : memref<1030xf32>, vector<4xf32>
// CHECK: vector.load %[[Y]]{{.*}} {alignment = 16 : i64}
// CHECK: vector.store {{.*}}, %[[OUT]]{{.*}} {alignment = 16 : i64}
// CHECK: arith.cmpi eq
// CHECK: scf.if
// CHECK: scf.for {{.*}} to %c1030
// CHECK: memref.store {{.*}}, %[[OUT]]
func.func @forward(%x: tensor<1030xf32> {nn.name = "x"}, %y: tensor<1030xf32> {nn.name = "y"}) -> (tensor<1030xf32> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %z = nn.add %x, %y : tensor<1030xf32>
  return %z : tensor<1030xf32>
}

// -----

// bf16 takes 8 elements at once, and bools beside it 8 bytes. Each op rounds.
// CHECK: exec.kernel @loop_0 [{{.*}}] extent 1 grain 128
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<1024xbf16>, vector<8xbf16>
// CHECK: arith.extf {{.*}} : bf16 to f32
// CHECK: arith.addf {{.*}} : f32
// CHECK: arith.truncf {{.*}} : f32 to bf16
// CHECK: arith.extf {{.*}} : bf16 to f32
// CHECK: vector.store {{.*}} {alignment = 8 : i64} : memref<1024xi8>, vector<8xi8>
func.func @forward(%x: tensor<1024xbf16> {nn.name = "x"}) -> (tensor<1024xi1> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %0 = nn.add %x, %x : tensor<1024xbf16>
  %1 = nn.compare gt %0, %x : tensor<1024xbf16> -> tensor<1024xi1>
  return %1 : tensor<1024xi1>
}

// -----

// What is read across is read element by element; the result is still written as vectors.
// CHECK: func.func @loop_0(%[[X:.*]]: memref<2048xf32>, %[[Y:.*]]: memref<2048xf32>, %[[OUT:.*]]: memref<2048xf32>)
// CHECK-NOT: vector.load %[[X]]
// CHECK-COUNT-4: memref.load %[[X]]
// CHECK: vector.store {{.*}}, %[[OUT]]
func.func @forward(%x: tensor<64x32xf32> {nn.name = "x"}, %y: tensor<32x64xf32> {nn.name = "y"}) -> (tensor<32x64xf32> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %t = nn.transpose %x [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
  %z = nn.add %t, %y : tensor<32x64xf32>
  return %z : tensor<32x64xf32>
}

// -----

// Rows of 100 elements: 32 threads a row, 4 rows a block, no shared memory. A row past the last is not stored. The row is read once.
// CHECK: exec.kernel @rows_0 [{{.*}}] extent 276 grain 128
// CHECK: func.func @rows_0(%[[X:.*]]: memref<110300xf32>, %[[OUT:.*]]: memref<110300xf32>)
// CHECK-NOT: memref.alloca
// CHECK: %[[ISROW:.*]] = arith.cmpi ult, %{{.*}}, %c1103
// CHECK: arith.minui
// CHECK: %[[OWN:.*]] = arith.andi %{{.*}}, %[[ISROW]]
// CHECK: vector.load %[[X]]
// CHECK-NOT: gpu.barrier
// CHECK-NOT: load %[[X]]
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: math.exp
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: scf.if %[[OWN]]
// CHECK: vector.store {{.*}}, %[[OUT]]
func.func @forward(%x: tensor<1103x100xf32> {nn.name = "x"}) -> (tensor<1103x100xf32> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %m = nn.reduce max %x dims = [1] : tensor<1103x100xf32> -> tensor<1103xf32>
  %b = nn.broadcast %m dims = [0] : tensor<1103xf32> -> tensor<1103x100xf32>
  %d = nn.sub %x, %b : tensor<1103x100xf32>
  %e = nn.exp %d : tensor<1103x100xf32>
  %s = nn.reduce sum %e dims = [1] : tensor<1103x100xf32> -> tensor<1103xf32>
  %c = nn.broadcast %s dims = [0] : tensor<1103xf32> -> tensor<1103x100xf32>
  %z = nn.div %e, %c : tensor<1103x100xf32>
  return %z : tensor<1103x100xf32>
}

// -----

// Rows of 3000 elements: a block a row, warps combine through shared memory. One thread writes what belongs to the row.
// CHECK: exec.kernel @rows_0 [{{.*}}] extent 512 grain 512
// CHECK: memref.alloca() {alignment = 16 : i64} : memref<16xf32, #gpu.address_space<workgroup>>
// CHECK-NOT: scf.for
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: memref.store {{.*}} #gpu.address_space<workgroup>>
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK-COUNT-4: gpu.shuffle xor
// CHECK: %[[FIRST:.*]] = arith.cmpi eq
// CHECK: scf.if %[[FIRST]]
// CHECK: memref.store {{.*}} : memref<512xf32>
func.func @forward(%x: tensor<512x3000xf32> {nn.name = "x"}) -> (tensor<512xf32> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %m = nn.reduce max %x dims = [1] : tensor<512x3000xf32> -> tensor<512xf32>
  return %m : tensor<512xf32>
}

// -----

// Rows of 50000 elements do not fit into registers: each pass is a loop over 4 chunks at a time, and one over the rest.
// CHECK: exec.kernel @rows_0 [{{.*}}] extent 600 grain 1024
// CHECK: scf.for {{.*}} to %c49152{{.*}} step %c16384{{.*}} iter_args
// CHECK-COUNT-4: vector.load
// CHECK: scf.for {{.*}} to %c50000{{.*}} step %c4096{{.*}} iter_args
// CHECK: gpu.barrier
// CHECK: scf.for {{.*}} step %c16384
// CHECK-COUNT-4: vector.load
// CHECK-COUNT-4: vector.store
// CHECK: scf.for {{.*}} step %c4096
func.func @forward(%x: tensor<600x50000xf32> {nn.name = "x"}) -> (tensor<600x50000xf32> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %m = nn.reduce max %x dims = [1] : tensor<600x50000xf32> -> tensor<600xf32>
  %b = nn.broadcast %m dims = [0] : tensor<600xf32> -> tensor<600x50000xf32>
  %z = nn.sub %x, %b : tensor<600x50000xf32>
  return %z : tensor<600x50000xf32>
}

// -----

// A shuffle moves 32 bits: a number of 64 takes two.
// CHECK: func.func @rows_0
// CHECK-COUNT-2: gpu.shuffle xor {{.*}} : i32
// CHECK: arith.maxsi {{.*}} : i64
func.func @forward(%x: tensor<4x4xi64> {nn.name = "x"}) -> (tensor<4xi64> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %m = nn.reduce max %x dims = [1] : tensor<4x4xi64> -> tensor<4xi64>
  return %m : tensor<4xi64>
}

// -----

// Columns: 32 threads across with 4 columns each, 8 rows of threads, each 4 rows at a time, which combine in a tree. The summed value is written on the way.
// CHECK: exec.kernel @columns_0 [{{.*}}] extent 4 grain 256
// CHECK: func.func @columns_0(%[[X:.*]]: memref<32000xf32>, %[[R:.*]]: memref<32000xf32>, %[[SUM:.*]]: memref<500xf32>)
// CHECK-COUNT-4: memref.alloca() {alignment = 16 : i64} : memref<256xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for {{.*}} step %c32{{.*}} iter_args
// CHECK-COUNT-4: vector.load %[[X]]
// CHECK-COUNT-4: vector.store {{.*}}, %[[R]]
// CHECK: scf.yield
// CHECK: gpu.barrier
// CHECK: gpu.barrier
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: vector.store {{.*}}, %[[SUM]]
func.func @forward(%x: tensor<64x500xf32> {nn.name = "x"}) -> (tensor<64x500xf32> {nn.name = "r"}, tensor<500xf32> {nn.name = "sum"}) attributes {nn.program = #nn.program<run>} {
  %r = nn.relu %x : tensor<64x500xf32>
  %s = nn.reduce sum %r dims = [0] : tensor<64x500xf32> -> tensor<500xf32>
  return %r, %s : tensor<64x500xf32>, tensor<500xf32>
}

// -----

// A scatter: a block a row of the result, which looks for its places 32 at a time and adds up in their order. Nothing is atomic.
// CHECK: exec.kernel @scatter_0 [{{.*}}] extent 1000 grain 32
// CHECK: func.func @scatter_0(%[[I:.*]]: memref<64xi64>, %[[U:.*]]: memref<8192xf32>, %[[OUT:.*]]: memref<128000xf32>)
// CHECK: scf.for {{.*}} to %c64{{.*}} step %c32
// CHECK: memref.load %[[I]]
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: scf.for
// CHECK: vector.load %[[U]]
// CHECK-NOT: atomic
// CHECK: vector.store {{.*}}, %[[OUT]]
func.func @forward(%i: tensor<64xi64> {nn.name = "i"}, %u: tensor<64x128xf32> {nn.name = "u"}) -> (tensor<1000x128xf32> {nn.name = "z"}) attributes {nn.program = #nn.program<run>} {
  %z = nn.scatter_add %i, %u : tensor<64xi64>, tensor<64x128xf32> -> tensor<1000x128xf32>
  return %z : tensor<1000x128xf32>
}

// -----

// A value of each row cannot be computed over another: threads that read the old one do not wait for the one that writes. A full value can.
// CHECK: exec.tensor @full variable <arena, [[#FULL:]], memref<4x8xf32>>
// CHECK: exec.tensor @row variable <arena, [[#ROW:]], memref<4xf32>>
// CHECK: exec.kernel @rows_0 [#exec.buffer<arena, [[#FULL]], {{[^ ]*}}>, #exec.buffer<arena, [[#ROW]], {{[^ ]*}}>, #exec.buffer<arena, [[#NEW:]], memref<4xf32>>]
// CHECK-NEXT: exec.copy <arena, [[#NEW]], memref<4xf32>> to <arena, [[#ROW]], memref<4xf32>>
nn.variable @full : tensor<4x8xf32>
nn.variable @row : tensor<4xf32>
func.func @step() {
  %x = nn.read @full : tensor<4x8xf32>
  %y = nn.read @row : tensor<4xf32>
  %s = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %n = nn.add %s, %y : tensor<4xf32>
  %b = nn.broadcast %n dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %z = nn.sub %x, %b : tensor<4x8xf32>
  nn.write @full, %z : tensor<4x8xf32>
  nn.write @row, %n : tensor<4xf32>
  return
}
