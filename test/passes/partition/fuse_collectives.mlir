// Which collectives become one. The numbers of random programs before and after are compared by test/fuzz/pass_registry_test.cpp.

// RUN: ashlar-opt %s -split-input-file -ashlar-fuse-collectives | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-fuse-collectives | ashlar-opt -split-input-file | FileCheck %s

// Two gradients of id 1 are one sum, behind the producer of the second; what uses the first one's follows it. Id 2 has one member, id 0 is never
// fused, and neither is a parameter without an id.
// CHECK-LABEL: func.func @train_step
// CHECK-NOT: dist.all_reduce
// CHECK: %[[P:.*]] = nn.neg %arg0 : tensor<4xf32>
// CHECK-NEXT: %[[G:.*]]:2 = dist.all_reduce sum %arg0, %[[P]] over ["dp"]
// CHECK-SAME: cause = [#dist.end<kind = gradient, name = "a">, #dist.end<kind = gradient, name = "b">]
// CHECK-SAME: fusion = #dist.fusion<mode = id, number = 1>
// CHECK-SAME: : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: nn.exp %[[G]]#0
// CHECK: dist.all_reduce sum %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "c">]}
// CHECK: dist.all_reduce sum %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "zero">]}
// CHECK: dist.all_reduce sum %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "zero2">]}
// CHECK: dist.all_reduce sum %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "none">]}
// CHECK: dist.all_reduce sum %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "none2">]}
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @c : tensor<4xf32> {trainable, dist.comm_fusion = 2 : i64}
nn.variable @zero : tensor<4xf32> {trainable, dist.comm_fusion = 0 : i64}
nn.variable @zero2 : tensor<4xf32> {trainable, dist.comm_fusion = 0 : i64}
nn.variable @none : tensor<4xf32> {trainable}
nn.variable @none2 : tensor<4xf32> {trainable}
func.func @train_step(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<train_step>} {
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %ua = nn.exp %a : tensor<4xf32>
  %p = nn.neg %x : tensor<4xf32>
  %b = dist.all_reduce sum %p over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  %c0 = nn.tanh %x : tensor<4xf32>
  %c = dist.all_reduce sum %c0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  %z = dist.all_reduce sum %c0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "zero">]} : tensor<4xf32>
  %z2 = dist.all_reduce sum %p over ["dp"] {cause = [#dist.end<kind = gradient, name = "zero2">]} : tensor<4xf32>
  %n = dist.all_reduce sum %c0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "none">]} : tensor<4xf32>
  %n2 = dist.all_reduce sum %p over ["dp"] {cause = [#dist.end<kind = gradient, name = "none2">]} : tensor<4xf32>
  %s0 = nn.add %ua, %b : tensor<4xf32>
  %s1 = nn.add %s0, %c : tensor<4xf32>
  %s2 = nn.add %s1, %z : tensor<4xf32>
  %s3 = nn.add %s2, %z2 : tensor<4xf32>
  %s4 = nn.add %s3, %n : tensor<4xf32>
  %s5 = nn.add %s4, %n2 : tensor<4xf32>
  return %s5 : tensor<4xf32>
}

// -----

// Of one id, but another reduction, other axes, another element type and another kind: each is alone.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: dist.fusion
// CHECK: return
dist.mesh @mesh <["dp" = 2, "tp" = 2]>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @c : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @d : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @e : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @forward(%x: tensor<4xf32>, %h: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>, tensor<8xf32>) attributes {nn.program = #nn.program<run>} {
  %0 = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %1 = dist.all_reduce max %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  %2 = dist.all_reduce sum %x over ["tp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  %3 = dist.all_reduce sum %h over ["dp"] {cause = [#dist.end<kind = gradient, name = "d">]} : tensor<4xf64>
  %4 = dist.all_gather %x dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter_update, name = "e">]} : tensor<4xf32> -> tensor<8xf32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>, tensor<8xf32>
}

// -----

