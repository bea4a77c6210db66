// RUN: ashlar-opt %s -ashlar-simplify-collectives | FileCheck %s
// RUN: ashlar-opt %s -ashlar-simplify-collectives -mlir-print-debuginfo | FileCheck %s --check-prefix=REASON

dist.mesh @mesh <["dp" = 2, "tp" = 2]>

nn.variable @split : tensor<4x6xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}

// Equal collectives are one, for both causes and both reasons.
// CHECK-LABEL: func.func @equal
func.func @equal(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum %{{.*}} over ["dp"] {cause = [#dist.end<kind = op, name = "a">, #dist.end<kind = op, name = "b">]}
  // REASON: dist.all_reduce sum {{.*}} loc(#[[MERGED:.*]])
  %0 = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = op, name = "a">]} : tensor<4x6xf32> loc(#a)
  %1 = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = op, name = "b">]} : tensor<4x6xf32> loc(#b)
  // CHECK-NEXT: return %[[SUM]], %[[SUM]]
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}

// REASON: #[[MERGED]] = loc(fused<[{consumers = [{{[^]]*}}name = "a"{{[^]]*}}]{{.*}}}, {consumers = [{{[^]]*}}name = "b"
#a = loc(fused<[{producer = #dist.end<kind = op, name = "p", op = "nn.add">, consumers = [#dist.end<kind = op, name = "a", op = "nn.add">], origins = [], from = #dist.layout<[{}, {}], partial = sum {"dp"}>,
                 to = #dist.layout<[{}, {}]>, type = tensor<4x6xf32>}]>["p"])
#b = loc(fused<[{producer = #dist.end<kind = op, name = "p", op = "nn.add">, consumers = [#dist.end<kind = op, name = "b", op = "nn.add">], origins = [], from = #dist.layout<[{}, {}], partial = sum {"dp"}>,
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

// A sum stays a sum, whatever is used of it: which collectives there are is the planner's to say, and --explain prints what it said.
// CHECK-LABEL: func.func @slice_of_sum
// CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum
// CHECK-NEXT: %[[PIECE:.*]] = dist.slice %[[SUM]]
// CHECK-NEXT: return %[[PIECE]], %[[PIECE]]
func.func @slice_of_sum(%x: tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  %0 = dist.all_reduce sum %x over ["dp", "tp"] {cause = [#dist.end<kind = op, name = "a">]} : tensor<4x6xf32>
  %1 = dist.slice %0 dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  %2 = dist.slice %0 dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
  return %1, %2 : tensor<2x6xf32>, tensor<2x6xf32>
}

// Bodies of repeats are simplified, too.
// CHECK-LABEL: func.func @in_body
// CHECK-NOT: dist.
func.func @in_body(%x: tensor<4x6xf32>) -> tensor<3x4x6xf32> {
  %0 = nn.repeat 3 captured(%v = %x) : (tensor<4x6xf32>) -> tensor<3x4x6xf32> {
    %1 = dist.slice %v dim = 0 over ["dp"] : tensor<4x6xf32> -> tensor<2x6xf32>
    %2 = dist.all_gather %1 dim = 0 over ["dp"] : tensor<2x6xf32> -> tensor<4x6xf32>
    nn.yield %2 : tensor<4x6xf32>
  }
  return %0 : tensor<3x4x6xf32>
}

// What a body cuts differs from device to device behind it, and in its next iteration.
// CHECK-LABEL: func.func @of_body
// CHECK-COUNT-2: dist.all_gather
func.func @of_body(%x: tensor<4x6xf32>, %p: tensor<6xf32>) -> (tensor<6xf32>, tensor<3x2x6xf32>) {
  %0, %1 = nn.repeat 3 carried(%c = %p) captured(%v = %x) : (tensor<6xf32>, tensor<4x6xf32>) -> (tensor<6xf32>, tensor<3x2x6xf32>) {
    %2 = dist.slice %v dim = 0 over ["tp"] : tensor<4x6xf32> -> tensor<2x6xf32>
    %3 = dist.slice %c dim = 0 over ["tp"] : tensor<6xf32> -> tensor<3xf32>
    %4 = dist.all_gather %3 dim = 0 over ["tp"] : tensor<3xf32> -> tensor<6xf32>
    %5 = nn.reduce sum %2 dims = [0] : tensor<2x6xf32> -> tensor<6xf32>
    %6 = nn.add %4, %5 : tensor<6xf32>
    nn.yield %6, %2 : tensor<6xf32>, tensor<2x6xf32>
  }
  %7 = dist.slice %1 dim = 1 over ["tp"] : tensor<3x2x6xf32> -> tensor<3x1x6xf32>
  %8 = dist.all_gather %7 dim = 1 over ["tp"] : tensor<3x1x6xf32> -> tensor<3x2x6xf32>
  return %0, %8 : tensor<6xf32>, tensor<3x2x6xf32>
}
