// RUN: ashlar-opt %s -split-input-file -ashlar-order-ops -ashlar-fuse -ashlar-plan-memory -ashlar-verify-exec | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-order-ops -ashlar-fuse=target=cuda -ashlar-plan-memory=target=cuda \
// RUN:   -ashlar-verify-exec=target=cuda | FileCheck %s --check-prefix=CUDA

// Rows are read and made where they lie: 64 bytes each. The next sum is computed over the one before, and the sum begins in a place of its
// own, since its first value is an input. Behind the loop the sum is copied into its output.
// CHECK-LABEL: exec.variant
// CHECK: exec.tensor @first input <arena, [[#FIRST:]], memref<16xf32>>
// CHECK: exec.tensor @xs input <arena, [[#XS:]], memref<5x16xf32>>
// CHECK: exec.tensor @last output <arena, [[#LAST:]], memref<16xf32>>
// CHECK: exec.tensor @all output <arena, [[#ALL:]], memref<5x16xf32>>
// CHECK: exec.copy <arena, [[#FIRST]], memref<16xf32>> to <arena, [[#SUM:]], memref<16xf32>>
// CHECK-NEXT: exec.repeat 5 {
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#SUM]], memref<16xf32>>, #exec.buffer<arena, [[#XS]], memref<16xf32>, strides = [64]>, #exec.buffer<arena, [[#ALL]], memref<16xf32>, strides = [64]>]
// CHECK-SAME: reads [0, 1] writes [0, 2]
// CHECK-NEXT: }
// CHECK-NEXT: exec.copy <arena, [[#SUM]], memref<16xf32>> to <arena, [[#LAST]], memref<16xf32>>
func.func @sums(%first: tensor<16xf32> {nn.name = "first"}, %xs: tensor<5x16xf32> {nn.name = "xs"})
    -> (tensor<16xf32> {nn.name = "last"}, tensor<5x16xf32> {nn.name = "all"}) attributes {nn.program = #nn.program<run>} {
  %last, %all = nn.repeat 5 carried(%s = %first) sliced(%x = %xs)
      : (tensor<16xf32>, tensor<5x16xf32>) -> (tensor<16xf32>, tensor<5x16xf32>) {
    %next = nn.add %s, %x : tensor<16xf32>
    %double = nn.add %next, %next : tensor<16xf32>
    nn.yield %next, %double : tensor<16xf32>, tensor<16xf32>
  }
  return %last, %all : tensor<16xf32>, tensor<5x16xf32>
}

// -----

// A reversed repeat begins with the last row. Rows of 12 bytes are read and made where they lie on the cpu; on cuda no buffer may begin
// there, so they are copied to and from one.
// CHECK-LABEL: exec.variant
// CHECK: exec.tensor @xs input <arena, [[#XS:]], memref<4x3xf32>>
// CHECK: exec.tensor @all output <arena, [[#ALL:]], memref<4x3xf32>>
// CHECK: exec.repeat 4 {
// CHECK-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#XS + 36]], memref<3xf32>, strides = [-12]>, #exec.buffer<arena, [[#ALL + 36]], memref<3xf32>, strides = [-12]>]
// CHECK-NEXT: }
// CUDA: exec.tensor @xs input <arena, [[#XS:]], memref<4x3xf32>>
// CUDA: exec.tensor @all output <arena, [[#ALL:]], memref<4x3xf32>>
// CUDA: exec.repeat 4 {
// CUDA-NEXT: exec.copy <arena, [[#XS + 36]], memref<3xf32>, strides = [-12]> to <arena, [[#X:]], memref<3xf32>>
// CUDA-NEXT: exec.kernel @loop_0 [#exec.buffer<arena, [[#X]], memref<3xf32>>, #exec.buffer<arena, [[#Y:]], memref<3xf32>>]
// CUDA-NEXT: exec.copy <arena, [[#Y]], memref<3xf32>> to <arena, [[#ALL + 36]], memref<3xf32>, strides = [-12]>
func.func @small_rows(%xs: tensor<4x3xf32> {nn.name = "xs"}) -> (tensor<4x3xf32> {nn.name = "all"})
    attributes {nn.program = #nn.program<run>} {
  %all = nn.repeat 4 reversed sliced(%x = %xs) : (tensor<4x3xf32>) -> (tensor<4x3xf32>) {
    %y = nn.neg %x : tensor<3xf32>
    nn.yield %y : tensor<3xf32>
  }
  return %all : tensor<4x3xf32>
}

// -----

