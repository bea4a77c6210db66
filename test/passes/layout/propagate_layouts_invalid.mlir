// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts -verify-diagnostics

// expected-error@+1 {{has no dist.mesh; run ashlar-seed-layouts first}}
module {
}

// -----

dist.mesh @mesh <["dp" = 4]>
// expected-error@+1 {{argument 0 ("input") of @rank has type 'tensor<8xf32>' but a layout of rank 2}}
func.func @rank(%x: tensor<8xf32> {nn.name = "input", dist.layout = #dist.layout<[{}, {}]>}) { return }

// -----

dist.mesh @mesh <["dp" = 4]>
// expected-error@+1 {{argument 0 of @partial has layout [{}], partial = sum {"dp"}; a given layout cannot be partial}}
func.func @partial(%x: tensor<8xf32> {dist.layout = #dist.layout<[{}], partial = sum {"dp"}>}) { return }

// -----

dist.mesh @mesh <["dp" = 4]>
// expected-error@+1 {{result 0 of @axis is split over axis "tp", which is not in mesh #dist.mesh<["dp" = 4]>}}
func.func @axis(%x: tensor<8xf32>) -> (tensor<8xf32> {dist.layout = #dist.layout<[{"tp"}]>}) { return %x : tensor<8xf32> }

// -----

dist.mesh @mesh <["dp" = 4]>
// expected-error@+1 {{argument 0 of @scalar has type 'i32', which is no ranked tensor}}
func.func @scalar(%x: i32) { return }

// -----

dist.mesh @mesh <["dp" = 4]>
func.func @no_rule(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{has no sharding rule, so its layouts cannot be inferred}}
  %0 = dist.all_reduce sum %x over ["dp"] : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

dist.mesh @mesh <["dp" = 4]>
// expected-error@+1 {{function @declared is no program: it has 0 blocks, not one}}
func.func private @declared(tensor<8xf32>)

// -----

dist.mesh @mesh <["dp" = 4]>
func.func @train_step(%x: tensor<8xf32> {nn.name = "x", dist.layout = #dist.layout<[{"dp"}]>}) attributes {nn.program = #nn.program<train_step>} { return }
// expected-error@+1 {{argument 0 ("x") of @eval_step has layout [{}] but another program has it with [{"dp"}]}}
func.func @eval_step(%x: tensor<8xf32> {nn.name = "x", dist.layout = #dist.layout<[{}]>}) attributes {nn.program = #nn.program<eval_step>} { return }

// -----

dist.mesh @mesh <["dp" = 2]>

// expected-error@below {{argument 0 of @open_dim of type 'tensor<4xf32>' has an open dim 1}}
func.func @open_dim(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>, dist.open = array<i64: 1>}) {
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>

func.func @train_step(%x: tensor<4x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, nn.name = "x"}) attributes {nn.program = #nn.program<train_step>} {
  return
}
// expected-error@below {{argument 0 ("x") of @eval_step has layout [{}, {"dp"}] but another program has it with [{"dp"}, {}]}}
func.func @eval_step(%x: tensor<4x4xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>, nn.name = "x"}) attributes {nn.program = #nn.program<eval_step>} {
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>

func.func @given_result(%x: tensor<4xf32>) {
  // expected-error@below {{result 0 is split over axis "tp", which is not in mesh #dist.mesh<["dp" = 2]>}}
  %0 = nn.relu %x {dist.layouts = [#dist.layout<[{"tp"}]>]} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>

func.func @given_operand(%x: tensor<4xf32>) {
  // expected-error@below {{operand 0 has type 'tensor<4xf32>' but a layout of rank 2}}
  %0 = nn.relu %x {dist.operand_layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4xf32>
  return
}
