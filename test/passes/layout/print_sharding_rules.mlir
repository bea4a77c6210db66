// RUN: ashlar-opt %s -ashlar-print-sharding-rules -split-input-file -verify-diagnostics -o /dev/null

// Element-wise ops pass every dim through. Each op name of the family once.
func.func @elementwise(%x: tensor<4x8xf32>, %b: tensor<4x8xi1>) {
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.abs %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.add %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.and %b, %b : tensor<4x8xi1>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.bitcast %x : tensor<4x8xf32> -> tensor<4x8xi32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.cast %x : tensor<4x8xf32> -> tensor<4x8xf64>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.compare lt %x, %x : tensor<4x8xf32> -> tensor<4x8xi1>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.div %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.erf %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.exp %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.gelu %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.leaky_relu %x, 0.1 : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.log %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.max %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.min %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.mul %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.neg %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.not %b : tensor<4x8xi1>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.or %b, %b : tensor<4x8xi1>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.pow %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.rem %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.relu %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.select %b, %x, %x : tensor<4x8xi1>, tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.sigmoid %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.sign %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.ceil %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.cos %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.floor %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.round %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.sin %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.sqrt %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.sub %x, %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.tan %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.asin %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.acos %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.atan %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.sinh %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.cosh %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.asinh %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.acosh %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.atanh %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.tanh %x : tensor<4x8xf32>
  return
}

// -----

// Sources have no operands to follow; the scalars of nn.random have no dims.
func.func @sources(%seed: tensor<i64>, %counter: tensor<i64>, %stream: tensor<i32>) {
  // expected-remark@+1 {{() -> ([i, j]) {i=4, j=8}}}
  nn.constant dense<2.0> : tensor<4x8xf32>
  // expected-remark@+1 {{() -> ([i, j]) {i=4, j=8}}}
  %i = nn.index [8, 1] : tensor<4x8xi64>
  // expected-remark@+1 {{([i, j], [], [], []) -> ([i, j]) {i=4, j=8}}}
  nn.random uniform %i, %seed, %counter, %stream : (tensor<4x8xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<4x8xf32>
  return
}

// -----

// The new dim of a broadcast has no operand; a reduced dim has no result.
func.func @broadcast_and_reduce(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-remark@+1 {{([i]) -> ([i, j]) {i=4, j=8}}}
  nn.broadcast %y dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([j]) {i=4, j=8} sum={i}}}
  nn.reduce sum %x dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  // expected-remark@+1 {{([i, j]) -> ([]) {i=4, j=8} max={i} max={j}}}
  nn.reduce max %x dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  // expected-remark@+1 {{([i, j]) -> ([i]) {i=4, j=8} min={j}}}
  nn.reduce min %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

// A reshape has one factor for each piece of both shapes; where the shapes do not meet nothing may be split.
func.func @reshape(%x: tensor<4x8xf32>, %y: tensor<2x3xf32>, %z: tensor<6x4xf32>, %s: tensor<1xf32>, %e: tensor<0x4xf32>) {
  // expected-remark@+1 {{([i, j]) -> ([ij]) {i=4, j=8}}}
  nn.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  // expected-remark@+1 {{([ij, k]) -> ([i, jk]) {i=2, j=2, k=8}}}
  nn.reshape %x : tensor<4x8xf32> -> tensor<2x16xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, 1, j, 1]) {i=4, j=8}}}
  nn.reshape %x : tensor<4x8xf32> -> tensor<4x1x8x1xf32>
  // expected-remark@+1 {{([i, k]) -> ([j, l]) {i=2, j=3, k=3, l=2} replicated={i} replicated={j} replicated={k} replicated={l}}}
  nn.reshape %y : tensor<2x3xf32> -> tensor<3x2xf32>
  // expected-remark@+1 {{([ij, m]) -> ([ik, l]) {i=2, j=3, k=2, l=6, m=4} replicated={j} replicated={k} replicated={l} replicated={m}}}
  nn.reshape %z : tensor<6x4xf32> -> tensor<4x6xf32>
  // expected-remark@+1 {{([i, j]) -> ([i]) {i=4, j=8} window={i} replicated={j}}}
  nn.reshape %x {moves_rows} : tensor<4x8xf32> -> tensor<32xf32>
  // expected-remark@+1 {{([i, k]) -> ([i, j, k]) {i=2, j=2, k=8} window={i} replicated={j}}}
  nn.reshape %x {moves_rows} : tensor<4x8xf32> -> tensor<2x2x8xf32>
  // expected-remark@+1 {{([ij, k]) -> ([i, jk]) {i=2, j=2, k=8}}}
  nn.reshape %x {moves_rows} : tensor<4x8xf32> -> tensor<2x16xf32>
  // expected-remark@+1 {{([1]) -> ([]) {}}}
  nn.reshape %s : tensor<1xf32> -> tensor<f32>
  // expected-remark@+1 {{([1, 1]) -> ([1]) {}}}
  nn.reshape %e : tensor<0x4xf32> -> tensor<0xf32>
  return
}