// Gathers and scatters keep their own dims. Parameters are known by their cause or because the gather reads them; of another op's cause, of
// state, and of what the model places nothing is fused.
// CHECK-LABEL: func.func @forward
// CHECK: %[[S:.*]]:2 = dist.reduce_scatter sum %arg0, %arg1 dim = 0, 1 over ["dp"]
// CHECK-SAME: : tensor<4x2xf32>, tensor<2x4xf32> -> tensor<2x2xf32>, tensor<2x2xf32>
// CHECK: %[[G:.*]]:2 = dist.all_gather %{{.*}}, %{{.*}} dim = 1, 0 over ["dp"] {{.*}} : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x4xf32>, tensor<4x2xf32>
// CHECK: dist.all_gather %arg2 dim = 0 over ["dp"] {dist.explicit}
// CHECK: dist.all_gather %arg2 dim = 0 over ["dp"] {cause = [#dist.end<kind = state_update, name = "m">]}
// CHECK: dist.all_gather %arg2 dim = 0 over ["dp"] {cause = [#dist.end<kind = op, name = "a">]}
// CHECK: return %[[S]]#0, %[[S]]#1, %[[G]]#0, %[[G]]#1
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<2x2xf32> {trainable, dist.comm_fusion = 3 : i64}
nn.variable @b : tensor<2x2xf32> {trainable, dist.comm_fusion = 3 : i64}
nn.variable @m : tensor<2x2xf32> {dist.comm_fusion = 3 : i64}
func.func @forward(%x: tensor<4x2xf32>, %y: tensor<2x4xf32>, %z: tensor<2x2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) attributes {nn.program = #nn.program<run>} {
  %a = nn.read @a : tensor<2x2xf32>
  %b = nn.read @b : tensor<2x2xf32>
  %flat = nn.transpose %b [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  %0 = dist.reduce_scatter sum %x dim = 0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4x2xf32> -> tensor<2x2xf32>
  %1 = dist.reduce_scatter sum %y dim = 1 over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<2x4xf32> -> tensor<2x2xf32>
  %2 = dist.all_gather %a dim = 1 over ["dp"] {cause = [#dist.end<kind = op, name = "fc1">]} : tensor<2x2xf32> -> tensor<2x4xf32>
  %3 = dist.all_gather %flat dim = 0 over ["dp"] {cause = [#dist.end<kind = op, name = "fc2">]} : tensor<2x2xf32> -> tensor<4x2xf32>
  %4 = dist.all_gather %z dim = 0 over ["dp"] {dist.explicit} : tensor<2x2xf32> -> tensor<4x2xf32>
  %5 = dist.all_gather %z dim = 0 over ["dp"] {cause = [#dist.end<kind = state_update, name = "m">]} : tensor<2x2xf32> -> tensor<4x2xf32>
  %6 = dist.all_gather %z dim = 0 over ["dp"] {cause = [#dist.end<kind = op, name = "a">]} : tensor<2x2xf32> -> tensor<4x2xf32>
  return %0, %1, %2, %3, %4, %5, %6
    : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// A parameter that is gathered in the forward and in the backward pass: what the loss depends on is not one with what only the gradient
// needs.
// CHECK-LABEL: func.func @train_step
// CHECK: %[[F:.*]]:2 = dist.all_gather {{.*}}fusion
// CHECK: nn.mul %[[F]]#0, %[[F]]#1
// CHECK: %[[B:.*]]:2 = dist.all_gather {{.*}}fusion
// CHECK: nn.add %[[B]]#0, %[[B]]#1
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<2xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<2xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @train_step(%x: tensor<2xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<train_step>} {
  %a = nn.read @a : tensor<2xf32>
  %b = nn.read @b : tensor<2xf32>
  %fa = dist.all_gather %a dim = 0 over ["dp"] : tensor<2xf32> -> tensor<4xf32>
  %fb = dist.all_gather %b dim = 0 over ["dp"] : tensor<2xf32> -> tensor<4xf32>
  %y = nn.mul %fa, %fb : tensor<4xf32>
  %ca = dist.all_gather %a dim = 0 over ["dp"] {again} : tensor<2xf32> -> tensor<4xf32>
  %cb = dist.all_gather %b dim = 0 over ["dp"] {again} : tensor<2xf32> -> tensor<4xf32>
  %z = nn.add %ca, %cb : tensor<4xf32>
  %s = dist.slice %z dim = 0 over ["dp"] : tensor<4xf32> -> tensor<2xf32>
  %g = nn.gradient %s of @a : tensor<2xf32>
  nn.write @a, %g : tensor<2xf32>
  return %y : tensor<4xf32>
}

// -----

// One sum is the gradient of two parameters (two biases that are added to one tensor): it is fused where both have one id, and alone where
// they do not.
// CHECK-LABEL: func.func @forward
// CHECK: dist.all_reduce sum %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">, #dist.end<kind = gradient, name = "c">]}
// CHECK: dist.all_reduce sum %{{[^,]*}}, %{{[^,]*}} over ["dp"]
// CHECK-SAME: "a">, {{.*}}"b">, {{.*}}"d">]
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @c : tensor<4xf32> {trainable, dist.comm_fusion = 2 : i64}
nn.variable @d : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @forward(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {nn.program = #nn.program<run>} {
  %0 = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">, #dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  %1 = dist.all_reduce sum %y over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">, #dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  %2 = dist.all_reduce sum %z over ["dp"] {cause = [#dist.end<kind = gradient, name = "d">]} : tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Each parameter is gathered in two steps of one kind over one axis: the first steps are one, and so are the second ones.
// CHECK-LABEL: func.func @forward
// CHECK: %[[ONE:.*]]:2 = dist.all_gather %{{.*}}, %{{.*}} dim = 0, 0 over ["dp"]
// CHECK: dist.slice %[[ONE]]#0
// CHECK: %[[TWO:.*]]:2 = dist.all_gather %{{.*}}, %{{.*}} dim = 0, 1 over ["dp"]
// CHECK: return %[[TWO]]#0, %[[TWO]]#1
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<2x2xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<2x2xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @forward() -> (tensor<4x2xf32>, tensor<2x4xf32>) attributes {nn.program = #nn.program<run>} {
  %a = nn.read @a : tensor<2x2xf32>
  %a1 = dist.all_gather %a dim = 0 over ["dp"] : tensor<2x2xf32> -> tensor<4x2xf32>
  %a2 = dist.slice %a1 dim = 0 over ["dp"] : tensor<4x2xf32> -> tensor<2x2xf32>
  %a3 = dist.all_gather %a2 dim = 0 over ["dp"] {cause = [#dist.end<kind = parameter, name = "a">]} : tensor<2x2xf32> -> tensor<4x2xf32>
  %b = nn.read @b : tensor<2x2xf32>
  %b1 = dist.all_gather %b dim = 0 over ["dp"] : tensor<2x2xf32> -> tensor<4x2xf32>
  %b2 = dist.slice %b1 dim = 0 over ["dp"] : tensor<4x2xf32> -> tensor<2x2xf32>
  %b3 = dist.all_gather %b2 dim = 1 over ["dp"] {cause = [#dist.end<kind = parameter, name = "b">]} : tensor<2x2xf32> -> tensor<2x4xf32>
  return %a3, %b3 : tensor<4x2xf32>, tensor<2x4xf32>
}

// -----

// What the loss depends on is not gathered together with what only the gradient needs.
// CHECK-LABEL: func.func @train_step
// CHECK-NOT: dist.fusion
// CHECK: return
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<2xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<2xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @train_step(%x: tensor<2xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<train_step>} {
  %a = nn.read @a : tensor<2xf32>
  %b = nn.read @b : tensor<2xf32>
  %y = dist.all_gather %a dim = 0 over ["dp"] : tensor<2xf32> -> tensor<4xf32>
  %z = dist.all_gather %b dim = 0 over ["dp"] : tensor<2xf32> -> tensor<4xf32>
  %s = dist.slice %z dim = 0 over ["dp"] : tensor<4xf32> -> tensor<2xf32>
  %g = nn.gradient %s of @a : tensor<2xf32>
  nn.write @a, %g : tensor<2xf32>
  return %y : tensor<4xf32>
}

// -----

// Whose gradient a sum is, its users say too: one that is reshaped first, and one that two parameters take. A sum that something else takes as well
// belongs to nobody.
// CHECK-LABEL: func.func @train_step
// CHECK: dist.all_reduce sum %{{[^,]*}}, %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = op, name = "x">, #dist.end<kind = op, name = "y">]
// CHECK: dist.all_reduce sum %{{[^,]*}} over ["dp"] {cause = [#dist.end<kind = op, name = "z">]} : tensor<4xf32>
dist.mesh @mesh <["dp" = 2]>
nn.variable @a trainable : tensor<1x4xf32> {dist.comm_fusion = 1 : i64}
nn.variable @b trainable : tensor<4xf32> {dist.comm_fusion = 1 : i64}
nn.variable @c trainable : tensor<4xf32> {dist.comm_fusion = 1 : i64}
nn.variable @d trainable : tensor<4xf32> {dist.comm_fusion = 1 : i64}
func.func @train_step(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<train_step>} {
  %0 = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = op, name = "x">]} : tensor<4xf32>
  %1 = dist.all_reduce sum %y over ["dp"] {cause = [#dist.end<kind = op, name = "y">]} : tensor<4xf32>
  %2 = dist.all_reduce sum %z over ["dp"] {cause = [#dist.end<kind = op, name = "z">]} : tensor<4xf32>
  %3 = nn.reshape %0 : tensor<4xf32> -> tensor<1x4xf32>
  %4 = nn.gradient %3 of @a : tensor<1x4xf32>
  %5 = nn.gradient %1 of @b : tensor<4xf32>
  %6 = nn.gradient %1 of @c : tensor<4xf32>
  %7 = nn.gradient %2 of @d : tensor<4xf32>
  return %2 : tensor<4xf32>
}
