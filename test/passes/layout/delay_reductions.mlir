// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts | FileCheck %s

dist.mesh @mesh <["dp" = 4]>

// Terms are scaled, turned and subtracted, and then summed once.
// CHECK-LABEL: func.func @difference
func.func @difference(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                      %y: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                      %s: tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) {
  // CHECK-NOT: dist.redistribute
  %a = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %b = nn.reduce sum %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %c = nn.mul %b, %s : tensor<16xf32>
  %n = nn.neg %c : tensor<16xf32>
  // CHECK: %[[TERMS:.*]] = nn.sub {{.*}} {dist.layouts = [#dist.layout<[{}], partial = sum {"dp"}>]}
  %d = nn.sub %a, %n : tensor<16xf32>
  // CHECK-NEXT: %[[SUM:.*]] = dist.redistribute %[[TERMS]] from <[{}], partial = sum {"dp"}> to <[{}]>
  // CHECK-NEXT: return %[[SUM]]
  return %d : tensor<16xf32>
}

// -----

dist.mesh @mesh <["dp" = 4]>

// A sum that is summed further is smaller afterwards.
// CHECK-LABEL: func.func @smaller
func.func @smaller(%x: tensor<8x16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>}) -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) {
  // CHECK-NOT: dist.redistribute
  %a = nn.reduce sum %x dims = [0] : tensor<8x16x4xf32> -> tensor<16x4xf32>
  %t = nn.transpose %a [1, 0] : tensor<16x4xf32> -> tensor<4x16xf32>
  // CHECK: %[[TERMS:.*]] = nn.reduce sum %{{.*}} dims = [0] {{.*}} : tensor<4x16xf32>
  %b = nn.reduce sum %t dims = [0] : tensor<4x16xf32> -> tensor<16xf32>
  // CHECK-NEXT: dist.redistribute %[[TERMS]] from <[{}], partial = sum {"dp"}> to <[{}]>
  return %b : tensor<16xf32>
}

// -----

dist.mesh @mesh <["dp" = 4]>

// A sum that is turned and then split is scattered.
// CHECK-LABEL: func.func @scattered
func.func @scattered(%x: tensor<8x16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>, dist.origin = [#dist.origin<source = "given">]},
                     %w: tensor<16x4xf32> {dist.layout = #dist.layout<[{}, {}]>})
    -> (tensor<16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  %a = nn.reduce sum %x dims = [0] : tensor<8x16x4xf32> -> tensor<16x4xf32>
  %b = nn.mul %a, %w : tensor<16x4xf32>
  // CHECK: dist.redistribute %{{.*}}, partial = sum {"dp"}> to <[{"dp"}, {}]>
  // CHECK-NOT: dist.redistribute {{.*}} partial
  // CHECK: return
  return %b : tensor<16x4xf32>
}

// -----

dist.mesh @mesh <["dp" = 4]>

// Nothing is gained by one sum later: it stays where it is.
// CHECK-LABEL: func.func @no_gain
func.func @no_gain(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %s: tensor<16xf32>) -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) {
  // CHECK: nn.reduce
  // CHECK-NEXT: dist.redistribute
  // CHECK-NEXT: nn.mul
  %a = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %b = nn.mul %a, %s : tensor<16xf32>
  return %b : tensor<16xf32>
}

// -----

dist.mesh @mesh <["dp" = 4]>

// A sum that is also used as it is, the product of two sums, the sum of a term and a whole value, and a maximum: no terms.
// CHECK-LABEL: func.func @not_linear
// CHECK-NOT: nn.{{mul|add|neg|max|sub}} {{.*}}partial
func.func @not_linear(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                      %y: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %w: tensor<16xf32>)
    -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}, tensor<16xf32> {dist.layout = #dist.layout<[{}]>},
        tensor<16xf32> {dist.layout = #dist.layout<[{}]>}, tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) {
  %a = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %b = nn.reduce sum %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %0 = nn.mul %a, %b : tensor<16xf32>
  %c = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %1 = nn.add %c, %w : tensor<16xf32>
  %d = nn.reduce max %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %e = nn.reduce max %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %2 = nn.sub %d, %e : tensor<16xf32>
  return %0, %1, %2, %a : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}

// -----

dist.mesh @mesh <["dp" = 2, "tp" = 2]>

// Terms over different axes cannot be added before they are summed.
// CHECK-LABEL: func.func @other_axes
// CHECK-NOT: nn.add {{.*}}partial
func.func @other_axes(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                      %y: tensor<8x16xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}) -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) {
  %a = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %b = nn.reduce sum %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  %c = nn.add %a, %b : tensor<16xf32>
  return %c : tensor<16xf32>
}

