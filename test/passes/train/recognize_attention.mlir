// RUN: ashlar-opt %s -split-input-file -ashlar-recognize-attention | FileCheck %s
// RUN: ashlar-opt %s -split-input-file "-ashlar-recognize-attention=rules=layer*.scores,other" | FileCheck %s --check-prefix=NAMED
// RUN: ashlar-opt %s -split-input-file "-ashlar-recognize-attention=counted-rules=layer*.mix" | FileCheck %s --check-prefix=COUNTED
// RUN: ashlar-opt %s -split-input-file "-ashlar-recognize-attention=only-whole target=cuda" | FileCheck %s --check-prefix=WHOLE
// RUN: ashlar-opt %s -split-input-file "-ashlar-recognize-attention=trains=false" | FileCheck %s --check-prefix=RUNS

// A scale, and nothing else. The result keeps name and path of the last product; a rule on the scores keeps them, and so does one that counts
// slices of the operands of the last product.

// CHECK-LABEL: @plain
// CHECK: %[[L:.*]] = nn.attention_log_sum %arg0, %arg1 scale = 2.500000e-01 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4xf32>
// CHECK: nn.attention %arg0, %arg1, %arg2, %[[L]] scale = 2.500000e-01 {nn.outputs = ["mixed"]} :
// CHECK-NOT: nn.softmax
// NAMED-LABEL: @plain
// NAMED: nn.softmax
// COUNTED-LABEL: @plain
// COUNTED: nn.softmax
// WHOLE-LABEL: @plain
// WHOLE: nn.attention %

