// What cannot be fused, and settings that contradict each other.

// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-fuse-collectives

// One member needs the other's result.
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @needs_itself(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{"a" is here}}
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %n = nn.neg %a : tensor<4xf32>
  // expected-error @below {{of parameter "b" has fusion id 1 like that of parameter "a", whose result it needs; give the two parameters different ids}}
  %b = dist.all_reduce sum %n over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

// With nothing in between.
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @needs_itself_at_once(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{"a" is here}}
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  // expected-error @below {{of parameter "b" has fusion id 1 like that of parameter "a", whose result it needs}}
  %b = dist.all_reduce sum %a over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

// Each group could be, but not both: b needs c, which is one with d, which needs a, which is one with b.
dist.mesh @mesh <["dp" = 2]>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @c : tensor<4xf32> {trainable, dist.comm_fusion = 2 : i64}
nn.variable @d : tensor<4xf32> {trainable, dist.comm_fusion = 2 : i64}
func.func @groups_need_each_other(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-note @below {{"a" is here}}
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  %d0 = nn.neg %a : tensor<4xf32>
  %d = dist.all_reduce sum %d0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "d">]} : tensor<4xf32>
  %c = dist.all_reduce sum %y over ["dp"] {cause = [#dist.end<kind = gradient, name = "c">]} : tensor<4xf32>
  %b0 = nn.neg %c : tensor<4xf32>
  // expected-error @below {{of parameter "b" has fusion id 1 like that of parameter "a", whose result it needs once those of fusion id 2 are one; give the two parameters different ids}}
  %b = dist.all_reduce sum %b0 over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  return %b, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

// A variable that is read after it was written: the order of both is kept, and closes the cycle.
dist.mesh @mesh <["dp" = 2]>
nn.variable @v : tensor<4xf32>
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
nn.variable @b : tensor<4xf32> {trainable, dist.comm_fusion = 1 : i64}
func.func @through_a_variable(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-note @below {{"a" is here}}
  %a = dist.all_reduce sum %x over ["dp"] {cause = [#dist.end<kind = gradient, name = "a">]} : tensor<4xf32>
  nn.write @v, %a : tensor<4xf32>
  %v = nn.read @v : tensor<4xf32>
  // expected-error @below {{of parameter "b" has fusion id 1 like that of parameter "a", whose result it needs}}
  %b = dist.all_reduce sum %v over ["dp"] {cause = [#dist.end<kind = gradient, name = "b">]} : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @below {{has dist.comm_fusion -1 : i64, not an i64 >= 0}}
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = -1 : i64}

// -----

// expected-error @below {{has dist.comm_fusion "one", not an i64 >= 0}}
nn.variable @a : tensor<4xf32> {trainable, dist.comm_fusion = "one"}
