// RUN: ashlar-opt %s -split-input-file -ashlar-partition -verify-diagnostics

// expected-error@+1 {{has no dist.mesh; run ashlar-seed-layouts first}}
module {
}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{has no layout; run ashlar-propagate-layouts first}}
nn.variable @w : tensor<4xf32>

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{is split but has an initial value; run ashlar-init first}}
nn.variable @w : tensor<4xf32> = dense<1.0> : tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{argument 0 has no layout; run ashlar-propagate-layouts first}}
func.func @argument(%x: tensor<4xf32>) { return }

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @no_layout(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>}) {
  // expected-error@+1 {{has no layout; run ashlar-insert-redistributions first}}
  nn.relu %x : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{is no program: it has 0 blocks, not one}}
func.func private @declared(tensor<8xf32>)
