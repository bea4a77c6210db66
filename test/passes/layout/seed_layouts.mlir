// RUN: ashlar-opt %s -split-input-file '-ashlar-seed-layouts=mesh=dp=4 batch-axes=dp' -verify-diagnostics | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-ashlar-seed-layouts=mesh=dp=4' -verify-diagnostics | FileCheck %s --check-prefix=WHOLE

// The batch is dim 0 of the first argument; other sizes of dim 0 are no batch.
// CHECK: dist.mesh @mesh <["dp" = 4]>
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: tensor<8x3xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>
// CHECK-SAME: tensor<8xi32> {dist.layout = #dist.layout<[{"dp"}]>}
// CHECK-SAME: tensor<3xf32>, %{{[a-z0-9]+}}: tensor<f32>)
// WHOLE-LABEL: func.func @train_step
// WHOLE-NOT: dist.layout
func.func @train_step(%x: tensor<8x3xf32> {nn.name = "input"}, %labels: tensor<8xi32>, %w: tensor<3xf32>, %s: tensor<f32>) attributes {nn.program = #nn.program<train_step>} {
  return
}

// -----

// A layout that stands there stays.
// CHECK-LABEL: func.func @given
// WHOLE-LABEL: func.func @given
// CHECK-SAME: dist.layout = #dist.layout<[{}, {"dp"}]>
func.func @given(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}) {
  return
}
