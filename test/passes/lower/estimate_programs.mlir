// RUN: ashlar-opt %s -split-input-file -ashlar-estimate-programs | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: ashlar-opt %s -split-input-file -ashlar-estimate-programs="target=cuda" | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: ashlar-opt %s -split-input-file -ashlar-estimate-programs -ashlar-plan-memory | FileCheck %s --check-prefix=EXEC

// One device, no mesh. A product of 134 MFLOP at 100 GFLOP/s: 1342177.28 ns, rounded up. The program has it, too.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
// CHECK: func.func @product({{.*}} attributes {exec.computing_ns = 1342178 : i64, exec.other_ps = 720 : i64, exec.predicted_ns = 1342178 : i64}
// EXEC: exec.program @product {{.*}} attributes {computing_ns = 1342178 : i64, exec.other_ps = 720 : i64, predicted_ns = 1342178 : i64, temporary_bytes = 0 : i64}
// Its span is the whole run of the program.
// EXEC: exec.gemm {{.*}} {exec.span_ps = array<i64: 0, 1342177280>, exec.time_ps = 1342177280 : i64}
func.func @product(%x: tensor<256x512xf32> {nn.name = "x"}, %d: tensor<256x512xf32> {nn.name = "d"}) -> (tensor<512x512xf32> {nn.name = "g"}) {
  %g = exec.fusion gemm(%d, %x) : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<256x512xf32>, %b: tensor<256x512xf32>):
    %r = nn.matmul %a, %b transpose_a : tensor<256x512xf32>, tensor<256x512xf32> -> tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %g : tensor<512x512xf32>
}
// What is only stored is copied: 2 times 80000 bytes at 20 GB/s; of a splat they are only written. A value that the program computes is there.
// CHECK: func.func @copies({{.*}} attributes {exec.computing_ns = 20000 : i64, exec.other_ps = 12000000 : i64, exec.predicted_ns = 20000 : i64}
func.func @copies(%x: tensor<20000xf32> {nn.name = "v"})
    -> (tensor<20000xf32> {nn.name = "y"}, tensor<100x200xf32> {nn.name = "z"}, tensor<20000xf32> {nn.name = "n"}) {
  %zero = nn.constant dense<0.0> : tensor<20000xf32>
  %copied = nn.reshape %x : tensor<20000xf32> -> tensor<100x200xf32>
  %n = exec.fusion loop(%x) : (tensor<20000xf32>) -> tensor<20000xf32> {
  ^bb0(%a: tensor<20000xf32>):
    %r = nn.neg %a : tensor<20000xf32>
    exec.yield %r : tensor<20000xf32>
  }
  return %zero, %copied, %n : tensor<20000xf32>, tensor<100x200xf32>, tensor<20000xf32>
}
// Nothing to do takes no time.
// CHECK: func.func @nothing() attributes {exec.computing_ns = 0 : i64, exec.other_ps = 0 : i64, exec.predicted_ns = 0 : i64}
func.func @nothing() {
  return
}
}

// -----