// -----

dist.mesh @mesh <["x" = 2, "z" = 3]>

// A sum is not delayed through a reshape that joins the split dim to a major one that is whole: the pieces would be no run of the new dim.
// CHECK-LABEL: func.func @minor_of_joined_dim
func.func @minor_of_joined_dim(%x: tensor<9x3xf32> {dist.layout = #dist.layout<[{"x"}, {"z"}]>}, %rows: tensor<9xi32>)
    -> (tensor<9xf32> {dist.layout = #dist.layout<[{"z"}]>}) {
  // CHECK: %[[TERMS:.*]] = nn.scatter_add {{.*}} {dist.layouts = [#dist.layout<[{}, {"z"}], partial = sum {"x"}>]}
  // CHECK: %[[SUM:.*]] = dist.redistribute %[[TERMS]] from <[{}, {"z"}], partial = sum {"x"}> to <[{"z"}, {}]>
  // CHECK: nn.reshape %[[SUM]] {dist.layouts = [#dist.layout<[{"z"}]>]}
  %0 = nn.scatter_add %rows, %x : tensor<9xi32>, tensor<9x3xf32> -> tensor<3x3xf32>
  %1 = nn.reshape %0 : tensor<3x3xf32> -> tensor<9xf32>
  return %1 : tensor<9xf32>
}

// -----

dist.mesh @mesh <["x" = 2, "z" = 2]>

// Pieces of 2 and 1 of 3 rows are no pieces of 9: the reshape cannot compute on terms that are split so, and the sum comes before it.
// CHECK-LABEL: func.func @uneven_reshape
func.func @uneven_reshape(%x: tensor<3x2x3xf32> {dist.layout = #dist.layout<[{"x"}, {"z"}, {}]>},
                          %y: tensor<3x2x3xf32> {dist.layout = #dist.layout<[{"x"}, {"z"}, {}]>}) -> (tensor<9x3xf32> {dist.layout = #dist.layout<[{}, {}]>}) {
  // CHECK: %[[TERMS:.*]] = nn.matmul
  // CHECK-NEXT: %[[SUM:.*]] = dist.redistribute %[[TERMS]] from <[{"x"}, {}, {}], partial = sum {"z"}> to <[{}, {}, {}]>
  // CHECK-NEXT: nn.reshape %[[SUM]] {dist.layouts = [#dist.layout<[{}, {}]>]}
  %a = nn.matmul %x, %y transpose_a : tensor<3x2x3xf32>, tensor<3x2x3xf32> -> tensor<3x3x3xf32>
  %b = nn.reshape %a : tensor<3x3x3xf32> -> tensor<9x3xf32>
  return %b : tensor<9x3xf32>
}

// -----

dist.mesh @mesh <["a" = 2, "b" = 3]>

// Terms that are split on columns are whole before their columns become the minor part of a dim: no layout says which of them a device has.
// CHECK-LABEL: func.func @merged_dims
func.func @merged_dims(%t: tensor<50x12xf32> {dist.layout = #dist.layout<[{"a"}, {"b"}]>}, %i: tensor<15xi64> {dist.layout = #dist.layout<[{}]>})
    -> (tensor<3x60xf32> {dist.layout = #dist.layout<[{"a"}, {"b"}]>}) {
  // CHECK: dist.redistribute %{{.*}} from <[{}, {"b"}], partial = sum {"a"}> to <[{}, {}]>
  // CHECK-NEXT: nn.reshape
  %g = nn.gather %t, %i : tensor<50x12xf32>, tensor<15xi64> -> tensor<15x12xf32>
  %b = nn.reshape %g : tensor<15x12xf32> -> tensor<3x60xf32>
  return %b : tensor<3x60xf32>
}

// -----

dist.mesh @mesh <["dp" = 4]>

// A conversion to a wider type rounds nothing: terms of two types are summed once.
// CHECK-LABEL: func.func @widened
func.func @widened(%x: tensor<8x16xbf16> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                   %y: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) {
  // CHECK-NOT: dist.redistribute
  %a = nn.reduce sum %x dims = [0] : tensor<8x16xbf16> -> tensor<16xbf16>
  %b = nn.reduce sum %y dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  // CHECK: nn.cast %{{.*}} {dist.layouts = [#dist.layout<[{}], partial = sum {"dp"}>]}
  %c = nn.cast %a : tensor<16xbf16> -> tensor<16xf32>
  // CHECK: %[[TERMS:.*]] = nn.add
  %d = nn.add %c, %b : tensor<16xf32>
  // CHECK-NEXT: dist.redistribute %[[TERMS]] from <[{}], partial = sum {"dp"}> to <[{}]>
  return %d : tensor<16xf32>
}

// -----

dist.mesh @mesh <["dp" = 4]>

// One that rounds is not linear: terms are summed before they are rounded, though as many bytes more are sent.
// CHECK-LABEL: func.func @narrowed
func.func @narrowed(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<16xbf16> {dist.layout = #dist.layout<[{}]>}) {
  // CHECK: %[[TERMS:.*]] = nn.reduce sum
  %a = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  // CHECK: %[[SUM:.*]] = dist.redistribute %[[TERMS]] from <[{}], partial = sum {"dp"}> to <[{}]>
  // CHECK: nn.cast %[[SUM]]
  %b = nn.cast %a : tensor<16xf32> -> tensor<16xbf16>
  // CHECK-NOT: dist.redistribute
  return %b : tensor<16xbf16>
}

// -----

// Terms add up in a variable that only programs read, and are summed where another program takes them: by @update, once a step.
module {
  dist.mesh @mesh <["dp" = 4]>
  nn.variable @w trainable : tensor<16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}
  // CHECK-LABEL: nn.variable @w.gradient
  // CHECK-SAME: dist.layout = #dist.layout<[{}, {}], partial = sum {"dp"}>
  nn.variable @w.gradient state_of @w : tensor<16x4xf32> {dist.layout = #dist.layout<[{}, {}]>, nn.scratch}
  // CHECK-LABEL: func.func @init
  func.func @init() attributes {nn.program = #nn.program<init>} {
    // CHECK: nn.constant {{.*}}partial = sum {"dp"}
    // CHECK-NOT: dist.redistribute
    // CHECK: return
    %zero = nn.constant dense<0.0> : tensor<16x4xf32>
    nn.write @w.gradient, %zero : tensor<16x4xf32>
    return
  }
  // CHECK-LABEL: func.func @train_step
  func.func @train_step(%x: tensor<8x16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>},
                        %first: tensor<16x4xi1> {dist.layout = #dist.layout<[{}, {}]>}) attributes {nn.program = #nn.program<train_step>} {
    // CHECK-NOT: dist.redistribute
    // CHECK: return
    %a = nn.reduce sum %x dims = [0] : tensor<8x16x4xf32> -> tensor<16x4xf32>
    %g = nn.gradient %a of @w : tensor<16x4xf32>
    %sum = nn.read @w.gradient : tensor<16x4xf32>
    %zero = nn.constant dense<0.0> : tensor<16x4xf32>
    %old = nn.select %first, %zero, %sum : tensor<16x4xi1>, tensor<16x4xf32>
    %new = nn.add %old, %g : tensor<16x4xf32>
    nn.write @w.gradient, %new : tensor<16x4xf32>
    return
  }
  // CHECK-LABEL: func.func @update
  func.func @update() attributes {nn.program = #nn.program<update>} {
    // CHECK: %[[TERMS:.*]] = nn.read @w.gradient {dist.layouts = [#dist.layout<[{}, {}], partial = sum {"dp"}>]}
    // CHECK-NEXT: dist.redistribute %[[TERMS]] from <[{}, {}], partial = sum {"dp"}> to <[{"dp"}, {}]>
    // CHECK-SAME: kind = gradient, name = "w"
    // CHECK-NOT: dist.redistribute
    %sum = nn.read @w.gradient : tensor<16x4xf32>
    %w = nn.read @w : tensor<16x4xf32>
    %next = nn.sub %w, %sum : tensor<16x4xf32>
    nn.write @w, %next : tensor<16x4xf32>
    return
  }
}

// -----

// The terms of a device would be larger than its part of the sum: it is summed and scattered in each run.
module {
  dist.mesh @mesh <["dp" = 4]>
  nn.variable @w trainable : tensor<16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}
  // CHECK-LABEL: nn.variable @w.gradient
  // CHECK-SAME: dist.layout = #dist.layout<[{"dp"}, {}]>
  nn.variable @w.gradient state_of @w : tensor<16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, nn.scratch}
  // CHECK-LABEL: func.func @larger
  func.func @larger(%x: tensor<8x16x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>}) {
    // CHECK: dist.redistribute
    %a = nn.reduce sum %x dims = [0] : tensor<8x16x4xf32> -> tensor<16x4xf32>
    %sum = nn.read @w.gradient : tensor<16x4xf32>
    %new = nn.add %sum, %a : tensor<16x4xf32>
    nn.write @w.gradient, %new : tensor<16x4xf32>
    return
  }
}

// -----

// A checkpoint has the value of a variable that is no scratch, so that stays whole; and a sum of squares is no sum of terms.
module {
  dist.mesh @mesh <["dp" = 4]>
  // CHECK-LABEL: nn.variable @running
  // CHECK-SAME: dist.layout = #dist.layout<[{}]>}
  nn.variable @running : tensor<16xf32> {dist.layout = #dist.layout<[{}]>}
  nn.variable @squares : tensor<16xf32> {dist.layout = #dist.layout<[{}]>, nn.scratch}
  // CHECK-LABEL: func.func @kept
  func.func @kept(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
    %a = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
    %b = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
    // CHECK: dist.redistribute
    // CHECK: dist.redistribute
    %sum = nn.read @running : tensor<16xf32>
    %new = nn.add %sum, %a : tensor<16xf32>
    nn.write @running, %new : tensor<16xf32>
    // CHECK: nn.read @squares {dist.layouts = [#dist.layout<[{}]>]}
    %old = nn.read @squares : tensor<16xf32>
    %square = nn.mul %old, %old : tensor<16xf32>
    %more = nn.add %square, %b : tensor<16xf32>
    nn.write @squares, %more : tensor<16xf32>
    return
  }
}

// -----

// Two programs write sums, whose terms might have two layouts: the variable stays whole.
module {
  dist.mesh @mesh <["dp" = 4]>
  // CHECK-LABEL: nn.variable @twice
  // CHECK-SAME: dist.layout = #dist.layout<[{}]>
  nn.variable @twice : tensor<16xf32> {dist.layout = #dist.layout<[{}]>, nn.scratch}
  // CHECK-LABEL: func.func @other
  // CHECK-NOT: partial
  func.func @other(%x: tensor<16xf32> {dist.layout = #dist.layout<[{}]>}) {
    nn.write @twice, %x : tensor<16xf32>
    return
  }
  // CHECK-LABEL: func.func @one
  // CHECK: dist.redistribute
  func.func @one(%x: tensor<8x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
    %a = nn.reduce sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
    %sum = nn.read @twice : tensor<16xf32>
    %new = nn.add %sum, %a : tensor<16xf32>
    nn.write @twice, %new : tensor<16xf32>
    return
  }
}

// -----

// Sums of scalars over the same axes are one, in whatever order their terms come; what is no sum of terms is added to them. The additions
// stand where the last of them stood.
module {
  dist.mesh @mesh <["dp" = 4, "tp" = 2]>
  // CHECK-LABEL: func.func @norm
  func.func @norm(%x: tensor<8xf32> {dist.layout = #dist.layout<[{"dp"}]>}, %y: tensor<8xf32> {dist.layout = #dist.layout<[{"tp"}]>},
                  %whole: tensor<f32> {dist.layout = #dist.layout<[]>}) -> (tensor<f32> {dist.layout = #dist.layout<[]>}) {
    // CHECK: %[[P:.*]] = nn.reduce sum %arg0
    %p = nn.reduce sum %x dims = [0] : tensor<8xf32> -> tensor<f32>
    // CHECK-NEXT: %[[Q:.*]] = nn.reduce sum %arg1
    %q = nn.reduce sum %y dims = [0] : tensor<8xf32> -> tensor<f32>
    %0 = nn.add %p, %q : tensor<f32>
    %1 = nn.add %0, %whole : tensor<f32>
    // CHECK-NEXT: %[[SQUARES:.*]] = nn.mul %arg0, %arg0
    %squares = nn.mul %x, %x : tensor<8xf32>
    // CHECK-NEXT: %[[R:.*]] = nn.reduce sum %[[SQUARES]]
    %r = nn.reduce sum %squares dims = [0] : tensor<8xf32> -> tensor<f32>
    %2 = nn.add %1, %r : tensor<f32>
    // CHECK-NEXT: %[[T:.*]] = nn.reduce max %arg1
    %t = nn.reduce max %y dims = [0] : tensor<8xf32> -> tensor<f32>
    // CHECK-NEXT: %[[MAX:.*]] = dist.redistribute %[[T]]
    %3 = nn.add %2, %t : tensor<f32>
    // CHECK-NEXT: %[[S:.*]] = nn.reduce sum %arg1
    %s = nn.reduce sum %y dims = [0] : tensor<8xf32> -> tensor<f32>
    // CHECK-NEXT: %[[WHOLE:.*]] = nn.add %arg2, %[[MAX]]
    // CHECK-NEXT: %[[DP:.*]] = nn.add %[[P]], %[[R]] {dist.layouts = [#dist.layout<[], partial = sum {"dp"}>]}
    // CHECK-NEXT: %[[FIRST:.*]] = dist.redistribute %[[DP]]
    // CHECK-NEXT: %[[TP:.*]] = nn.add %[[Q]], %[[S]] {dist.layouts = [#dist.layout<[], partial = sum {"tp"}>]}
    // CHECK-NEXT: %[[SECOND:.*]] = dist.redistribute %[[TP]]
    // CHECK-NEXT: %[[BOTH:.*]] = nn.add %[[WHOLE]], %[[FIRST]]
    // CHECK-NEXT: %[[ALL:.*]] = nn.add %[[BOTH]], %[[SECOND]]
    %4 = nn.add %3, %s : tensor<f32>
    // CHECK-NEXT: return %[[ALL]]
    return %4 : tensor<f32>
  }
}

// -----

// Scalars that are terms over different axes are summed first, though a reshape of a scalar may have any layout.
module {
  dist.mesh @mesh <["x" = 2, "y" = 2]>
  // CHECK-LABEL: func.func @unlike
  func.func @unlike(%a: tensor<2x2xf64> {dist.layout = #dist.layout<[{}, {"x", "y"}]>}, %b: tensor<2x2xf64> {dist.layout = #dist.layout<[{}, {"x"}]>})
      -> (tensor<2xf64> {dist.layout = #dist.layout<[{}]>}) {
    %0 = nn.reduce sum %a dims = [0, 1] : tensor<2x2xf64> -> tensor<f64>
    %1 = nn.reduce sum %b dims = [0, 1] : tensor<2x2xf64> -> tensor<f64>
    %2 = nn.reshape %0 : tensor<f64> -> tensor<1xf64>
    %3 = nn.reshape %1 : tensor<f64> -> tensor<1xf64>
    // CHECK: nn.concat {{.*}} {dist.layouts = [#dist.layout<[{}]>]}
    %4 = nn.concat %2, %3 dim = 0 : (tensor<1xf64>, tensor<1xf64>) -> tensor<2xf64>
    return %4 : tensor<2xf64>
  }
}
