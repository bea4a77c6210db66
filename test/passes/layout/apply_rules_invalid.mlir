// RUN: ashlar-opt %s -split-input-file -verify-diagnostics -ashlar-apply-rules

// A name that nothing has.
// expected-error@unknown {{job:3: rule "fc1.wieght": matches no tensor or op; nearest names: "fc1.weight", "fc2.weight", "fc1.bias"}}
module attributes {dist.rules = [#dist.rule<match = "fc1.wieght", layout = "[{tp}]", origin = "job:3">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @fc1.bias trainable : tensor<4xf32>
  nn.variable @fc1.weight trainable : tensor<4xf32>
  nn.variable @fc2.weight trainable : tensor<4xf32>
}

// -----

// Two rules of one priority that say different things.
// expected-error@unknown {{job:7: rule "b": gives parameter "b" the layout [{tp}] but rule "*" (job:3) gives it [{}]; make them agree, or let the priority of one be lower}}
module attributes {dist.rules = [#dist.rule<match = "*", layout = "[{}]", origin = "job:3">, #dist.rule<match = "b", layout = "[{tp}]", origin = "job:7">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// An open dim is another layout too.
// expected-error@unknown {{rule "b": gives parameter "b" the layout [{tp, ?}] but rule "*" gives it [{tp}]}}
module attributes {dist.rules = [#dist.rule<match = "*", layout = "[{tp}]">, #dist.rule<match = "b", layout = "[{tp, ?}]">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{job:3: rule "b": the mesh has no axis "pp"; its axes are "dp" of size 2, "tp" of size 4}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{pp}]", origin = "job:3">]} {
  dist.mesh @mesh <["dp" = 2, "tp" = 4]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{job:3: rule "b": layout [{tp}, {tp}] uses axis "tp" twice; an axis splits one dim, once}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp}, {tp}]", origin = "job:3">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4x4xf32>
}

// -----

// An axis and a part of it share devices.
// expected-error@unknown {{rule "b": layout [{tp:(2)2}, {tp}] uses axis "tp:(2)2" twice}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp:(2)2}, {tp}]">]} {
  dist.mesh @mesh <["tp" = 4]>
  nn.variable @b trainable : tensor<4x4xf32>
}

// -----

// expected-error@unknown {{rule "*": layout [{tp}, {}] is of rank 2 but parameter "b" has type 'tensor<4xf32>', rank 1; match tensors of one rank only}}
module attributes {dist.rules = [#dist.rule<match = "*", layout = "[{tp}, {}]">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @a trainable : tensor<4x4xf32>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{rule "b": tp:(1)3 is no part of mesh axis "tp": 1 times 3 does not divide its size 4}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp:(1)3}]">]} {
  dist.mesh @mesh <["tp" = 4]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{mesh axis "tp" is cut after 2 and after 3 parts, by rules or shard_size, and the one does not divide the other; use parts that nest}}
module attributes {dist.rules = [#dist.rule<match = "a", layout = "[{tp:(1)2}]">, #dist.rule<match = "b", layout = "[{tp:(1)3}]">]} {
  dist.mesh @mesh <["tp" = 6]>
  nn.variable @a trainable : tensor<6xf32>
  nn.variable @b trainable : tensor<6xf32>
}

// -----

// expected-error@unknown {{rule "b": layout [{}], partial = sum {tp} is partial; a rule describes whole values}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{}], partial = sum {tp}">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{rule "b": layout [{tp has its end at column 5 where } is expected; write it as [{dp}, {}]}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{rule "b": layout [{tp}] x has "x" at column 8 where the end is expected}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp}] x">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{rule "b": layout [{tp:(0)2}] has "}" at column 10 where the part of an axis as in tp:(1)2 is expected}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp:(0)2}]">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@unknown {{rule "b": layout [{?, tp}] has "," at column 4 where } is expected}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{?, tp}]">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@below {{has no dist.mesh; run ashlar-seed-layouts first}}
module attributes {dist.rules = [#dist.rule<match = "b", layout = "[{tp}]">]} {
  nn.variable @b trainable : tensor<4xf32>
}

// -----

// expected-error@below {{dist.rules holds something other than rules}}
module attributes {dist.rules = ["b"]} {
  dist.mesh @mesh <["tp" = 2]>
}

// -----

// Tuples are for ops.
// expected-error@unknown {{job:3: rule "w": matches no op, which `in` and `out` are for; nearest names: "fc"}}
module attributes {dist.rules = [#dist.rule<match = "w", in = [array<i64: 2>], origin = "job:3">]} {
  dist.mesh @mesh <["tp" = 2]>
  nn.variable @w trainable : tensor<4xf32>
  func.func @f() -> tensor<4xf32> {
    %w = nn.read @w : tensor<4xf32>
    %y = nn.tanh %w : tensor<4xf32> loc("fc")
    return %y : tensor<4xf32>
  }
}

// -----

// expected-error@unknown {{rule "fc": op "fc": tuple (2) of input 0 counts 1 dims but the tensor has type 'tensor<4x4xf32>', rank 2}}
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 2>]>]} {
  dist.mesh @mesh <["tp" = 2]>
  func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %y = nn.tanh %x : tensor<4x4xf32> loc("fc")
    return %y : tensor<4x4xf32>
  }
}

// -----

// expected-error@unknown {{rule "fc": op "fc": has 2 tuples in `in` but the op has 1 inputs}}
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 2, 1>, array<i64: 2, 1>]>]} {
  dist.mesh @mesh <["tp" = 2]>
  func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %y = nn.tanh %x : tensor<4x4xf32> loc("fc")
    return %y : tensor<4x4xf32>
  }
}