// -----

// Of dims that an op cuts, extends or joins, positions of the result need runs of the operands; the others pass through.
func.func @dimwise(%x: tensor<4x8xf32>, %y: tensor<4x1xf32>, %none: tensor<4x0xf32>) {
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=9} window={j}}}
  nn.concat %x, %y dim = 1 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
  // expected-remark@+1 {{([i, j], [i, j], [i, j]) -> ([i, j]) {i=4, j=0} permuted={j}}}
  nn.concat %x, %none, %y dim = 1 : (tensor<4x8xf32>, tensor<4x0xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
  // expected-remark@+1 {{([i, j], [i, j], [i, j], [i, j], [i, j], [i, j], [i, j], [i, j], [i, j]) -> ([i, j]) {i=4, j=1} permuted={j}}}
  nn.concat %y, %y, %y, %y, %y, %y, %y, %y, %y dim = 1 : (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x9xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=2} window={j}}}
  nn.slice %x [0, 1] to [4, 3] by [1, 1] : tensor<4x8xf32> -> tensor<4x2xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=6, j=8} window={i}}}
  nn.pad %x low = [1, 0] interior = [0, 0] : tensor<4x8xf32> -> tensor<6x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=6, j=8} window={i}}}
  nn.pad %x low = [3, 0] interior = [1, 0] : tensor<4x8xf32> -> tensor<11x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8}}}
  nn.slice %x [0, 0] to [4, 8] by [1, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([j, i]) {i=4, j=8}}}
  nn.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

// Positions need windows; a pooling is expanded to such a view where it is split. Sums at places need what the places span.
func.func @windows(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>, %w: tensor<4x4x3xf32>) {
  // expected-remark@+1 {{([i, j]) -> ([i, j, k]) {i=4, j=4, k=3} window={j} replicated={k}}}
  nn.windows %x dims = [1] [#nn.window<3, stride = 2, low = 1>] : tensor<4x8xf32> -> tensor<4x4x3xf32>
  // expected-remark@+1 {{([i, j, k]) -> ([i, j, k]) {i=4, j=4, k=3} window={j} replicated={k}}}
  nn.unwindows %w dims = [1] [#nn.window<3, stride = 2, low = 1>] : tensor<4x4x3xf32> -> tensor<4x8x3xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=4} expanded={j}}}
  nn.max_pool %x dims = [1] [#nn.window<2, stride = 2>] : tensor<4x8xf32> -> tensor<4x4xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=4, j=4} expanded={j}}}
  nn.max_pool_place %x, %y dims = [1] [#nn.window<2, stride = 2>] : tensor<4x8xf32>, tensor<4x4xf32> -> tensor<4x4xi32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=3} window={j}}}
  nn.resample %x dim = 1 places = dense<0> : tensor<3x1xi64> : tensor<4x8xf32> -> tensor<4x3xf32>
  return
}

// -----

// The contracted dim of a matrix product is summed, in each transposed form; batch dims pass through.
func.func @matmul(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %wt: tensor<16x8xf32>, %xt: tensor<8x4xf32>, %b: tensor<2x4x8xf32>) {
  // expected-remark@+1 {{([i, k], [k, j]) -> ([i, j]) {i=4, j=16, k=8} sum={k}}}
  nn.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  // expected-remark@+1 {{([i, k], [j, k]) -> ([i, j]) {i=4, j=16, k=8} sum={k}}}
  nn.matmul %x, %wt transpose_b : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  // expected-remark@+1 {{([k, i], [k, j]) -> ([i, j]) {i=4, j=16, k=8} sum={k}}}
  nn.matmul %xt, %w transpose_a : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l]) -> ([i, j, k]) {i=2, j=4, k=4, l=8} sum={l}}}
  nn.matmul %b, %b transpose_b : tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  return
}

