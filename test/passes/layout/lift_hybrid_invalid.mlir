// RUN: ashlar-opt %s -split-input-file -ashlar-lift-hybrid -verify-diagnostics

// A product of pieces is used before its parts are added.
dist.mesh @mesh <["tp" = 2]>
func.func @parts_of_one_operand(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>},
                                %w: tensor<2x3xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}, %b: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = nn.matmul %x, %w : tensor<4x2xf32>, tensor<2x3xf32> -> tensor<4x3xf32>
  // expected-error @below {{cannot compute on its pieces: operand 0 is partial (sum) over ["tp"] and operand 1 is not; put an AllReduce over ["tp"] before it}}
  %1 = nn.add %0, %b : tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// -----

// An op that is not linear needs its operand combined.
dist.mesh @mesh <["tp" = 2]>
func.func @parts_of_relu(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
  // expected-error @below {{operand 0 is partial (sum) over ["tp"], which it needs combined; put an AllReduce over ["tp"] before it}}
  %1 = nn.relu %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A maximum of sums is no sum of the parts' maxima.
dist.mesh @mesh <["tp" = 2]>
func.func @maximum_of_sums(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
  %1 = nn.neg %0 : tensor<4xf32>
  // expected-error @below {{operand 0 is partial (sum) over ["tp"], which it needs combined; put an AllReduce over ["tp"] before it}}
  %2 = nn.max %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Nor is a minimum.
dist.mesh @mesh <["tp" = 2]>
func.func @minimum_of_sums(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
  %1 = nn.neg %0 : tensor<4xf32>
  // expected-error @below {{operand 0 is partial (sum) over ["tp"], which it needs combined; put an AllReduce over ["tp"] before it}}
  %2 = nn.min %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// A product of two sums is no sum of the parts' products.
dist.mesh @mesh <["tp" = 2]>
func.func @product_of_sums(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>},
                           %w: tensor<2x4xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}) -> tensor<4x4xf32> {
  %0 = nn.matmul %x, %w : tensor<4x2xf32>, tensor<2x4xf32> -> tensor<4x4xf32>
  // expected-error @below {{operand 0 is partial (sum) over ["tp"], which it needs combined; put an AllReduce over ["tp"] before it}}
  %1 = nn.matmul %0, %0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// Operands are split differently on a dim that both have.
dist.mesh @mesh <["dp" = 2, "tp" = 2]>
func.func @operands_disagree(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>},
                             %y: tensor<4xf32> {dist.layout = #dist.layout<[{"tp"}]>}) -> tensor<4xf32> {
  // expected-error @below {{operand 0 has layout [{"dp"}], operand 1 [{"tp"}], but its dims are ([i], [i]) -> ([i])}}
  %0 = nn.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A softmax over pieces of its rows is another one.
dist.mesh @mesh <["tp" = 2]>
func.func @split_softmax(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<4x2xf32> {
  // expected-error @below {{needs dim 1 of an operand whole but it has layout [{}, {"tp"}]; put an AllGather over ["tp"] along dim 1 before it}}
  %0 = nn.softmax %x : tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

// There is nothing to add.
dist.mesh @mesh <["tp" = 2]>
func.func @all_reduce_of_whole(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{combines (sum) over ["tp"] but its operand has layout [{}], which is not partial that way}}
  %0 = dist.all_reduce sum %x over ["tp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Parts of a sum have no maximum.
dist.mesh @mesh <["tp" = 2]>
func.func @all_reduce_of_another_kind(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
  // expected-error @below {{combines (max) over ["tp"] but its operand has layout [{}], partial = sum {"tp"}, which is not partial that way}}
  %1 = dist.all_reduce max %0 over ["tp"] : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Pieces are joined over the axes that cut them last.
dist.mesh @mesh <["a" = 2, "b" = 2]>
func.func @gather_of_major_axis(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"a", "b"}]>}) -> tensor<8xf32> {
  // expected-error @below {{joins the pieces of dim 0 over ["a"] but its operand has layout [{"a", "b"}]}}
  %0 = dist.all_gather %x dim = 0 over ["a"] : tensor<4xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Devices that hold different pieces have no copy in common.
dist.mesh @mesh <["tp" = 2]>
func.func @broadcast_of_pieces(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"tp"}]>}) -> tensor<4xf32> {
  // expected-error @below {{takes one device's copy over ["tp"] but its operand has layout [{"tp"}]}}
  %0 = dist.broadcast %x root = 0 over ["tp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The result would be split over one axis twice.
dist.mesh @mesh <["tp" = 2]>
func.func @axis_twice(%x: tensor<2x3xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>},
                      %w: tensor<3x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> tensor<2x2xf32> {
  // expected-error @below {{its result would be [{"tp"}, {"tp"}], which uses axis "tp" twice}}
  %0 = nn.matmul %x, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

// What leaves the program is combined.
dist.mesh @mesh <["tp" = 2]>
// expected-error @below {{output "y" of @output has layout [{}], partial = sum {"tp"}, which is still to be combined; put an AllReduce before it}}
func.func @output(%x: tensor<4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Data of one device is not that of the others.
dist.mesh @mesh <["tp" = 2]>
// expected-error @below {{variable @w has layout [{"tp"}] but the model holds data for one device only, 'tensor<2xf32>' of 'tensor<4xf32>'; give it an init in the job}}
nn.variable @w trainable : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32> {dist.layout = #dist.layout<[{"tp"}]>}

// -----

// A constant list along a split dim would be one device's.
dist.mesh @mesh <["dp" = 2]>
func.func @constant(%x: tensor<2xf32> {dist.layout = #dist.layout<[{"dp"}]>}) -> tensor<2xf32> {
  // expected-error @below {{of type 'tensor<2xf32>' holds the elements of one device but is used as a piece of 'tensor<4xf32>'}}
  %0 = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = nn.add %x, %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Positions in a piece are not those in the tensor.
dist.mesh @mesh <["dp" = 2]>
func.func @index(%x: tensor<2xi64> {dist.layout = #dist.layout<[{"dp"}]>}) -> tensor<2xi64> {
  // expected-error @below {{counts along dim 0, which is split over [{"dp"}], so it would count on from device to device; gather the dim first}}
  %0 = nn.index [1] : tensor<2xi64>
  %1 = nn.add %x, %0 : tensor<2xi64>
  return %1 : tensor<2xi64>
}

// -----

// A rule about a tensor on the way is checked, not obeyed.
dist.mesh @mesh <["dp" = 2]>
func.func @rule(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<2x4xf32> {
  // expected-error @below {{has a result of layout [{"dp"}, {}] but a rule gives it [{}, {"dp"}]; change the rule, or the collectives before it}}
  %0 = nn.relu %x {dist.layouts = [#dist.layout<[{}, {"dp"}]>]} : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// Nothing is inferred that a rule could leave open.
dist.mesh @mesh <["dp" = 2]>
// expected-error @below {{argument 0 of @open has open dims, but nothing infers the layouts of a model of mode HYBRID; take the ? out of its rule}}
func.func @open(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.open = array<i64: 1>}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}

// -----

// A piece of a table numbers its rows from 0; the whole table does not.
dist.mesh @mesh <["tp" = 2]>
func.func @gather(%table: tensor<4x2xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}, %rows: tensor<3xi64>) -> tensor<3x2xf32> {
  // expected-error @below {{needs dim 0 of an operand whole but it has layout [{"tp"}, {}]; put an AllGather over ["tp"] along dim 0 before it}}
  %0 = nn.gather %table, %rows : tensor<4x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

// So do the rows behind batch dims.
dist.mesh @mesh <["tp" = 2]>
func.func @gather_of_a_batch(%table: tensor<3x4x2xf32> {dist.layout = #dist.layout<[{}, {"tp"}, {}]>}, %rows: tensor<3x5xi64>) -> tensor<3x5x2xf32> {
  // expected-error @below {{needs dim 1 of an operand whole but it has layout [{}, {"tp"}, {}]; put an AllGather over ["tp"] along dim 1 before it}}
  %0 = nn.gather %table, %rows batch_dims = 1 : tensor<3x4x2xf32>, tensor<3x5xi64> -> tensor<3x5x2xf32>
  return %0 : tensor<3x5x2xf32>
}
