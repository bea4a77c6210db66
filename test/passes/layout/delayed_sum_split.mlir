// RUN: ashlar-opt %s -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts -ashlar-partition | FileCheck %s

// The gradient of a table whose rows are sharded over tp, of tokens whose positions are: each device gathers the positions and adds up its own
// rows. That terms over dp remain costs nothing here, since they add up in a variable and @update sums them once.

dist.mesh @mesh <["dp" = 4, "tp" = 2]>
nn.variable @table trainable : tensor<1000x32xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
nn.variable @table.gradient state_of @table : tensor<1000x32xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>, nn.scratch}

// CHECK-LABEL: func.func @train_step
// CHECK-NOT: dist.reduce_scatter
// CHECK: dist.all_gather %{{.*}} dim = 1 over ["tp"] {{.*}} : tensor<12x16x32xf32> -> tensor<12x32x32xf32>
// CHECK-NOT: dist.{{all|reduce}}
// CHECK: nn.scatter_add {{.*}} -> tensor<500x32xf32>
// CHECK-NOT: dist.
// CHECK: nn.write @table.gradient, %{{.*}} : tensor<500x32xf32>
func.func @train_step(%tokens: tensor<48x32xi64> {nn.name = "tokens", dist.layout = #dist.layout<[{"dp"}, {"tp"}]>},
                      %d: tensor<48x32x32xf32> {nn.name = "d", dist.layout = #dist.layout<[{"dp"}, {"tp"}, {}]>}) attributes {nn.program = #nn.program<train_step>} {
  %g = nn.scatter_add %tokens, %d : tensor<48x32xi64>, tensor<48x32x32xf32> -> tensor<1000x32xf32>
  %sum = nn.read @table.gradient : tensor<1000x32xf32>
  %next = nn.add %sum, %g : tensor<1000x32xf32>
  nn.write @table.gradient, %next : tensor<1000x32xf32>
  return
}

// CHECK-LABEL: func.func @update
// CHECK: dist.all_reduce sum %{{.*}} over ["dp"] {{.*}} : tensor<500x32xf32>
func.func @update() attributes {nn.program = #nn.program<update>} {
  %g = nn.read @table.gradient : tensor<1000x32xf32>
  %w = nn.read @table : tensor<1000x32xf32>
  %n = nn.sub %w, %g : tensor<1000x32xf32>
  nn.write @table, %n : tensor<1000x32xf32>
  return
}