// Carried values that change places go through a temporary.
// CHECK-LABEL: exec.variant
// CHECK: exec.repeat 3 {
// CHECK-NEXT: exec.copy <arena, [[#B:]], memref<16xf32>> to <arena, [[#T:]], memref<16xf32>>
// CHECK-NEXT: exec.copy <arena, [[#A:]], memref<16xf32>> to <arena, [[#U:]], memref<16xf32>>
// CHECK-NEXT: exec.copy <arena, [[#T]], memref<16xf32>> to <arena, [[#A]], memref<16xf32>>
// CHECK-NEXT: exec.copy <arena, [[#U]], memref<16xf32>> to <arena, [[#B]], memref<16xf32>>
func.func @swap(%x: tensor<16xf32> {nn.name = "x"}, %y: tensor<16xf32> {nn.name = "y"})
    -> (tensor<16xf32> {nn.name = "p"}, tensor<16xf32> {nn.name = "q"}) attributes {nn.program = #nn.program<run>} {
  %p, %q = nn.repeat 3 carried(%a = %x, %b = %y) : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
    nn.yield %b, %a : tensor<16xf32>, tensor<16xf32>
  }
  return %p, %q : tensor<16xf32>, tensor<16xf32>
}

// -----

// What is captured lives until the outer repeat ends, and shares no bytes with what an iteration makes. The first value dies, so that the
// outer sum takes its place; the inner one begins with a copy of it. The rows of the inner repeat move in both.
// CHECK-LABEL: exec.variant
// CHECK: exec.tensor @xs input <arena, [[#XS:]], memref<2x3x16xf32>>
// CHECK: exec.kernel @loop_0 [{{.*}}, #exec.buffer<arena, [[#OUTER:]], memref<16xf32>>]
// CHECK-NEXT: exec.kernel @loop_1 [{{.*}}, #exec.buffer<arena, [[#FACTOR:]], memref<16xf32>>]
// CHECK-NEXT: exec.repeat 2 {
// CHECK-NEXT: exec.copy <arena, [[#OUTER]], memref<16xf32>> to <arena, [[#SUM:]], memref<16xf32>>
// CHECK-NEXT: exec.repeat 3 {
// CHECK-NEXT: exec.kernel @loop_2 [#exec.buffer<arena, [[#SUM]], memref<16xf32>>, #exec.buffer<arena, [[#FACTOR]], memref<16xf32>>, #exec.buffer<arena, [[#XS]], memref<16xf32>, strides = [192, 64]>]
// CHECK-SAME: reads [0, 1, 2] writes [0]
// CHECK-NEXT: }
// CHECK-NEXT: exec.copy <arena, [[#SUM]], memref<16xf32>> to <arena, [[#OUTER]], memref<16xf32>>
// CHECK-NEXT: }
func.func @nested(%v: tensor<16xf32> {nn.name = "v"}, %xs: tensor<2x3x16xf32> {nn.name = "xs"}) -> (tensor<16xf32> {nn.name = "y"})
    attributes {nn.program = #nn.program<run>} {
  %factor = nn.exp %v : tensor<16xf32>
  %first = nn.neg %v : tensor<16xf32>
  %y = nn.repeat 2 carried(%a = %first) sliced(%rows = %xs) captured(%f = %factor)
      : (tensor<16xf32>, tensor<2x3x16xf32>, tensor<16xf32>) -> (tensor<16xf32>) {
    %last = nn.repeat 3 carried(%s = %a) sliced(%x = %rows) captured(%g = %f)
        : (tensor<16xf32>, tensor<3x16xf32>, tensor<16xf32>) -> (tensor<16xf32>) {
      %m = nn.mul %s, %g : tensor<16xf32>
      %next = nn.add %m, %x : tensor<16xf32>
      nn.yield %next : tensor<16xf32>
    }
    nn.yield %last : tensor<16xf32>
  }
  return %y : tensor<16xf32>
}

// -----

// A first value that is read behind the repeat keeps its place.
// CHECK-LABEL: exec.variant
// CHECK: exec.kernel @loop_0 [{{.*}}, #exec.buffer<arena, [[#FIRST:]], memref<16xf32>>]
// CHECK-NEXT: exec.copy <arena, [[#FIRST]], memref<16xf32>> to <arena, [[#SUM:]], memref<16xf32>>
// CHECK-NEXT: exec.repeat 3 {
// CHECK-NEXT: exec.kernel @loop_1 [#exec.buffer<arena, [[#SUM]], memref<16xf32>>] reads [0] writes [0]
// CHECK: exec.kernel @loop_2 [#exec.buffer<arena, [[#SUM]], memref<16xf32>>, #exec.buffer<arena, [[#FIRST]], memref<16xf32>>
func.func @read_later(%v: tensor<16xf32> {nn.name = "v"}) -> (tensor<16xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
  %first = nn.neg %v : tensor<16xf32>
  %last = nn.repeat 3 carried(%a = %first) : (tensor<16xf32>) -> (tensor<16xf32>) {
    %next = nn.exp %a : tensor<16xf32>
    nn.yield %next : tensor<16xf32>
  }
  %y = nn.add %last, %first : tensor<16xf32>
  return %y : tensor<16xf32>
}
