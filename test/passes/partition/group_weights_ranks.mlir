// RUN: ashlar-opt %s -ashlar-group-weights='devices-per-process=4' | FileCheck %s
// RUN: not ashlar-opt %s -ashlar-group-weights='devices-per-process=2' 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not ashlar-opt %s -ashlar-group-weights='devices-per-process=3' 2>&1 | FileCheck %s --check-prefix=DEVICES

// It is ranks that need a parameter each: of four devices of one rank three own nothing.
// CHECK: nn.variable @w.m state_of @w : tensor<4xf32> {dist.owner = 0 : i64}
// RANKS: error: parameter ownership gives each rank a parameter to own, but 1 parameter is trained on 2 ranks; use at most 1, or leave optimizer_parallel out
// DEVICES: error: devices-per-process is 3, which does not divide the 4 devices of the mesh

dist.mesh @mesh <["dp" = 4]>
nn.variable @w trainable : tensor<4xf32>
nn.variable @w.m state_of @w : tensor<4xf32>
func.func @train_step(%g: tensor<4xf32>) attributes {nn.program = #nn.program<train_step>} {
  %dw = nn.gradient %g of @w : tensor<4xf32>
  nn.write @w, %dw : tensor<4xf32>
  return
}