module @plain {
func.func @forward(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> attributes {nn.program = #nn.program<run>} {
  %c = nn.constant dense<0.25> : tensor<2x4x4xf32>
  %s = nn.matmul %q, %k transpose_b {nn.outputs = ["layer0.scores"]} : tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  %t = nn.mul %s, %c : tensor<2x4x4xf32>
  %w = nn.softmax %t : tensor<2x4x4xf32>
  %y = nn.matmul %w, %v {nn.outputs = ["mixed"]} : tensor<2x4x4xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32> loc("layer0.mix")
  return %y : tensor<2x4x8xf32>
}
}

// -----

// A glob that matches the scores, and a tensor that stays, is no reason to keep them.

// NAMED-LABEL: @named_elsewhere
// NAMED: nn.attention %

module @named_elsewhere {
func.func @forward(%q: tensor<4x8xf32> {nn.name = "layer.q.scores"}, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<run>} {
  %s = nn.matmul %q, %k transpose_b {nn.outputs = ["layer0.scores"]} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %w = nn.softmax %s : tensor<4x4xf32>
  %y = nn.matmul %w, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// As mixed precision leaves it: a scale of the queries in f32 behind a conversion, scores that are converted, masked and converted back. The
// key is a transpose of more than the last dims.

// CHECK-LABEL: @narrow
// CHECK-DAG: %[[K:.*]] = nn.transpose %arg1 [0, 2, 1, 3] : tensor<1x4x2x8xbf16> -> tensor<1x2x4x8xbf16>
// CHECK-DAG: %[[Q:.*]] = nn.cast %arg0 : tensor<1x2x4x8xf32> -> tensor<1x2x4x8xbf16>
// CHECK: nn.attention_log_sum %[[Q]], %[[K]] scale = 0.3{{[0-9]*}} causal at %{{.*}}, %{{.*}} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x1x4xi64>, tensor<1x1x4xi64>) -> tensor<1x2x4xf32>
// CHECK: nn.attention {{.*}} causal at %{{.*}}, %{{.*}} : {{.*}} -> tensor<1x2x4x8xbf16>
// CHECK-NOT: nn.softmax

module @narrow {
func.func @forward(%q: tensor<1x2x4x8xf32>, %k: tensor<1x4x2x8xbf16>, %v: tensor<1x2x4x8xbf16>) -> tensor<1x2x4x8xbf16> attributes {nn.program = #nn.program<run>} {
  %c = nn.constant dense<0.3> : tensor<1x2x4x8xf32>
  %m = nn.constant dense<[[0.0, -1.0e+30, -1.0e+30, -1.0e+30], [0.0, 0.0, -1.0e+30, -1.0e+30], [0.0, 0.0, 0.0, -1.0e+30], [0.0, 0.0, 0.0, 0.0]]>
     : tensor<4x4xf32>
  %qs = nn.mul %q, %c : tensor<1x2x4x8xf32>
  %qn = nn.cast %qs : tensor<1x2x4x8xf32> -> tensor<1x2x4x8xbf16>
  %kt = nn.transpose %k [0, 2, 3, 1] : tensor<1x4x2x8xbf16> -> tensor<1x2x8x4xbf16>
  %s = nn.matmul %qn, %kt : tensor<1x2x4x8xbf16>, tensor<1x2x8x4xbf16> -> tensor<1x2x4x4xbf16>
  %sw = nn.cast %s : tensor<1x2x4x4xbf16> -> tensor<1x2x4x4xf32>
  %mb = nn.broadcast %m dims = [2, 3] : tensor<4x4xf32> -> tensor<1x2x4x4xf32>
  %t = nn.add %sw, %mb : tensor<1x2x4x4xf32>
  %w = nn.softmax %t : tensor<1x2x4x4xf32>
  %wn = nn.cast %w : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xbf16>
  %y = nn.matmul %wn, %v : tensor<1x2x4x4xbf16>, tensor<1x2x4x8xbf16> -> tensor<1x2x4x8xbf16>
  return %y : tensor<1x2x4x8xbf16>
}
}

// -----

// An input as mask, repeated for each head and row: its small form is the operand.

// CHECK-LABEL: @padding
// CHECK: %[[M:.*]] = nn.reshape %arg3 : tensor<2x4xi1> -> tensor<2x1x1x4xi1>
// CHECK: nn.attention_log_sum %arg0, %arg1 mask = %[[M]] scale = 1.000000e+00 :
// CHECK: nn.attention %arg0, %arg1, %arg2, %{{.*}} mask = %[[M]] scale = 1.000000e+00 :

module @padding {
func.func @forward(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %m: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> attributes {nn.program = #nn.program<run>} {
  %h = nn.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %mb = nn.broadcast %m dims = [0, 3] : tensor<2x4xi1> -> tensor<2x3x4x4xi1>
  %s = nn.matmul %q, %k transpose_b : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32> -> tensor<2x3x4x4xf32>
  %t = nn.select %mb, %s, %h : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %w = nn.softmax %t : tensor<2x3x4x4xf32>
  %y = nn.matmul %w, %v : tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32> -> tensor<2x3x4x8xf32>
  return %y : tensor<2x3x4x8xf32>
}
}

// -----

// The mask is trained: its gradient is needed, but where nothing is trained.

// CHECK-LABEL: @trained_mask
// CHECK: nn.softmax
// RUNS-LABEL: @trained_mask
// RUNS: %[[BIAS:.*]] = nn.read @bias
// RUNS: nn.attention %arg0, %arg1, %arg2, %{{.*}} mask = %[[BIAS]]

module @trained_mask {
nn.variable @bias trainable : tensor<4x4xf32>
func.func @forward(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<run>} {
  %m = nn.read @bias : tensor<4x4xf32>
  %s = nn.matmul %q, %k transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %t = nn.add %s, %m : tensor<4x4xf32>
  %w = nn.softmax %t : tensor<4x4xf32>
  %y = nn.matmul %w, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// The weights are a result of the program.

// CHECK-LABEL: @shown_weights
// CHECK: nn.softmax

module @shown_weights {
func.func @forward(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) attributes {nn.program = #nn.program<run>} {
  %s = nn.matmul %q, %k transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %w = nn.softmax %s : tensor<4x4xf32>
  %y = nn.matmul %w, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y, %w : tensor<4x8xf32>, tensor<4x4xf32>
}
}

// -----

// What multiplies the weights is no dropout that the program draws.

// CHECK-LABEL: @dropout
// CHECK: nn.softmax

module @dropout {
func.func @forward(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %keep: tensor<4x4xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<run>} {
  %s = nn.matmul %q, %k transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %w = nn.softmax %s : tensor<4x4xf32>
  %d = nn.mul %w, %keep {nn.training_only} : tensor<4x4xf32>
  %y = nn.matmul %d, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// A mask is scaled with the scores, so that it hides a key less or more than it says.

// CHECK-LABEL: @scaled_mask
// CHECK: nn.softmax

module @scaled_mask {
func.func @forward(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %m: tensor<4x4xf32>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<run>} {
  %c = nn.constant dense<0.25> : tensor<4x4xf32>
  %s = nn.matmul %q, %k transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %t = nn.add %s, %m : tensor<4x4xf32>
  %u = nn.mul %t, %c : tensor<4x4xf32>
  %w = nn.softmax %u : tensor<4x4xf32>
  %y = nn.matmul %w, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// Two masks that are inputs; and a causal one that hides by a number where an input may hide all that is left.

// CHECK-LABEL: @two_masks
// CHECK: nn.softmax
// CHECK: nn.softmax

module @two_masks {
func.func @forward(%q: tensor<2x8xf32>, %k: tensor<2x8xf32>, %v: tensor<2x8xf32>, %m: tensor<2x2xf32>, %n: tensor<2x2xf32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>) attributes {nn.program = #nn.program<run>} {
  %s = nn.matmul %q, %k transpose_b : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x2xf32>
  %t = nn.add %s, %m : tensor<2x2xf32>
  %u = nn.add %t, %n : tensor<2x2xf32>
  %w = nn.softmax %u : tensor<2x2xf32>
  %y = nn.matmul %w, %v : tensor<2x2xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %causal = nn.constant dense<[[0.0, -1.0e+30], [0.0, 0.0]]> : tensor<2x2xf32>
  %s1 = nn.matmul %q, %v transpose_b : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x2xf32>
  %t1 = nn.add %s1, %m : tensor<2x2xf32>
  %u1 = nn.add %t1, %causal : tensor<2x2xf32>
  %w1 = nn.softmax %u1 : tensor<2x2xf32>
  %y1 = nn.matmul %w1, %v : tensor<2x2xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %y, %y1 : tensor<2x8xf32>, tensor<2x8xf32>
}
}

// -----

// A softmax in f64 of scores in f32, and a softmax that is no attention.

// CHECK-LABEL: @wider_softmax
// CHECK: nn.softmax
// CHECK: nn.softmax

module @wider_softmax {
func.func @forward(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {nn.program = #nn.program<run>} {
  %s = nn.matmul %q, %k transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %t = nn.cast %s : tensor<4x4xf32> -> tensor<4x4xf64>
  %w = nn.softmax %t : tensor<4x4xf64>
  %n = nn.cast %w : tensor<4x4xf64> -> tensor<4x4xf32>
  %y = nn.matmul %n, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %z = nn.softmax %y : tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}
}

// -----

// The mask of all samples and heads has more than 2^24 elements, the one that it repeats 2^18.

// CHECK-LABEL: @large
// CHECK: nn.attention_log_sum {{.*}} causal at %{{.*}}, %{{.*}} : (tensor<64x2x512x8xf32>

module @large {
func.func @forward(%q: tensor<64x2x512x8xf32>, %k: tensor<64x2x512x8xf32>, %v: tensor<64x2x512x8xf32>) -> tensor<64x2x512x8xf32> attributes {nn.program = #nn.program<run>} {
  %i = nn.index [1, 0] : tensor<512x512xi64>
  %j = nn.index [0, 1] : tensor<512x512xi64>
  %later = nn.compare gt %j, %i : tensor<512x512xi64> -> tensor<512x512xi1>
  %zero = nn.constant dense<0.0> : tensor<512x512xf32>
  %hidden = nn.constant dense<0xFF800000> : tensor<512x512xf32>
  %mask = nn.select %later, %hidden, %zero : tensor<512x512xi1>, tensor<512x512xf32>
  %b = nn.broadcast %mask dims = [2, 3] : tensor<512x512xf32> -> tensor<64x2x512x512xf32>
  %s = nn.matmul %q, %k transpose_b : tensor<64x2x512x8xf32>, tensor<64x2x512x8xf32> -> tensor<64x2x512x512xf32>
  %t = nn.add %s, %b : tensor<64x2x512x512xf32>
  %w = nn.softmax %t : tensor<64x2x512x512xf32>
  %y = nn.matmul %w, %v : tensor<64x2x512x512xf32>, tensor<64x2x512x8xf32> -> tensor<64x2x512x8xf32>
  return %y : tensor<64x2x512x8xf32>
}
}

// -----

// A window becomes an attribute, on any target.
// CHECK-LABEL: @window
// WHOLE-LABEL: @window
// CHECK: nn.attention %arg0, %arg0, %arg0, %{{.*}} scale = 1.000000e+00 causal at %{{.*}}, %{{.*}} window = 2 :
// WHOLE: nn.attention %arg0, %arg0, %arg0, %{{.*}} scale = 1.000000e+00 causal at %{{.*}}, %{{.*}} window = 2 :
module @window {
func.func @forward(%q: tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> attributes {nn.program = #nn.program<run>} {
  %d = nn.index [-1, 1] : tensor<8x8xi64>
  %zero = nn.constant dense<0> : tensor<8x8xi64>
  %low = nn.constant dense<-1> : tensor<8x8xi64>
  %le = nn.compare le %d, %zero : tensor<8x8xi64> -> tensor<8x8xi1>
  %ge = nn.compare ge %d, %low : tensor<8x8xi64> -> tensor<8x8xi1>
  %see = nn.and %le, %ge : tensor<8x8xi1>
  %shown = nn.constant dense<0.0> : tensor<8x8xbf16>
  %hidden = nn.constant dense<-1.0e+09> : tensor<8x8xbf16>
  %m = nn.select %see, %shown, %hidden : tensor<8x8xi1>, tensor<8x8xbf16>
  %mb = nn.broadcast %m dims = [1, 2] : tensor<8x8xbf16> -> tensor<2x8x8xbf16>
  %s = nn.matmul %q, %q transpose_b : tensor<2x8x8xbf16>, tensor<2x8x8xbf16> -> tensor<2x8x8xbf16>
  %t = nn.add %s, %mb : tensor<2x8x8xbf16>
  %w = nn.softmax %t : tensor<2x8x8xbf16>
  %y = nn.matmul %w, %q : tensor<2x8x8xbf16>, tensor<2x8x8xbf16> -> tensor<2x8x8xbf16>
  return %y : tensor<2x8x8xbf16>
}
}

// -----

// Rows of zeros where no key is seen, by bools that choose the scores: their gradient is 0, and would be NaN of the ops.

// CHECK-LABEL: @chosen_zero_rows
// CHECK: nn.softmax
// RUNS-LABEL: @chosen_zero_rows
// RUNS: nn.attention %arg0, %arg1, %arg2, %{{.*}} mask = %arg3

module @chosen_zero_rows {
func.func @forward(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %see: tensor<4x4xi1>) -> tensor<4x8xf32> attributes {nn.program = #nn.program<run>} {
  %s = nn.matmul %q, %k transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %h = nn.constant dense<0xFF800000> : tensor<4x4xf32>
  %t = nn.select %see, %s, %h : tensor<4x4xi1>, tensor<4x4xf32>
  %w = nn.softmax %t : tensor<4x4xf32>
  %n = nn.compare ne %w, %w : tensor<4x4xf32> -> tensor<4x4xi1>
  %z = nn.constant dense<0.0> : tensor<4x4xf32>
  %p = nn.select %n, %z, %w : tensor<4x4xi1>, tensor<4x4xf32>
  %y = nn.matmul %p, %v : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// A target without a kernel for f64 leaves the model's ops, if asked to.
// CHECK-LABEL: @doubles
// CHECK: nn.attention %
// WHOLE-LABEL: @doubles
// WHOLE: nn.softmax
module @doubles {
func.func @forward(%q: tensor<2x8x8xf64>) -> tensor<2x8x8xf64> attributes {nn.program = #nn.program<run>} {
  %s = nn.matmul %q, %q transpose_b : tensor<2x8x8xf64>, tensor<2x8x8xf64> -> tensor<2x8x8xf64>
  %w = nn.softmax %s : tensor<2x8x8xf64>
  %y = nn.matmul %w, %q : tensor<2x8x8xf64>, tensor<2x8x8xf64> -> tensor<2x8x8xf64>
  return %y : tensor<2x8x8xf64>
}
}

// -----

// In the body of a repeat, with a mask that is data. Where the mask is carried and gets a trained value in later iterations, it needs a
// gradient: the products stay, but not where nothing is trained.

// CHECK-LABEL: @in_a_body
// CHECK: nn.repeat 3
// CHECK: nn.attention %
// CHECK: nn.repeat 2
// CHECK-NOT: nn.attention
// CHECK: nn.softmax
// RUNS-LABEL: @in_a_body
// RUNS-COUNT-2: nn.attention %

module @in_a_body {
nn.variable @bias trainable : tensor<4x4xf32>
func.func @forward(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %m: tensor<4x4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {nn.program = #nn.program<run>} {
  %bias = nn.read @bias : tensor<4x4xf32>
  %0 = nn.repeat 3 carried(%a = %q) captured(%b = %k, %c = %v, %mask = %m)
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32> {
    %s = nn.matmul %a, %b transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
    %t = nn.add %s, %mask : tensor<4x4xf32>
    %w = nn.softmax %t : tensor<4x4xf32>
    %y = nn.matmul %w, %c : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    nn.yield %y : tensor<4x8xf32>
  }
  %1, %2 = nn.repeat 2 carried(%a = %q, %mask = %m) captured(%b = %k, %c = %v, %next = %bias)
      : (tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
    %s = nn.matmul %a, %b transpose_b : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
    %t = nn.add %s, %mask : tensor<4x4xf32>
    %w = nn.softmax %t : tensor<4x4xf32>
    %y = nn.matmul %w, %c : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    nn.yield %y, %next : tensor<4x8xf32>, tensor<4x4xf32>
  }
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
}

// -----

// An attention in a body, with a causal mask from outside: nothing has to read the mask.
// CHECK-LABEL: @masked_outside
// CHECK: nn.repeat 3 sliced(%[[X:.*]] = %{{.*}}) captured(%[[K:.*]] = %{{.*}}, %[[V:[a-z0-9]*]] = %{{[a-z0-9]*}}) :
// CHECK: %[[LOG:.*]] = nn.attention_log_sum %[[X]], %[[K]] scale = 2.500000e-01 causal at
// CHECK: nn.attention %[[X]], %[[K]], %[[V]], %[[LOG]] scale = 2.500000e-01 causal at
func.func @masked_outside(%q: tensor<3x8x16xf32>, %k: tensor<8x16xf32>, %v: tensor<8x16xf32>) -> tensor<3x8x16xf32> attributes {nn.program = #nn.program<run>} {
  %rows = nn.index [1, 0] : tensor<8x8xi64>
  %keys = nn.index [0, 1] : tensor<8x8xi64>
  %l = nn.compare lt %rows, %keys : tensor<8x8xi64> -> tensor<8x8xi1>
  %ys = nn.repeat 3 sliced(%x = %q) captured(%ks = %k, %vs = %v, %later = %l) : (tensor<3x8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x8xi1>) -> tensor<3x8x16xf32> {



    %hidden = nn.constant dense<0xFF800000> : tensor<8x8xf32>
    %s = nn.matmul %x, %ks transpose_b : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x8xf32>
    %quarter = nn.constant dense<0.25> : tensor<8x8xf32>
    %t = nn.mul %s, %quarter : tensor<8x8xf32>
    %m = nn.select %later, %hidden, %t : tensor<8x8xi1>, tensor<8x8xf32>
    %p = nn.softmax %m : tensor<8x8xf32>
    %y = nn.matmul %p, %vs : tensor<8x8xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
    nn.yield %y : tensor<8x16xf32>
  }
  return %ys : tensor<3x8x16xf32>
}
