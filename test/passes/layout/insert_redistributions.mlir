// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts | FileCheck %s

dist.mesh @mesh <["dp" = 2, "tp" = 2]>

// A split batch and a whole parameter: the gradient is partial, and summed, because the parameter is whole.
nn.variable @w trainable : tensor<16x8xf32>
// CHECK-LABEL: func.func @gradient
func.func @gradient(%d: tensor<4x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %x: tensor<4x8xf32>) {
  // CHECK: %[[PART:.*]] = nn.matmul {{.*}} {dist.layouts = [#dist.layout<[{}, {}], partial = sum {"dp"}>]}
  // CHECK: %[[SUM:.*]] = dist.redistribute %[[PART]] from <[{}, {}], partial = sum {"dp"}> to <[{}, {}]> {cause = [#dist.end<kind = gradient, name = "w">]
  %g = nn.matmul %d, %x transpose_a : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<16x8xf32>
  %w = nn.read @w : tensor<16x8xf32>
  // CHECK: %[[G:.*]] = nn.gradient %[[SUM]] of @w
  %dw = nn.gradient %g of @w : tensor<16x8xf32>
  // CHECK: nn.sub %{{.*}}, %[[G]]
  %n = nn.sub %w, %dw : tensor<16x8xf32>
  // CHECK-NOT: dist.redistribute
  nn.write @w, %n : tensor<16x8xf32>
  return
}

