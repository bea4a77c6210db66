// RUN: ashlar-opt %s -split-input-file -ashlar-assign-stages="stages=2" | FileCheck %s

// A microsecond takes 1000 operations or moves 1000 bytes. The first product takes 81.9 us, the broadcast and the sum 4.4 us each, what follows 80 us.
// Between the broadcast and the sum the stages would be equal, but 4096 bytes would go from one to the other, which takes 4.1 us; ahead of the broadcast
// it is 256 bytes, and the stages are 82 us and 89 us; behind the sum it is as many, and they are 91 us and 80 us.
module attributes {dist.device = #dist.device<flops_per_us = 1000, narrow_flops_per_us = 1000, bytes_per_us = 1000>} {
  nn.variable @w trainable : tensor<640x8xf32>
  nn.variable @v trainable : tensor<8x500xf32>
  // CHECK-LABEL: func.func @train_step
  func.func @train_step(%x: tensor<8x640xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<640x8xf32>
    %v = nn.read @v : tensor<8x500xf32>
    // CHECK: nn.matmul %arg0, %{{.*}} {dist.virtual_stage = 0 : i64}
    %h = nn.matmul %x, %w : tensor<8x640xf32>, tensor<640x8xf32> -> tensor<8x8xf32> loc("first")
    // CHECK-NEXT: nn.broadcast %{{.*}} {dist.virtual_stage = 1 : i64}
    %wide = nn.broadcast %h dims = [0, 1] : tensor<8x8xf32> -> tensor<8x8x16xf32> loc("widen")
    // CHECK-NEXT: nn.reduce sum %{{.*}} {dist.virtual_stage = 1 : i64}
    %sum = nn.reduce sum %wide dims = [2] : tensor<8x8x16xf32> -> tensor<8x8xf32> loc("sum")
    // CHECK-NEXT: nn.matmul %{{.*}} {dist.virtual_stage = 1 : i64}
    %y = nn.matmul %sum, %v : tensor<8x8xf32>, tensor<8x500xf32> -> tensor<8x500xf32> loc("second")
    %loss = nn.reduce sum %y dims = [0, 1] : tensor<8x500xf32> -> tensor<f32> loc("loss")
    return %loss : tensor<f32>
  }
}

// -----

// The same, but the stages are on two hosts, and 4096 bytes from one to the other take 4 ns: the cut is where the stages are equal.
module attributes {dist.device = #dist.device<flops_per_us = 1000, narrow_flops_per_us = 1000, bytes_per_us = 1000>} {
  dist.mesh @mesh <["x" = 1]> {hosts = #dist.hosts<ranks_per_host = 1, adapters = 1, devices_per_rank = 1,
    links = <latency_ns = [0, 0], bytes_per_us = [1, 1000000]>>}
  nn.variable @w trainable : tensor<640x8xf32>
  nn.variable @v trainable : tensor<8x500xf32>
  // CHECK-LABEL: func.func @train_step
  func.func @train_step(%x: tensor<8x640xf32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<640x8xf32>
    %v = nn.read @v : tensor<8x500xf32>
    %h = nn.matmul %x, %w : tensor<8x640xf32>, tensor<640x8xf32> -> tensor<8x8xf32> loc("first")
    // CHECK: nn.broadcast %{{.*}} {dist.virtual_stage = 0 : i64}
    %wide = nn.broadcast %h dims = [0, 1] : tensor<8x8xf32> -> tensor<8x8x16xf32> loc("widen")
    // CHECK-NEXT: nn.reduce sum %{{.*}} {dist.virtual_stage = 1 : i64}
    %sum = nn.reduce sum %wide dims = [2] : tensor<8x8x16xf32> -> tensor<8x8xf32> loc("sum")
    %y = nn.matmul %sum, %v : tensor<8x8xf32>, tensor<8x500xf32> -> tensor<8x500xf32> loc("second")
    %loss = nn.reduce sum %y dims = [0, 1] : tensor<8x500xf32> -> tensor<f32> loc("loss")
    return %loss : tensor<f32>
  }
}
