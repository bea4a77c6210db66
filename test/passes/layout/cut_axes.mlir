// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts | FileCheck %s

// An axis changes places with one of half its size: it is cut, in all layouts and with its links, and a part of it goes there.
// CHECK-LABEL: module {
// CHECK: dist.mesh @mesh <["dp" = 2, "tp:(1)2" = 2, "tp:(2)2" = 2]> {costs = #dist.costs<latency_ns = [40, 30, 30], bytes_per_us = [4000, 3000, 3000]>}
dist.mesh @mesh <["dp" = 2, "tp" = 4]> {costs = #dist.costs<latency_ns = [40, 30], bytes_per_us = [4000, 3000]>}
// CHECK: nn.variable @w {{.*}} {dist.layout = #dist.layout<[{"tp:(1)2", "tp:(2)2"}]>}
nn.variable @w : tensor<64xf32> {dist.layout = #dist.layout<[{"tp"}]>}
// CHECK: func.func @swap(%{{.*}}: tensor<4096x4096xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp:(1)2", "tp:(2)2"}]>})
// CHECK-SAME: -> (tensor<4096x4096xf32> {dist.layout = #dist.layout<[{"tp:(1)2", "tp:(2)2"}, {"dp"}]>})
func.func @swap(%x: tensor<4096x4096xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>})
    -> (tensor<4096x4096xf32> {dist.layout = #dist.layout<[{"tp"}, {"dp"}]>}) {
  // CHECK: nn.relu {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp:(1)2", "tp:(2)2"}]>]
  %0 = nn.relu %x : tensor<4096x4096xf32>
  // CHECK: dist.redistribute %{{.*}} from <[{"dp"}, {"tp:(1)2", "tp:(2)2"}]> to <[{"tp:(1)2", "tp:(2)2"}, {"dp"}]>
  return %0 : tensor<4096x4096xf32>
}

// -----

// Neither axis divides the other: a part of each goes to the place of a part of the other. An axis that stays is not cut.
// CHECK: dist.mesh @mesh <["dp:(1)2" = 2, "dp:(2)2" = 2, "tp:(1)2" = 2, "tp:(2)3" = 3, "pp" = 8]>
dist.mesh @mesh <["dp" = 4, "tp" = 6, "pp" = 8]>
func.func @swap(%x: tensor<8x24x24xf32> {dist.layout = #dist.layout<[{"pp"}, {"dp"}, {"tp"}]>})
    -> (tensor<8x24x24xf32> {dist.layout = #dist.layout<[{"pp"}, {"tp"}, {"dp"}]>}) {
  return %x : tensor<8x24x24xf32>
}

// -----

// Axes of one size change places as they are.
// CHECK: dist.mesh @mesh <["dp" = 4, "tp" = 4]>
dist.mesh @mesh <["dp" = 4, "tp" = 4]>
func.func @equal_sizes(%x: tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"tp"}, {"dp"}]>}) {
  return %x : tensor<16x16xf32>
}

// -----

// No part of an axis of 3 is as long as one of 2.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 3]>
dist.mesh @mesh <["dp" = 2, "tp" = 3]>
func.func @no_common_part(%x: tensor<12x12xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>})
    -> (tensor<12x12xf32> {dist.layout = #dist.layout<[{"tp"}, {"dp"}]>}) {
  return %x : tensor<12x12xf32>
}

// -----

// What one collective does needs no parts, and neither does the permute that takes an axis to the front of another.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 4]>
dist.mesh @mesh <["dp" = 2, "tp" = 4]>
func.func @does_not_pay(%x: tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>},
                        %y: tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp", "tp"}, {}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, tensor<16x16xf32> {dist.layout = #dist.layout<[{"tp", "dp"}, {}]>}) {
  return %x, %y : tensor<16x16xf32>, tensor<16x16xf32>
}

// -----

// A mesh is cut for all redistributions or for none. Without the large tensor the small ones have it cut; that one would then take longer,
// because five axes are more than the planner searches exhaustively.
// CHECK: dist.mesh @mesh <["x" = 2, "y" = 4, "z" = 4]>
dist.mesh @mesh <["x" = 2, "y" = 4, "z" = 4]>
func.func @does_not_pay_in_sum(%a: tensor<16x16xf32> {dist.layout = #dist.layout<[{"x"}, {"y"}]>},
                               %b: tensor<16x16xf32> {dist.layout = #dist.layout<[{"x"}, {"z"}]>},
                               %large: tensor<32x32x32xf32> {dist.layout = #dist.layout<[{}, {}, {"y"}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"y"}, {"x"}]>}, tensor<16x16xf32> {dist.layout = #dist.layout<[{"z"}, {"x"}]>},
        tensor<32x32x32xf32> {dist.layout = #dist.layout<[{}, {"y"}, {"z", "x"}]>}) {
  return %a, %b, %large : tensor<16x16xf32>, tensor<16x16xf32>, tensor<32x32x32xf32>
}

// -----

// CHECK: dist.mesh @mesh <["x" = 2, "y:(1)2" = 2, "y:(2)2" = 2, "z:(1)2" = 2, "z:(2)2" = 2]>
dist.mesh @mesh <["x" = 2, "y" = 4, "z" = 4]>
func.func @pays_in_sum(%a: tensor<16x16xf32> {dist.layout = #dist.layout<[{"x"}, {"y"}]>},
                       %b: tensor<16x16xf32> {dist.layout = #dist.layout<[{"x"}, {"z"}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"y"}, {"x"}]>}, tensor<16x16xf32> {dist.layout = #dist.layout<[{"z"}, {"x"}]>}) {
  return %a, %b : tensor<16x16xf32>, tensor<16x16xf32>
}

// -----

// Of 5 elements an axis of 4 holds 2, 2, 1 and none, two axes of 2 hold 2, 1, 2 and none: no device may get another piece of %y.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 4]>
dist.mesh @mesh <["dp" = 2, "tp" = 4]>
func.func @other_pieces(%x: tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>},
                        %y: tensor<5xf32> {dist.layout = #dist.layout<[{"tp"}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"tp"}, {"dp"}]>}, tensor<5xf32> {dist.layout = #dist.layout<[{"tp"}]>}) {
  return %x, %y : tensor<16x16xf32>, tensor<5xf32>
}

// -----

// Of 7 elements both hold 2, 2, 2 and 1.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp:(1)2" = 2, "tp:(2)2" = 2]>
dist.mesh @mesh <["dp" = 2, "tp" = 4]>
func.func @same_pieces(%x: tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>},
                       %y: tensor<7xf32> {dist.layout = #dist.layout<[{"tp"}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"tp"}, {"dp"}]>}, tensor<7xf32> {dist.layout = #dist.layout<[{"tp"}]>}) {
  return %x, %y : tensor<16x16xf32>, tensor<7xf32>
}

// -----

// A part that a rule named stays one.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp:(1)4" = 4, "tp:(4)2" = 2]>
dist.mesh @mesh <["dp" = 2, "tp:(1)4" = 4, "tp:(4)2" = 2]>
func.func @part(%x: tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp:(1)4"}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"tp:(1)4"}, {"dp"}]>}) {
  return %x : tensor<16x16xf32>
}

// -----

// The mesh of a model that places collectives itself stays whole: they name its axes.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 4]>
dist.mesh @mesh <["dp" = 2, "tp" = 4]>
func.func @explicit(%x: tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>})
    -> (tensor<16x16xf32> {dist.layout = #dist.layout<[{"tp"}, {"dp"}]>}, tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  // CHECK: dist.redistribute %{{.*}} from <[{"dp"}, {"tp"}]> to <[{"dp"}, {}]> {dist.explicit
  %0 = dist.redistribute %x from <[{"dp"}, {"tp"}]> to <[{"dp"}, {}]>
         {dist.explicit, dist.layouts = [#dist.layout<[{"dp"}, {}]>], dist.operand_layouts = [#dist.layout<[{"dp"}, {"tp"}]>]} : tensor<16x16xf32>
  return %x, %0 : tensor<16x16xf32>, tensor<16x16xf32>
}
