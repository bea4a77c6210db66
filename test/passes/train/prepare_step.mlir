// SPDX-License-Identifier: Apache-2.0
//
// What micro-batches share is computed once a step.

// RUN: ashlar-opt %s -split-input-file -ashlar-prepare-step | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-prepare-step -ashlar-init | FileCheck %s --check-prefix=INIT

// Conversions of parameters move, each once, in the order of the micro-batch; a read that the step needs for something else stays. What the
// step writes, and what gets wider, is converted in each micro-batch.
module {
  // CHECK: nn.variable @w trainable
  // CHECK-NEXT: nn.variable @w.bf16 state_of @w : tensor<3xbf16> = dense<0.000000e+00> : tensor<3xbf16> {dist.layout = #dist.layout<[{}]>, nn.scratch}
  nn.variable @w trainable : tensor<3xf32> = dense<1.0> : tensor<3xf32> {dist.layout = #dist.layout<[{}]>}
  // CHECK: nn.variable @v trainable
  // CHECK-NEXT: nn.variable @v.bf16 state_of @v
  nn.variable @v trainable : tensor<3xf32> = dense<1.0> : tensor<3xf32>
  // CHECK: nn.variable @mean
  // CHECK-NOT: nn.variable
  nn.variable @mean : tensor<3xf32> = dense<1.0> : tensor<3xf32>
  // INIT-LABEL: func.func @prepare()
  // CHECK-LABEL: func.func @prepare()
  // CHECK-NEXT: %[[W:.*]] = nn.read @w : tensor<3xf32>
  // CHECK-NEXT: %[[NARROW:.*]] = nn.cast %[[W]] {nn.outputs = ["named"]} : tensor<3xf32> -> tensor<3xbf16>
  // CHECK-NEXT: nn.write @w.bf16, %[[NARROW]]
  // CHECK-NEXT: %[[V:.*]] = nn.read @v
  // CHECK-NEXT: %[[NARROW:.*]] = nn.cast %[[V]]
  // CHECK-NEXT: nn.write @v.bf16, %[[NARROW]]
  // CHECK-NEXT: return
  // CHECK-LABEL: func.func @train_step
  func.func @train_step() -> tensor<3xbf16> attributes {nn.program = #nn.program<train_step>} {
    // CHECK-NEXT: %[[A:.*]] = nn.read @w.bf16 {nn.outputs = ["named"]} : tensor<3xbf16>
    %w = nn.read @w : tensor<3xf32>
    %a = nn.cast %w {nn.outputs = ["named"]} : tensor<3xf32> -> tensor<3xbf16>
    // CHECK-NEXT: %[[B:.*]] = nn.read @w.bf16 : tensor<3xbf16>
    %again = nn.read @w : tensor<3xf32>
    %b = nn.cast %again : tensor<3xf32> -> tensor<3xbf16>
    // CHECK-NEXT: %[[OLD:.*]] = nn.read @v : tensor<3xf32>
    // CHECK-NEXT: %[[C:.*]] = nn.read @v.bf16
    %v = nn.read @v : tensor<3xf32>
    %c = nn.cast %v : tensor<3xf32> -> tensor<3xbf16>
    // CHECK-NEXT: nn.cast %[[OLD]] : tensor<3xf32> -> tensor<3xf64>
    %wide = nn.cast %v : tensor<3xf32> -> tensor<3xf64>
    // CHECK-NEXT: %[[MEAN:.*]] = nn.read @mean
    // CHECK-NEXT: nn.cast %[[MEAN]] : tensor<3xf32> -> tensor<3xbf16>
    %mean = nn.read @mean : tensor<3xf32>
    %d = nn.cast %mean : tensor<3xf32> -> tensor<3xbf16>
    // CHECK-NEXT: nn.add %[[A]], %[[B]]
    %0 = nn.add %a, %b : tensor<3xbf16>
    // CHECK-NEXT: nn.add %{{.*}}, %[[C]]
    %1 = nn.add %0, %c : tensor<3xbf16>
    %2 = nn.add %1, %d : tensor<3xbf16>
    nn.write @mean, %mean : tensor<3xf32>
    return %2 : tensor<3xbf16>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    return
  }
}

// -----

// Nothing to share: no program.
// CHECK-LABEL: module @wide
// CHECK-NOT: @prepare
module @wide {
  nn.variable @w trainable : tensor<3xf32> = dense<1.0> : tensor<3xf32>
  func.func @train_step() -> tensor<3xf32> attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<3xf32>
    return %w : tensor<3xf32>
  }
  func.func @update() attributes {nn.program = #nn.program<update>} {
    return
  }
}
