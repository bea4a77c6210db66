// SPDX-License-Identifier: Apache-2.0
//
// The windowed ops of the nn dialect except convolutions: views of windows, max pooling, and sums of elements at known places.

#ifndef ASHLAR_DIALECTS_NN_WINDOW_OPS_TD
#define ASHLAR_DIALECTS_NN_WINDOW_OPS_TD

include "dialects/nn/nn_base.td"

def Nn_WindowsOp : Nn_DifferentiableOp<"windows", Nn_Computes<"Free", "Move", "moved">,
                                       [InferTypeOpAdaptor, MovesElements, DeclareOpInterfaceMethods<WindowedOpInterface>, Nn_Reorderable]> {
  let summary = "The elements of each window";
  let description = [{
    Dim `dims[i]` of the operand becomes a dim of positions, and the elements of the windows are new dims, one a window, after the last of
    `dims`. Padding is 0.

        %y = nn.windows %x dims = [1] [#nn.window<3, stride = 2, low = 1>] : tensor<2x8x4xf32> -> tensor<2x4x3x4xf32>

    Its gradient is a sum of `nn.unwindows`.

    **Constraints:** (C1) `dims` strictly increasing, at least one and within the rank; (C2) one window a dim; (C3) at least one position a
    dim.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$dims, Nn_WindowArrayAttr:$windows);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims $windows attr-dict `:` type($input) `->` type($result)";
}

def Nn_UnwindowsOp : Nn_DifferentiableOp<"unwindows", Nn_Computes<"Free", "Move", "moved">,
                                         [MovesElements, DeclareOpInterfaceMethods<WindowedOpInterface>, Nn_Reorderable]> {
  let summary = "The terms of each element, by its place in the windows";
  let description = [{
    The counterpart of `nn.windows`, from positions back to elements. Element i at place k of the result is the operand's element at the
    position whose window has element i at place k, 0 where there is no such position.

        %dx = nn.unwindows %dy dims = [1] [#nn.window<3, stride = 2, low = 1>] : tensor<2x4x3x4xf32> -> tensor<2x8x3x4xf32>

    **Constraints:** (C1) as of `nn.windows`, whose operand has the type of the result without the dims of the windows; (C2) the operand
    has the type of its result.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$dims, Nn_WindowArrayAttr:$windows);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims $windows attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Nn_MaxPoolOp : Nn_DifferentiableOp<"max_pool", Nn_Computes<"Simple", "Follow", "none">,
                                       [InferTypeOpAdaptor, RoundsNothing, Nn_Expandable, Nn_Reorderable]> {
  let summary = "The largest element of each window; its gradient goes to the first one";
  let description = [{
    The maximum of `nn.windows` over the dims of the windows; a NaN is larger than any number. The padding is -infinity and never the largest
    element: a window that holds nothing else gives no element the gradient.

        %y = nn.max_pool %x dims = [1, 2] [#nn.window<2, stride = 2>, #nn.window<2, stride = 2>] : tensor<8x6x6x4xf32> -> tensor<8x3x3x4xf32>

    **Constraints:** (C1) to (C3) as of `nn.windows`; (C4) a window has less than 2^31 elements.
  }];
  let arguments = (ins Nn_FloatTensor:$input, DenseI64ArrayAttr:$dims, Nn_WindowArrayAttr:$windows);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims $windows attr-dict `:` type($input) `->` type($result)";
}

def Nn_MaxPoolPlaceOp : Nn_PureOp<"max_pool_place", Nn_Computes<"Simple", "Follow", "none">,
                                  [InferTypeOpAdaptor, Nn_Expandable, Nn_Reorderable]> {
  let summary = "The first place in its window of the result of a max pooling";
  let description = [{
    The row-major number of the first element of each window that is equal to `largest`, the result of `nn.max_pool`, or is a NaN; the number
    of elements of a window where there is none.

        %p = nn.max_pool_place %x, %y dims = [1] [#nn.window<2, stride = 2>] : tensor<8x6x4xf32>, tensor<8x3x4xf32> -> tensor<8x3x4xi32>

    **Constraints:** (C1) to (C4) as of `nn.max_pool`; (C5) `largest` has the type of its result.
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$largest, DenseI64ArrayAttr:$dims, Nn_WindowArrayAttr:$windows);
  let results = (outs StaticShapeTensorOf<[I32]>:$result);
  let assemblyFormat = [{
    $input `,` $largest `dims` `=` $dims $windows attr-dict `:` type($input) `,` type($largest) `->` type($result)
  }];
}

def Nn_ResampleOp : Nn_DifferentiableOp<"resample", Nn_Computes<"Simple", "Follow", "linear">,
                                        [DeclareOpInterfaceMethods<WindowedOpInterface>, Nn_Expandable, Nn_Reorderable]> {
  let summary = "Sums of elements at known places along one dim";
  let description = [{
    Element i of the result's dim `dim` is the sum over k of `weights[i, k]` times element `places[i, k]` of the operand, or of the elements
    themselves where there are no weights. A place outside of the dim adds nothing: neither does an infinite or NaN element that has no place.
    Resizing, reversing and padding by the tensor's own elements are such sums, and so are their gradients.

        %y = nn.resample %x dim = 1 places = dense<[[0, -1], [0, 1], [1, -1]]> weights = dense<[[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]]>
          : tensor<4x2xf32> -> tensor<4x3xf32>

    On a device with a part of the dim, `starts` are the numbers of its first position and of its first element: element i is the one of row
    i + position, and the elements count from there.

        %y = nn.resample %x starts %position, %element : tensor<i64>, tensor<i64> dim = 1 ...

    **Constraints:** (C1) `dim` within the rank; (C2) `places` is a matrix of i64 with at least one column, `weights` one of f64 of the same
    shape; (C3) weights of floats only; (C4) no starts or two; (C5) the result is the operand with the rows of `places` along `dim`, or with
    starts as many of them as it likes.
  }];
  let arguments = (ins Nn_NumericTensor:$input, Variadic<Nn_IndexScalar>:$starts, I64Attr:$dim, I64ElementsAttr:$places,
                       OptionalAttr<F64ElementsAttr>:$weights);
  let results = (outs Nn_NumericTensor:$result);
  let assemblyFormat = [{
    $input (`starts` $starts^ `:` type($starts))? `dim` `=` $dim `places` `=` $places (`weights` `=` $weights^)? attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  // `places`, and `weights` if there are any, row by row, of `terms` columns.
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$dim, "int64_t":$terms, "::llvm::ArrayRef<int64_t>":$places,
                             "::llvm::ArrayRef<double>":$weights)>];
}

#endif // ASHLAR_DIALECTS_NN_WINDOW_OPS_TD
