// RUN: ashlar-opt %s -split-input-file -ashlar-lift-hybrid | FileCheck %s

// Megatron's pair of layers, as one device of tp computes it: the product of the pieces is partial until the model adds the parts. The
// bias is repeated along the batch, whose split follows from what it is added to.
// CHECK: dist.mesh
// CHECK: nn.variable @w1 trainable : tensor<16x4xf32> = #nn.fill{{.*}} {dist.layout = #dist.layout<[{"tp"}, {}]>}
// CHECK: nn.variable @w2 trainable : tensor<2x16xf32> = #nn.fill{{.*}} {dist.layout = #dist.layout<[{}, {"tp"}]>}
// CHECK: nn.variable @b2 trainable : tensor<2xf32> = dense{{.*}} {dist.layout = #dist.layout<[{}]>}
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}
// CHECK-SAME: -> (tensor<8x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
// CHECK: %[[H:.*]] = nn.matmul %[[X]]
// CHECK-SAME: dist.explicit
// CHECK-SAME: dist.layouts = [#dist.layout<[{"dp"}, {"tp"}]>]
// CHECK-SAME: -> tensor<8x16xf32>
// CHECK: %[[P:.*]] = nn.matmul %{{.*}}dist.layouts = [#dist.layout<[{"dp"}, {}], partial = sum {"tp"}>]
// CHECK: %[[Y:.*]] = dist.redistribute %[[P]] from <[{"dp"}, {}], partial = sum {"tp"}> to <[{"dp"}, {}]>
// CHECK-SAME: dist.explicit
// CHECK: nn.broadcast %{{.*}} dims = [1]
// CHECK-SAME: dist.layouts = [#dist.layout<[{"dp"}, {}]>]
// CHECK-SAME: tensor<2xf32> -> tensor<8x2xf32>
dist.mesh @mesh <["dp" = 2, "tp" = 4]>
nn.variable @w1 trainable : tensor<4x4xf32> = #nn.fill<0.5 : f64> {dist.layout = #dist.layout<[{"tp"}, {}]>}
nn.variable @w2 trainable : tensor<2x4xf32> = #nn.fill<0.5 : f64> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @b2 trainable : tensor<2xf32> = dense<[1.0, 2.0]> : tensor<2xf32>
func.func @forward(%x: tensor<4x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<4x2xf32> attributes {nn.program = #nn.program<run>} {
  %w1 = nn.read @w1 : tensor<4x4xf32>
  %w2 = nn.read @w2 : tensor<2x4xf32>
  %b2 = nn.read @b2 : tensor<2xf32>
  %0 = nn.matmul %x, %w1 transpose_b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = nn.relu %0 : tensor<4x4xf32>
  %2 = nn.matmul %1, %w2 transpose_b : tensor<4x4xf32>, tensor<2x4xf32> -> tensor<4x2xf32>
  %3 = dist.all_reduce sum %2 over ["tp"] : tensor<4x2xf32>
  %4 = nn.broadcast %b2 dims = [1] : tensor<2xf32> -> tensor<4x2xf32>
  %5 = nn.add %3, %4 : tensor<4x2xf32>
  return %5 : tensor<4x2xf32>
}

// -----

// Every kind of collective is the identity between two layouts; a broadcast stays an op, because its layouts are one.
// CHECK-LABEL: func.func @kinds
// CHECK: dist.redistribute %{{.*}} from <[{"a", "b"}, {}]> to <[{"a"}, {"b"}]>
// CHECK: dist.redistribute %{{.*}} from <[{"a"}, {"b"}]> to <[{}, {"b"}]>
// CHECK: nn.reduce sum %{{.*}} dims = [1]
// CHECK-SAME: dist.layouts = [#dist.layout<[{}], partial = sum {"b"}>]
// CHECK: nn.neg %{{.*}}dist.layouts = [#dist.layout<[{}], partial = sum {"b"}>]
// CHECK: dist.redistribute %{{.*}} from <[{}], partial = sum {"b"}> to <[{"b"}]>
// CHECK: dist.broadcast %{{.*}} root = 1 over ["a"]
// CHECK-SAME: dist.layouts = [#dist.layout<[{"b"}]>]
// CHECK-SAME: tensor<12xf32>
dist.mesh @mesh <["a" = 2, "b" = 3]>
func.func @kinds(%x: tensor<2x6xf32> {dist.layout = #dist.layout<[{"a", "b"}, {}]>}) -> tensor<4xf32> {
  %0 = dist.all_to_all %x split_dim = 1 concat_dim = 0 over ["b"] : tensor<2x6xf32> -> tensor<6x2xf32>
  %1 = dist.all_gather %0 dim = 0 over ["a"] : tensor<6x2xf32> -> tensor<12x2xf32>
  %2 = nn.reduce sum %1 dims = [1] : tensor<12x2xf32> -> tensor<12xf32>
  %3 = nn.neg %2 : tensor<12xf32>
  %4 = dist.reduce_scatter sum %3 dim = 0 over ["b"] : tensor<12xf32> -> tensor<4xf32>
  %5 = dist.broadcast %4 root = 1 over ["a"] : tensor<4xf32>
  return %5 : tensor<4xf32>
}

// -----

// Sizes in attributes become those of the whole tensor: slices end where it ends, constants grow, keys of random numbers count all of it.
// CHECK-LABEL: func.func @sizes
// CHECK: nn.slice %{{.*}} [0, 1] to [8, 3] by [1, 1]
// CHECK-SAME: tensor<8x4xf32> -> tensor<8x2xf32>
// CHECK: nn.constant dense<2.000000e+00> : tensor<8x2xf32>
// CHECK: nn.index [2, 1] : tensor<8x2xi64>
// CHECK: nn.reshape %{{.*}}tensor<8x2xf32> -> tensor<4x2x2xf32>
dist.mesh @mesh <["dp" = 2]>
func.func @sizes(%x: tensor<4x4xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %seed: tensor<i64>) -> tensor<2x2x2xf32> {
  %0 = nn.slice %x [0, 1] to [4, 3] by [1, 1] : tensor<4x4xf32> -> tensor<4x2xf32>
  %1 = nn.constant dense<2.0> : tensor<4x2xf32>
  %2 = nn.mul %0, %1 : tensor<4x2xf32>
  %3 = nn.index [2, 1] : tensor<4x2xi64>
  %stream = nn.constant dense<1> : tensor<i32>
  %4 = nn.random uniform %3, %seed, %seed, %stream : (tensor<4x2xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<4x2xf32>
  %5 = nn.add %2, %4 : tensor<4x2xf32>
  %6 = nn.reshape %5 : tensor<4x2xf32> -> tensor<2x2x2xf32>
  return %6 : tensor<2x2x2xf32>
}

// -----

// Sums of parts add up before they are combined, and scale.
// CHECK-LABEL: func.func @linear
// CHECK: nn.add %{{.*}}dist.layouts = [#dist.layout<[{}], partial = sum {"tp"}>]
// CHECK: nn.mul %{{.*}}dist.layouts = [#dist.layout<[{}], partial = sum {"tp"}>]
// CHECK: dist.redistribute
dist.mesh @mesh <["tp" = 2]>
func.func @linear(%x: tensor<2x4xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}, %scale: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.reduce sum %x dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
  %1 = nn.exp %x : tensor<2x4xf32>
  %2 = nn.reduce sum %1 dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
  %3 = nn.add %0, %2 : tensor<4xf32>
  %4 = nn.mul %3, %scale : tensor<4xf32>
  %5 = dist.all_reduce sum %4 over ["tp"] : tensor<4xf32>
  return %5 : tensor<4xf32>
}

// -----

// Rows of each sample are numbered alike on all devices: the batch may be split.
// CHECK-LABEL: func.func @rows_of_a_batch
// CHECK: nn.gather %{{.*}} batch_dims = 1 {{.*}}dist.layouts = [#dist.layout<[{"dp"}, {}, {}]>]{{.*}} : tensor<6x4x2xf32>, tensor<6x5xi64> -> tensor<6x5x2xf32>
dist.mesh @mesh <["dp" = 2]>
func.func @rows_of_a_batch(%table: tensor<3x4x2xf32> {dist.layout = #dist.layout<[{"dp"}, {}, {}]>},
                           %rows: tensor<3x5xi64> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> tensor<3x5x2xf32> {
  %0 = nn.gather %table, %rows batch_dims = 1 : tensor<3x4x2xf32>, tensor<3x5xi64> -> tensor<3x5x2xf32>
  return %0 : tensor<3x5x2xf32>
}