// Calls have the rate of their class and a launch: a product whose fewest are its 32 rows, 4194304 operations at 10 a nanosecond, the same with
// the sums of its operand, at 50 with 64 of all, and a kernel that moves 2 MiB. The launch of each is a microsecond.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000, launch_ns = 1000,
    products = [<from = 1, flops_per_us = 10000, narrow_flops_per_us = 10000>,
                <from = 64, flops_per_us = 50000, narrow_flops_per_us = 50000>]>} {
// CHECK: func.func @narrow({{.*}} attributes {exec.computing_ns = 420431 : i64, exec.other_ps = 600 : i64, exec.predicted_ns = 420431 : i64}
func.func @narrow(%x: tensor<32x256xf32> {nn.name = "x"}, %d: tensor<256x256xf32> {nn.name = "d"}) -> (tensor<32x256xf32> {nn.name = "g"}) {
  %g = exec.fusion gemm(%x, %d) : (tensor<32x256xf32>, tensor<256x256xf32>) -> tensor<32x256xf32> {
  ^bb0(%a: tensor<32x256xf32>, %b: tensor<256x256xf32>):
    %r = nn.matmul %a, %b : tensor<32x256xf32>, tensor<256x256xf32> -> tensor<32x256xf32>
    exec.yield %r : tensor<32x256xf32>
  }
  return %g : tensor<32x256xf32>
}
// CHECK: func.func @with_sums({{.*}} attributes {exec.computing_ns = 420431 : i64, exec.other_ps = 600 : i64, exec.predicted_ns = 420431 : i64}
func.func @with_sums(%x: tensor<32x256xf32> {nn.name = "sx"}, %d: tensor<32x256xf32> {nn.name = "sd"})
    -> (tensor<256x256xf32> {nn.name = "sg"}, tensor<256xf32> {nn.name = "ss"}) {
  %g:2 = exec.fusion gemm(%d, %x) : (tensor<32x256xf32>, tensor<32x256xf32>) -> (tensor<256x256xf32>, tensor<256xf32>) {
  ^bb0(%a: tensor<32x256xf32>, %b: tensor<32x256xf32>):
    %r, %s = exec.product_with_sums lhs %a, %b transpose_a : tensor<32x256xf32>, tensor<32x256xf32> -> tensor<256x256xf32>, tensor<256xf32>
    exec.yield %r, %s : tensor<256x256xf32>, tensor<256xf32>
  }
  return %g#0, %g#1 : tensor<256x256xf32>, tensor<256xf32>
}
// CHECK: func.func @wide_and_kernel({{.*}} attributes {exec.computing_ns = 190744 : i64, exec.other_ps = 320 : i64, exec.predicted_ns = 190744 : i64}
func.func @wide_and_kernel(%x: tensor<64x256xf32> {nn.name = "wx"}, %d: tensor<256x128xf32> {nn.name = "wd"}, %y: tensor<262144xf32> {nn.name = "wy"})
    -> (tensor<64x128xf32> {nn.name = "wg"}, tensor<262144xf32> {nn.name = "wn"}) {
  %g = exec.fusion gemm(%x, %d) : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32> {
  ^bb0(%a: tensor<64x256xf32>, %b: tensor<256x128xf32>):
    %r = nn.matmul %a, %b : tensor<64x256xf32>, tensor<256x128xf32> -> tensor<64x128xf32>
    exec.yield %r : tensor<64x128xf32>
  }
  %n = exec.fusion loop(%y) : (tensor<262144xf32>) -> tensor<262144xf32> {
  ^bb0(%a: tensor<262144xf32>):
    %r = nn.neg %a : tensor<262144xf32>
    exec.yield %r : tensor<262144xf32>
  }
  return %g, %n : tensor<64x128xf32>, tensor<262144xf32>
}
}

// -----

// Products of bf16 have the rate of bf16, whatever the call computes besides: 4194304 operations at 100 a nanosecond, not at one.
module attributes {dist.device = #dist.device<flops_per_us = 1000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
// CHECK: func.func @with_mask({{.*}} attributes {exec.computing_ns = 41944 : i64, exec.other_ps = 960 : i64, exec.predicted_ns = 41944 : i64}
func.func @with_mask(%x: tensor<64x256xbf16> {nn.name = "mx"}, %d: tensor<256x128xbf16> {nn.name = "md"})
    -> (tensor<64x128xbf16> {nn.name = "mg"}, tensor<64x16xi8> {nn.name = "ms"}) {
  %g:2 = exec.fusion gemm(%x, %d) : (tensor<64x256xbf16>, tensor<256x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x16xi8>) {
  ^bb0(%a: tensor<64x256xbf16>, %b: tensor<256x128xbf16>):
    %r, %m = exec.product_with_auxiliary relu %a, %b : (tensor<64x256xbf16>, tensor<256x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x16xi8>)
    exec.yield %r, %m : tensor<64x128xbf16>, tensor<64x16xi8>
  }
  return %g#0, %g#1 : tensor<64x128xbf16>, tensor<64x16xi8>
}
}

// -----

// Without rates there is no prediction.
module {
// CHECK: func.func @unknown(%{{.*}}: tensor<512xf32> {nn.name = "x"}) -> (tensor<512xf32> {nn.name = "y"}) {
// EXEC: exec.program @unknown inputs [@x] outputs [@y] attributes {temporary_bytes = 0 : i64} {
func.func @unknown(%x: tensor<512xf32> {nn.name = "x"}) -> (tensor<512xf32> {nn.name = "y"}) {
  %n = exec.fusion loop(%x) : (tensor<512xf32>) -> tensor<512xf32> {
  ^bb0(%a: tensor<512xf32>):
    %r = nn.neg %a : tensor<512xf32>
    exec.yield %r : tensor<512xf32>
  }
  return %n : tensor<512xf32>
}
}

