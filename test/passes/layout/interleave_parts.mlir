// SPDX-License-Identifier: Apache-2.0
//
// Parts of sharded dims in loops, between devices where each message takes a while. That the orders change no results is tested in test/unit/layout/repeats_test.cpp.

// RUN: ashlar-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(ashlar-flatten-repeats),ashlar-propagate-layouts,ashlar-interleave-parts)' | FileCheck %s --enable-var-scope
// RUN: ashlar-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(ashlar-flatten-repeats),ashlar-propagate-layouts,ashlar-interleave-parts,ashlar-insert-redistributions,ashlar-verify-layouts,ashlar-partition,func.func(ashlar-nest-repeats))' | FileCheck %s --check-prefix=SENT --enable-var-scope

// The weight gets its order in front of the loop. Of the three gates each device computes its two units; it takes them from its shard. Two
// devices do not divide three gates, so the rows of the weight are sharded meanwhile.
// CHECK-LABEL: @slices
// CHECK: %[[PARTS:.*]] = nn.reshape %{{.*}} {dist.layouts = [#dist.layout<[{"tp"}, {}, {}, {}]>]} : tensor<4x12xf32> -> tensor<4x3x2x2xf32>
// CHECK: %[[SHARDS:.*]] = nn.transpose %[[PARTS]] [0, 2, 1, 3] {dist.layouts = [#dist.layout<[{}, {"tp"}, {}, {}]>]} : tensor<4x3x2x2xf32> -> tensor<4x2x3x2xf32>
// CHECK: %[[W:.*]] = nn.reshape %[[SHARDS]] {dist.layouts = [#dist.layout<[{}, {"tp"}]>]} : tensor<4x2x3x2xf32> -> tensor<4x12xf32>
// CHECK: %[[H:.*]] = nn.repeat_carry
// CHECK: %[[P:.*]] = nn.matmul %[[H]], %[[W]]
// CHECK: %[[OF_SHARDS:.*]] = nn.reshape %[[P]] {dist.layouts = [#dist.layout<[{}, {"tp"}, {}, {}]>]} : tensor<2x12xf32> -> tensor<2x2x3x2xf32>
// CHECK: %[[A:.*]] = nn.slice %[[OF_SHARDS]] [0, 0, 0, 0] to [2, 2, 1, 2] by [1, 1, 1, 1]
// CHECK: nn.reshape %[[A]] {dist.layouts = [#dist.layout<[{}, {"tp"}]>]} : tensor<2x2x1x2xf32> -> tensor<2x4xf32>
// CHECK: nn.slice %[[OF_SHARDS]] [0, 0, 2, 0] to [2, 2, 3, 2] by [1, 1, 1, 1]
// SENT-LABEL: @slices
// SENT-COUNT-2: dist.all_to_all
// SENT: nn.repeat 3
// SENT-NEXT: dist.all_gather
// SENT-NOT: = dist.
// SENT: return
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @slices(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}, %w: tensor<4x12xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>})
    -> (tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) {
  %last = nn.repeat 3 carried(%h = %x) captured(%v = %w) : (tensor<2x4xf32>, tensor<4x12xf32>) -> tensor<2x4xf32> {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x12xf32> -> tensor<2x12xf32>
    %a = nn.slice %p [0, 0] to [2, 4] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
    %b = nn.slice %p [0, 8] to [2, 12] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
    %next = nn.mul %a, %b : tensor<2x4xf32>
    nn.yield %next : tensor<2x4xf32>
  }
  return %last : tensor<2x4xf32>
}

// -----

