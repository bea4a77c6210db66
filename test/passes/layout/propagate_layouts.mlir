// RUN: ashlar-opt %s -split-input-file -ashlar-propagate-layouts | FileCheck %s
// RUN: ashlar-opt %s -split-input-file '-ashlar-propagate-layouts=split-variables=true' | FileCheck %s --check-prefix=OPEN

dist.mesh @mesh <["dp" = 2, "tp" = 2]>

// Layouts flow forward and backward through element-wise ops, up to the arguments.
// CHECK-LABEL: func.func @forward_and_backward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}
// CHECK-SAME: -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>})
func.func @forward_and_backward(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: nn.add %[[X]], %[[Y]] {dist.layouts = [#dist.layout<[{"dp"}, {}]>]}
  %0 = nn.add %x, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A scalar that two tensors are multiplied by ties neither to the other: each has a copy of the broadcast.
// CHECK-LABEL: func.func @shared_scalar
// CHECK-SAME: %[[RATE:[a-z0-9]+]]: tensor<f32>
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8xf32> {dist.layout = #dist.layout<[{"dp"}]>}
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<8xf32> {dist.layout = #dist.layout<[{}]>}
func.func @shared_scalar(%rate: tensor<f32>, %x: tensor<8xf32> {dist.layout = #dist.layout<[{"dp"}]>}, %y: tensor<8xf32>) {
  %0 = nn.broadcast %rate dims = [] : tensor<f32> -> tensor<8xf32>
  // CHECK: nn.mul %[[X]], %{{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]}
  %1 = nn.mul %x, %0 : tensor<8xf32>
  // CHECK: nn.mul %[[Y]], %{{.*}} {dist.layouts = [#dist.layout<[{}]>]}
  %2 = nn.mul %y, %0 : tensor<8xf32>
  return
}

// The two free dims of a product and its contracted dim each pass their axis on.
// CHECK-LABEL: func.func @matmul
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<16x4xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
func.func @matmul(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                  %w: tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}, %v: tensor<16x4xf32>) -> tensor<4x4xf32> {
  // CHECK: nn.matmul %[[X]], %[[W]] {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}]>]}
  %0 = nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK: nn.matmul %{{.*}}, %[[V]] {dist.layouts = [#dist.layout<[{"dp"}, {}]>]}
  %1 = nn.matmul %0, %v : tensor<4x16xf32>, tensor<16x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// Where layouts disagree the common major axes go on: none here, and {"dp"} of {"dp", "tp"} and {"dp"}.
// CHECK-LABEL: func.func @conflict
func.func @conflict(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}, %y: tensor<4xf32> {dist.layout = #dist.layout<[{"tp"}]>},
                    %z: tensor<4xf32> {dist.layout = #dist.layout<[{"dp", "tp"}]>}) {
  // CHECK: nn.add {{.*}} {dist.layouts = [#dist.layout<[{}]>]}
  %0 = nn.add %x, %y : tensor<4xf32>
  // CHECK: nn.add {{.*}} {dist.layouts = [#dist.layout<[{"dp", "tp"}]>]}
  %1 = nn.add %x, %z : tensor<4xf32>
  return
}

// An axis that serves one factor of an op serves no other.
// CHECK-LABEL: func.func @one_factor_an_axis
func.func @one_factor_an_axis(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                              %w: tensor<8x16xf32> {dist.layout = #dist.layout<[{}, {"dp"}]>}) {
  // CHECK: nn.matmul {{.*}} {dist.layouts = [#dist.layout<[{}, {}]>]}
  %0 = nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  return
}

// Through a reshape the split of a dim becomes the split of its major factor; a broadcast has it only where its operand has.
// CHECK-LABEL: func.func @reshape_and_broadcast
func.func @reshape_and_broadcast(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp", "tp"}, {}]>}) {
  // CHECK: nn.reshape {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}, {}]>]}
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<2x2x8xf32>
  // CHECK: nn.reshape {{.*}} {dist.layouts = [#dist.layout<[{"dp", "tp"}]>]}
  %1 = nn.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK: nn.broadcast {{.*}} {dist.layouts = [#dist.layout<[{"dp", "tp"}, {}, {}]>]}
  %2 = nn.broadcast %x dims = [0, 2] : tensor<4x8xf32> -> tensor<4x3x8xf32>
  return
}

// A softmax whose rows are whole stays one op; one whose rows are split is written out, and its parts are split.
// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>},
                %y: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) {
  // CHECK: nn.softmax {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {}]>]}
  %0 = nn.softmax %x : tensor<4x8xf32>
  // CHECK: %[[MAX:.*]] = nn.reduce max {{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]}
  // CHECK: %[[ROWS:.*]] = nn.broadcast %[[MAX]] {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}]>]}
  // CHECK: nn.reduce sum {{.*}} {dist.layouts = [#dist.layout<[{"dp"}]>]}
  // CHECK: nn.mul {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}]>]}
  // CHECK-NOT: nn.softmax
  %1 = nn.softmax %y : tensor<4x8xf32>
  return
}

// Constants and indices are copied for each use, and take the layout of that use.
// CHECK-LABEL: func.func @sources
func.func @sources(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}, %y: tensor<4xf32> {dist.layout = #dist.layout<[{"tp"}]>}) {
  // CHECK-DAG: %[[A:.*]] = nn.constant {dist.layouts = [#dist.layout<[{"dp"}]>]} dense<2.000000e+00>
  // CHECK-DAG: %[[B:.*]] = nn.constant {dist.layouts = [#dist.layout<[{"tp"}]>]} dense<2.000000e+00>
  %c = nn.constant dense<2.0> : tensor<4xf32>
  // CHECK: nn.mul %{{.*}}, %[[A]]
  %0 = nn.mul %x, %c : tensor<4xf32>
  // CHECK: nn.mul %{{.*}}, %[[B]]
  %1 = nn.mul %y, %c : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2]>

// A variable is whole on every device unless inference may split it; all functions see the one layout.
// CHECK: nn.variable @w : tensor<4xf32> {dist.layout = #dist.layout<[{}]>}
// OPEN: nn.variable @w : tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}
nn.variable @w : tensor<4xf32>

func.func @write(%x: tensor<4xf32> {dist.layout = #dist.layout<[{"dp"}]>}) {
  nn.write @w, %x : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @read
// OPEN-LABEL: func.func @read
func.func @read() -> tensor<4xf32> {
  // CHECK: nn.read @w {dist.layouts = [#dist.layout<[{}]>]}
  // OPEN: nn.read @w {dist.layouts = [#dist.layout<[{"dp"}]>]}
  %0 = nn.read @w : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh <["x" = 3]>

// An axis that does not divide a dim does not come over to it.
// CHECK-LABEL: func.func @uneven
func.func @uneven(%x: tensor<6x4xf32> {dist.layout = #dist.layout<[{"x"}, {}]>}) {
  // CHECK: nn.reshape {{.*}} {dist.layouts = [#dist.layout<[{}, {}, {}]>]}
  %0 = nn.reshape %x : tensor<6x4xf32> -> tensor<2x3x4xf32>
  return
}

// -----

dist.mesh @mesh <["dp" = 2, "tp" = 2]>

// Inference adds axes to open dims of a given layout, and to no other.
// CHECK-LABEL: func.func @open_dims
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}
func.func @open_dims(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.open = array<i64: 1>},
                     %y: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>, dist.open = array<i64>}) {
  // CHECK: nn.add %[[X]], %[[Y]] {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}]>]}
  %0 = nn.add %x, %y : tensor<4x8xf32>
  return
}

// A layout given to the result of an op holds for the value, whatever its operands have.
// CHECK-LABEL: func.func @given_result
func.func @given_result(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  // CHECK: nn.relu {{.*}} {dist.layouts = [#dist.layout<[{}, {"tp"}]>]}
  %0 = nn.relu %x {dist.layouts = [#dist.layout<[{}, {"tp"}]>]} : tensor<4x8xf32>
  // CHECK: nn.tanh {{.*}} {dist.layouts = [#dist.layout<[{}, {"tp"}]>]}
  %1 = nn.tanh %0 : tensor<4x8xf32>
  // CHECK: nn.exp {{.*}} {dist.layouts = [#dist.layout<[{"tp"}, {"dp"}]>]}
  %2 = nn.exp %1 {dist.layouts = [#dist.layout<[{"tp"}, {"dp"}]>], dist.opens = [array<i64>], dist.priorities = array<i64: 0>} : tensor<4x8xf32>
  return
}

// Lower priorities reach their fixpoint first; a layout whose turn has not come neither gives nor takes axes.
// CHECK-LABEL: func.func @priorities
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
// CHECK-SAME: %[[Z:[a-z0-9]+]]: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}
func.func @priorities(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.priority = 1 : i64},
                      %y: tensor<4x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>},
                      %z: tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>, dist.open = array<i64: 0>, dist.priority = 2 : i64}) {
  // CHECK: nn.add {{.*}} {dist.layouts = [#dist.layout<[{"tp"}, {}]>]}
  %0 = nn.add %x, %y : tensor<4x8xf32>
  // CHECK: nn.mul {{.*}} {dist.layouts = [#dist.layout<[{"dp"}, {"tp"}]>]}
  %1 = nn.mul %x, %z : tensor<4x8xf32>
  return
}

// Inputs and outputs of one name are one: another program sees what this one infers.
// CHECK-LABEL: func.func @shares_input
// CHECK-SAME: {dist.layout = #dist.layout<[{"dp"}, {}]>, nn.name = "labels"}
func.func @shares_input(%x: tensor<4x8xf32> {nn.name = "labels"}) -> (tensor<4x8xf32> {nn.name = "y"}) {
  return %x : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @infers_input
// CHECK-SAME: {dist.layout = #dist.layout<[{"dp"}, {}]>, nn.name = "labels"}
func.func @infers_input(%x: tensor<4x8xf32> {nn.name = "labels"}, %z: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) {
  %0 = nn.add %x, %z : tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh <["x" = 2, "y" = 2]>

// An input of several functions is one tensor, so it has one layout, given or inferred.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: dist.layout = #dist.layout<[{"x"}]>, nn.name = "a"
// CHECK-SAME: dist.layout = #dist.layout<[{"y"}]>, nn.name = "b"
func.func @train_step(%a: tensor<4xf32> {nn.name = "a", dist.layout = #dist.layout<[{"x"}]>},
                      %b: tensor<4xf32> {nn.name = "b"}) -> (tensor<4xf32> {dist.layout = #dist.layout<[{"y"}]>}) attributes {nn.program = #nn.program<train_step>} {
  return %b : tensor<4xf32>
}

// CHECK-LABEL: func.func @eval_step
// CHECK-SAME: dist.layout = #dist.layout<[{"x"}]>, nn.name = "a"
// CHECK-SAME: dist.layout = #dist.layout<[{"y"}]>, nn.name = "b"
func.func @eval_step(%a: tensor<4xf32> {nn.name = "a"}, %b: tensor<4xf32> {nn.name = "b"}) attributes {nn.program = #nn.program<eval_step>} {
  return
}

// -----

dist.mesh @mesh <["x" = 2, "y" = 5, "one" = 1]>

// An axis of size 1 splits nothing and is left out: after "x" it could belong to either of the two dims that are joined.
// CHECK-LABEL: func.func @unit_axis
// CHECK-SAME: dist.layout = #dist.layout<[{"x"}, {"y"}]>
func.func @unit_axis(%x: tensor<2x5xf32> {dist.layout = #dist.layout<[{"x"}, {"one", "y"}]>}) -> tensor<10xf32> {
  // CHECK: nn.reshape {{.*}} {dist.layouts = [#dist.layout<[{"x", "y"}]>]}
  %0 = nn.reshape %x : tensor<2x5xf32> -> tensor<10xf32>
  return %0 : tensor<10xf32>
}
