// SPDX-License-Identifier: Apache-2.0
//
// The interpreter as a pass: given and random inputs, variables that live from function to function, several ranks, errors.

// RUN: ashlar-opt %s -ashlar-interpret='function=double inputs="[dense<[1.0, 2.5]> : tensor<2xf32>]"' | FileCheck %s --check-prefix=GIVEN
// RUN: ashlar-opt %s -ashlar-interpret='function=count,count,count' | FileCheck %s --check-prefix=COUNT
// RUN: ashlar-opt %s -ashlar-interpret='function=kinds seed=7 int-limit=3' | FileCheck %s --check-prefix=RANDOM
// RUN: ashlar-opt %s -ashlar-interpret='function=kinds seed=7 int-limit=3' > %t.first && ashlar-opt %s -ashlar-interpret='function=kinds seed=7 int-limit=3' > %t.second && diff %t.first %t.second
// RUN: ashlar-opt %s -ashlar-interpret='function=mean ranks=4 inputs="[dense<[1.0, 2.0, 3.0, 6.0]> : tensor<4xf32>]"' | FileCheck %s --check-prefix=RANKS

// RUN: ashlar-opt %s -ashlar-interpret='function=lists ranks=4' | FileCheck %s --check-prefix=LISTS
// RUN: ashlar-opt %s -ashlar-interpret='function=owned ranks=4' | FileCheck %s --check-prefix=OWNED

// RUN: not ashlar-opt %s -ashlar-interpret 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not ashlar-opt %s -ashlar-interpret='function=none' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not ashlar-opt %s -ashlar-interpret='function=mean ranks=2' 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not ashlar-opt %s -ashlar-interpret='function=mean ranks=0' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not ashlar-opt %s -ashlar-interpret='function=double inputs="[3 : i64]"' 2>&1 | FileCheck %s --check-prefix=NO-TENSOR
// RUN: not ashlar-opt %s -ashlar-interpret='function=double inputs="7"' 2>&1 | FileCheck %s --check-prefix=NO-ARRAY
// RUN: not ashlar-opt %s -ashlar-interpret='function=differs ranks=4' 2>&1 | FileCheck %s --check-prefix=DIFFERS

// NOTHING: interpreting takes at least one function, one rank and an int-limit of 1; got 0 functions, ranks 1, int-limit 10
// NONE: no function @none to interpret
// TWO: runs on a mesh of 4 devices but the interpreter simulates 2 ranks; set ranks to the size of the mesh
// ZERO: got 1 functions, ranks 0, int-limit 10
// NO-TENSOR: input 3 : i64 is not a dense tensor
// NO-ARRAY: inputs "7" is not an array attribute, as in [dense<1.0> : tensor<2xf32>]
// DIFFERS: result 0 differs between ranks that should hold the same value

dist.mesh @mesh <["dp" = 4]>
nn.variable @counter : tensor<i64> = dense<5> : tensor<i64>

// GIVEN: @double result 0: tensor<2xf32> [2, 5]
func.func @double(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = nn.add %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}

// COUNT: @count result 0: tensor<i64> 5
// COUNT-NEXT: @count result 0: tensor<i64> 6
// COUNT-NEXT: @count result 0: tensor<i64> 7
func.func @count() -> tensor<i64> {
  %0 = nn.read @counter : tensor<i64>
  %one = nn.constant dense<1> : tensor<i64>
  %1 = nn.add %0, %one : tensor<i64>
  nn.write @counter, %1 : tensor<i64>
  return %0 : tensor<i64>
}

// RANDOM: result 0: tensor<2xf32> [{{-?}}0.{{[0-9]+}}, {{-?}}0.{{[0-9]+}}]
// RANDOM: result 1: tensor<4xi32> [{{[0-2]}}, {{[0-2]}}, {{[0-2]}}, {{[0-2]}}]
// RANDOM: result 2: tensor<4xi1> [{{[01]}}, {{[01]}}, {{[01]}}, {{[01]}}]
func.func @kinds(%x: tensor<2xf32>, %i: tensor<4xi32>, %b: tensor<4xi1>) -> (tensor<2xf32>, tensor<4xi32>, tensor<4xi1>) {
  return %x, %i, %b : tensor<2xf32>, tensor<4xi32>, tensor<4xi1>
}

