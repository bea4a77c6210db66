// SPDX-License-Identifier: Apache-2.0
//
// Which bodies run in any case. That select_results computes the same is tested in test/unit/reference/repeat_test.cpp and by ashlar-fuzz.

// RUN: ashlar-opt %s -split-input-file -ashlar-select-results | FileCheck %s --enable-var-scope
// RUN: ashlar-opt %s -split-input-file -ashlar-select-results=target=cuda | FileCheck %s --check-prefix=CUDA

// A product is worth a condition on the cpu; on cuda nothing has one.
// CHECK-LABEL: @product
// CHECK: nn.repeat 1 when
// CUDA-LABEL: @product
// CUDA-SAME: (%[[X:.*]]: tensor<4x4xf32>, %[[C:.*]]: tensor<i1>)
// CUDA-NEXT: %[[P:.*]] = nn.matmul %[[X]], %[[X]]
// CUDA-NEXT: %[[CS:.*]] = nn.broadcast %[[C]] dims = [] : tensor<i1> -> tensor<4x4xi1>
// CUDA-NEXT: %[[Y:.*]] = nn.select %[[CS]], %[[P]], %[[X]]
// CUDA-NEXT: return %[[Y]]
func.func @product(%x: tensor<4x4xf32>, %c: tensor<i1>) -> tensor<4x4xf32> {
  %y = nn.repeat 1 when %c carried(%a = %x) : (tensor<4x4xf32>, tensor<i1>) -> tensor<4x4xf32> {
    %p = nn.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    nn.yield %p : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}

// -----

// Few elements: the body costs less than its place. A scalar is selected as it is.
// CHECK-LABEL: @few
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[C:.*]]: tensor<i1>)
// CHECK-NEXT: %[[E:.*]] = nn.exp %[[X]]
// CHECK-NEXT: %[[Y:.*]] = nn.select %[[C]], %[[E]], %[[X]]
// CHECK-NEXT: return %[[Y]]
func.func @few(%x: tensor<f32>, %c: tensor<i1>) -> tensor<f32> {
  %y = nn.repeat 1 when %c carried(%a = %x) : (tensor<f32>, tensor<i1>) -> tensor<f32> {
    %e = nn.exp %a : tensor<f32>
    nn.yield %e : tensor<f32>
  }
  return %y : tensor<f32>
}

// -----

// CHECK-LABEL: @many
// CHECK: nn.repeat 1 when
func.func @many(%x: tensor<16385xf32>, %c: tensor<i1>) -> tensor<16385xf32> {
  %y = nn.repeat 1 when %c carried(%a = %x) : (tensor<16385xf32>, tensor<i1>) -> tensor<16385xf32> {
    %e = nn.exp %a : tensor<16385xf32>
    nn.yield %e : tensor<16385xf32>
  }
  return %y : tensor<16385xf32>
}

// -----