// -----

// Results on parts of the keys of an attention combine; rows are terms of the gradients of keys and values.
func.func @attention(%q: tensor<2x4x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x3xf32>, %l: tensor<2x4xf32>, %y: tensor<2x4x3xf32>,
                     %m: tensor<1x4x6xf32>, %row: tensor<2x4xi64>, %first: tensor<1x4xi64>, %column: tensor<1x6xi64>, %n: tensor<i64>, %s: tensor<i32>) {
  // expected-remark@+1 {{([i, j, l], [i, k, l]) -> ([i, j]) {i=2, j=4, k=6, l=8} expanded={k} replicated={l}}}
  nn.attention_log_sum %q, %k scale = 1.0 : (tensor<2x4x8xf32>, tensor<2x6x8xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l], [1, j, k]) -> ([i, j]) {i=2, j=4, k=6, l=8} expanded={j} expanded={k} replicated={l}}}
  nn.attention_log_sum %q, %k mask = %m scale = 1.0 causal : (tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<1x4x6xf32>) -> tensor<2x4xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l], [1, j], [1, k]) -> ([i, j]) {i=2, j=4, k=6, l=8} expanded={k} replicated={l}}}
  nn.attention_log_sum %q, %k scale = 1.0 causal at %first, %column : (tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<1x4xi64>, tensor<1x6xi64>) -> tensor<2x4xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l], [i, k, m], [i, j]) -> ([i, j, m]) {i=2, j=4, k=6, l=8, m=3} expanded={k} replicated={l}}}
  nn.attention %q, %k, %v, %l scale = 1.0 : (tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x3xf32>, tensor<2x4xf32>) -> tensor<2x4x3xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l], [i, k, m], [i, j], [i, j], [1, k], [], [], []) -> ([i, j, m]) {i=2, j=4, k=6, l=8, m=3} expanded={k} replicated={l}}}
  nn.attention %q, %k, %v, %l scale = 1.0 dropout = 0.5 by %row, %column, %n, %n, %s : (tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x3xf32>, tensor<2x4xf32>, tensor<2x4xi64>, tensor<1x6xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<2x4x3xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l], [i, k, m], [i, j], [i, j, m], [i, j, m]) -> ([i, j, l]) {i=2, j=4, k=6, l=8, m=3} sum={k} replicated={l} sum={m}}}
  nn.attention_gradient query %q, %k, %v, %l, %y, %y scale = 1.0 : (tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x3xf32>, tensor<2x4xf32>, tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x8xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l], [i, k, m], [i, j], [i, j, m], [i, j, m]) -> ([i, k, l]) {i=2, j=4, k=6, l=8, m=3} sum={j} replicated={l} sum={m}}}
  nn.attention_gradient key %q, %k, %v, %l, %y, %y scale = 1.0 : (tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x3xf32>, tensor<2x4xf32>, tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x6x8xf32>
  // expected-remark@+1 {{([i, j, l], [i, k, l], [i, k, m], [i, j], [i, j, m], [i, j, m]) -> ([i, k, m]) {i=2, j=4, k=6, l=8, m=3} sum={j} replicated={l}}}
  nn.attention_gradient value %q, %k, %v, %l, %y, %y scale = 1.0 : (tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x3xf32>, tensor<2x4xf32>, tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x6x3xf32>
  return
}

// -----

// A row is needed whole by the ops that normalise it.
func.func @rows(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) {
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8} expanded={j}}}
  nn.softmax %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=4, j=8} expanded={j}}}
  nn.log_softmax %x : tensor<4x8xf32>
  // expected-remark@+1 {{([i, j], [i]) -> ([i]) {i=4, j=8} expanded={j}}}
  nn.softmax_cross_entropy %x, %labels : tensor<4x8xf32>, tensor<4xi32> -> tensor<4xf32>
  return
}

