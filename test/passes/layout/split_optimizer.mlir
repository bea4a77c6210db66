// RUN: ashlar-opt %s -split-input-file -ashlar-split-optimizer='level=1 threshold=512' | FileCheck %s --check-prefixes=CHECK,ONE,LEVEL1
// RUN: ashlar-opt %s -split-input-file -ashlar-split-optimizer='level=2 threshold=512' | FileCheck %s --check-prefixes=CHECK,ONE,LEVEL2
// RUN: ashlar-opt %s -split-input-file -ashlar-split-optimizer='level=3 threshold=512' | FileCheck %s --check-prefixes=CHECK,THREE,LEVEL2

// A parameter of 512 bytes, at the threshold, is split; one of 508, a byte less than it could have, is not. Forward and backward compute as
// before: at level 3 each on a copy that is gathered for it, and the backward phase reads again.

dist.mesh @mesh <["dp" = 4]>
// ONE: nn.variable @w trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{}, {}]>}
// THREE: nn.variable @w trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.origin = [#dist.origin<source = "optimizer_parallel", axis = "dp">]}
nn.variable @w trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{}, {}]>}
// CHECK: nn.variable @w.momentum state_of @w : tensor<16x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.origin = [#dist.origin<source = "optimizer_parallel", axis = "dp">]}
nn.variable @w.momentum state_of @w : tensor<16x8xf32> {dist.layout = #dist.layout<[{}, {}]>}
// A state that is not shaped as its parameter is not split with it.
// CHECK: nn.variable @w.count state_of @w : tensor<f32> {dist.layout = #dist.layout<[]>}
nn.variable @w.count state_of @w : tensor<f32> {dist.layout = #dist.layout<[]>}
// CHECK: nn.variable @b trainable : tensor<127xf32> {dist.layout = #dist.layout<[{}]>, dist.replicated = #dist.replicated<reason = below_threshold, bytes = 508, threshold = 512>}
nn.variable @b trainable : tensor<127xf32> {dist.layout = #dist.layout<[{}]>}

// CHECK-LABEL: func.func @train_step
func.func @train_step(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<f32> {dist.layout = #dist.layout<[]>}) attributes {nn.program = #nn.program<train_step>} {
  // ONE: %[[W:.*]] = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>]}
  // ONE: nn.matmul %{{.*}}, %[[W]] transpose_b
  // THREE: %[[OLD:.*]] = nn.read @w {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  // THREE: %[[W:.*]] = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>]}
  // THREE-NEXT: nn.matmul %{{.*}}, %[[W]] transpose_b
  %w = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32>
  %b = nn.read @b {dist.layouts = [#dist.layout<[{}]>]} : tensor<127xf32>
  %v = nn.read @w.momentum {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32>
  %y = nn.matmul %x, %w transpose_b {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  %l = nn.reduce sum %y dims = [0, 1] {dist.layouts = [#dist.layout<[]>]} : tensor<4x16xf32> -> tensor<f32>
  // THREE: %[[AGAIN:.*]] = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>], dist.read_again}
  // THREE-NEXT: nn.matmul %{{.*}}, %[[AGAIN]] {dist.layouts = [#dist.layout<[{"dp"}, {}]>]}
  %dx = nn.matmul %y, %w {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  // CHECK: nn.matmul {{.*}} transpose_a {dist.layouts = [#dist.layout<[{}, {}]>]}
  %g = nn.matmul %y, %dx transpose_a {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<4x16xf32>, tensor<4x8xf32> -> tensor<16x8xf32>
  // CHECK: nn.gradient %{{.*}} of @w {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  %dw = nn.gradient %g of @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32>
  // CHECK: nn.gradient %{{.*}} of @b {dist.layouts = [#dist.layout<[{}]>]}
  %db = nn.gradient %b of @b {dist.layouts = [#dist.layout<[{}]>]} : tensor<127xf32>
  // The update follows by inference.
  // CHECK: %[[V:.*]] = nn.add {{.*}}dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  %vn = nn.add %v, %dw {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32>
  nn.write @w.momentum, %vn : tensor<16x8xf32>
  // THREE: nn.sub %[[OLD]], %[[V]] {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  // ONE: nn.sub %[[W]], %[[V]] {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  %n = nn.sub %w, %vn {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32>
  nn.write @w, %n : tensor<16x8xf32>
  // CHECK: nn.sub {{.*}}dist.layouts = [#dist.layout<[{}]>]
  %nb = nn.sub %b, %db {dist.layouts = [#dist.layout<[{}]>]} : tensor<127xf32>
  nn.write @b, %nb : tensor<127xf32>
  return %l : tensor<f32>
}

// Initial values are computed in pieces.
// CHECK-LABEL: func.func @init
func.func @init() attributes {nn.program = #nn.program<init>} {
  // CHECK: nn.constant {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  %v = nn.constant {dist.layouts = [#dist.layout<[{}, {}]>]} dense<0.0> : tensor<16x8xf32>
  nn.write @w.momentum, %v : tensor<16x8xf32>
  return
}

// -----

// Which dims are split: further where a rule splits them already, whole groups in one dim where that leaves as little, several where it does
// not. What is said of a parameter by name counts more than the threshold; one that no axis divides, or that nothing repeats, stays whole.

dist.mesh @mesh <["dp" = 2, "tp" = 4]>
// ONE: @rows trainable : {{.*}} {dist.layout = #dist.layout<[{"tp"}, {}]>
// CHECK: @rows.state state_of @rows : {{.*}} {dist.layout = #dist.layout<[{"tp", "dp"}, {}]>
nn.variable @rows trainable : tensor<64x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
nn.variable @rows.state state_of @rows : tensor<64x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
// CHECK: @columns.state state_of @columns : {{.*}} {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>
nn.variable @columns trainable : tensor<8x128xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
nn.variable @columns.state state_of @columns : tensor<8x128xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
// CHECK: @flat.state state_of @flat : {{.*}} {dist.layout = #dist.layout<[{}, {"dp", "tp"}]>
nn.variable @flat trainable : tensor<2x1024xf32> {dist.layout = #dist.layout<[{}, {}]>}
nn.variable @flat.state state_of @flat : tensor<2x1024xf32> {dist.layout = #dist.layout<[{}, {}]>}
// CHECK: @square.state state_of @square : {{.*}} {dist.layout = #dist.layout<[{"dp"}, {"tp"}, {}]>
nn.variable @square trainable : tensor<6x4x6xf32> {dist.layout = #dist.layout<[{}, {}, {}]>}
nn.variable @square.state state_of @square : tensor<6x4x6xf32> {dist.layout = #dist.layout<[{}, {}, {}]>}
// CHECK: @asked.state state_of @asked : {{.*}} {dist.layout = #dist.layout<[{"dp", "tp"}]>
nn.variable @asked trainable : tensor<10xf32> {dist.layout = #dist.layout<[{}]>, dist.optimizer_parallel = true}
nn.variable @asked.state state_of @asked : tensor<10xf32> {dist.layout = #dist.layout<[{}]>}
// CHECK: @declined trainable : {{.*}}dist.replicated = #dist.replicated<reason = opted_out, bytes = 4096, threshold = 512>
nn.variable @declined trainable : tensor<1024xf32> {dist.layout = #dist.layout<[{}]>, dist.optimizer_parallel = false}
// CHECK: @used_up trainable : {{.*}}dist.replicated = #dist.replicated<reason = nothing_replicated, bytes = 512, threshold = 512>
nn.variable @used_up trainable : tensor<1024xf32> {dist.layout = #dist.layout<[{"dp", "tp"}]>}
// CHECK: @scalar trainable : {{.*}}dist.replicated = #dist.replicated<reason = too_few_elements, bytes = 4, threshold = 512>
nn.variable @scalar trainable : tensor<f32> {dist.layout = #dist.layout<[]>, dist.optimizer_parallel = true}
// CHECK-LABEL: func.func @train_step
func.func @train_step(%rows: tensor<64x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>},
                      %columns: tensor<8x128xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>},
                      %flat: tensor<2x1024xf32> {dist.layout = #dist.layout<[{}, {}]>},
                      %square: tensor<6x4x6xf32> {dist.layout = #dist.layout<[{}, {}, {}]>},
                      %asked: tensor<10xf32> {dist.layout = #dist.layout<[{}]>},
                      %large: tensor<1024xf32> {dist.layout = #dist.layout<[{}]>},
                      %scalar: tensor<f32> {dist.layout = #dist.layout<[]>}) attributes {nn.program = #nn.program<train_step>} {
  %0 = nn.gradient %rows of @rows {dist.layouts = [#dist.layout<[{"tp"}, {}]>]} : tensor<64x8xf32>
  %1 = nn.gradient %columns of @columns {dist.layouts = [#dist.layout<[{}, {"tp"}]>]} : tensor<8x128xf32>
  %2 = nn.gradient %flat of @flat {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<2x1024xf32>
  %3 = nn.gradient %square of @square {dist.layouts = [#dist.layout<[{}, {}, {}]>]} : tensor<6x4x6xf32>
  %4 = nn.gradient %asked of @asked {dist.layouts = [#dist.layout<[{}]>]} : tensor<10xf32>
  %5 = nn.gradient %large of @declined {dist.layouts = [#dist.layout<[{}]>]} : tensor<1024xf32>
  %6 = nn.gradient %large of @used_up {dist.layouts = [#dist.layout<[{"dp", "tp"}]>]} : tensor<1024xf32>
  %7 = nn.gradient %scalar of @scalar {dist.layouts = [#dist.layout<[]>]} : tensor<f32>
  return
}

// -----

// A parameter that is only used in bf16: the devices store pieces of the f32 at every level, and gather them after they were converted.

dist.mesh @mesh <["dp" = 4]>
// CHECK: @w trainable : tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>
nn.variable @w trainable : tensor<16x16xf32> {dist.layout = #dist.layout<[{}, {}]>}
// CHECK-LABEL: func.func @train_step
func.func @train_step(%x: tensor<4x16xbf16> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<4x16xbf16> {dist.layout = #dist.layout<[{"dp"}, {}]>}) attributes {nn.program = #nn.program<train_step>} {
  // CHECK: %[[OLD:.*]] = nn.read @w {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  // CHECK: %[[W:.*]] = nn.read @w {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  // CHECK-NEXT: %[[C:.*]] = nn.cast %[[W]] {dist.layouts = [#dist.layout<[{}, {}]>]}
  // CHECK-NEXT: nn.matmul %{{.*}}, %[[C]] transpose_b
  %w = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32>
  %c = nn.cast %w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32> -> tensor<16x16xbf16>
  %y = nn.matmul %x, %c transpose_b {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x16xbf16>, tensor<16x16xbf16> -> tensor<4x16xbf16>
  // THREE: %[[V:.*]] = nn.read @w {dist.layouts = [#dist.layout<[{"dp"}, {}]>]{{.*}}dist.read_again}
  // THREE-NEXT: %[[D:.*]] = nn.cast %[[V]] {dist.layouts = [#dist.layout<[{}, {}]>]}
  // THREE-NEXT: nn.matmul %{{.*}}, %[[D]] {dist.layouts
  // ONE-NOT: nn.read
  // ONE: nn.matmul %{{.*}}, %[[C]] {dist.layouts
  %dx = nn.matmul %y, %c {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x16xbf16>, tensor<16x16xbf16> -> tensor<4x16xbf16>
  %g = nn.matmul %y, %dx transpose_a {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<16x16xf32>
  %dw = nn.gradient %g of @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32>
  // CHECK: nn.sub %[[OLD]]
  %n = nn.sub %w, %dw {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32>
  nn.write @w, %n : tensor<16x16xf32>
  return %y : tensor<4x16xbf16>
}

// -----

// A parameter that the training step uses in bf16 only, but the evaluation in f32: at levels 1 and 2 the devices store the whole of it.

dist.mesh @mesh <["dp" = 4]>
// ONE: @w trainable : tensor<16x16xf32> {dist.layout = #dist.layout<[{}, {}]>}
// THREE: @w trainable : tensor<16x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>
nn.variable @w trainable : tensor<16x16xf32> {dist.layout = #dist.layout<[{}, {}]>}
// CHECK-LABEL: func.func @train_step
func.func @train_step(%x: tensor<4x16xbf16> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<4x16xbf16> {dist.layout = #dist.layout<[{"dp"}, {}]>}) attributes {nn.program = #nn.program<train_step>} {
  %w = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32>
  %c = nn.cast %w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32> -> tensor<16x16xbf16>
  %y = nn.matmul %x, %c transpose_b {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x16xbf16>, tensor<16x16xbf16> -> tensor<4x16xbf16>
  %g = nn.matmul %y, %x transpose_a {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<4x16xbf16>, tensor<4x16xbf16> -> tensor<16x16xf32>
  %dw = nn.gradient %g of @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32>
  nn.write @w, %dw : tensor<16x16xf32>
  return %y : tensor<4x16xbf16>
}
func.func @eval_step(%x: tensor<4x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<4x16xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) attributes {nn.program = #nn.program<eval_step>} {
  %w = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x16xf32>
  %y = nn.matmul %x, %w transpose_b {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// A step that adds up gradients, and updates in a function of its own: the sums are whole at level 1, and split with the state from level 2 on.
// The update takes shards of them, so what it computes of all gradients, such as a norm, is computed on shards.

dist.mesh @mesh <["dp" = 4]>
nn.variable @w trainable : tensor<128xf32> {dist.layout = #dist.layout<[{}]>}
// LEVEL1: @w.gradient state_of @w : tensor<128xf32> {dist.layout = #dist.layout<[{}]>}
// LEVEL2: @w.gradient state_of @w : tensor<128xf32> {dist.layout = #dist.layout<[{"dp"}]>
nn.variable @w.gradient state_of @w : tensor<128xf32> {dist.layout = #dist.layout<[{}]>}
// LEVEL1: @w.momentum state_of @w : tensor<128xf32> {dist.layout = #dist.layout<[{"dp"}]>
// LEVEL2: @w.momentum state_of @w : tensor<128xf32> {dist.layout = #dist.layout<[{"dp"}]>
nn.variable @w.momentum state_of @w : tensor<128xf32> {dist.layout = #dist.layout<[{}]>}
// CHECK-LABEL: func.func @train_step
func.func @train_step(%x: tensor<128xf32> {dist.layout = #dist.layout<[{}]>}) attributes {nn.program = #nn.program<train_step>} {
  // LEVEL1: nn.gradient %{{.*}} of @w {dist.layouts = [#dist.layout<[{}]>]}
  // LEVEL2: nn.gradient %{{.*}} of @w {dist.layouts = [#dist.layout<[{"dp"}]>]
  %g = nn.gradient %x of @w {dist.layouts = [#dist.layout<[{}]>]} : tensor<128xf32>
  %s = nn.read @w.gradient {dist.layouts = [#dist.layout<[{}]>]} : tensor<128xf32>
  // LEVEL1: nn.add {{.*}} {dist.layouts = [#dist.layout<[{}]>]}
  // LEVEL2: nn.add {{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]
  %n = nn.add %s, %g {dist.layouts = [#dist.layout<[{}]>]} : tensor<128xf32>
  nn.write @w.gradient, %n : tensor<128xf32>
  return
}
// CHECK-LABEL: func.func @update
func.func @update() attributes {nn.program = #nn.program<update>} {
  // CHECK: nn.read @w.gradient {dist.layouts = [#dist.layout<[{"dp"}]>]
  %g = nn.read @w.gradient {dist.layouts = [#dist.layout<[{}]>]} : tensor<128xf32>
  %v = nn.read @w.momentum {dist.layouts = [#dist.layout<[{}]>]} : tensor<128xf32>
  // CHECK: nn.add {{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]
  %n = nn.add %v, %g {dist.layouts = [#dist.layout<[{}]>]} : tensor<128xf32>
  nn.write @w.momentum, %n : tensor<128xf32>
  // CHECK: nn.mul {{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]
  %square = nn.mul %g, %g {dist.layouts = [#dist.layout<[{}]>]} : tensor<128xf32>
  return
}

// -----

// A parameter that a step converts once, before its micro-batches, and that nothing else uses is a master copy: shards of it are stored at every
// level. Level 3 stores shards of the copy, too, and gathers them where they are used.

dist.mesh @mesh <["dp" = 4]>
// CHECK: nn.variable @w trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>
nn.variable @w trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{}, {}]>}
// ONE: nn.variable @w.bf16 state_of @w : tensor<16x8xbf16> {dist.layout = #dist.layout<[{}, {}]>, nn.scratch}
// THREE: nn.variable @w.bf16 state_of @w : tensor<16x8xbf16> {dist.layout = #dist.layout<[{"dp"}, {}]>, {{.*}}nn.scratch}
nn.variable @w.bf16 state_of @w : tensor<16x8xbf16> {dist.layout = #dist.layout<[{}, {}]>, nn.scratch}

// CHECK-LABEL: func.func @prepare
func.func @prepare() attributes {nn.program = #nn.program<prepare>} {
  // CHECK: nn.read @w {dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  %w = nn.read @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32>
  // CHECK: nn.cast %{{.*}}dist.layouts = [#dist.layout<[{"dp"}, {}]>]
  %narrow = nn.cast %w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32> -> tensor<16x8xbf16>
  nn.write @w.bf16, %narrow : tensor<16x8xbf16>
  return
}

// CHECK-LABEL: func.func @train_step
func.func @train_step(%x: tensor<4x8xbf16> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<f32> {dist.layout = #dist.layout<[]>}) attributes {nn.program = #nn.program<train_step>} {
  // CHECK: nn.read @w.bf16 {dist.layouts = [#dist.layout<[{}, {}]>]}
  %w = nn.read @w.bf16 {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xbf16>
  %y = nn.matmul %x, %w transpose_b {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x8xbf16>, tensor<16x8xbf16> -> tensor<4x16xbf16>
  %wide = nn.cast %y {dist.layouts = [#dist.layout<[{"dp"}, {}]>]} : tensor<4x16xbf16> -> tensor<4x16xf32>
  %l = nn.reduce sum %wide dims = [0, 1] {dist.layouts = [#dist.layout<[]>]} : tensor<4x16xf32> -> tensor<f32>
  %g = nn.matmul %y, %x transpose_a {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<4x16xbf16>, tensor<4x8xbf16> -> tensor<16x8xf32>
  %dw = nn.gradient %g of @w {dist.layouts = [#dist.layout<[{}, {}]>]} : tensor<16x8xf32>
  return %l : tensor<f32>
}
