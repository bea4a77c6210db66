// RUN: split-file %s %t
// RUN: not ashlar-opt %t/batch.mlir '-ashlar-seed-layouts=mesh=dp=2 batch-axes=tp' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not ashlar-opt %t/batch.mlir '-ashlar-seed-layouts=mesh=dp batch-axes=dp' 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not ashlar-opt %t/batch.mlir '-ashlar-seed-layouts=mesh=dp=0 batch-axes=dp' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not ashlar-opt %t/batch.mlir '-ashlar-seed-layouts=batch-axes=dp' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not ashlar-opt %t/mesh.mlir '-ashlar-seed-layouts=mesh=dp=4 batch-axes=dp' 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: ashlar-opt %t/batch.mlir '-ashlar-seed-layouts=mesh=dp=4 batch-axes=dp global-batch=12' | FileCheck %s --check-prefix=BATCH

//--- batch.mlir
// UNKNOWN: error: argument 0 ("input") of @f is split over axis "tp", which is not in mesh #dist.mesh<["dp" = 2]>
// SYNTAX: error: mesh axis "dp" is not name=size
// ZERO: error: mesh axis "dp" has size 0, which is not positive
// NONE: error: has no dist.mesh and no mesh is given
// The size of the batch can be given: dim 0 of the first argument is none then.
// BATCH: @f(%{{.*}}: tensor<10x4xf32> {nn.name = "input"}, %{{.*}}: tensor<12xf32> {dist.layout = #dist.layout<[{"dp"}]>})
func.func @f(%x: tensor<10x4xf32> {nn.name = "input"}, %y: tensor<12xf32>) { return }

//--- mesh.mlir
// OTHER: error: 'dist.mesh' op is #dist.mesh<["dp" = 2]> but mesh #dist.mesh<["dp" = 4]> is given
dist.mesh @mesh <["dp" = 2]>