// Parts that a loop puts together, by pads and sums as gradients do. The rows get the order of the model behind the loop.
// CHECK-LABEL: @pads
// CHECK: nn.pad %{{.*}} low = [0, 0, 0, 0] interior = [0, 0, 0, 0] {{.*}} : tensor<2x2x1x2xf32> -> tensor<2x2x3x2xf32>
// CHECK: nn.pad %{{.*}} low = [0, 0, 1, 0] interior = [0, 0, 0, 0] {{.*}} : tensor<2x2x1x2xf32> -> tensor<2x2x3x2xf32>
// CHECK: %[[SUM:.*]] = nn.add {{.*}} : tensor<2x12xf32>
// CHECK: %[[ALL:.*]] = nn.repeat_stack %[[SUM]]
// CHECK: %[[SHARDS:.*]] = nn.reshape %[[ALL]] {{.*}} : tensor<3x2x12xf32> -> tensor<3x2x2x3x2xf32>
// CHECK: %[[PARTS:.*]] = nn.transpose %[[SHARDS]] [0, 1, 3, 2, 4]
// CHECK: %[[ROWS:.*]] = nn.reshape %[[PARTS]] {{.*}} : tensor<3x2x3x2x2xf32> -> tensor<3x2x12xf32>
// CHECK: return %[[ROWS]]
// SENT-LABEL: @pads
// SENT: nn.repeat 3
// SENT-NOT: = dist.
// SENT: nn.yield
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @pads(%xs: tensor<3x2x4xf32> {dist.layout = #dist.layout<[{}, {}, {"tp"}]>}) -> tensor<3x2x12xf32> {
  %all = nn.repeat 3 sliced(%x = %xs) : (tensor<3x2x4xf32>) -> tensor<3x2x12xf32> {
    %y = nn.tanh %x : tensor<2x4xf32>
    %a = nn.pad %x low = [0, 0] interior = [0, 0] : tensor<2x4xf32> -> tensor<2x12xf32>
    %b = nn.pad %y low = [0, 4] interior = [0, 0] : tensor<2x4xf32> -> tensor<2x12xf32>
    %sum = nn.add %a, %b : tensor<2x12xf32>
    nn.yield %sum : tensor<2x12xf32>
  }
  return %all : tensor<3x2x12xf32>
}

// -----

// A weight whose gates the model puts in another order: two of them move together. It is put in order once, as it is read, and not between.
// CHECK-LABEL: @gates_in_another_order
// CHECK-COUNT-1: nn.transpose
// CHECK-NOT: nn.transpose
// CHECK: nn.slice %{{.*}} [0, 0, 1, 0] to [4, 2, 3, 2] by [1, 1, 1, 1] {{.*}} : tensor<4x2x3x2xf32> -> tensor<4x2x2x2xf32>
// CHECK: nn.concat {{.*}} dim = 2 {{.*}} : (tensor<4x2x2x2xf32>, tensor<4x2x1x2xf32>) -> tensor<4x2x3x2xf32>
// CHECK-NOT: nn.transpose
// CHECK: return
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @gates_in_another_order(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}, %w: tensor<4x12xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>})
    -> (tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) {
  %first = nn.slice %w [0, 0] to [4, 4] by [1, 1] : tensor<4x12xf32> -> tensor<4x4xf32>
  %others = nn.slice %w [0, 4] to [4, 12] by [1, 1] : tensor<4x12xf32> -> tensor<4x8xf32>
  %turned = nn.concat %others, %first dim = 1 : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  %last = nn.repeat 3 carried(%h = %x) captured(%v = %turned) : (tensor<2x4xf32>, tensor<4x12xf32>) -> tensor<2x4xf32> {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x12xf32> -> tensor<2x12xf32>
    %a = nn.slice %p [0, 0] to [2, 4] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
    %b = nn.slice %p [0, 8] to [2, 12] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
    %next = nn.mul %a, %b : tensor<2x4xf32>
    nn.yield %next : tensor<2x4xf32>
  }
  return %last : tensor<2x4xf32>
}

// -----

// Each device has two of four parts, and sends a half of each.
// CHECK-LABEL: @even_parts
// CHECK: nn.reshape %{{.*}} {dist.layouts = [#dist.layout<[{}, {"tp"}, {}, {}]>]} : tensor<4x16xf32> -> tensor<4x4x2x2xf32>
// SENT-LABEL: @even_parts
// SENT: dist.all_to_all {{.*}} : tensor<4x2x2x2xf32> -> tensor<4x1x4x2xf32>
// SENT-NOT: = dist.
// SENT: nn.repeat 3
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @even_parts(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}, %w: tensor<4x16xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>})
    -> (tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) {
  %last = nn.repeat 3 carried(%h = %x) captured(%v = %w) : (tensor<2x4xf32>, tensor<4x16xf32>) -> tensor<2x4xf32> {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x16xf32> -> tensor<2x16xf32>
    %a = nn.slice %p [0, 0] to [2, 4] by [1, 1] : tensor<2x16xf32> -> tensor<2x4xf32>
    %b = nn.slice %p [0, 12] to [2, 16] by [1, 1] : tensor<2x16xf32> -> tensor<2x4xf32>
    %next = nn.mul %a, %b : tensor<2x4xf32>
    nn.yield %next : tensor<2x4xf32>
  }
  return %last : tensor<2x4xf32>
}

// -----

// The order of the model stays where an op of the loop needs it: a reshape that takes elements of the dim apart.
// CHECK-LABEL: @needs_order
// CHECK-NOT: nn.transpose
// CHECK: nn.slice %{{.*}} [0, 0] to [2, 4] by [1, 1]
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @needs_order(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}, %w: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<3x2x2x4xf32> {
  %last, %all = nn.repeat 3 carried(%h = %x) captured(%v = %w) : (tensor<2x4xf32>, tensor<4x8xf32>) -> (tensor<2x4xf32>, tensor<3x2x2x4xf32>) {
    %p = nn.matmul %h, %v : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
    %a = nn.slice %p [0, 0] to [2, 4] by [1, 1] : tensor<2x8xf32> -> tensor<2x4xf32>
    %r = nn.reshape %p : tensor<2x8xf32> -> tensor<2x2x4xf32>
    nn.yield %a, %r : tensor<2x4xf32>, tensor<2x2x4xf32>
  }
  return %all : tensor<3x2x2x4xf32>
}

// -----

