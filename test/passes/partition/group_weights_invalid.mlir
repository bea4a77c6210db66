// RUN: ashlar-opt %s -split-input-file -ashlar-group-weights -verify-diagnostics

// expected-error@+1 {{has no dist.mesh; run ashlar-seed-layouts first}}
module {
}

// -----

// A parameter in pieces has no one that could send it.
dist.mesh @mesh <["dp" = 1]>
// expected-error@+1 {{is sharded, but parameter ownership gives whole parameters to owners}}
nn.variable @w trainable : tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}
func.func @train_step(%g: tensor<4xf32>) attributes {nn.program = #nn.program<train_step>} {
  %dw = nn.gradient %g of @w : tensor<4xf32>
  return
}
