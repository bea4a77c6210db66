// RUN: ashlar-opt %s -ashlar-propagate-layouts -ashlar-insert-redistributions \
// RUN:   -ashlar-verify-layouts -ashlar-partition -ashlar-verify-partitioned | FileCheck %s

// A pair of dense layers, the first split by columns, the second by rows: one sum forward (of the output), one backward (of the gradient
// of the input), none in between and none for the parameters, whose gradients are born split.

dist.mesh @mesh <["tp" = 2]>
// CHECK: nn.variable @up trainable : tensor<8x8xf32>
nn.variable @up trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
// CHECK: nn.variable @down trainable : tensor<8x8xf32>
nn.variable @down trainable : tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}

// CHECK-LABEL: func.func @block
func.func @block(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {}]>}, %dy: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {}]>})
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %up = nn.read @up : tensor<16x8xf32>
  %down = nn.read @down : tensor<8x16xf32>
  // CHECK: nn.matmul {{.*}} -> tensor<4x8xf32>
  %h = nn.matmul %x, %up transpose_b : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  %a = nn.tanh %h : tensor<4x16xf32>
  // CHECK-NOT: dist.
  // CHECK: %[[PART:.*]] = nn.matmul
  // CHECK-NEXT: %[[Y:.*]] = dist.all_reduce sum %[[PART]] over ["tp"] {cause = [#dist.end<kind = op, name = "down">]} : tensor<4x8xf32>
  %y = nn.matmul %a, %down transpose_b : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32> loc("down")
  %da = nn.matmul %dy, %down : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %dh = nn.mul %da, %a : tensor<4x16xf32>
  %gdown = nn.matmul %dy, %a transpose_a : tensor<4x8xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %gup = nn.matmul %dh, %x transpose_a : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<16x8xf32>
  // CHECK-NOT: dist.
  // CHECK: %[[DX:.*]] = dist.all_reduce sum %{{.*}} over ["tp"] {cause = [#dist.end<kind = op, name = "up">]} : tensor<4x8xf32>
  %dx = nn.matmul %dh, %up : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32> loc("up")
  // CHECK-NOT: dist.
  %nup = nn.sub %up, %gup : tensor<16x8xf32>
  nn.write @up, %nup : tensor<16x8xf32>
  %ndown = nn.sub %down, %gdown : tensor<8x16xf32>
  nn.write @down, %ndown : tensor<8x16xf32>
  // CHECK: return %[[Y]], %[[DX]]
  return %y, %dx : tensor<4x8xf32>, tensor<4x8xf32>
}
