// SPDX-License-Identifier: Apache-2.0
//
// Attention: three ops whose scores are no values of the program.

#ifndef ASHLAR_DIALECTS_NN_NN_ATTENTION_TD
#define ASHLAR_DIALECTS_NN_NN_ATTENTION_TD

include "dialects/nn/nn_base.td"

def Nn_AttentionOperandAttr : EnumAttr<Nn_Dialect, Nn_AttentionOperand, "attention_operand">;
def Nn_MaskTensor : StaticShapeTensorOf<[F16, BF16, F32, F64, I1]>;
def Nn_DrawTensor : StaticShapeTensorOf<[I64, I32]>;

// An op on the scores of queries and keys. Mixed precision gives it f32: it runs before attention is recognised, so that the ops of narrow
// tensors that a program has take these as they are.
class Nn_AttentionBaseOp<string opMnemonic, string parts, dag operands, dag weights, list<Trait> traits>
    : Nn_PureOp<opMnemonic, Nn_Computes<"Contraction", "Wide", parts>,
                !listconcat([DeclareOpInterfaceMethods<ContractionOpInterface>, Nn_Expandable, AttrSizedOperandSegments], traits)> {
  let arguments = !con(operands, (ins Optional<Nn_MaskTensor>:$mask, F64Attr:$scale, UnitAttr:$causal,
                                      DefaultValuedAttr<I64Attr, "0">:$diagonal, DefaultValuedAttr<I64Attr, "0">:$window,
                                      DefaultValuedAttr<F64Attr, "::llvm::APFloat(0.0)">:$softcap,
                                      Variadic<Nn_IndexTensor>:$positions), weights);
  let results = (outs Nn_FloatTensor:$result);
}

// An op on the weights of values, the softmax of the scores, of which a dropout may leave some out.
class Nn_AttentionWeightsOp<string opMnemonic, string parts, dag operands, list<Trait> traits>
    : Nn_AttentionBaseOp<opMnemonic, parts, operands,
                         (ins Variadic<Nn_DrawTensor>:$draw, DefaultValuedAttr<F64Attr, "::llvm::APFloat(0.0)">:$dropout),
                         !listconcat([Nn_Draws], traits)>;