// -----

// Rows of a table are summed over: a device gives zeros for those of others. Where rows are added up, the places are summed over.
func.func @rows_by_number(%table: tensor<16x8xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4x8xf32>) {
  // expected-remark@+1 {{([k, l], [i, j]) -> ([i, j, l]) {i=2, j=4, k=16, l=8} sum={k}}}
  nn.gather %table, %i : tensor<16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j, l]) -> ([k, l]) {i=2, j=4, k=16, l=8} sum={i} sum={j}}}
  nn.scatter_add %i, %u : tensor<2x4xi64>, tensor<2x4x8xf32> -> tensor<16x8xf32>
  return
}

// -----

// Batch dims pass through indices, tables and results.
func.func @rows_by_number_of_a_batch(%tables: tensor<2x16x8xf32>, %i: tensor<2x4xi64>, %u: tensor<2x4x8xf32>, %j: tensor<2x16xi64>) {
  // expected-remark@+1 {{([i, k, l], [i, j]) -> ([i, j, l]) {i=2, j=4, k=16, l=8} sum={k}}}
  nn.gather %tables, %i batch_dims = 1 : tensor<2x16x8xf32>, tensor<2x4xi64> -> tensor<2x4x8xf32>
  // expected-remark@+1 {{([i, j], [i, j, l]) -> ([i, k, l]) {i=2, j=4, k=16, l=8} sum={j}}}
  nn.scatter_add %i, %u batch_dims = 1 : tensor<2x4xi64>, tensor<2x4x8xf32> -> tensor<2x16x8xf32>
  // expected-remark@+1 {{([i, j, k], [i, j]) -> ([i, j]) {i=2, j=16, k=8} sum={k}}}
  nn.gather %tables, %j batch_dims = 2 : tensor<2x16x8xf32>, tensor<2x16xi64> -> tensor<2x16xf32>
  return
}

// -----

// Along the dim of new rows a device needs all of the base and of the rows; the others pass.
func.func @insert(%x: tensor<2x16x8xf32>, %r: tensor<2x3x8xf32>, %i: tensor<i64>) {
  // expected-remark@+1 {{([i, l, k], [i, j, k], []) -> ([i, j, k]) {i=2, j=16, k=8, l=3} replicated={j} replicated={l}}}
  nn.insert %r into %x at %i dim = 1 : tensor<2x3x8xf32>, tensor<2x16x8xf32>, tensor<i64> -> tensor<2x16x8xf32>
  return
}

// -----

