// RUN: ashlar-opt %s -split-input-file '-ashlar-propagate-layouts=split-variables=true' | FileCheck %s

// Each layout says from which given layout its axes came and along which op they arrived; one that splits nothing has nothing to say.
dist.mesh @mesh <["dp" = 2, "tp" = 2]>
// CHECK: nn.variable @fc1.weight {{.*}} {dist.layout = #dist.layout<[{"tp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22*.weight\22 (job:3)">]}
nn.variable @fc1.weight trainable : tensor<8x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22*.weight\22 (job:3)">]}
// CHECK: nn.variable @fc1.bias {{.*}} {dist.layout = #dist.layout<[{"tp"}]>, dist.origin = [#dist.origin<source = "rule \22*.weight\22 (job:3)", path = "fc1", op = "nn.broadcast">]}
nn.variable @fc1.bias trainable : tensor<8xf32>
// CHECK: nn.variable @fc1.weight.momentum : {{.*}}, dist.origin = [#dist.origin<source = "rule \22*.weight\22 (job:3)", path = "fc1.weight", op = "nn.write">]}
nn.variable @fc1.weight.momentum : tensor<8x8xf32>
// CHECK: nn.variable @scale : tensor<8xf32> {dist.layout = #dist.layout<[{}]>}
nn.variable @scale : tensor<8xf32>

// CHECK-LABEL: func.func @f
// CHECK-SAME: {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22x\22 (job:2)">]}
// CHECK-SAME: -> (tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>, dist.origin = [#dist.origin<source = {{.*}}, op = "func.return">, #dist.origin<source = {{.*}}, axis = "tp", op = "func.return">]
func.func @f(%x: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22x\22 (job:2)">]}) -> tensor<8x8xf32> {
  %w = nn.read @fc1.weight : tensor<8x8xf32>
  %b = nn.read @fc1.bias : tensor<8xf32>
  // CHECK: nn.matmul {{.*}}, dist.origins = {{\[\[}}#dist.origin<source = "rule \22x\22 (job:2)", axis = "dp", path = "fc1", op = "nn.matmul">, #dist.origin<source = "rule \22*.weight\22 (job:3)", axis = "tp", path = "fc1", op = "nn.matmul">]]}
  %0 = nn.matmul %x, %w transpose_b : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("fc1")
  // CHECK: nn.broadcast
  %1 = nn.broadcast %b dims = [1] : tensor<8xf32> -> tensor<8x8xf32> loc("fc1")
  // CHECK: nn.add
  %2 = nn.add %0, %1 : tensor<8x8xf32> loc("fc1")
  // CHECK: nn.tanh {{.*}}, dist.origins = {{\[\[}}#dist.origin<source = "rule \22x\22 (job:2)", axis = "dp", path = "act", op = "nn.tanh">, #dist.origin<source = "rule \22*.weight\22 (job:3)", axis = "tp", path = "act", op = "nn.tanh">]]}
  %3 = nn.tanh %2 : tensor<8x8xf32> loc("act")
  // CHECK: nn.constant {dist.layouts = [#dist.layout<[{"tp"}, {}]>], dist.origins = {{\[\[}}#dist.origin<source = {{.*}}, op = "nn.add">]]}
  %s = nn.constant dense<0.0> : tensor<8x8xf32>
  %v = nn.add %w, %s : tensor<8x8xf32>
  nn.write @fc1.weight.momentum, %v : tensor<8x8xf32> loc("fc1.weight")
  return %3 : tensor<8x8xf32>
}

// -----

// A layout that was given with all of its axes keeps their origins in the order in which they were given. That of another axis goes.
dist.mesh @mesh <["dp" = 2, "tp" = 2]>
// CHECK-LABEL: func.func @given
// CHECK-SAME: dist.origin = [#dist.origin<source = "b", axis = "tp">, #dist.origin<source = "a", axis = "dp">]
func.func @given(%x: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>,
                                      dist.origin = [#dist.origin<source = "b", axis = "tp">, #dist.origin<source = "c", axis = "pp">,
                                                     #dist.origin<source = "a", axis = "dp">]}) -> tensor<8x8xf32> {
  return %x : tensor<8x8xf32>
}
