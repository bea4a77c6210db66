// RUN: ashlar-opt %s -split-input-file -ashlar-insert-redistributions -verify-diagnostics

// Redistributions are between layouts that are there.
dist.mesh @mesh <["dp" = 2]>
nn.variable @w trainable : tensor<4xf32>
func.func @read() {
  // expected-error@+1 {{has operands or results without a layout; run ashlar-propagate-layouts first}}
  %w = nn.read @w : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @operand(%x: tensor<4xf32>) {
  // expected-error@+1 {{has operands or results without a layout; run ashlar-propagate-layouts first}}
  %y = nn.neg %x {dist.layouts = [#dist.layout<[{}]>]} : tensor<4xf32>
  return
}
