// RUN: ashlar-opt %s -split-input-file -ashlar-verify-partitioned -verify-diagnostics

// expected-error@+1 {{has no dist.mesh}}
module {
}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{variable has no dist.layout}}
nn.variable @w : tensor<4xf32>

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{variable has no dist.global_type}}
nn.variable @w : tensor<4xf32> {dist.layout = #dist.layout<[{}]>}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{which is not what a device holds of 'tensor<4xf32>' under #dist.layout<[{"dp"}]>}}
func.func @argument(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>, dist.global_type = tensor<4xf32>}) { return }

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{result 0 has no dist.layout}}
func.func @result(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>, dist.global_type = tensor<4xf32>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @global(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>, dist.global_type = tensor<4xf32>}) {
  // expected-error@+1 {{is still on global shapes}}
  nn.relu %x {dist.layouts = [#dist.layout<[{}]>]} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @redistribute(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>, dist.global_type = tensor<4xf32>}) {
  // expected-error@+1 {{is still on global shapes}}
  dist.redistribute %x from <[{}]> to <[{"dp"}]> : tensor<4xf32>
  return
}
