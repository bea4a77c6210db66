// SPDX-License-Identifier: Apache-2.0
//
// The ends of a step and what is done once.

// RUN: ashlar-opt %s -split-input-file -ashlar-join-runs | FileCheck %s

// The first run takes what the preparation writes, which the later ones read; the update takes the sum of the last run. What the update writes
// again is written once. The mesh says that its links move data while the device computes.
// CHECK: module @step attributes {dist.order = [#dist.repeat<runs = [#dist.run<"prepare+train_step", 0>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"train_step", 1>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"train_step+update", 3>], count = 1, stride = 0>]}
module @step attributes {dist.order = [#dist.repeat<runs = [#dist.run<"prepare", 0>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"train_step", 0>], count = 4, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 3>], count = 1, stride = 0>]} {
  dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [1000], beside = [0]>}
  nn.variable @w : tensor<4xf32>
  nn.variable @w.copy : tensor<8xf32>
  nn.variable @sum : tensor<8xf32>
  nn.variable @count : tensor<i64>
  // CHECK-NOT: func.func @prepare()
  func.func @prepare() attributes {nn.program = #nn.program<prepare>} {
    %w = nn.read @w : tensor<4xf32>
    %all = dist.all_gather %w dim = 0 over ["dp"] : tensor<4xf32> -> tensor<8xf32>
    nn.write @w.copy, %all : tensor<8xf32>
    return
  }
  // CHECK-LABEL: func.func @"prepare+train_step"
  // CHECK-SAME: (%arg0: tensor<8xf32> {nn.name = "x"}) -> (tensor<8xf32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step, prepares = true>} {
  // CHECK: %[[ALL:.*]] = dist.all_gather
  // CHECK-NEXT: nn.write @w.copy, %[[ALL]]
  // CHECK-NOT: nn.read @w.copy
  // CHECK: %[[PRODUCT:.*]] = nn.mul %arg0, %[[ALL]]
  // CHECK: nn.write @count
  // CHECK: return %[[PRODUCT]]
  // CHECK-LABEL: func.func @train_step
  // CHECK: nn.read @w.copy
  func.func @train_step(%x: tensor<8xf32> {nn.name = "x"}) -> (tensor<8xf32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w.copy : tensor<8xf32>
    %g = nn.mul %x, %w : tensor<8xf32>
    %old = nn.read @sum : tensor<8xf32>
    %new = nn.add %old, %g : tensor<8xf32>
    nn.write @sum, %new : tensor<8xf32>
    %one = nn.constant dense<1> : tensor<i64>
    %number = nn.read @count : tensor<i64>
    %next = nn.add %number, %one : tensor<i64>
    nn.write @count, %next : tensor<i64>
    return %g : tensor<8xf32>
  }
  // CHECK-NOT: func.func @update()
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %sum = nn.read @sum : tensor<8xf32>
    %part = dist.reduce_scatter sum %sum dim = 0 over ["dp"] : tensor<8xf32> -> tensor<4xf32>
    nn.write @w, %part : tensor<4xf32>
    %zero = nn.constant dense<0> : tensor<i64>
    nn.write @count, %zero : tensor<i64>
    return
  }
  // CHECK-LABEL: func.func @"train_step+update"
  // CHECK-SAME: attributes {nn.program = #nn.program<train_step, updates = true>} {
  // CHECK: %[[OLD:.*]] = nn.read @sum
  // CHECK-NEXT: %[[NEW:.*]] = nn.add %[[OLD]]
  // CHECK-NEXT: nn.write @sum, %[[NEW]]
  // CHECK-NOT: nn.write @count
  // CHECK-NOT: nn.read @sum
  // CHECK: %[[PART:.*]] = dist.reduce_scatter sum %[[NEW]]
  // CHECK: nn.write @w, %[[PART]]
  // CHECK: nn.write @count
  // CHECK-NOT: nn.write
  // CHECK: return
}

// -----