// A branch in a branch: the inner one is cheap, the outer one is not, and has it.
// CHECK-LABEL: @nested
// CHECK: nn.repeat 1 when
// CHECK-NOT: nn.repeat
// CHECK: nn.matmul
// CHECK: nn.select
// CHECK-NEXT: nn.yield
// CUDA-LABEL: @nested
// CUDA-NOT: nn.repeat
// CUDA: return
func.func @nested(%x: tensor<4x4xf32>, %c: tensor<i1>, %d: tensor<i1>) -> tensor<4x4xf32> {
  %y = nn.repeat 1 when %c carried(%a = %x) captured(%inner = %d) : (tensor<4x4xf32>, tensor<i1>, tensor<i1>) -> tensor<4x4xf32> {
    %p = nn.matmul %a, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %z = nn.repeat 1 when %inner carried(%b = %p) : (tensor<4x4xf32>, tensor<i1>) -> tensor<4x4xf32> {
      %e = nn.exp %b : tensor<4x4xf32>
      nn.yield %e : tensor<4x4xf32>
    }
    nn.yield %z : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}

// -----

// Devices meet in a body only if all of them run it: where the condition may differ between them, as one of a part of the batch, they always
// do. One that follows from a sum over all of them does not differ.
dist.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: @meets
// CHECK: dist.all_reduce max
// CHECK: nn.repeat 1 when
// CHECK-NEXT: dist.all_reduce sum
// CHECK-NOT: nn.repeat
// CHECK: dist.all_reduce sum
// CHECK: nn.select
func.func @meets(%x: tensor<4xf32> {dist.layout = #dist.layout<[{}], partial = sum {"dp"}>}, %part: tensor<f32> {dist.layout = #dist.layout<[], partial = max {"dp"}>})
    -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %whole = dist.all_reduce max %part over ["dp"] : tensor<f32>
  %c = nn.compare gt %whole, %zero : tensor<f32> -> tensor<i1>
  %y = nn.repeat 1 when %c carried(%a = %x) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
    %s = dist.all_reduce sum %a over ["dp"] : tensor<4xf32>
    nn.yield %s : tensor<4xf32>
  }
  %d = nn.compare gt %part, %zero : tensor<f32> -> tensor<i1>
  %z = nn.repeat 1 when %d carried(%a = %x) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
    %s = dist.all_reduce sum %a over ["dp"] : tensor<4xf32>
    nn.yield %s : tensor<4xf32>
  }
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// A result of a loop varies as the value that it yields does: a condition that a loop stacks behind an all-reduce is the same on all devices.
// A body reads constant first values as constants.
dist.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: @stacked
// CHECK: nn.repeat 3
// CHECK: nn.repeat 3
// CHECK: nn.repeat 1 when %{{.*}} carried(%{{.*}} = %{{.*}}) captured(%[[B:.*]] = %{{.*}})
// CHECK: %[[ZERO:.*]] = nn.constant dense<0.0
// CHECK: %[[S:.*]] = dist.all_reduce sum %[[B]]
// CHECK: nn.add %[[ZERO]], %[[S]]
func.func @stacked(%xs: tensor<3x4xf32> {dist.layout = #dist.layout<[{}, {}], partial = sum {"dp"}>}) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %part, %cs = nn.repeat 3 sliced(%x = %xs) : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3xi1>) {
    %zero = nn.constant dense<0.0> : tensor<f32>
    %sum = dist.all_reduce sum %x over ["dp"] : tensor<4xf32>
    %all = nn.reduce sum %sum dims = [0] : tensor<4xf32> -> tensor<f32>
    %c = nn.compare gt %all, %zero : tensor<f32> -> tensor<i1>
    nn.yield %x, %c : tensor<4xf32>, tensor<i1>
  }
  %ys = nn.repeat 3 sliced(%x = %part, %c = %cs) : (tensor<3x4xf32>, tensor<3xi1>) -> tensor<3x4xf32> {
    %zero = nn.constant dense<0.0> : tensor<4xf32>
    %y = nn.repeat 1 when %c carried(%a = %zero) captured(%b = %x) : (tensor<4xf32>, tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
      %s = dist.all_reduce sum %b over ["dp"] : tensor<4xf32>
      %t = nn.add %a, %s : tensor<4xf32>
      nn.yield %t : tensor<4xf32>
    }
    nn.yield %y : tensor<4xf32>
  }
  return %part, %ys : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// A carried value varies as soon as a later iteration's does, here by its own part of the batch.
dist.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: @carried
// CHECK-NOT: nn.repeat 1
// CHECK: return
func.func @carried(%xs: tensor<3x4xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}, %y: tensor<4xf32> {dist.layout = #dist.layout<[{}], partial = sum {"dp"}>})
    -> (tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}, tensor<4xf32>) {
  %zeros = nn.constant dense<0.0> : tensor<4xf32>
  %last, %seen = nn.repeat 3 carried(%h = %zeros, %before = %zeros) sliced(%x = %xs)
      : (tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    nn.yield %x, %h : tensor<4xf32>, tensor<4xf32>
  }
  %zero = nn.constant dense<0.0> : tensor<f32>
  %sum = nn.reduce sum %seen dims = [0] : tensor<4xf32> -> tensor<f32>
  %c = nn.compare gt %sum, %zero : tensor<f32> -> tensor<i1>
  %z = nn.repeat 1 when %c carried(%a = %y) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32> {
    %s = dist.all_reduce sum %a over ["dp"] : tensor<4xf32>
    nn.yield %s : tensor<4xf32>
  }
  return %last, %z : tensor<4xf32>, tensor<4xf32>
}
