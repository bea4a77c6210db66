// Models that no program of text generation can be made of, with the op or the names.
// RUN: ashlar-opt %s -split-input-file -ashlar-decode -verify-diagnostics

module {
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
    // expected-error @+1 {{computes from several positions of the tokens, and only causal attentions are known to leave the later ones out}}
    %l = nn.attention_log_sum %x, %x scale = 1.0 : (tensor<1x4x3xf32>, tensor<1x4x3xf32>) -> tensor<1x4xf32>
    %y = nn.attention %x, %x, %x, %l scale = 1.0
       : (tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4xf32>) -> tensor<1x4x3xf32>
    return %y : tensor<1x4x3xf32>
  }
}

// -----

// The next position is seen, too.
module {
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
    %r = nn.index [0, 1] : tensor<1x4xi64>
    // expected-error @+1 {{computes from several positions}}
    %l = nn.attention_log_sum %x, %x scale = 1.0 causal at %r, %r diagonal = 1
       : (tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4xi64>, tensor<1x4xi64>) -> tensor<1x4xf32>
    %y = nn.attention %x, %x, %x, %l scale = 1.0 causal at %r, %r diagonal = 1
       : (tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4xf32>, tensor<1x4xi64>, tensor<1x4xi64>) -> tensor<1x4x3xf32>
    return %y : tensor<1x4x3xf32>
  }
}

// -----

// Rows that count in steps of 2 see later keys.
module {
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
    %r = nn.index [0, 1] : tensor<1x4xi64>
    %s = nn.add %r, %r : tensor<1x4xi64>
    // expected-error @+1 {{computes from several positions}}
    %l = nn.attention_log_sum %x, %x scale = 1.0 causal at %s, %r
       : (tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4xi64>, tensor<1x4xi64>) -> tensor<1x4xf32>
    %y = nn.attention %x, %x, %x, %l scale = 1.0 causal at %s, %r
       : (tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x4xf32>, tensor<1x4xi64>, tensor<1x4xi64>) -> tensor<1x4x3xf32>
    return %y : tensor<1x4x3xf32>
  }
}

// -----

// A mean over the positions is the same for all of them.
module {
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
    // expected-error @+1 {{'nn.reduce' op computes from several positions}}
    %s = nn.reduce sum %x dims = [1] : tensor<1x4x3xf32> -> tensor<1x3xf32>
    %b = nn.broadcast %s dims = [0, 2] : tensor<1x3xf32> -> tensor<1x4x3xf32>
    %y = nn.sub %x, %b : tensor<1x4x3xf32>
    return %y : tensor<1x4x3xf32>
  }
}

// -----

// A shift by one position.
module {
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
    // expected-error @+1 {{'nn.slice' op computes from several positions}}
    %s = nn.slice %x [0, 0, 0] to [1, 3, 3] by [1, 1, 1] : tensor<1x4x3xf32> -> tensor<1x3x3xf32>
    %p = nn.pad %s low = [0, 1, 0] interior = [0, 0, 0] : tensor<1x3x3xf32> -> tensor<1x4x3xf32>
    return %p : tensor<1x4x3xf32>
  }
}

// -----

// Keys of both samples in one dim: rows of the second one see those of the first.
module {
  func.func @forward(%tokens: tensor<2x4xi64> {nn.name = "tokens"}) -> (tensor<2x4x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<2x4xi64> -> tensor<2x4x3xf32>
    %m = nn.reshape %x : tensor<2x4x3xf32> -> tensor<8x3xf32>
    %r = nn.index [1] : tensor<8xi64>
    // expected-error @+1 {{computes from several positions}}
    %l = nn.attention_log_sum %m, %m scale = 1.0 causal at %r, %r : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xf32>
    %a = nn.attention %m, %m, %m, %l scale = 1.0 causal at %r, %r
       : (tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8xf32>, tensor<8xi64>, tensor<8xi64>) -> tensor<8x3xf32>
    %y = nn.reshape %a : tensor<8x3xf32> -> tensor<2x4x3xf32>
    return %y : tensor<2x4x3xf32>
  }
}

// -----

module {
  // expected-error @+1 {{generation gives the model nothing but its tokens, and its inputs are "tokens", "mask"; give the others values in the job}}
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}, %mask: tensor<1x4xf32> {nn.name = "mask"})
      -> (tensor<1x4x1xf32> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
    %c = nn.cast %tokens : tensor<1x4xi64> -> tensor<1x4xf32>
    %m = nn.mul %c, %mask : tensor<1x4xf32>
    %y = nn.reshape %m : tensor<1x4xf32> -> tensor<1x4x1xf32>
    return %y : tensor<1x4x1xf32>
  }
}

// -----

module {
  // expected-error @+1 {{generation needs one output of logits, floats (batch, positions, vocabulary); the outputs of the model are "y"; name it by generate { logits: }}}
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4xf32> {nn.name = "y"})
      attributes {nn.program = #nn.program<run>} {
    %c = nn.cast %tokens : tensor<1x4xi64> -> tensor<1x4xf32>
    return %c : tensor<1x4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{the output of logits is of type 'tensor<1x3x4xf32>', without the positions in dim 1; it is (batch, positions, vocabulary)}}
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x3x4xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
    %y = nn.transpose %x [0, 2, 1] : tensor<1x4x3xf32> -> tensor<1x3x4xf32>
    return %y : tensor<1x3x4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{the output of logits is of type 'tensor<1x4x1xf32>', and does not depend on the tokens}}
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x1xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %y = nn.constant dense<1.0> : tensor<1x4x1xf32>
    return %y : tensor<1x4x1xf32>
  }
}

