// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -ashlar-insert-redistributions -verify-diagnostics

// An op of a model that places its collectives itself takes its operand in another layout than it has: nothing is placed there.
dist.mesh @mesh <["dp" = 2]>
func.func @explicit(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>}) {
  // expected-error@+1 {{operand 0 has layout #dist.layout<[{}]> but is taken in #dist.layout<[{"dp"}]>, and nothing is placed in a model of mode HYBRID}}
  nn.relu %x {dist.explicit, dist.layouts = [#dist.layout<[{"dp"}]>], dist.operand_layouts = [#dist.layout<[{"dp"}]>]} : tensor<4xf32>
  return
}