// Batch, groups and the channels of y pass; those of x are summed over. A spatial dim counts positions, of which each needs a window.
func.func @conv(%x: tensor<8x4x32x32xf32>, %w: tensor<6x4x3x1xf32>, %g: tensor<6x2x3x1xf32>, %d: tensor<4x1x3x1xf32>,
                %last: tensor<8x32x32x4xf32>) {
  // expected-remark@+1 {{([i, k, l, n], [j, k, m, o]) -> ([i, j, l, n]) {i=8, j=6, k=4, l=30, m=3, n=32, o=1} sum={k} window={l} replicated={m} replicated={o}}}
  nn.conv %x, %w windows = [#nn.window<3>, #nn.window<1>] : tensor<8x4x32x32xf32>, tensor<6x4x3x1xf32> -> tensor<8x6x30x32xf32>
  // expected-remark@+1 {{([i, jl, m, o], [jk, l, n, p]) -> ([i, jk, m, o]) {i=8, j=2, k=3, l=2, m=30, n=3, o=32, p=1} sum={l} window={m} replicated={n} replicated={p}}}
  nn.conv %x, %g windows = [#nn.window<3>, #nn.window<1>] : tensor<8x4x32x32xf32>, tensor<6x2x3x1xf32> -> tensor<8x6x30x32xf32>
  // expected-remark@+1 {{([i, j, k, m], [j, 1, l, n]) -> ([i, j, k, m]) {i=8, j=4, k=30, l=3, m=32, n=1} window={k} replicated={l} replicated={n}}}
  nn.conv %x, %d windows = [#nn.window<3>, #nn.window<1>] : tensor<8x4x32x32xf32>, tensor<4x1x3x1xf32> -> tensor<8x4x30x32xf32>
  // expected-remark@+1 {{([i, l, n, k], [j, k, m, o]) -> ([i, l, n, j]) {i=8, j=6, k=4, l=30, m=3, n=32, o=1} sum={k} window={l} replicated={m} replicated={o}}}
  nn.conv %last, %w channels_last windows = [#nn.window<3>, #nn.window<1>] : tensor<8x32x32x4xf32>, tensor<6x4x3x1xf32> -> tensor<8x30x32x6xf32>
  return
}

// -----

// The gradients sum over what their results lack.
func.func @conv_gradients(%x: tensor<8x4x32x16xf32>, %y: tensor<8x6x30x16xf32>, %w: tensor<6x4x3x1xf32>) {
  // expected-remark@+1 {{([i, j, l, n], [j, k, m, o]) -> ([i, k, l, n]) {i=8, j=6, k=4, l=32, m=3, n=16, o=1} sum={j} window={l} replicated={m} replicated={o}}}
  nn.conv_data %y, %w windows = [#nn.window<3>, #nn.window<1>] : tensor<8x6x30x16xf32>, tensor<6x4x3x1xf32> -> tensor<8x4x32x16xf32>
  // expected-remark@+1 {{([i, k, l, n], [i, j, l, n]) -> ([j, k, m, o]) {i=8, j=6, k=4, l=30, m=3, n=16, o=1} sum={i} sum={l} window={l} replicated={m} sum={n} replicated={o}}}
  nn.conv_weights %x, %y windows = [#nn.window<3>, #nn.window<1>] : tensor<8x4x32x16xf32>, tensor<8x6x30x16xf32> -> tensor<6x4x3x1xf32>
  return
}

// -----

// Statistics are of whole dims, or written out as sums; a normalization takes them as they are split.
func.func @channels(%x: tensor<8x4x16xf32>, %s: tensor<4xf32>) {
  // expected-remark@+1 {{([i, j, k]) -> ([l, j]) {i=8, j=4, k=16, l=2} expanded={i} expanded={k} replicated={l}}}
  nn.moments %x dims = [0, 2] : tensor<8x4x16xf32> -> tensor<2x4xf32>
  // expected-remark@+1 {{([i, j, k], [j], [j], [j], [j]) -> ([i, j, k]) {i=8, j=4, k=16}}}
  nn.normalize %x, %s, %s, %s, %s dims = [1] epsilon = 1.0e-05 : tensor<8x4x16xf32>, tensor<4xf32>
  return
}

// -----

// The iterations of a loop run one after the other: the rows of a stack are not split.
func.func @loop(%x: tensor<8x4xf32>, %xs: tensor<5x8x4xf32>) {
  // expected-remark@+1 {{([i, j]) -> ([i, j]) {i=8, j=4}}}
  %a = nn.repeat_carry %x loop 0 number 0 count 5 : tensor<8x4xf32>
  // expected-remark@+1 {{([i, j, k]) -> ([j, k]) {i=5, j=8, k=4} replicated={i}}}
  %r = nn.repeat_row %xs loop 0 count 5 : tensor<5x8x4xf32> -> tensor<8x4xf32>
  // expected-remark@+1 {{([i, j], [i, j]) -> ([i, j]) {i=8, j=4}}}
  %last = nn.repeat_next %r of %a : tensor<8x4xf32>
  // expected-remark@+1 {{([j, k]) -> ([i, j, k]) {i=5, j=8, k=4} replicated={i}}}
  %all = nn.repeat_stack %a loop 0 count 5 : tensor<8x4xf32> -> tensor<5x8x4xf32>
  return
}