// -----

// One position has none before it.
module {
  // expected-error @+1 {{the input "tokens" is of type 'tensor<1x1xi64>'; generation needs one of tokens, i64 or i32 (batch, positions), with at least two positions}}
  func.func @forward(%tokens: tensor<1x1xi64> {nn.name = "tokens"}) -> (tensor<1x1x1xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %c = nn.cast %tokens : tensor<1x1xi64> -> tensor<1x1xf32>
    %y = nn.reshape %c : tensor<1x1xf32> -> tensor<1x1x1xf32>
    return %y : tensor<1x1x1xf32>
  }
}

// -----

// Two rows for each position, one behind the other: the second one of position 0 sees the key of position 1.
module {
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x6xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0, 1.0, 1.0, 3.0], [0.0, 1.0, 3.0, 0.0, 2.0, 1.0]]> : tensor<2x6xf32>
    %x = nn.gather %table, %tokens : tensor<2x6xf32>, tensor<1x4xi64> -> tensor<1x4x6xf32>
    %k = nn.slice %x [0, 0, 0] to [1, 4, 3] by [1, 1, 1] : tensor<1x4x6xf32> -> tensor<1x4x3xf32>
    %q = nn.reshape %x : tensor<1x4x6xf32> -> tensor<1x8x3xf32>
    %r = nn.index [0, 1] : tensor<1x8xi64>
    %c = nn.index [0, 1] : tensor<1x4xi64>
    // expected-error @+1 {{computes from several positions}}
    %l = nn.attention_log_sum %q, %k scale = 1.0 causal at %r, %c
       : (tensor<1x8x3xf32>, tensor<1x4x3xf32>, tensor<1x8xi64>, tensor<1x4xi64>) -> tensor<1x8xf32>
    %y = nn.attention %q, %k, %k, %l scale = 1.0 causal at %r, %c
       : (tensor<1x8x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x8xf32>, tensor<1x8xi64>, tensor<1x4xi64>) -> tensor<1x8x3xf32>
    %o = nn.reshape %y : tensor<1x8x3xf32> -> tensor<1x4x6xf32>
    return %o : tensor<1x4x6xf32>
  }
}

// -----

// Rows of two groups of all positions: those of the second group see every key.
module {
  func.func @forward(%tokens: tensor<1x4xi64> {nn.name = "tokens"}) -> (tensor<1x4x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x4xi64> -> tensor<1x4x3xf32>
    %b = nn.broadcast %x dims = [0, 2, 3] : tensor<1x4x3xf32> -> tensor<1x2x4x3xf32>
    %q = nn.reshape %b : tensor<1x2x4x3xf32> -> tensor<1x8x3xf32>
    %r = nn.index [0, 1] : tensor<1x8xi64>
    %c = nn.index [0, 1] : tensor<1x4xi64>
    // expected-error @+1 {{computes from several positions}}
    %l = nn.attention_log_sum %q, %x scale = 1.0 causal at %r, %c
       : (tensor<1x8x3xf32>, tensor<1x4x3xf32>, tensor<1x8xi64>, tensor<1x4xi64>) -> tensor<1x8xf32>
    %y = nn.attention %q, %x, %x, %l scale = 1.0 causal at %r, %c
       : (tensor<1x8x3xf32>, tensor<1x4x3xf32>, tensor<1x4x3xf32>, tensor<1x8xf32>, tensor<1x8xi64>, tensor<1x4xi64>) -> tensor<1x8x3xf32>
    %g = nn.reshape %y : tensor<1x8x3xf32> -> tensor<1x2x4x3xf32>
    %o = nn.reduce sum %g dims = [1] : tensor<1x2x4x3xf32> -> tensor<1x4x3xf32>
    return %o : tensor<1x4x3xf32>
  }
}

// -----

// Positions lie in the columns of the key.
module {
  func.func @forward(%tokens: tensor<1x3xi64> {nn.name = "tokens"}) -> (tensor<1x3x3xf32> {nn.name = "logits"})
      attributes {nn.program = #nn.program<run>} {
    %table = nn.constant dense<[[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]> : tensor<2x3xf32>
    %x = nn.gather %table, %tokens : tensor<2x3xf32>, tensor<1x3xi64> -> tensor<1x3x3xf32>
    %k = nn.transpose %x [0, 2, 1] : tensor<1x3x3xf32> -> tensor<1x3x3xf32>
    %r = nn.index [0, 1] : tensor<1x3xi64>
    // expected-error @+1 {{computes from several positions}}
    %l = nn.attention_log_sum %x, %k scale = 1.0 causal at %r, %r
       : (tensor<1x3x3xf32>, tensor<1x3x3xf32>, tensor<1x3xi64>, tensor<1x3xi64>) -> tensor<1x3xf32>
    %y = nn.attention %x, %k, %x, %l scale = 1.0 causal at %r, %r
       : (tensor<1x3x3xf32>, tensor<1x3x3xf32>, tensor<1x3x3xf32>, tensor<1x3xf32>, tensor<1x3xi64>, tensor<1x3xi64>) -> tensor<1x3x3xf32>
    return %y : tensor<1x3x3xf32>
  }
}