// -----

// 1 MiB takes 1050576 ns of the link, a negation of it 100007.6 ns of the memory.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
// One after the other: the sum of both. Without the collective the negation is left.
// CHECK: func.func @one_after_the_other({{.*}} attributes {exec.computing_ns = 104858 : i64, exec.other_ps = 400 : i64, exec.predicted_ns = 1155434 : i64}
func.func @one_after_the_other(%x: tensor<512x512xf32> {nn.name = "x"}, %y: tensor<512x512xf32> {nn.name = "y"})
    -> (tensor<512x512xf32> {nn.name = "s"}, tensor<512x512xf32> {nn.name = "n"}) {
  %s = dist.all_reduce sum %x over ["dp"] : tensor<512x512xf32>
  %n = exec.fusion loop(%y) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %s, %n : tensor<512x512xf32>, tensor<512x512xf32>
}

// A collective that is started runs beside the first negation; the second one waits. On the cpu it is handed over, for 20 us.
// CPU: func.func @beside({{.*}} attributes {exec.computing_ns = 209716 : i64, exec.other_ps = 400 : i64, exec.predicted_ns = 1175434 : i64}
// CUDA: func.func @beside({{.*}} attributes {exec.computing_ns = 209716 : i64, exec.other_ps = 400 : i64, exec.predicted_ns = 1155434 : i64}
// The channel and the first negation begin together; the wait ends with the channel, and the second negation begins then.
// EXEC: exec.program @beside
// EXEC-NEXT: exec.collective {{.*}} token 1 {{.*}}exec.span_ps = array<i64: 0, 1070576000>
// EXEC-NEXT: exec.kernel {{.*}}exec.span_ps = array<i64: 0, 104857600>
// EXEC-NEXT: exec.wait 1 {exec.span_ps = array<i64: 104857600, 1070576000>}
// EXEC-NEXT: exec.kernel {{.*}}exec.span_ps = array<i64: 1070576000, 1175433600>
func.func @beside(%x: tensor<512x512xf32> {nn.name = "x"}, %y: tensor<512x512xf32> {nn.name = "y"})
    -> (tensor<512x512xf32> {nn.name = "s"}, tensor<512x512xf32> {nn.name = "n"}) {
  %s = dist.all_reduce sum %x over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 1050576, hidden_ns = 100007>} : tensor<512x512xf32>
  %n = exec.fusion loop(%y) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  %w = exec.await %s : tensor<512x512xf32>
  %m = exec.fusion loop(%w) : (tensor<512x512xf32>) -> tensor<512x512xf32> {
  ^bb0(%a: tensor<512x512xf32>):
    %r = nn.neg %a : tensor<512x512xf32>
    exec.yield %r : tensor<512x512xf32>
  }
  return %m, %n : tensor<512x512xf32>, tensor<512x512xf32>
}

// One that is not started goes behind the one that was.
// CPU: func.func @behind({{.*}} attributes {exec.computing_ns = 0 : i64, exec.other_ps = 0 : i64, exec.predicted_ns = 2121152 : i64}
// CUDA: func.func @behind({{.*}} attributes {exec.computing_ns = 0 : i64, exec.other_ps = 0 : i64, exec.predicted_ns = 2101152 : i64}
// EXEC: exec.program @behind
// EXEC-NEXT: exec.collective {{.*}} token 1 {{.*}}exec.span_ps = array<i64: 0, 1070576000>
// EXEC-NEXT: exec.collective {{.*}}exec.span_ps = array<i64: 1070576000, 2121152000>
func.func @behind(%x: tensor<512x512xf32> {nn.name = "x"}, %y: tensor<512x512xf32> {nn.name = "y"})
    -> (tensor<512x512xf32> {nn.name = "s"}, tensor<512x512xf32> {nn.name = "n"}) {
  %s = dist.all_reduce sum %x over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 1050576, hidden_ns = 0>} : tensor<512x512xf32>
  %t = dist.all_reduce sum %y over ["dp"] : tensor<512x512xf32>
  %w = exec.await %s : tensor<512x512xf32>
  return %w, %t : tensor<512x512xf32>, tensor<512x512xf32>
}
}

// -----