// A stage, whose programs have messages.
// CHECK: module @middle attributes {dist.order = [#dist.repeat<runs = [#dist.run<"prepare", 0>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"forward", 0>, #dist.run<"backward", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 1>, #dist.run<"update_1", 1>], count = 1, stride = 0>]}
module @middle attributes {dist.order = [#dist.repeat<runs = [#dist.run<"prepare", 0>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"forward", 0>, #dist.run<"backward", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 1>, #dist.run<"update_1", 1>], count = 1, stride = 0>]} {
  dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [1000], beside = [0]>}
  nn.variable @w : tensor<8xf32>
  func.func @prepare() attributes {nn.program = #nn.program<prepare>} {
    %w = nn.read @w : tensor<8xf32>
    %all = dist.all_reduce sum %w over ["dp"] : tensor<8xf32>
    nn.write @w, %all : tensor<8xf32>
    return
  }
  func.func @forward() attributes {nn.program = #nn.program<forward>} {
    %x = dist.receive "x" from <stage = 0, channel = 0> : tensor<8xf32>
    return
  }
  func.func @backward() attributes {nn.program = #nn.program<backward>} {
    %x = dist.take "x" : tensor<8xf32>
    dist.send %x "dx" to [#dist.peer<stage = 0, channel = 0>] : tensor<8xf32>
    return
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %w = nn.read @w : tensor<8xf32>
    %all = dist.all_reduce sum %w over ["dp"] : tensor<8xf32>
    nn.write @w, %all : tensor<8xf32>
    return
  }
  func.func @update_1() attributes {nn.program = #nn.program<update, round = 1>} {
    return
  }
}

// -----

// A repetition of two programs: the rounds between stay, the last one without its last run, and a later program of the update follows.
// CHECK: module @apart attributes {dist.order = [#dist.repeat<runs = [#dist.run<"forward", 0>, #dist.run<"weights", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"forward", 2>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"weights+update", 2>], count = 1, stride = 0>, #dist.repeat<runs = [#dist.run<"update_1", 2>], count = 1, stride = 0>]}
module @apart attributes {dist.order = [#dist.repeat<runs = [#dist.run<"forward", 0>, #dist.run<"weights", 0>], count = 3, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 2>, #dist.run<"update_1", 2>], count = 1, stride = 0>]} {
  dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [1000], beside = [0]>}
  nn.variable @w : tensor<8xf32>
  func.func @forward() attributes {nn.program = #nn.program<run>} {
    return
  }
  // CHECK: func.func @weights(
  func.func @weights(%x: tensor<8xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<weights>} {
    return
  }
  // CHECK-NOT: func.func @update()
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %w = nn.read @w : tensor<8xf32>
    %all = dist.all_reduce sum %w over ["dp"] : tensor<8xf32>
    nn.write @w, %all : tensor<8xf32>
    return
  }
  // CHECK: func.func @"weights+update"(%arg0: tensor<8xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<weights, updates = true>}
  func.func @update_1() attributes {nn.program = #nn.program<update, round = 1>} {
    return
  }
}

// -----

// Links that keep the device busy hide nothing.
// CHECK: module @busy attributes {dist.order = [#dist.repeat<runs = [#dist.run<"train_step", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 1>], count = 1, stride = 0>]}
module @busy attributes {dist.order = [#dist.repeat<runs = [#dist.run<"train_step", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 1>], count = 1, stride = 0>]} {
  dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [1000]>}
  nn.variable @w : tensor<8xf32>
  func.func @train_step() attributes {nn.program = #nn.program<train_step>} {
    return
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %w = nn.read @w : tensor<8xf32>
    %all = dist.all_reduce sum %w over ["dp"] : tensor<8xf32>
    nn.write @w, %all : tensor<8xf32>
    return
  }
}

// -----

// Without messages: the joined program takes what is in the slot once, and what it puts there itself it has.
// CHECK: func.func @"weights+update"() attributes {nn.program = #nn.program<weights, updates = true>} {
// CHECK: %[[X:.*]] = dist.take "x"
// CHECK: dist.keep %[[X]] "y"
// CHECK-NOT: dist.take
// CHECK: %[[SUM:.*]] = nn.add %[[X]], %[[X]]
// CHECK: dist.all_reduce sum %[[SUM]]
// CHECK: return
module @slots attributes {dist.order = [#dist.repeat<runs = [#dist.run<"weights", 0>], count = 2, stride = 1>, #dist.repeat<runs = [#dist.run<"update", 1>], count = 1, stride = 0>]} {
  dist.mesh @mesh <["dp" = 2]> {costs = #dist.costs<latency_ns = [10], bytes_per_us = [1000], beside = [0]>}
  nn.variable @w : tensor<8xf32>
  func.func @weights() attributes {nn.program = #nn.program<weights>} {
    %x = dist.take "x" : tensor<8xf32>
    dist.keep %x "y" : tensor<8xf32>
    return
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %x = dist.take "x" : tensor<8xf32>
    %y = dist.take "y" : tensor<8xf32>
    %sum = nn.add %x, %y : tensor<8xf32>
    %all = dist.all_reduce sum %sum over ["dp"] : tensor<8xf32>
    nn.write @w, %all : tensor<8xf32>
    return
  }
}
