// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-plan-memory=devices-per-process=3

func.func @op_outside_fusion(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) {
  // expected-error@+1 {{cannot be planned; only fusions, collectives, reads, writes and constants can, run ashlar-fuse first}}
  %y = nn.relu %x : tensor<2xf32>
  return %y : tensor<2xf32>
}

dist.mesh @mesh <["dp" = 3]>

// -----

nn.variable @w : tensor<2xf32>
func.func @read_after_write(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) {
  nn.write @w, %x : tensor<2xf32>
  // expected-error@+1 {{reads "w" after the program wrote it}}
  %y = nn.read @w : tensor<2xf32>
  return %y : tensor<2xf32>
}

dist.mesh @mesh <["dp" = 3]>

// -----

nn.variable @w : tensor<2xf32>
func.func @two_writes(%x: tensor<2xf32> {nn.name = "x"}) {
  nn.write @w, %x : tensor<2xf32>
  // expected-error@+1 {{writes "w" a second time in one program}}
  nn.write @w, %x : tensor<2xf32>
  return
}

dist.mesh @mesh <["dp" = 3]>

// -----

// expected-error@+1 {{input 1 has no nn.name}}
func.func @unnamed(%x: tensor<2xf32> {nn.name = "x"}, %y: tensor<2xf32>) {
  return
}

dist.mesh @mesh <["dp" = 3]>

// -----

// expected-error@+1 {{has two inputs named "x"}}
func.func @same_name(%x: tensor<2xf32> {nn.name = "x"}, %y: tensor<2xf32> {nn.name = "x"}) {
  return
}

dist.mesh @mesh <["dp" = 3]>

// -----

func.func @one_type(%x: tensor<2xf32> {nn.name = "x"}) {
  return
}
// expected-error@+1 {{input "x" has type 'tensor<4xf32>' but another program has it with type 'tensor<2xf32>'}}
func.func @other_type(%x: tensor<4xf32> {nn.name = "x"}) {
  return
}

dist.mesh @mesh <["dp" = 3]>

// -----

// expected-error@+1 {{devices-per-process is 3, which does not divide the 4 devices of the mesh}}
module {
  dist.mesh @mesh <["dp" = 4]>
}

// -----

// expected-error@+1 {{"w" is partial over mesh axis "dp" but variables, inputs and outputs hold whole values}}
nn.variable @w : tensor<2xf32> {dist.layout = #dist.layout<[{}], partial = sum {"dp"}>}
dist.mesh @mesh <["dp" = 3]>

// -----

func.func @not_a_product(%x: tensor<64x32xf32> {nn.name = "x"}, %w: tensor<32x16xf32> {nn.name = "w"}) -> (tensor<64x16xf32> {nn.name = "y"}) {
  %y = exec.fusion gemm(%x, %w) : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32> {
  ^bb0(%a: tensor<64x32xf32>, %c: tensor<32x16xf32>):
    %p = nn.matmul %a, %c : tensor<64x32xf32>, tensor<32x16xf32> -> tensor<64x16xf32>
    // expected-error@+1 {{is not part of a matrix product with bias and activation}}
    %r = nn.exp %p : tensor<64x16xf32>
    exec.yield %r : tensor<64x16xf32>
  }
  return %y : tensor<64x16xf32>
}

dist.mesh @mesh <["dp" = 3]>

// -----

// expected-error@+1 {{input "x" has rank 9 but the limit is 8; reshape it in the model}}
func.func @rank_of_input(%x: tensor<1x1x1x1x1x1x1x1x2xf32> {nn.name = "x"}) {
  return
}

dist.mesh @mesh <["dp" = 3]>

// -----

// expected-error@+1 {{variable "w" has rank 9 but the limit is 8; reshape it in the model}}
nn.variable @w trainable : tensor<1x1x1x1x1x1x1x1x2xf32>

dist.mesh @mesh <["dp" = 3]>

// -----

// expected-error@+1 {{output "y" has rank 10 but the limit is 8; reshape it in the model}}
func.func @rank_of_output() -> (tensor<1x1x1x1x1x1x1x1x2x1xf32> {nn.name = "y"}) {
  %y = nn.constant dense<0.0> : tensor<1x1x1x1x1x1x1x1x2x1xf32>
  return %y : tensor<1x1x1x1x1x1x1x1x2x1xf32>
}

dist.mesh @mesh <["dp" = 3]>
