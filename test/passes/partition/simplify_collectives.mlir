// RUN: ashlar-opt %s -ashlar-simplify-collectives | FileCheck %s
// RUN: ashlar-opt %s -ashlar-simplify-collectives -mlir-print-debuginfo | FileCheck %s --check-prefix=REASON

dist.mesh @mesh <["dp" = 2, "tp" = 2]>

nn.variable @split : tensor<4x6xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}

// Equal collectives are one, for both causes and both reasons.
// CHECK-LABEL: func.func @equal
func.func @equal(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum %{{.*}} over ["dp"] {cause = "a, b"}
  // REASON: dist.all_reduce sum {{.*}} loc(#[[MERGED:.*]])
  %0 = dist.all_reduce sum %x over ["dp"] {cause = "a"} : tensor<4x6xf32> loc(#a)
  %1 = dist.all_reduce sum %x over ["dp"] {cause = "b"} : tensor<4x6xf32> loc(#b)
  // CHECK-NEXT: return %[[SUM]], %[[SUM]]
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}

// REASON: #[[MERGED]] = loc(fused<[{consumers = ["a"]{{.*}}}, {consumers = ["b"]
#a = loc(fused<[{producer = "p", consumers = ["a"], origins = [], from = #dist.layout<[{}, {}], partial = sum {"dp"}>,
                 to = #dist.layout<[{}, {}]>, type = tensor<4x6xf32>}]>["p"])
#b = loc(fused<[{producer = "p", consumers = ["b"], origins = [], from = #dist.layout<[{}, {}], partial = sum {"dp"}>,
                 to = #dist.layout<[{}, {}]>, type = tensor<4x6xf32>}]>["p"])

// Those without a cause get none.
// CHECK-LABEL: func.func @equal_without_cause
func.func @equal_without_cause(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum %{{.*}} over ["dp"] : tensor<4x6xf32>
  %0 = dist.all_reduce sum %x over ["dp"] : tensor<4x6xf32>
  %1 = dist.all_reduce sum %x over ["dp"] : tensor<4x6xf32>
  // CHECK-NEXT: return %[[SUM]], %[[SUM]]
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}

// Sums of different operands, or over different axes, stay.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-3: dist.all_reduce
func.func @different(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = dist.all_reduce sum %x over ["dp"] : tensor<4x6xf32>
  %1 = dist.all_reduce sum %x over ["tp"] : tensor<4x6xf32>
  %2 = dist.all_reduce sum %y over ["dp"] : tensor<4x6xf32>
  return %0, %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// The device's own piece of what was gathered is what it gave.
// CHECK-LABEL: func.func @slice_of_gather(%arg0: tensor<4x6xf32>)
// CHECK-NEXT: return %arg0
func.func @slice_of_gather(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = dist.all_gather %x dim = 0 over ["dp"] : tensor<4x6xf32> -> tensor<8x6xf32>
  %1 = dist.slice %0 dim = 0 over ["dp"] : tensor<8x6xf32> -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// A piece along another dim is not.
// CHECK-LABEL: func.func @slice_of_other_dim
// CHECK: dist.all_gather
// CHECK: dist.slice
func.func @slice_of_other_dim(%x: tensor<4x6xf32>) -> tensor<8x3xf32> {
  %0 = dist.all_gather %x dim = 0 over ["dp"] : tensor<4x6xf32> -> tensor<8x6xf32>
  %1 = dist.slice %0 dim = 1 over ["dp"] : tensor<8x6xf32> -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}

// Pieces of a tensor that is the same on both devices, gathered: the tensor.
// CHECK-LABEL: func.func @gather_of_slice
func.func @gather_of_slice(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %[[X:.*]] = dist.all_reduce
  %0 = dist.all_reduce max %x over ["dp"] : tensor<4x6xf32>
  %1 = nn.neg %0 : tensor<4x6xf32>
  %2 = dist.slice %1 dim = 0 over ["dp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  %3 = dist.all_gather %2 dim = 0 over ["dp"] : tensor<2x6xf32> -> tensor<4x6xf32>
  // CHECK-NEXT: %[[Y:.*]] = nn.neg %[[X]]
  // CHECK-NEXT: return %[[Y]]
  return %3 : tensor<4x6xf32>
}

// Where devices hold different tensors, the pieces are of different tensors: a split variable, an argument split over the axis, a piece.
// CHECK-LABEL: func.func @gather_of_different
// CHECK-COUNT-3: dist.all_gather
func.func @gather_of_different(%x: tensor<4x6xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}, %y: tensor<8x6xf32>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %v = nn.read @split : tensor<4x6xf32>
  %0 = dist.slice %v dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  %1 = dist.all_gather %0 dim = 0 over ["tp"] : tensor<2x6xf32> -> tensor<4x6xf32>
  %2 = dist.slice %x dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  %3 = dist.all_gather %2 dim = 0 over ["tp"] : tensor<2x6xf32> -> tensor<4x6xf32>
  %4 = dist.slice %y dim = 0 over ["tp"] : tensor<8x6xf32> -> tensor<4x6xf32>
  %5 = dist.slice %4 dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  %6 = dist.all_gather %5 dim = 0 over ["tp"] : tensor<2x6xf32> -> tensor<4x6xf32>
  return %1, %3, %6 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// A sum of which only pieces are used is a reduce-scatter; what is left of its axes is summed on the piece.
// CHECK-LABEL: func.func @slice_of_sum
func.func @slice_of_sum(%x: tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  // CHECK-NEXT: %[[PIECE:.*]] = dist.reduce_scatter sum %{{.*}} dim = 0 over ["tp"] {cause = "a"} : tensor<4x6xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum %[[PIECE]] over ["dp"] {cause = "a"} : tensor<2x6xf32>
  // CHECK-NEXT: return %[[SUM]], %[[SUM]]
  %0 = dist.all_reduce sum %x over ["dp", "tp"] {cause = "a"} : tensor<4x6xf32>
  %1 = dist.slice %0 dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  %2 = dist.slice %0 dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  return %1, %2 : tensor<2x6xf32>, tensor<2x6xf32>
}

// A sum that is also used whole stays.
// CHECK-LABEL: func.func @slice_of_used_sum
// CHECK: dist.all_reduce
// CHECK: dist.slice
func.func @slice_of_used_sum(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<2x6xf32>) {
  %0 = dist.all_reduce sum %x over ["tp"] : tensor<4x6xf32>
  %1 = dist.slice %0 dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<2x6xf32>
}

// What is known of a sum's pieces is known of the reduce-scatter that takes their place, however many values there are: here its entry is
// the one that makes the table grow. Pieces that differ along dp are not what a gather of their slices is.
// CHECK-LABEL: func.func @table_grows
func.func @table_grows(
    %p: tensor<8x4xf32>, %0: i1, %1: i1, %2: i1, %3: i1, %4: i1, %5: i1, %6: i1, %7: i1, %8: i1, %9: i1, %10: i1, %11: i1, %12: i1,
    %13: i1, %14: i1, %15: i1, %16: i1, %17: i1, %18: i1, %19: i1, %20: i1, %21: i1, %22: i1, %23: i1, %24: i1, %25: i1, %26: i1,
    %27: i1, %28: i1, %29: i1, %30: i1, %31: i1, %32: i1, %33: i1, %34: i1, %35: i1, %36: i1, %37: i1, %38: i1, %39: i1, %40: i1,
    %41: i1, %42: i1, %43: i1) -> tensor<4x4xf32> {
  // CHECK: %[[PIECE:.+]] = dist.reduce_scatter
  // CHECK: %[[CUT:.+]] = dist.slice %[[PIECE]]
  // CHECK: %[[JOINED:.+]] = dist.all_gather %[[CUT]]
  // CHECK: return %[[JOINED]]
  %s = dist.all_reduce sum %p over ["dp"] : tensor<8x4xf32>
  %y = dist.slice %s dim = 0 over ["dp"] : tensor<8x4xf32> -> tensor<4x4xf32>
  %c = dist.slice %y dim = 1 over ["dp"] : tensor<4x4xf32> -> tensor<4x2xf32>
  %g = dist.all_gather %c dim = 1 over ["dp"] : tensor<4x2xf32> -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}