// Each of four ranks holds one element; the mean is 3 on all, the doubled elements are put together again.
// RANKS: @mean result 0: tensor<f32> 3{{$}}
// RANKS-NEXT: @mean result 1: tensor<4xf32> [2, 4, 6, 12]
func.func @mean(%x: tensor<1xf32> {dist.layout = #dist.layout<[{"dp"}]>, dist.global_type = tensor<4xf32>})
    -> (tensor<f32>, tensor<1xf32> {dist.layout = #dist.layout<[{"dp"}]>, dist.global_type = tensor<4xf32>}) {
  %0 = nn.reduce sum %x dims = [0] : tensor<1xf32> -> tensor<f32>
  %1 = dist.all_reduce sum %0 over ["dp"] : tensor<f32>
  %quarter = nn.constant dense<0.25> : tensor<f32>
  %2 = nn.mul %1, %quarter : tensor<f32>
  %3 = nn.add %x, %x : tensor<1xf32>
  return %2, %3 : tensor<f32>, tensor<1xf32>
}

func.func @differs() -> tensor<i64> {
  %0 = dist.axis_index over ["dp"] : tensor<i64>
  return %0 : tensor<i64>
}

// Rank r has [r, 10]: of two tensors of one collective each is joined along its own dim, and each is summed for itself.
// LISTS: @lists result 0: tensor<4x2xf32> {{\[\[}}0, 10], [1, 10], [2, 10], [3, 10]]
// LISTS-NEXT: @lists result 1: tensor<1x8xf32> {{\[\[}}0, 10, 1, 10, 2, 10, 3, 10]]
// LISTS-NEXT: @lists result 2: tensor<1x2xf32> {{\[\[}}6, 40]]
// LISTS-NEXT: @lists result 3: tensor<4x2xf32> {{\[\[}}0, 40], [4, 40], [8, 40], [12, 40]]
func.func @lists() -> (tensor<4x2xf32>, tensor<1x8xf32>, tensor<1x2xf32>, tensor<4x2xf32>) {
  %all = nn.constant dense<[[0.0, 10.0], [1.0, 10.0], [2.0, 10.0], [3.0, 10.0]]> : tensor<4x2xf32>
  %own = dist.slice %all dim = 0 over ["dp"] : tensor<4x2xf32> -> tensor<1x2xf32>
  %g:2 = dist.all_gather %own, %own dim = 0, 1 over ["dp"] : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<4x2xf32>, tensor<1x8xf32>
  %s:2 = dist.all_reduce sum %own, %all over ["dp"] : tensor<1x2xf32>, tensor<4x2xf32>
  return %g#0, %g#1, %s#0, %s#1 : tensor<4x2xf32>, tensor<1x8xf32>, tensor<1x2xf32>, tensor<4x2xf32>
}

// What rank 2 keeps alone has a value there, whatever it is written with elsewhere; the other ranks have none.
// OWNED: @owned result 0: tensor<f32> 7{{$}}
// OWNED-NEXT: @owned result 1: tensor<f32> nan{{$}}
nn.variable @kept : tensor<f32> = dense<6.0> : tensor<f32> {dist.owner = 2 : i64}
func.func @owned() -> (tensor<f32>, tensor<f32>) {
  %0 = nn.read @kept : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %1 = nn.add %0, %one : tensor<f32>
  nn.write @kept, %1 {dist.owner = 2 : i64} : tensor<f32>
  %2 = nn.read @kept : tensor<f32>
  %3 = dist.broadcast %2 root = 2 over ["dp"] : tensor<f32>
  nn.write @kept, %one {dist.owner = 2 : i64} : tensor<f32>
  %4 = nn.read @kept : tensor<f32>
  %5 = dist.broadcast %4 root = 1 over ["dp"] : tensor<f32>
  return %3, %5 : tensor<f32>, tensor<f32>
}