// A reduction is partial in its own kind.
// CHECK-LABEL: func.func @maximum
func.func @maximum(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<8xf32> {
  // CHECK: dist.redistribute %{{.*}} from <[{}], partial = max {"dp"}> to <[{}]> {cause = [#dist.end<kind = op, name = "path/to/max">]
  %0 = nn.reduce max %x dims = [0] : tensor<4x8xf32> -> tensor<8xf32> loc("path/to/max")
  return %0 : tensor<8xf32>
}

// Two users that need the value in the same layout share one redistribution, made where the value is.
// CHECK-LABEL: func.func @shared
func.func @shared(%x: tensor<3x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) {
  // CHECK-COUNT-1: dist.redistribute %{{.*}} from <[{}, {"tp"}]> to <[{}, {}]>
  // CHECK-NOT: dist.redistribute
  %0 = nn.reshape %x : tensor<3x8xf32> -> tensor<2x12xf32>
  %1 = nn.reshape %x : tensor<3x8xf32> -> tensor<4x6xf32>
  return
}

// Elements that move along a split dim: each device gets what its part of the result reads, so the split stays.
// CHECK-LABEL: func.func @moved
func.func @moved(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"dp", "tp"}]>}) -> tensor<4x4xf32> {
  // CHECK-NOT: dist.redistribute
  // CHECK: nn.slice %{{.*}} {dist.layouts = [#dist.layout<[{}, {"dp", "tp"}]>]}
  %0 = nn.slice %x [0, 2] to [4, 6] by [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// Operands that disagree: the large one stays, the small one moves.
// CHECK-LABEL: func.func @larger_stays
// CHECK-SAME: %[[BIG:[a-z0-9]+]]: tensor<4x64xf32>
// CHECK-SAME: %[[SMALL:[a-z0-9]+]]: tensor<4x2xf32>
func.func @larger_stays(%big: tensor<4x64xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                        %small: tensor<4x2xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}) -> tensor<64x2xf32> {
  // CHECK: %[[MOVED:.*]] = dist.redistribute %[[SMALL]] from <[{"tp"}, {}]> to <[{"dp"}, {}]>
  // CHECK: nn.matmul %[[BIG]], %[[MOVED]]
  %0 = nn.matmul %big, %small transpose_a : tensor<4x64xf32>, tensor<4x2xf32> -> tensor<64x2xf32>
  return %0 : tensor<64x2xf32>
}

// A sum that is wanted split is not made whole in between.
// CHECK-LABEL: func.func @composed
func.func @composed(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                    %y: tensor<8xf32> {dist.layout = #dist.layout<[{"tp"}]>})
    -> (tensor<8xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // CHECK: dist.redistribute %{{.*}} from <[{}], partial = sum {"dp"}> to <[{"dp"}]>
  // CHECK-NOT: dist.redistribute
  %0 = nn.reduce sum %x dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

dist.mesh @mesh <["dp" = 2]>
nn.variable @w : tensor<4xf32> {dist.layout = #dist.layout<[{}]>}

// What is written and returned takes the layout of where it goes.
// CHECK-LABEL: func.func @leave
func.func @leave(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) -> (tensor<4xf32> {dist.layout = #dist.layout<[{}]>}) {
  // CHECK: %[[WHOLE:.*]] = dist.redistribute %{{.*}} from <[{"dp"}]> to <[{}]> {cause = [#dist.end<kind = state_update, name = "w">]
  // CHECK: nn.write @w, %[[WHOLE]]
  nn.write @w, %x : tensor<4xf32>
  // CHECK: return %[[WHOLE]]
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh <["dp" = 2]>
nn.variable @w trainable : tensor<8x8xf32>

// Partial sums that are added are added first: the gradient of a parameter that is used twice is summed once.
// CHECK-LABEL: func.func @shared_parameter
func.func @shared_parameter(%d: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                            %x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  // CHECK: %[[A:.*]] = nn.matmul
  // CHECK-NEXT: %[[B:.*]] = nn.matmul
  // CHECK-NEXT: %[[C:.*]] = nn.matmul
  // CHECK-NEXT: %[[AB:.*]] = nn.add %[[A]], %[[B]] {dist.layouts = [#dist.layout<[{}, {}], partial = sum {"dp"}>]}
  // CHECK-NEXT: %[[ABC:.*]] = nn.add %[[AB]], %[[C]] {dist.layouts = [#dist.layout<[{}, {}], partial = sum {"dp"}>]}
  // CHECK-NEXT: dist.redistribute %[[ABC]] from <[{}, {}], partial = sum {"dp"}> to <[{}, {}]> {cause = [#dist.end<kind = gradient, name = "w">]
  // CHECK-NOT: dist.redistribute
  %a = nn.matmul %d, %x transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
  %b = nn.matmul %x, %d transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
  %c = nn.matmul %x, %x transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
  %ab = nn.add %a, %b : tensor<8x8xf32>
  %abc = nn.add %ab, %c : tensor<8x8xf32>
  %gradient = nn.gradient %abc of @w : tensor<8x8xf32>
  nn.write @w, %gradient : tensor<8x8xf32>
  return
}

// A value that is the gradient of two parameters is named after neither; nor is one that other ops take as well.
nn.variable @u trainable : tensor<8x8xf32>
nn.variable @v trainable : tensor<8x8xf32>
// CHECK-LABEL: func.func @of_several
func.func @of_several(%d: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                      %x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<8x8xf32> {
  // CHECK: dist.redistribute %{{.*}} {cause = [#dist.end<kind = op, name = "both">]
  %a = nn.matmul %d, %x transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("both")
  // CHECK: dist.redistribute %{{.*}} {cause = [#dist.end<kind = op, name = "more">]
  %b = nn.matmul %x, %d transpose_a : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32> loc("more")
  %du = nn.gradient %a of @u : tensor<8x8xf32>
  %dv = nn.gradient %a of @v : tensor<8x8xf32>
  %dw = nn.gradient %b of @w : tensor<8x8xf32>
  nn.write @u, %du : tensor<8x8xf32>
  nn.write @v, %dv : tensor<8x8xf32>
  nn.write @w, %dw : tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}

// A maximum of a sum is no sum of maxima: only sums are added early.
// CHECK-LABEL: func.func @maxima
func.func @maxima(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                  %y: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  // CHECK-COUNT-2: dist.redistribute
  // CHECK: nn.add {{.*}} {dist.layouts = [#dist.layout<[{}]>]}
  %0 = nn.reduce max %x dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %1 = nn.reduce max %y dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %2 = nn.add %0, %1 : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh <["x" = 1, "y" = 6, "z" = 1]>

// An axis of size 1 in the layout of an operand is left out, as it is everywhere.
// CHECK-LABEL: func.func @operand_unit_axis
func.func @operand_unit_axis(%x: tensor<6x2xf32> {dist.layout = #dist.layout<[{}, {}]>})
    -> (tensor<12xf32> {dist.layout = #dist.layout<[{"y"}]>}) {
  // CHECK: dist.redistribute %{{.*}} from <[{}, {}]> to <[{"y"}, {}]>
  // CHECK: nn.reshape {{.*}} {dist.layouts = [#dist.layout<[{"y"}]>]
  // CHECK-NOT: dist.redistribute
  %0 = nn.reshape %x {dist.layouts = [#dist.layout<[{"y"}]>], dist.operand_layouts = [#dist.layout<[{"x", "y"}, {"z"}]>]}
     : tensor<6x2xf32> -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

dist.mesh @mesh <["x" = 2]>

// A constant that is told another layout than its user needs is made twice, not sent.
// CHECK-LABEL: func.func @constant
func.func @constant(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{"x"}, {}]>})
    -> (tensor<4x2xf32> {dist.layout = #dist.layout<[{"x"}, {}]>}) {
  // CHECK-NOT: dist.redistribute
  // CHECK: nn.constant {dist.layouts = [#dist.layout<[{"x"}, {}]>]} dense<2.0
  // CHECK-NOT: dist.redistribute
  %two = nn.constant {dist.layouts = [#dist.layout<[{}, {"x"}]>]} dense<2.0> : tensor<4x2xf32>
  %0 = nn.mul %x, %two {dist.layouts = [#dist.layout<[{"x"}, {}]>]} : tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

dist.mesh @mesh <["tp" = 2]>

// A partial sum is combined behind a reshape and a transpose, so that sums behind them are found; a whole value that was added first stays
// outside of the sum.
// CHECK-LABEL: func.func @behind_views
func.func @behind_views(%w: tensor<2x4x3xf32> {dist.layout = #dist.layout<[{}, {}, {}]>},
                        %a: tensor<6x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>},
                        %b: tensor<8x4xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>})
    -> (tensor<2x4x3xf32> {dist.layout = #dist.layout<[{}, {}, {}]>}) {
  // CHECK-NOT: dist.redistribute
  // CHECK: %[[P:.*]] = nn.transpose {{.*}}partial = sum {"tp"}
  // CHECK-NOT: dist.redistribute
  // CHECK: %[[Q:.*]] = nn.transpose {{.*}}partial = sum {"tp"}
  // CHECK-NEXT: %[[PQ:.*]] = nn.add %[[P]], %[[Q]] {{.*}}partial = sum {"tp"}
  // CHECK-NEXT: %[[SUM:.*]] = dist.redistribute %[[PQ]] from <[{}, {}, {}], partial = sum {"tp"}> to <[{}, {}, {}]>
  // CHECK-NEXT: %[[Y:.*]] = nn.add %{{.*}}, %[[SUM]]
  // CHECK-NEXT: return %[[Y]]
  %p = nn.matmul %a, %b : tensor<6x8xf32>, tensor<8x4xf32> -> tensor<6x4xf32>
  %p3 = nn.reshape %p : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %pt = nn.transpose %p3 [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  %wp = nn.add %w, %pt : tensor<2x4x3xf32>
  %t = nn.tanh %b : tensor<8x4xf32>
  %q = nn.matmul %a, %t : tensor<6x8xf32>, tensor<8x4xf32> -> tensor<6x4xf32>
  %q3 = nn.reshape %q : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %qt = nn.transpose %q3 [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  %y = nn.add %wp, %qt : tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// -----

// Where halos are slow, and gathers slower, the split moves to another dim meanwhile.
dist.mesh @mesh <["dp" = 4]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [1000], kinds = [<kind = all_gather, latency_ns = [900000], bytes_per_us = [1000]>,
                                                                                                             <kind = halo, latency_ns = [90000], bytes_per_us = [1000]>]>}
// CHECK-LABEL: func.func @moved_meanwhile
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x4xf32>
func.func @moved_meanwhile(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<4x4xf32> {
  // CHECK: %[[COLUMNS:.*]] = dist.redistribute %[[X]] from <[{"dp"}, {}]> to <[{}, {"dp"}]>
  // CHECK: %[[Y:.*]] = nn.slice %[[COLUMNS]]
  // CHECK: dist.redistribute %[[Y]] from <[{}, {"dp"}]> to <[{"dp"}, {}]>
  %0 = nn.slice %x [2, 0] to [6, 4] by [1, 1] : tensor<8x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
