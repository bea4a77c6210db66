// The two programs of a decoder: its own positions, keys and values in variables, rows of tables.
// RUN: ashlar-opt %s -split-input-file -ashlar-decode="logits=logits chunk=2" -canonicalize -cse | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -ashlar-decode="logits=logits chunk=2" -canonicalize -cse | FileCheck %s --check-prefix=PREFILL

nn.variable @positions trainable : tensor<4x3xf32> = dense<0.5> : tensor<4x3xf32>
nn.variable @table trainable : tensor<7x3xf32> = dense<0.5> : tensor<7x3xf32>
func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x7xf32> {nn.name = "logits"}, tensor<1x4x3xf32> {nn.name = "hidden"})
    attributes {nn.program = #nn.program<run>} {
  %table = nn.read @table : tensor<7x3xf32>
  %e = nn.gather %table, %tokens : tensor<7x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
  %p = nn.read @positions : tensor<4x3xf32>
  %b = nn.broadcast %p dims = [1, 2] : tensor<4x3xf32> -> tensor<1x4x3xf32>
  %x = nn.add %e, %b {nn.outputs = ["x"]} : tensor<1x4x3xf32>
  %k = nn.tanh %x {nn.outputs = ["keys"]} : tensor<1x4x3xf32>
  %r = nn.index [0, 1] : tensor<1x4xi64>
  %l = nn.attention_log_sum %x, %k scale = 1.0 causal at %r, %r
     : (tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4xi64>, tensor<1x4xi64>) -> tensor<1x4xf32>
  %y = nn.attention %x, %k, %x, %l scale = 1.0 causal at %r, %r
     : (tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4xf32>, tensor<1x4xi64>, tensor<1x4xi64>) -> tensor<1x4x3xf32>
  %flat = nn.reshape %y : tensor<1x4x3xf32> -> tensor<4x3xf32>
  %o = nn.matmul %flat, %table transpose_b : tensor<4x3xf32>, tensor<7x3xf32> -> tensor<4x7xf32>
  %logits = nn.reshape %o : tensor<4x7xf32> -> tensor<1x4x7xf32>
  return %logits, %y : tensor<1x4x7xf32>, tensor<1x4x3xf32>
}

// CHECK-DAG: nn.variable @cache.keys internal : tensor<1x4x3xf32> = #nn.fill<0.000000e+00 : f64> {nn.scratch}
// CHECK-DAG: nn.variable @cache.x internal : tensor<1x4x3xf32> = #nn.fill<0.000000e+00 : f64> {nn.scratch}
// CHECK-NOT: @forward
// CHECK:     func.func @decode(%[[TOKENS:.*]]: tensor<1x1xi64> {nn.name = "tokens"}, %[[AT:.*]]: tensor<i64> {nn.internal, nn.name = "ashlar.position"})
// CHECK-SAME:    -> (tensor<1x1x7xf32> {nn.name = "logits"}) attributes {nn.context = 4 : i64, nn.program = #nn.program<decode>}
// CHECK:       %[[E:.*]] = nn.gather %{{.*}}, %[[TOKENS]] : tensor<7x3xf32>, tensor<1x1xi64> -> tensor<1x1x3xf32>
// CHECK:       %[[X:.*]] = nn.add %[[E]], %{{.*}} {nn.outputs = ["x"]} : tensor<1x1x3xf32>
// CHECK:       %[[OLD_X:.*]] = nn.read @cache.x
// CHECK:       %[[ALL_X:.*]] = nn.insert %[[X]] into %[[OLD_X]] at %[[AT]] dim = 1
// CHECK:       %[[K:.*]] = nn.tanh %[[X]] {nn.outputs = ["keys"]} : tensor<1x1x3xf32>
// CHECK:       %[[OLD_K:.*]] = nn.read @cache.keys
// CHECK:       %[[ALL_K:.*]] = nn.insert %[[K]] into %[[OLD_K]] at %[[AT]] dim = 1
// CHECK:       %[[L:.*]] = nn.attention_log_sum %[[X]], %[[ALL_K]] {{.*}} -> tensor<1x1xf32>
// CHECK:       %[[Y:.*]] = nn.attention %[[X]], %[[ALL_K]], %[[ALL_X]], %[[L]] {{.*}} -> tensor<1x1x3xf32>
// CHECK-DAG:   nn.write @cache.x, %[[ALL_X]]
// CHECK-DAG:   nn.write @cache.keys, %[[ALL_K]]

// Its keys and values alone: no attention, no logits.
// PREFILL:     func.func @prefill(%[[TOKENS:.*]]: tensor<1x2xi64> {nn.name = "tokens.prefill"}, %[[AT:.*]]: tensor<i64>
// PREFILL-SAME:    attributes {nn.program = #nn.program<prefill>}
// PREFILL-NOT:   nn.attention
// PREFILL-NOT:   nn.matmul
// PREFILL:       nn.insert %{{.*}} into %{{.*}} at %[[AT]] dim = 1 : tensor<1x2x3xf32>, tensor<1x4x3xf32>, tensor<i64>
// PREFILL:       nn.insert
// PREFILL:       return

// -----

// Keys that heads share are kept once.
// CHECK:     nn.variable @cache.shared internal : tensor<1x4x2xf32>
// CHECK-NOT: nn.variable
// CHECK:     func.func @decode
// CHECK:       %[[ALL:.*]] = nn.insert %{{.*}} into %{{.*}} at %{{.*}} dim = 1 : tensor<1x1x2xf32>, tensor<1x4x2xf32>, tensor<i64> -> tensor<1x4x2xf32>
// CHECK:       %[[KEYS:.*]] = nn.broadcast %[[ALL]] dims = [0, 2, 3] : tensor<1x4x2xf32> -> tensor<1x3x4x2xf32>
// CHECK:       nn.attention_log_sum %{{.*}}, %[[KEYS]]

func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x6xf32> {nn.name = "logits"})
    attributes {nn.program = #nn.program<run>} {
  %table = nn.constant dense<[[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]> : tensor<3x2xf32>
  %x = nn.gather %table, %tokens {nn.outputs = ["shared"]} : tensor<3x2xf32>, tensor<1x4xi64> -> tensor<1x4x2xf32>
  %k = nn.broadcast %x dims = [0, 2, 3] : tensor<1x4x2xf32> -> tensor<1x3x4x2xf32>
  %r = nn.index [0, 0, 1] : tensor<1x1x4xi64>
  %l = nn.attention_log_sum %k, %k scale = 1.0 causal at %r, %r
     : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x1x4xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xf32>
  %y = nn.attention %k, %k, %k, %l scale = 1.0 causal at %r, %r
     : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>, tensor<1x1x4xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4x2xf32>
  %t = nn.transpose %y [0, 2, 1, 3] : tensor<1x3x4x2xf32> -> tensor<1x4x3x2xf32>
  %logits = nn.reshape %t : tensor<1x4x3x2xf32> -> tensor<1x4x6xf32>
  return %logits : tensor<1x4x6xf32>
}
