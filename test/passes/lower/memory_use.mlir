// SPDX-License-Identifier: Apache-2.0
//
// What is counted besides tensors (passes/lower/memory/memory_use.h), as the refusal of a limit names it.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-plan-memory="memory-limit=1 ranks-per-host=2"

// A training step stages 3 x 26 batches of 10000 bytes, each to a boundary of 64; an input that it does not have is not staged.
// expected-error@+1 {{inputs and outputs 10.00 KB, temporaries 2.29 KB, batches 786.43 KB, synchronization buffers 28.67 KB)}}
module {
  func.func @train_step(%x: tensor<50x50xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<train_step>} {
    return
  }
}

// -----

// With an evaluation it has a second pipeline.
// expected-error@+1 {{batches 786.43 KB, batches of --eval 786.43 KB, synchronization buffers 28.67 KB)}}
module {
  func.func @train_step(%x: tensor<50x50xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<train_step>} {
    return
  }
  func.func @eval_step(%x: tensor<50x50xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<eval_step>} {
    return
  }
}

// -----

// A large batch is one a stage.
// expected-error@+1 {{batches 12.29 MB, }}
module {
  func.func @train_step(%x: tensor<1024x1000xf32> {nn.name = "x"}) attributes {nn.program = #nn.program<train_step>} {
    return
  }
}

// -----

// Four ranks on two hosts: an all-reduce of 4 MB stages at most 16 MiB. One over the ranks of a host stages nothing.
// expected-error@+1 {{messages between hosts 16.78 MB), but}}
module {
  dist.mesh @mesh <["a" = 2, "b" = 2]>
  func.func @forward(%x: tensor<1000000xf32> {nn.name = "x"}) -> (tensor<1000000xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
    %0 = dist.all_reduce sum %x over ["b"] : tensor<1000000xf32>
    %1 = dist.all_reduce sum %0 over ["a", "b"] : tensor<1000000xf32>
    return %1 : tensor<1000000xf32>
  }
}

// -----

// State that different devices keep alone lies at the same place: the largest owner's counts, 4 kB and not 7.
// expected-error@+1 {{state 4.00 KB, inputs and outputs}}
module {
  dist.mesh @mesh <["dp" = 2]>
  nn.variable @v trainable : tensor<1000xf32>
  nn.variable @v.m state_of @v : tensor<1000xf32> {dist.owner = 0 : i64}
  nn.variable @w trainable : tensor<750xf32>
  nn.variable @w.m state_of @w : tensor<750xf32> {dist.owner = 1 : i64}
  func.func @forward(%x: tensor<64xf32> {nn.name = "x"}) -> (tensor<64xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
    return %x : tensor<64xf32>
  }
}

// -----

// What runs beside others holds its bytes for longer.
// expected-error@+1 {{use more devices or a smaller batch, or --no-overlap}}
module {
  dist.mesh @mesh <["dp" = 2]>
  func.func @forward(%x: tensor<64xf32> {nn.name = "x"}) -> (tensor<64xf32> {nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
    %0 = dist.all_reduce sum %x over ["dp"] {exec.overlap = #exec.overlap<duration_ns = 2, hidden_ns = 1>} : tensor<64xf32>
    %1 = exec.await %0 : tensor<64xf32>
    return %1 : tensor<64xf32>
  }
}
