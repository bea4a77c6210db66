// RUN: ashlar-opt %s -split-input-file -ashlar-verify-layouts -verify-diagnostics

// expected-error@+1 {{has no dist.mesh}}
module {
}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{has no layout}}
nn.variable @w : tensor<4xf32>

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{argument 0 of @argument has no layout}}
func.func @argument(%x: tensor<4xf32>) { return }

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @result(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>}) {
  // expected-error@+1 {{result 0 has no layout}}
  nn.relu %x : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @disagree(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}]>}) {
  // expected-error@+1 {{result 0 has layout [{"dp"}], which disagrees with the other tensors on a factor of ([i]) -> ([i]) {i=4}}}
  nn.relu %x {dist.layouts = [#dist.layout<[{"dp"}]>]} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @needed_whole(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // expected-error@+1 {{operand 0 has layout [{"dp"}], which splits a factor that it needs whole}}
  nn.softmax %x {dist.layouts = [#dist.layout<[{"dp"}]>]} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 4]>
func.func @no_factor(%x: tensor<8xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // expected-error@+1 {{operand 0 has layout [{"dp"}], which does not fit the factors ([ij]) -> ([i, j]) {i=2, j=4}}}
  nn.reshape %x {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<8xf32> -> tensor<2x4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @not_partial(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // expected-error@+1 {{result 0 has layout [] but is computed as [], partial = sum {"dp"}}}
  nn.reduce sum %x dims = [0] {dist.layouts = [#dist.layout<[]>]} : tensor<4xf32> -> tensor<f32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @reads_partial(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  %0 = nn.reduce sum %x dims = [0] {dist.layouts = [#dist.layout<[], partial = sum {"dp"}>]} : tensor<4xf32> -> tensor<f32>
  // expected-error@+1 {{operand 0 is partial: [], partial = sum {"dp"}}}
  nn.tanh %0 {dist.layouts = [#dist.layout<[]>]} : tensor<f32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @redistribute(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // expected-error@+1 {{"from" has layout #dist.layout<[{}]> but its value has #dist.layout<[{"dp"}]>}}
  dist.redistribute %x from <[{}]> to <[{"dp"}]> {dist.layouts = [#dist.layout<[{"dp"}]>]} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
nn.variable @w : tensor<4xf32> {dist.layout = #dist.layout<[{}]>}
func.func @write(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // expected-error@+1 {{variable @w has layout #dist.layout<[{}]> but its value has #dist.layout<[{"dp"}]>}}
  nn.write @w, %x : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
nn.variable @w : tensor<4xf32> {dist.layout = #dist.layout<[{}]>}
func.func @read() {
  // expected-error@+1 {{variable @w has layout #dist.layout<[{}]> but its value has #dist.layout<[{"dp"}]>}}
  nn.read @w {dist.layouts = [#dist.layout<[{"dp"}]>]} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @returns(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) -> (tensor<4xf32> {dist.layout = #dist.layout<[{}]>}) {
  // expected-error@+1 {{result 0 has layout #dist.layout<[{}]> but its value has #dist.layout<[{"dp"}]>}}
  return %x : tensor<4xf32>
}

// -----

dist.mesh @mesh <["dp" = 2]>
func.func @redistribute_result(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  // expected-error@+1 {{"to" has layout #dist.layout<[{}]> but its value has #dist.layout<[{"dp"}]>}}
  dist.redistribute %x from <[{"dp"}]> to <[{}]> {dist.layouts = [#dist.layout<[{"dp"}]>]} : tensor<4xf32>
  return
}

// -----

// A reshape may move the elements of a partial value, as one split of its factors.
dist.mesh @mesh <["dp" = 2, "tp" = 2]>
func.func @moved_otherwise(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) {
  %p = nn.reduce sum %x dims = [1] {dist.layouts = [#dist.layout<[{"dp"}], partial = sum {"tp"}>]} : tensor<8x4xf32> -> tensor<8xf32>
  nn.reshape %p {dist.layouts = [#dist.layout<[{"dp"}, {}], partial = sum {"tp"}>]} : tensor<8xf32> -> tensor<4x2xf32>
  // expected-error@+1 {{result 0 has layout [{}, {}], which disagrees with the other tensors on a factor}}
  nn.reshape %p {dist.layouts = [#dist.layout<[{}, {}], partial = sum {"tp"}>]} : tensor<8xf32> -> tensor<4x2xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2, "tp" = 2]>
func.func @moved_whole(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) {
  %p = nn.reduce sum %x dims = [1] {dist.layouts = [#dist.layout<[{"dp"}], partial = sum {"tp"}>]} : tensor<8x4xf32> -> tensor<8xf32>
  // expected-error@+1 {{result 0 has layout [{"dp"}, {}] but is computed as [{"dp"}, {}], partial = sum {"tp"}}}
  nn.reshape %p {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<8xf32> -> tensor<4x2xf32>
  return
}

// -----

// A model that combines parts itself may compute on them where the combination is the same; a maximum is not one of the sum.
dist.mesh @mesh <["dp" = 2]>
func.func @parts_of_relu(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  %0 = nn.reduce sum %x dims = [0] {dist.layouts = [#dist.layout<[{}], partial = sum {"dp"}>]} : tensor<4x2xf32> -> tensor<2xf32>
  %1 = nn.neg %0 {dist.explicit, dist.layouts = [#dist.layout<[{}], partial = sum {"dp"}>]} : tensor<2xf32>
  // expected-error@+1 {{result 0 has layout [{}], partial = sum {"dp"} but the op cannot compute on its pieces: operand 0 is partial (sum) over ["dp"], which it needs combined}}
  nn.relu %1 {dist.explicit, dist.layouts = [#dist.layout<[{}], partial = sum {"dp"}>]} : tensor<2xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{argument 0 of @partial_argument has layout [{}], partial = sum {"dp"}; a given layout cannot be partial}}
func.func @partial_argument(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}], partial = sum {"dp"}>}) {
  return
}

// -----

// Each program says where its inputs live.
dist.mesh @mesh <["dp" = 2]>
func.func @first(%x: tensor<4xf32> {nn.name = "x", dist.layout = #dist.layout<[{}]>}) {
  return
}
// expected-error@+1 {{argument 0 ("x") of @second has no layout}}
func.func @second(%x: tensor<4xf32> {nn.name = "x"}) {
  return
}
