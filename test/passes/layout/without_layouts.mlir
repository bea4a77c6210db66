// RUN: ashlar-opt %s -split-input-file -ashlar-insert-redistributions -verify-diagnostics

// Redistributions are between layouts that are there, also of what nobody uses.
dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{has no layout; run ashlar-propagate-layouts first}}
nn.variable @w trainable : tensor<4xf32>
func.func @unused_variable() {
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{argument 0 of @unused_argument has no layout; run ashlar-propagate-layouts first}}
func.func @unused_argument(%x: tensor<4xf32>) {
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @result(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>}) {
  // expected-error@+1 {{has operands or results without a layout; run ashlar-propagate-layouts first}}
  %y = nn.neg %x : tensor<4xf32>
  return
}
