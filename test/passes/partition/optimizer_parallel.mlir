// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-split-optimizer='level=1 threshold=0' -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -canonicalize -ashlar-simplify-collectives -ashlar-verify-partitioned | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-split-optimizer='level=3 threshold=0' -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -canonicalize -ashlar-simplify-collectives -ashlar-verify-partitioned | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-split-optimizer='level=1 threshold=0 shard-size=2' -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -canonicalize -ashlar-simplify-collectives -ashlar-verify-partitioned | FileCheck %s --check-prefix=GROUPS

// A gradient is scattered, never reduced whole and cut. At level 1 the parameter is gathered after its update; at level 3 ahead of its use in the
// forward phase and again in the backward phase, and not after the update. In groups of two of the four devices the pieces of the gradient are
// summed between the groups.

dist.mesh @mesh <["dp" = 4]>
// ONE: nn.variable @w trainable : tensor<16x8xf32>
// THREE: nn.variable @w trainable : tensor<4x8xf32>
// GROUPS: dist.mesh @mesh <["dp:(1)2" = 2, "dp:(2)2" = 2]>
// GROUPS: nn.variable @w trainable : tensor<16x8xf32>
nn.variable @w trainable : tensor<16x8xf32>
// CHECK: nn.variable @w.momentum state_of @w : tensor<4x8xf32>
// GROUPS: nn.variable @w.momentum state_of @w : tensor<8x8xf32>
nn.variable @w.momentum state_of @w : tensor<16x8xf32>
// CHECK-LABEL: func.func @train_step
// CHECK-NOT: dist.all_reduce
// GROUPS-LABEL: func.func @train_step
func.func @train_step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<4x16xf32> attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w : tensor<16x8xf32>
  // THREE: %[[W:.*]] = dist.all_gather %{{.*}} dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter, name = "w">]}
  // THREE-NEXT: nn.matmul %{{.*}}, %[[W]] transpose_b
  // ONE-NOT: dist.all_gather
  // GROUPS-NOT: dist.all_gather
  %y = nn.matmul %x, %w transpose_b : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  // THREE: %[[READ:.*]] = nn.read @w {dist.read_again}
  // THREE-NEXT: %[[V:.*]] = dist.all_gather %[[READ]] dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter, name = "w">]}
  // THREE-NEXT: nn.matmul %{{.*}}, %[[V]]
  %dx = nn.matmul %y, %w : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  // CHECK: %[[P:.*]] = nn.matmul {{.*}} transpose_a {{.*}} -> tensor<16x8xf32>
  // CHECK-NEXT: dist.reduce_scatter sum %[[P]] dim = 0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "w">]} : tensor<16x8xf32> -> tensor<4x8xf32>
  // GROUPS: %[[P:.*]] = nn.matmul {{.*}} transpose_a {{.*}} -> tensor<16x8xf32>
  // GROUPS-NEXT: %[[PIECE:.*]] = dist.reduce_scatter sum %[[P]] dim = 0 over ["dp:(2)2"] {{.*}} -> tensor<8x8xf32>
  // GROUPS-NEXT: dist.all_reduce sum %[[PIECE]] over ["dp:(1)2"]
  // GROUPS-NEXT: nn.gradient
  %g = nn.matmul %y, %dx transpose_a : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<16x8xf32>
  %dw = nn.gradient %g of @w : tensor<16x8xf32>
  %v = nn.read @w.momentum : tensor<16x8xf32>
  // CHECK-NOT: dist.
  // GROUPS-NOT: dist.
  %vn = nn.add %v, %dw : tensor<16x8xf32>
  nn.write @w.momentum, %vn : tensor<16x8xf32>
  // CHECK: %[[N:.*]] = nn.sub {{.*}} : tensor<4x8xf32>
  // ONE-NEXT: %[[ALL:.*]] = dist.all_gather %[[N]] dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter_update, name = "w">]}
  // ONE-NEXT: nn.write @w, %[[ALL]]
  // THREE-NEXT: nn.write @w, %[[N]]
  // GROUPS: %[[N:.*]] = nn.sub {{.*}} : tensor<8x8xf32>
  // GROUPS-NEXT: dist.all_gather %[[N]] dim = 0 over ["dp:(2)2"]
  %n = nn.sub %w, %vn : tensor<16x8xf32>
  nn.write @w, %n : tensor<16x8xf32>
  return %y : tensor<4x16xf32>
}

// -----

// Split over tp by a rule, and further over dp: rows over tp, then dp. Clipping adds up what each device holds once, whatever splits it.

dist.mesh @mesh <["dp" = 2, "tp" = 2]>
// ONE: nn.variable @w trainable : tensor<8x8xf32>
// THREE: nn.variable @w trainable : tensor<4x8xf32> {{.*}}layout<[{"tp", "dp"}, {}]>
nn.variable @w trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
// CHECK-LABEL: func.func @train_step
// GROUPS-LABEL: func.func @train_step
func.func @train_step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                      %d: tensor<4x16xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) attributes {nn.program = #nn.program<train_step>} {
  // CHECK: dist.reduce_scatter sum %{{.*}} dim = 0 over ["dp"] {{.*}} : tensor<8x8xf32> -> tensor<4x8xf32>
  %g = nn.matmul %d, %x transpose_a : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<16x8xf32>
  %dw = nn.gradient %g of @w : tensor<16x8xf32>
  // CHECK: %[[SQUARE:.*]] = nn.mul {{.*}} : tensor<4x8xf32>
  // CHECK-NEXT: %[[PART:.*]] = nn.reduce sum %[[SQUARE]] dims = [0, 1]
  // CHECK-NEXT: dist.all_reduce sum %[[PART]] over ["dp", "tp"]
  %s = nn.mul %dw, %dw : tensor<16x8xf32>
  %norm = nn.reduce sum %s dims = [0, 1] : tensor<16x8xf32> -> tensor<f32>
  %w = nn.read @w : tensor<16x8xf32>
  %f = nn.broadcast %norm dims = [] : tensor<f32> -> tensor<16x8xf32>
  %c = nn.mul %dw, %f : tensor<16x8xf32>
  // CHECK: %[[N:.*]] = nn.sub {{.*}} : tensor<4x8xf32>
  // ONE-NEXT: dist.all_gather %[[N]] dim = 0 over ["dp"] {{.*}} : tensor<4x8xf32> -> tensor<8x8xf32>
  // THREE-NEXT: nn.write @w, %[[N]] : tensor<4x8xf32>
  %n = nn.sub %w, %c : tensor<16x8xf32>
  nn.write @w, %n : tensor<16x8xf32>
  return
}