// And where the devices do not divide a part.
// CHECK-LABEL: @uneven
// CHECK-NOT: nn.transpose
// CHECK: nn.slice %{{.*}} [0, 0] to [2, 5] by [1, 1]
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @uneven(%x: tensor<2x5xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}, %w: tensor<5x10xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<2x5xf32> {
  %last = nn.repeat 3 carried(%h = %x) captured(%v = %w) : (tensor<2x5xf32>, tensor<5x10xf32>) -> tensor<2x5xf32> {
    %p = nn.matmul %h, %v : tensor<2x5xf32>, tensor<5x10xf32> -> tensor<2x10xf32>
    %a = nn.slice %p [0, 0] to [2, 5] by [1, 1] : tensor<2x10xf32> -> tensor<2x5xf32>
    nn.yield %a : tensor<2x5xf32>
  }
  return %last : tensor<2x5xf32>
}

// -----

// Outside of loops nothing changes.
// CHECK-LABEL: @no_loop
// CHECK-NOT: nn.transpose
// CHECK: nn.slice %{{.*}} [0, 0] to [2, 4] by [1, 1]
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @no_loop(%x: tensor<2x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> (tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) {
  %y = nn.tanh %x : tensor<2x8xf32>
  %a = nn.slice %y [0, 0] to [2, 4] by [1, 1] : tensor<2x8xf32> -> tensor<2x4xf32>
  return %a : tensor<2x4xf32>
}

// -----

// Rows that an op finds by number keep their order, also where another op cuts them into parts.
// CHECK-LABEL: @found_rows
// CHECK-NOT: nn.transpose
// CHECK: nn.gather
// CHECK: nn.slice %{{.*}} [0, 0] to [4, 2] by [1, 1]
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @found_rows(%x: tensor<8x2xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}, %index: tensor<4xi32>) -> tensor<3x4x2xf32> {
  %last, %rows = nn.repeat 3 carried(%h = %x) captured(%i = %index) : (tensor<8x2xf32>, tensor<4xi32>) -> (tensor<8x2xf32>, tensor<3x4x2xf32>) {
    %next = nn.tanh %h : tensor<8x2xf32>
    %found = nn.gather %next, %i : tensor<8x2xf32>, tensor<4xi32> -> tensor<4x2xf32>
    %part = nn.slice %next [0, 0] to [4, 2] by [1, 1] : tensor<8x2xf32> -> tensor<4x2xf32>
    %sum = nn.add %found, %part : tensor<4x2xf32>
    nn.yield %next, %sum : tensor<8x2xf32>, tensor<4x2xf32>
  }
  return %rows : tensor<3x4x2xf32>
}

// -----

// An op that takes an operand in a layout of its own keeps its parts in their order.
// CHECK-LABEL: @given_operand
// CHECK-NOT: nn.transpose
// CHECK: nn.concat %{{.*}}, %{{.*}} dim = 1 {dist.layouts = {{.*}}, dist.operand_layouts = [#dist.layout<[{"tp"}, {}]>, unit]} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @given_operand(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> (tensor<3x2x8xf32> {dist.layout = #dist.layout<[{}, {}, {"tp"}]>}) {
  %last, %all = nn.repeat 3 carried(%h = %x) : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<3x2x8xf32>) {
    %next = nn.tanh %h : tensor<2x4xf32>
    %both = nn.concat %next, %h dim = 1 {dist.operand_layouts = [#dist.layout<[{"tp"}, {}]>, unit]} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
    nn.yield %next, %both : tensor<2x4xf32>, tensor<2x8xf32>
  }
  return %all : tensor<3x2x8xf32>
}

// -----

// Each device has the elements of the slice that it computes on: nothing is sent, so the dim keeps its order.
// CHECK-LABEL: @own_elements
// CHECK-NOT: nn.transpose
// CHECK: nn.slice %{{.*}} [0, 4] to [2, 8] by [1, 1]
// SENT-LABEL: @own_elements
// SENT: dist.halo {{.*}} to <positions = 4, first = 4, last = 5> {{.*}} : tensor<2x6xf32> -> tensor<2x2xf32>
// SENT-NOT: = dist.
// SENT: return
dist.mesh @mesh <["tp" = 2]> {costs = #dist.costs<latency_ns = [1000], bytes_per_us = [10000]>}
func.func @own_elements(%xs: tensor<3x2x12xf32> {dist.layout = #dist.layout<[{}, {}, {"tp"}]>}) -> (tensor<3x2x4xf32> {dist.layout = #dist.layout<[{}, {}, {"tp"}]>}) {
  %all = nn.repeat 3 sliced(%x = %xs) : (tensor<3x2x12xf32>) -> tensor<3x2x4xf32> {
    %middle = nn.slice %x [0, 4] to [2, 8] by [1, 1] : tensor<2x12xf32> -> tensor<2x4xf32>
    nn.yield %middle : tensor<2x4xf32>
  }
  return %all : tensor<3x2x4xf32>
}
