// RUN: ashlar-opt %s -split-input-file -ashlar-shard-messages="stages=2" | FileCheck %s

// Devices of tp hold equal values of %h: 1024 bytes take 10.24 us between hosts; shards take 5.12 us, and a gather of them within a host 0.02 us.
// Both users of the other stage take one gather, which has the first one's place. Devices of dp hold shards of the batch already.
// CHECK-LABEL: func.func @train_step
// CHECK: %[[H:.*]] = dist.all_reduce sum
// CHECK-NEXT: %[[S:.*]] = dist.slice %[[H]] dim = 0 over ["tp"] {dist.virtual_stage = 0 : i64} : tensor<4x64xf32> -> tensor<2x64xf32>
// CHECK-NEXT: nn.relu %[[H]]
// CHECK-NEXT: %[[G:.*]] = dist.all_gather %[[S]] dim = 0 over ["tp"] {cause = [#dist.end<kind = op, name = "one">], dist.virtual_stage = 1 : i64}
// CHECK-NEXT: nn.exp %[[G]]
// CHECK-NEXT: nn.tanh %[[G]]
// The gradient goes the other way, and is gathered in stage 0.
// CHECK: %[[D:.*]] = nn.mul
// CHECK-NEXT: %[[SD:.*]] = dist.slice %[[D]] dim = 0 over ["tp"] {dist.virtual_stage = 1 : i64}
// CHECK-NEXT: %[[GD:.*]] = dist.all_gather %[[SD]] dim = 0 over ["tp"] {{.*}}dist.virtual_stage = 0 : i64
// CHECK-NEXT: nn.mul %[[GD]]
module {
  dist.mesh @mesh <["dp" = 2, "tp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 1, devices_per_rank = 1,
    links = <latency_ns = [0, 0], bytes_per_us = [25600, 100]>>, costs = #dist.costs<latency_ns = [0, 0], bytes_per_us = [25600, 25600]>}
  nn.variable @a trainable : tensor<64xf32>
  nn.variable @a.gradient state_of @a : tensor<64xf32>
  func.func @train_step(%x: tensor<4x64xf32> {nn.name = "x", dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %a = nn.read @a : tensor<64xf32>
    %wide = nn.broadcast %a dims = [1] : tensor<64xf32> -> tensor<4x64xf32>
    %part = nn.mul %x, %wide {dist.virtual_stage = 0 : i64} : tensor<4x64xf32> loc("one")
    %h = dist.all_reduce sum %part over ["tp"] {dist.virtual_stage = 0 : i64} : tensor<4x64xf32> loc("one")
    %other = nn.relu %h {dist.virtual_stage = 0 : i64} : tensor<4x64xf32> loc("one")
    %y = nn.exp %h {dist.virtual_stage = 1 : i64} : tensor<4x64xf32> loc("two")
    %z = nn.tanh %h {dist.virtual_stage = 1 : i64} : tensor<4x64xf32> loc("two")
    %both = nn.add %y, %z {dist.virtual_stage = 1 : i64} : tensor<4x64xf32> loc("two")
    %loss = nn.reduce sum %both dims = [0, 1] {dist.virtual_stage = 1 : i64} : tensor<4x64xf32> -> tensor<f32> loc("two")
    %d = nn.mul %y, %z : tensor<4x64xf32> loc("two")
    %dw = nn.mul %d, %x : tensor<4x64xf32> loc("one")
    %da = nn.reduce sum %dw dims = [0] : tensor<4x64xf32> -> tensor<64xf32> loc("one")
    %ga = nn.gradient %da of @a : tensor<64xf32>
    nn.write @a.gradient, %ga : tensor<64xf32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %ga = nn.read @a.gradient : tensor<64xf32>
    nn.write @a, %ga : tensor<64xf32>
    return
  }
}

// -----

// All stages are on one host: a gather would take what the shards save.
// CHECK-LABEL: func.func @train_step
// CHECK-NOT: dist.slice
// CHECK-NOT: dist.all_gather
module {
  dist.mesh @mesh <["tp" = 2]> {hosts = #dist.hosts<ranks_per_host = 4, adapters = 1, devices_per_rank = 1,
    links = <latency_ns = [0, 0], bytes_per_us = [100, 100]>>, costs = #dist.costs<latency_ns = [0], bytes_per_us = [100]>}
  nn.variable @a trainable : tensor<64xf32>
  nn.variable @a.gradient state_of @a : tensor<64xf32>
  func.func @train_step(%x: tensor<64xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %a = nn.read @a : tensor<64xf32>
    %h = nn.mul %x, %a {dist.virtual_stage = 0 : i64} : tensor<64xf32> loc("one")
    %y = nn.exp %h {dist.virtual_stage = 1 : i64} : tensor<64xf32> loc("two")
    %loss = nn.reduce sum %y dims = [0] {dist.virtual_stage = 1 : i64} : tensor<64xf32> -> tensor<f32> loc("two")
    %da = nn.mul %y, %x : tensor<64xf32> loc("one")
    %ga = nn.gradient %da of @a : tensor<64xf32>
    nn.write @a.gradient, %ga : tensor<64xf32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    %ga = nn.read @a.gradient : tensor<64xf32>
    nn.write @a, %ga : tensor<64xf32>
    return
  }
}
