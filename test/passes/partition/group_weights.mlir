// RUN: ashlar-opt %s -split-input-file -ashlar-group-weights | FileCheck %s

// Owners are balanced by the bytes of state: @a is the largest and goes to device 0; @b and @c to device 1, which then keeps as much as @a
// needs; @d to device 0, the first of equals. Initial values are computed by all.

dist.mesh @mesh <["dp" = 2]>
nn.variable @d trainable : tensor<2xf32>
nn.variable @c trainable : tensor<4xf32>
nn.variable @b trainable : tensor<4xf32>
nn.variable @a trainable : tensor<8xf32>
// CHECK: nn.variable @d.m state_of @d : tensor<2xf32> {dist.owner = 0 : i64}
// CHECK: nn.variable @c.m state_of @c : tensor<4xf32> {dist.owner = 1 : i64}
// CHECK: nn.variable @b.m state_of @b : tensor<4xf32> {dist.owner = 1 : i64}
// CHECK: nn.variable @a.m state_of @a : tensor<8xf32> {dist.owner = 0 : i64}
// CHECK: nn.variable @step : tensor<i64>
// CHECK-NOT: dist.owner
nn.variable @d.m state_of @d : tensor<2xf32>
nn.variable @c.m state_of @c : tensor<4xf32>
nn.variable @b.m state_of @b : tensor<4xf32>
nn.variable @a.m state_of @a : tensor<8xf32>
nn.variable @step : tensor<i64>
// CHECK-LABEL: func.func @init
func.func @init(%x: tensor<8xf32>, %m: tensor<8xf32>) attributes {nn.program = #nn.program<init>} {
  // CHECK-NEXT: nn.write @a, %arg0 : tensor<8xf32>
  // CHECK-NEXT: nn.write @a.m, %arg1 {dist.owner = 0 : i64} : tensor<8xf32>
  nn.write @a, %x : tensor<8xf32>
  nn.write @a.m, %m : tensor<8xf32>
  return
}
// CHECK-LABEL: func.func @train_step
func.func @train_step(%ga: tensor<8xf32>, %gb: tensor<4xf32>, %gc: tensor<4xf32>, %gd: tensor<2xf32>) attributes {nn.program = #nn.program<train_step>} {
  %da = nn.gradient %ga of @a : tensor<8xf32>
  %db = nn.gradient %gb of @b : tensor<4xf32>
  %dc = nn.gradient %gc of @c : tensor<4xf32>
  %dd = nn.gradient %gd of @d : tensor<2xf32>
  %m = nn.read @a.m : tensor<8xf32>
  // CHECK: %[[N:.*]] = nn.add
  %n = nn.add %m, %da : tensor<8xf32>
  // CHECK-NEXT: nn.write @a.m, %[[N]] {dist.owner = 0 : i64} : tensor<8xf32>
  nn.write @a.m, %n : tensor<8xf32>
  // CHECK-NEXT: %[[A:.*]] = dist.broadcast %[[N]] root = 0 over ["dp"] {cause = [#dist.end<kind = parameter_update, name = "a">], dist.owner = 0 : i64} : tensor<8xf32>
  // CHECK-NEXT: nn.write @a, %[[A]] : tensor<8xf32>
  nn.write @a, %n : tensor<8xf32>
  // CHECK-NEXT: %[[B:.*]] = dist.broadcast %{{.*}} root = 1 over ["dp"] {{.*}}dist.owner = 1
  // CHECK-NEXT: nn.write @b, %[[B]] : tensor<4xf32>
  nn.write @b, %db : tensor<4xf32>
  return
}

// -----

// State that all devices read, they all keep: here @w.m is returned. So they do with what its next value is computed from, @w.s.