// -----

// expected-error@unknown {{rule "fc": op "fc": has 2 tuples in `out` but the op has 1 outputs}}
module attributes {dist.rules = [#dist.rule<match = "fc", out = [array<i64: 2, 1>, array<i64: 2, 1>]>]} {
  dist.mesh @mesh <["tp" = 2]>
  func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %y = nn.tanh %x : tensor<4x4xf32> loc("fc")
    return %y : tensor<4x4xf32>
  }
}

// -----

// expected-error@unknown {{rule "fc": op "fc": input 0 dim 0 is cut into 3 slices, which the free axes of mesh dp=2, tp=4 does not form; the counts of a rule multiply to a divisor of its 8 devices}}
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 3, 1>]>]} {
  dist.mesh @mesh <["dp" = 2, "tp" = 4]>
  func.func @f(%x: tensor<12x4xf32>) -> tensor<12x4xf32> {
    %y = nn.tanh %x : tensor<12x4xf32> loc("fc")
    return %y : tensor<12x4xf32>
  }
}

// -----

// expected-error@unknown {{rule "fc": op "fc": input 1 dim 0 is cut into 1 slices but input 0 dim 1, which is the same to the op, into 2; count alike}}
module attributes {dist.rules = [#dist.rule<match = "fc", in = [array<i64: 1, 2>, array<i64: 1, 1>]>]} {
  dist.mesh @mesh <["tp" = 2]>
  func.func @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %y = nn.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32> loc("fc")
    return %y : tensor<4x4xf32>
  }
}

// -----

// expected-error@unknown {{rule "turned": op "turned": tuple (2, 1) of input 0 cuts dim 0, which nn.reshape needs whole; count 1 there}}
module attributes {dist.rules = [#dist.rule<match = "turned", in = [array<i64: 2, 1>]>]} {
  dist.mesh @mesh <["tp" = 2]>
  func.func @f(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
    %y = nn.reshape %x : tensor<2x3xf32> -> tensor<3x2xf32> loc("turned")
    return %y : tensor<3x2xf32>
  }
}

// -----

// What a node shares with another stands behind it in its group, and joins the dims of its input to those of the product all the same.
// expected-error@unknown {{input 1 dim 0 is cut into 2 slices but input 0 dim 2, which is the same to the op, into 4; count alike}}
module attributes {dist.rules = [#dist.rule<match = "key", in = [array<i64: 1, 1, 4>, array<i64: 2, 1>]>]} {
  dist.mesh @mesh <["dp" = 2, "tp" = 4]>
  nn.variable @w trainable : tensor<8x8xf32>
  func.func @f(%x: tensor<4x2x8xf32> {nn.name = "x"}) -> (tensor<8x8xf32> {nn.name = "q"}, tensor<8x8xf32> {nn.name = "k"}) {
    %w = nn.read @w : tensor<8x8xf32>
    %rows = nn.reshape %x : tensor<4x2x8xf32> -> tensor<8x8xf32> loc("query")
    %q = nn.matmul %rows, %w {nn.outputs = ["q"]} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("query")
    %0 = nn.matmul %rows, %w {nn.outputs = ["k"]} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("key")
    return %q, %0 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