// Two devices compute one update each, at the same time; the third one is computed by both: 4000 and 8000 ns
// alone, 4000 together.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000]>}
nn.variable @a : tensor<10000x1xf32> {dist.owner = 0 : i64}
nn.variable @b : tensor<20000x1xf32> {dist.owner = 1 : i64}
nn.variable @c : tensor<10000x1xf32>
// CHECK: func.func @owners() attributes {exec.computing_ns = 12000 : i64, exec.other_ps = 0 : i64, exec.predicted_ns = 12000 : i64}
// Both begin at once, and the third when the later one of them ends.
// EXEC: exec.program @owners
// EXEC: exec.owner = 0 : i64, exec.span_ps = array<i64: 0, 4000000>
// EXEC: exec.owner = 1 : i64, exec.span_ps = array<i64: 0, 8000000>
// EXEC: exec.span_ps = array<i64: 8000000, 12000000>
func.func @owners() {
  %a = nn.read @a : tensor<10000x1xf32>
  %b = nn.read @b : tensor<20000x1xf32>
  %c = nn.read @c : tensor<10000x1xf32>
  %x = exec.fusion loop(%a) : (tensor<10000x1xf32>) -> tensor<10000x1xf32> {
  ^bb0(%v: tensor<10000x1xf32>):
    %r = nn.neg %v : tensor<10000x1xf32>
    exec.yield %r : tensor<10000x1xf32>
  }
  nn.write @a, %x {dist.owner = 0 : i64} : tensor<10000x1xf32>
  %y = exec.fusion loop(%b) : (tensor<20000x1xf32>) -> tensor<20000x1xf32> {
  ^bb0(%v: tensor<20000x1xf32>):
    %r = nn.neg %v : tensor<20000x1xf32>
    exec.yield %r : tensor<20000x1xf32>
  }
  nn.write @b, %y {dist.owner = 1 : i64} : tensor<20000x1xf32>
  %z = exec.fusion loop(%c) : (tensor<10000x1xf32>) -> tensor<10000x1xf32> {
  ^bb0(%v: tensor<10000x1xf32>):
    %r = nn.neg %v : tensor<10000x1xf32>
    exec.yield %r : tensor<10000x1xf32>
  }
  nn.write @c, %z : tensor<10000x1xf32>
  return
}
}

// -----

// In a loop, too: the sum of 1050576 ns goes beside the product of 2684354.56 ns, and a kernel of 157286.4 ns follows, four times.
module attributes {dist.device = #dist.device<flops_per_us = 100000, narrow_flops_per_us = 100000, bytes_per_us = 20000>} {
dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [1000], beside = [0]>}
// CHECK: func.func @in_a_loop({{.*}} attributes {exec.computing_ns = 11366564 : i64, exec.other_ps = 160 : i64, exec.predicted_ns = 11366564 : i64}
// The loop has the span of its four iterations; its body has none.
// EXEC: exec.repeat 4 attributes {exec.span_ps = array<i64: 0, 11366563840>}
// EXEC: exec.collective all_reduce {{.*}} token 1 {exec.bytes_sent = 1048576 : i64, exec.messages = 2 : i64, overlap
// EXEC: exec.gemm {{.*}} {exec.time_ps = 2684354560 : i64}
func.func @in_a_loop(%x: tensor<512x512xf32> {nn.name = "x"}, %first: tensor<512x512xf32> {nn.name = "first"})
    -> (tensor<512x512xf32> {nn.name = "last"}) {
  %last = nn.repeat 4 carried(%h = %first) captured(%w = %x) : (tensor<512x512xf32>, tensor<512x512xf32>) -> (tensor<512x512xf32>) {
    %s = dist.all_reduce sum %h over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 1050576, hidden_ns = 1050576>} : tensor<512x512xf32>
    %p = exec.fusion gemm(%w, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
    ^bb0(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>):
      %r = nn.matmul %a, %b : tensor<512x512xf32>, tensor<512x512xf32> -> tensor<512x512xf32>
      exec.yield %r : tensor<512x512xf32>
    }
    %t = exec.await %s : tensor<512x512xf32>
    %n = exec.fusion loop(%t, %p) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> {
    ^bb0(%a: tensor<512x512xf32>, %b: tensor<512x512xf32>):
      %r = nn.sub %a, %b : tensor<512x512xf32>
      exec.yield %r : tensor<512x512xf32>
    }
    nn.yield %n : tensor<512x512xf32>
  }
  return %last : tensor<512x512xf32>
}
}
