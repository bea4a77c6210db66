// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops,ashlar-order-ops,ashlar-fuse),ashlar-plan-memory,ashlar-verify-exec)' | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-pass-pipeline=builtin.module(func.func(ashlar-expand-ops{target=cuda},ashlar-order-ops,ashlar-fuse{target=cuda}),ashlar-plan-memory{target=cuda},ashlar-verify-exec)' | FileCheck %s --check-prefix=CUDA

// New rows of a variable that the program writes are all that moves: what reads the result reads the variable. A target without such an
// instruction selects the rows in one kernel, in place.
// CHECK: exec.tensor @keys variable <arena, [[#KEYS:]], memref<2x4x16xf32>>
// CHECK: exec.tensor @rows input <arena, [[#ROWS:]], memref<2x1x16xf32>>
// CHECK: exec.tensor @at input <arena, [[#AT:]], memref<i64>>
// CHECK: exec.program @decode
// CHECK-NEXT: exec.insert [#exec.buffer<arena, [[#ROWS]], memref<2x1x16xf32>>, #exec.buffer<arena, [[#AT]], memref<i64>>, #exec.buffer<arena, [[#KEYS]], memref<2x4x16xf32>>] outer 2 rows 1 of 4 row_bytes 64
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#KEYS]], memref<2x4x16xf32>>,
// CHECK-NEXT: }
// CUDA: exec.tensor @keys variable <arena, [[#KEYS:]], memref<2x4x16xf32>>
// CUDA: exec.program @decode
// CUDA-NEXT: exec.kernel @loop_0 [{{.*}}#exec.buffer<arena, [[#KEYS]], memref<2x4x16xf32>>, #exec.buffer<arena, {{[0-9]+}}, memref<2x4x16xf32>>] reads [0, 1, 2] writes [2, 3]
// CUDA-NEXT: }
nn.variable @keys : tensor<2x4x16xf32>
func.func @decode(%rows: tensor<2x1x16xf32> {nn.name = "rows"}, %at: tensor<i64> {nn.name = "at"}) -> (tensor<2x4x16xf32> {nn.name = "y"})
    attributes {nn.program = #nn.program<run>} {
  %old = nn.read @keys : tensor<2x4x16xf32>
  %new = nn.insert %rows into %old at %at dim = 1 : tensor<2x1x16xf32>, tensor<2x4x16xf32>, tensor<i64> -> tensor<2x4x16xf32>
  nn.write @keys, %new : tensor<2x4x16xf32>
  %y = nn.exp %new : tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// -----

// The old value is read after the rows are there: they go into a copy, which becomes the variable in the end.
// CHECK: exec.tensor @keys variable <arena, [[#KEYS:]], memref<4x16xf32>>
// CHECK: exec.program @old_read_later
// CHECK-NEXT: exec.copy <arena, [[#KEYS]], memref<4x16xf32>> to <arena, [[#NEW:]], memref<4x16xf32>>
// CHECK-NEXT: exec.insert [{{.*}}, #exec.buffer<arena, [[#NEW]], memref<4x16xf32>>] outer 1 rows 2 of 4 row_bytes 64
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#KEYS]], memref<4x16xf32>>
// CHECK-NEXT: exec.copy <arena, [[#NEW]], memref<4x16xf32>> to <arena, [[#KEYS]], memref<4x16xf32>>
// CHECK-NEXT: }
nn.variable @keys : tensor<4x16xf32>
func.func @old_read_later(%rows: tensor<2x16xf32> {nn.name = "rows"}, %at: tensor<i32> {nn.name = "at"}) -> (tensor<4x16xf32> {nn.name = "y"})
    attributes {nn.program = #nn.program<run>} {
  %old = nn.read @keys : tensor<4x16xf32>
  %new = nn.insert %rows into %old at %at dim = 0 : tensor<2x16xf32>, tensor<4x16xf32>, tensor<i32> -> tensor<4x16xf32>
  nn.write @keys, %new : tensor<4x16xf32>
  %y = nn.exp %old : tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// An input stays as it is: it is copied to the output, where the rows go. Two inserts in a row work in the same place.
// CHECK: exec.tensor @x input <arena, [[#X:]], memref<4x16xf32>>
// CHECK: exec.tensor @y output <arena, [[#Y:]], memref<4x16xf32>>
// CHECK: exec.program @of_input
// CHECK-NEXT: exec.copy <arena, [[#X]], memref<4x16xf32>> to <arena, [[#Y]], memref<4x16xf32>>
// CHECK-NEXT: exec.insert [{{.*}}, #exec.buffer<arena, [[#Y]], memref<4x16xf32>>] outer 1 rows 1 of 4 row_bytes 64
// CHECK-NEXT: exec.insert [{{.*}}, #exec.buffer<arena, [[#Y]], memref<4x16xf32>>] outer 4 rows 2 of 16 row_bytes 4
// CHECK-NEXT: }
func.func @of_input(%x: tensor<4x16xf32> {nn.name = "x"}, %row: tensor<1x16xf32> {nn.name = "row"}, %columns: tensor<4x2xf32> {nn.name = "columns"},
                    %at: tensor<i64> {nn.name = "at"}) -> (tensor<4x16xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %0 = nn.insert %row into %x at %at dim = 0 : tensor<1x16xf32>, tensor<4x16xf32>, tensor<i64> -> tensor<4x16xf32>
  %1 = nn.insert %columns into %0 at %at dim = 1 : tensor<4x2xf32>, tensor<4x16xf32>, tensor<i64> -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}

// -----

// A temporary that dies there leaves its bytes to the result, unless its own rows are what is inserted.
// CHECK: exec.tensor @x input <arena, [[#X:]], memref<16xf32>>
// CHECK: exec.program @of_temporary
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#X]], memref<16xf32>>, #exec.buffer<arena, [[#T:]], memref<16xf32>>]
// CHECK-NEXT: exec.insert [#exec.buffer<arena, [[#X]], memref<16xf32>>, {{.*}}, #exec.buffer<arena, [[#T]], memref<16xf32>>]
// CHECK-NEXT: exec.copy <arena, [[#T]], memref<16xf32>> to <arena, [[#OWN:]], memref<16xf32>>
// CHECK-NEXT: exec.insert [#exec.buffer<arena, [[#T]], memref<16xf32>>, {{.*}}, #exec.buffer<arena, [[#OWN]], memref<16xf32>>]
// CHECK-NEXT: exec.kernel @loop_1 [#exec.buffer<arena, [[#OWN]], memref<16xf32>>
// CHECK-NEXT: }
func.func @of_temporary(%x: tensor<16xf32> {nn.name = "x"}, %at: tensor<i64> {nn.name = "at"}) -> (tensor<16xf32> {nn.name = "y"})
    attributes {nn.program = #nn.program<run>} {
  %t = nn.exp %x : tensor<16xf32>
  %0 = nn.insert %x into %t at %at dim = 0 : tensor<16xf32>, tensor<16xf32>, tensor<i64> -> tensor<16xf32>
  %1 = nn.insert %0 into %0 at %at dim = 0 : tensor<16xf32>, tensor<16xf32>, tensor<i64> -> tensor<16xf32>
  %y = nn.log %1 : tensor<16xf32>
  return %y : tensor<16xf32>
}

// -----

// What is inserted into itself is not computed where the output is, over which its own rows would go.
// CHECK: exec.tensor @y output <arena, [[#Y:]], memref<16xf32>>
// CHECK: exec.program @into_itself
// CHECK-NEXT: exec.kernel @loop_0 [{{.*}}, #exec.buffer<arena, [[#T:]], memref<16xf32>>]
// CHECK-NEXT: exec.copy <arena, [[#T]], memref<16xf32>> to <arena, [[#Y]], memref<16xf32>>
// CHECK-NEXT: exec.insert [#exec.buffer<arena, [[#T]], memref<16xf32>>, {{.*}}, #exec.buffer<arena, [[#Y]], memref<16xf32>>]
// CHECK-NEXT: }
func.func @into_itself(%x: tensor<16xf32> {nn.name = "x"}, %at: tensor<i64> {nn.name = "at"}) -> (tensor<16xf32> {nn.name = "y"})
    attributes {nn.program = #nn.program<run>} {
  %t = nn.exp %x : tensor<16xf32>
  %0 = nn.insert %t into %t at %at dim = 0 : tensor<16xf32>, tensor<16xf32>, tensor<i64> -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// In a repeat the next value of a carried tensor is computed over the one before.
// CHECK: exec.program @in_repeat
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#STATE:]], memref<4x16xf32>>] reads [] writes [0]
// CHECK-NEXT: exec.repeat 3 {
// CHECK-NEXT: exec.insert [#exec.buffer<arena, {{[0-9]+}}, memref<1x16xf32>, strides = [64]>, {{.*}}, #exec.buffer<arena, [[#STATE]], memref<4x16xf32>>] outer 1 rows 1 of 4 row_bytes 64
// CHECK-NEXT: }
// CHECK-NEXT: exec.copy <arena, [[#STATE]], memref<4x16xf32>> to
// CHECK-NEXT: }
func.func @in_repeat(%rows: tensor<3x1x16xf32> {nn.name = "rows"}, %at: tensor<i64> {nn.name = "at"}) -> (tensor<4x16xf32> {nn.name = "y"})
    attributes {nn.program = #nn.program<run>} {
  %zeros = nn.constant dense<0.0> : tensor<4x16xf32>
  %last = nn.repeat 3 carried(%x = %zeros) sliced(%row = %rows) captured(%i = %at)
      : (tensor<4x16xf32>, tensor<3x1x16xf32>, tensor<i64>) -> (tensor<4x16xf32>) {
    %next = nn.insert %row into %x at %i dim = 0 : tensor<1x16xf32>, tensor<4x16xf32>, tensor<i64> -> tensor<4x16xf32>
    nn.yield %next : tensor<4x16xf32>
  }
  return %last : tensor<4x16xf32>
}
