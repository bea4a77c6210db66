// SPDX-License-Identifier: Apache-2.0
//
// The ops of batch, instance and group normalization.

#ifndef ASHLAR_DIALECTS_NN_NN_NORMALIZATION_TD
#define ASHLAR_DIALECTS_NN_NN_NORMALIZATION_TD

include "dialects/nn/nn_base.td"

def Nn_MomentsOp : Nn_DifferentiableOp<"moments", Nn_Computes<"Simple", "Wide", "none">, [InferTypeOpAdaptor, Nn_Expandable, Nn_Reorderable]> {
  let summary = "Mean and variance of the elements along `dims`, which vanish";
  let description = [{
    Dim 0 of the result is new: at 0 stands the mean, at 1 the variance, the mean of (x - mean)^2. The expansion adds up x and x^2 in f64, in one
    pass over x: E[x^2] - E[x]^2 then loses nothing that f32 could hold, up to a mean of 1e6 standard deviations. Where `dims` are
    sharded both sums are one partial tensor, which one collective reduces.

        %m = nn.moments %x dims = [0, 2, 3] : tensor<32x64x56x56xf32> -> tensor<2x64xf32>

    Moments of bf16 and f16 are f32.

    **Constraints:** (C1) `dims` strictly increasing and within the rank; (C2) at least one element along them.
  }];
  let arguments = (ins Nn_FloatTensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` type($input) `->` type($result)";
}

def Nn_NormalizeOp : Nn_DifferentiableOp<"normalize", Nn_Computes<"Simple", "Wide", "none">,
                                         [AllTypesMatch<["input", "result"]>, AllTypesMatch<["scale", "shift", "mean", "variance"]>,
                                          Nn_Expandable, Nn_Reorderable]> {
  let summary = "(x - mean) * scale / sqrt(variance + epsilon) + shift";
  let description = [{
    Dim i of scale, shift, mean and variance is dim `dims[i]` of x; along the other dims they repeat. The gradients of scale and shift, and
    with them the gradients of mean and variance, are made of two sums, which are one tensor: where the dims are sharded one collective
    reduces them.

        %y = nn.normalize %x, %scale, %shift, %mean, %variance dims = [1] epsilon = 1.0e-05 : tensor<32x64x56x56xf32>, tensor<64xf32>

    With `momentum` the op is a batch normalization whose mean and variance are variables: outside of training it computes with them; in a
    training step ashlar-batch-norm gives it the moments of its own batch, and moves the variables toward them, the variance toward the
    unbiased one with `unbiased`.

    **Constraints:** (C1) `dims` strictly increasing and within the rank; (C2) scale has one dim for each, of that size; (C3) element types
    agree.
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$scale, Nn_FloatTensor:$shift, Nn_FloatTensor:$mean, Nn_FloatTensor:$variance,
                       DenseI64ArrayAttr:$dims, F64Attr:$epsilon, OptionalAttr<F64Attr>:$momentum, UnitAttr:$unbiased);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $scale `,` $shift `,` $mean `,` $variance `dims` `=` $dims `epsilon` `=` $epsilon attr-dict `:` type($input) `,` type($scale)
  }];
  let hasVerifier = 1;
}

#endif // ASHLAR_DIALECTS_NN_NN_NORMALIZATION_TD
