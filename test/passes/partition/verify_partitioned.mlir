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
// expected-error@+1 {{which is not a device's shard of 'tensor<4xf32>' under #dist.layout<[{"dp"}]>}}
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

// -----

dist.mesh @mesh <["dp" = 2]>
nn.variable @s : tensor<4xf32> {dist.layout = #dist.layout<[{}]>, dist.global_type = tensor<4xf32>, dist.owner = 1 : i64}
func.func @read_by_all() {
  // expected-error@+1 {{reads @s, which one device keeps, for others, too}}
  %s = nn.read @s : tensor<4xf32>
  %n = nn.neg %s : tensor<4xf32>
  nn.write @s, %n {dist.owner = 1 : i64} : tensor<4xf32>
  %y = dist.broadcast %n root = 0 over ["dp"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
nn.variable @s : tensor<4xf32> {dist.layout = #dist.layout<[{}]>, dist.global_type = tensor<4xf32>, dist.owner = 1 : i64}
func.func @written_by_all() {
  %s = nn.constant dense<0.0> : tensor<4xf32>
  // expected-error@+1 {{writes @s, which one device keeps, for others, too}}
  nn.write @s, %s : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
nn.variable @s : tensor<4xf32> {dist.layout = #dist.layout<[{}]>, dist.global_type = tensor<4xf32>}
func.func @written_by_one() {
  %s = nn.read @s : tensor<4xf32>
  // expected-error@+1 {{writes @s, which all devices keep, for one}}
  nn.write @s, %s {dist.owner = 1 : i64} : tensor<4xf32>
  return
}
