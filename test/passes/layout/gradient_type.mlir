// RUN: ashlar-opt %s -ashlar-propagate-layouts -ashlar-insert-redistributions -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// Parts of f32 gradients travel in bf16: each device converts its terms, and the sum is converted back. Sums that are no gradients, scalars, and
// gradients of another type travel as they are.

module attributes {dist.gradient_type = bf16} {
  dist.mesh @mesh <["dp" = 2]>
  nn.variable @w trainable : tensor<4x2xf32>
  nn.variable @v trainable : tensor<4x2xf64>
  // CHECK-LABEL: func.func @train_step
  func.func @train_step(%x: tensor<6x4xf32> {nn.name = "x", dist.layout = #dist.layout<[{"dp"}, {}]>}, %d: tensor<6x2xf32> {nn.name = "d", dist.layout = #dist.layout<[{"dp"}, {}]>},
                        %y: tensor<6x4xf64> {nn.name = "y", dist.layout = #dist.layout<[{"dp"}, {}]>}, %e: tensor<6x2xf64> {nn.name = "e", dist.layout = #dist.layout<[{"dp"}, {}]>})
      -> (tensor<2xf32> {nn.name = "sums"}) attributes {nn.program = #nn.program<train_step>} {
    // CHECK: %[[TERMS:.*]] = nn.matmul {{.*}} -> tensor<4x2xf32>
    // CHECK-NEXT: %[[NARROW:.*]] = nn.cast %[[TERMS]] : tensor<4x2xf32> -> tensor<4x2xbf16>
    // CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum %[[NARROW]] over ["dp"] {{.*}} : tensor<4x2xbf16>
    // CHECK-NEXT: %[[WIDE:.*]] = nn.cast %[[SUM]] : tensor<4x2xbf16> -> tensor<4x2xf32>
    // CHECK-NEXT: nn.gradient %[[WIDE]]
    %dw = nn.matmul %x, %d transpose_a : tensor<6x4xf32>, tensor<6x2xf32> -> tensor<4x2xf32>
    %gw = nn.gradient %dw of @w : tensor<4x2xf32>
    %w = nn.read @w : tensor<4x2xf32>
    %nw = nn.sub %w, %gw : tensor<4x2xf32>
    nn.write @w, %nw : tensor<4x2xf32>
    // CHECK: dist.all_reduce sum {{.*}} : tensor<4x2xf64>
    %dv = nn.matmul %y, %e transpose_a : tensor<6x4xf64>, tensor<6x2xf64> -> tensor<4x2xf64>
    %gv = nn.gradient %dv of @v : tensor<4x2xf64>
    %v = nn.read @v : tensor<4x2xf64>
    %nv = nn.sub %v, %gv : tensor<4x2xf64>
    nn.write @v, %nv : tensor<4x2xf64>
    // CHECK: dist.all_reduce sum {{.*}} : tensor<2xf32>
    %sums = nn.reduce sum %d dims = [0] : tensor<6x2xf32> -> tensor<2xf32>
    return %sums : tensor<2xf32>
  }
}