dist.mesh @mesh <["dp" = 1, "tp" = 2]>
nn.variable @w trainable : tensor<4xf32>
nn.variable @v trainable : tensor<4xf32>
// CHECK: nn.variable @w.m state_of @w : tensor<4xf32>{{$}}
// CHECK: nn.variable @w.s state_of @w : tensor<4xf32>{{$}}
// CHECK: nn.variable @v.m state_of @v : tensor<4xf32> {dist.owner = 1 : i64}
nn.variable @w.m state_of @w : tensor<4xf32>
nn.variable @w.s state_of @w : tensor<4xf32>
nn.variable @v.m state_of @v : tensor<4xf32>
// CHECK-LABEL: func.func @train_step
func.func @train_step(%gw: tensor<4xf32>, %gv: tensor<4xf32>) -> tensor<4xf32> attributes {nn.program = #nn.program<train_step>} {
  %dw = nn.gradient %gw of @w : tensor<4xf32>
  %dv = nn.gradient %gv of @v : tensor<4xf32>
  %s = nn.read @w.s : tensor<4xf32>
  %sn = nn.add %s, %dw : tensor<4xf32>
  // CHECK: nn.write @w.m, %{{[a-z0-9]+}} : tensor<4xf32>
  nn.write @w.m, %sn : tensor<4xf32>
  // CHECK: dist.broadcast %{{.*}} root = 0 over ["tp"]
  nn.write @w, %sn : tensor<4xf32>
  // CHECK: nn.write @w.s, %{{[a-z0-9]+}} : tensor<4xf32>
  nn.write @w.s, %sn : tensor<4xf32>
  %m = nn.read @v.m : tensor<4xf32>
  %mn = nn.add %m, %dv : tensor<4xf32>
  // CHECK: nn.write @v.m, %{{.*}} {dist.owner = 1 : i64}
  nn.write @v.m, %mn : tensor<4xf32>
  // CHECK: dist.broadcast %{{.*}} root = 1 over ["tp"]
  nn.write @v, %mn : tensor<4xf32>
  %old = nn.read @w.m : tensor<4xf32>
  %sum = nn.add %old, %old : tensor<4xf32>
  return %sum : tensor<4xf32>
}

// -----

// Without any state, as with SGD, devices own equally many parameters, in turn.

dist.mesh @mesh <["dp" = 2]>
nn.variable @a trainable : tensor<8xf32>
nn.variable @b trainable : tensor<8xf32>
nn.variable @c trainable : tensor<4xf32>
nn.variable @d trainable : tensor<2xf32>
// CHECK-LABEL: func.func @train_step(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<4xf32>, %arg3: tensor<2xf32>) attributes {nn.program = #nn.program<train_step>} {
func.func @train_step(%ga: tensor<8xf32>, %gb: tensor<8xf32>, %gc: tensor<4xf32>, %gd: tensor<2xf32>) attributes {nn.program = #nn.program<train_step>} {
  %da = nn.gradient %ga of @a : tensor<8xf32>
  %db = nn.gradient %gb of @b : tensor<8xf32>
  %dc = nn.gradient %gc of @c : tensor<4xf32>
  %dd = nn.gradient %gd of @d : tensor<2xf32>
  // CHECK: %[[A:.*]] = dist.broadcast %{{.*}} root = 0 over ["dp"] {{.*}}dist.owner = 0
  // CHECK-NEXT: nn.write @a, %[[A]]
  nn.write @a, %da : tensor<8xf32>
  // CHECK-NEXT: %[[B:.*]] = dist.broadcast %{{.*}} root = 1 over ["dp"] {{.*}}dist.owner = 1
  // CHECK-NEXT: nn.write @b, %[[B]]
  nn.write @b, %db : tensor<8xf32>
  // CHECK-NEXT: %[[C:.*]] = dist.broadcast %{{.*}} root = 0 over ["dp"] {{.*}}dist.owner = 0
  // CHECK-NEXT: nn.write @c, %[[C]]
  nn.write @c, %dc : tensor<4xf32>
  // CHECK-NEXT: %[[D:.*]] = dist.broadcast %{{.*}} root = 1 over ["dp"] {{.*}}dist.owner = 1
  // CHECK-NEXT: nn.write @d, %[[D]]
  nn.write @d, %dd : tensor<2xf32>
  return
}

// -----

// On one device there is nothing to share.

dist.mesh @alone <["dp" = 1]>
nn.variable @w trainable : tensor<4xf32>
// CHECK: dist.mesh @alone
// CHECK-NOT: dist.owner
// CHECK-NOT: dist.broadcast
nn.variable @w.m state_of @w : tensor<4xf32>
func.func @train_step(%g: tensor<4xf32>) attributes {nn.program = #nn.program<train_step>} {
  %dw = nn.gradient %g of @w : tensor<4xf32>
  nn.write @w, %dw : tensor<4xf32>
  return
}