def Nn_AttentionLogSumOp : Nn_AttentionBaseOp<"attention_log_sum", "none", (ins Nn_FloatTensor:$query, Nn_FloatTensor:$key), (ins),
                                              [InferTypeOpAdaptor, Nn_Combinable]> {
  let summary = "The logarithm of the sum of exp(score) over the keys of each query";
  let description = [{
    The query is (batch..., rows, width), the key (batch..., keys, width), the result (batch..., rows), in f64 where they are, else in f32.
    The scores, (batch..., rows, keys), are s = scale * query key^T in the type of the result, or where `softcap` is not 0, softcap *
    tanh(s / softcap); `mask` is added to them, or where it is of bools, s is -infinity where it is false. With `causal` s is -infinity,
    too, where key > row + `diagonal`; with a `window` that is not 0, where key <= row + diagonal - window. The mask has the dims of the
    scores, each of them whole or 1, along which it repeats.

    Rows and keys count from 0, or where a causal op has `positions`, from the first element of these: a row position and a key position,
    (batch or 1..., rows) and (batch or 1..., keys), each 1 more than the one before it. Shards of both see what the whole tensors see, so
    with them rows and keys can be sharded.

        result[b, i] = max + log(sum over j of exp(s[b, i, j] - max)), max being the largest s[b, i, j]

        %l = nn.attention_log_sum %q, %k scale = 1.250000e-01 causal : (tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>) -> tensor<8x12x128xf32>

    A row without a key that it sees is -infinity; then exp(s - log_sum) is NaN, as its softmax is.

    **Constraints:** (C1) query and key have equal rank >= 2, batch dims, width and element type; (C2) the mask has the rank of the scores, and
    each of its dims is of their size or 1; (C3) `diagonal` and `window` are 0 without `causal`, and `window` and `softcap` not negative
    and finite; (C9) `positions` are none, or with `causal` two of these shapes.
  }];
  let assemblyFormat = [{
    $query `,` $key (`mask` `=` $mask^)? `scale` `=` $scale (`causal` $causal^)? (`at` $positions^)?
    (`diagonal` `=` $diagonal^)? (`window` `=` $window^)? (`softcap` `=` $softcap^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Nn_AttentionOp : Nn_AttentionWeightsOp<"attention", "attended",
                                           (ins Nn_FloatTensor:$query, Nn_FloatTensor:$key, Nn_FloatTensor:$value, Nn_FloatTensor:$log_sum),
                                           [InferTypeOpAdaptorWithIsCompatible, Nn_Differentiable, Nn_Combinable, Nn_DiffersInEvaluation]> {
  let summary = "The sum of the values of all keys, each times the softmax of its score";
  let description = [{
    `log_sum` is the result of `nn.attention_log_sum`, which defines the scores s, for the same query, key and mask. The value is
    (batch..., keys, columns), the result (batch..., rows, columns) of its element type, or f32 where that is narrower.

        result[b, i, c] = sum over j of exp(s[b, i, j] - log_sum[b, i]) * value[b, j, c]

        %y = nn.attention %q, %k, %v, %l scale = 1.250000e-01 causal
           : (tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>, tensor<8x12x128x64xbf16>, tensor<8x12x128xf32>) -> tensor<8x12x128x64xbf16>

    With a `dropout` that is not 0, each weight exp(s - log_sum) counts 1 / (1 - dropout) times where u[b, i, j] >= dropout, else not at all.
    `draw` is a row index, (batch or 1..., rows), a key index, (batch or 1..., keys), and the seed, counter and stream of `nn.random`, which makes
    u, uniform, in the type of the scores, from row_index[b, i] + key_index[b, j]. So no tensor of rows x keys holds the indices, and shards
    of both indices draw the numbers of the whole tensor.

        %r = nn.index [196608, 16384, 128] : tensor<8x12x128xi64>
        %c = nn.index [0, 0, 1] : tensor<1x1x128xi64>
        %y = nn.attention %q, %k, %v, %l scale = 1.250000e-01 dropout = 1.000000e-01 by %r, %c, %seed, %step, %stream : (...) -> ...

    The gradient of query, key and value counts their way through `log_sum`, which gets none itself; nor does the mask: a mask that is trained
    is no operand of this op. Where keys are sharded, each device computes the op on its own keys, with their own log_sum, and the results are added
    up, each times exp(own log_sum - log_sum) (CombinableOpInterface).

    **Constraints:** (C1) to (C3), (C9) as for nn.attention_log_sum; (C4) the value has the rank, batch dims, keys and element type of the key; (C5)
    log_sum is (batch..., rows), in f64 where query and key are, else in f32; (C6) a dropout is in (0, 1) and has the five operands of
    `draw`; without one there are none: (C7) the row index is (batch..., rows), the key index (batch..., keys), batch dims of their size
    or 1; seed and counter are i64, the stream i32, each a scalar.
  }];
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $log_sum (`mask` `=` $mask^)? `scale` `=` $scale (`causal` $causal^)? (`at` $positions^)?
    (`diagonal` `=` $diagonal^)? (`window` `=` $window^)? (`softcap` `=` $softcap^)? (`dropout` `=` $dropout^ `by` $draw)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    // See ContractionOpInterface.
    ::mlir::Value getComputedTogether() { return getLogSum(); }
  }];
}

def Nn_AttentionGradientOp
    : Nn_AttentionWeightsOp<"attention_gradient", "attentionGradient",
                         (ins Nn_AttentionOperandAttr:$of, Nn_FloatTensor:$query, Nn_FloatTensor:$key, Nn_FloatTensor:$value,
                              Nn_FloatTensor:$log_sum, Nn_FloatTensor:$out, Nn_FloatTensor:$gradient),
                         [InferTypeOpAdaptorWithIsCompatible, AllTypesMatch<["out", "gradient"]>]> {
  let summary = "The gradient of an attention with respect to its query, key or value";
  let description = [{
    `out` is the result of `nn.attention` for the same operands, `gradient` its gradient. The result has the type of query, key or value, or
    f32 where that is narrower.

        p[b, i, j] = exp(s[b, i, j] - log_sum[b, i])
        u[b, i, j] = 1 - tanh(scale * (query key^T)[b, i, j] / softcap)^2, or 1 without a softcap
        d[b, i, j] = 1 / (1 - dropout) or 0, as for nn.attention, or 1 without a dropout
        t[b, i, j] = scale * u[b, i, j] * p[b, i, j] * sum over c of gradient[b, i, c] * (d[b, i, j] * value[b, j, c] - out[b, i, c])
        query: result[b, i, w] = sum over j of t[b, i, j] * key[b, j, w]
        key:   result[b, j, w] = sum over i of t[b, i, j] * query[b, i, w]
        value: result[b, j, c] = sum over i of d[b, i, j] * p[b, i, j] * gradient[b, i, c]

        %dk = nn.attention_gradient key %q, %k, %v, %l, %y, %g scale = 1.250000e-01 causal
            : (tensor<4x8x64xf32>, tensor<4x8x64xf32>, tensor<4x8x64xf32>, tensor<4x8xf32>, tensor<4x8x64xf32>, tensor<4x8x64xf32>) -> tensor<4x8x64xf32>

    **Constraints:** (C1) to (C7), (C9) as for nn.attention; (C8) out and gradient have one type that the result of nn.attention may have.
  }];
  let assemblyFormat = [{
    $of $query `,` $key `,` $value `,` $log_sum `,` $out `,` $gradient (`mask` `=` $mask^)? `scale` `=` $scale
    (`causal` $causal^)? (`at` $positions^)?
    (`diagonal` `=` $diagonal^)? (`window` `=` $window^)? (`softcap` `=` $softcap^)? (`dropout` `=` $dropout^ `by` $draw)? attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // ASHLAR_DIALECTS_NN_NN_ATTENTION_TD
