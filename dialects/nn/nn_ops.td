// SPDX-License-Identifier: Apache-2.0
//
// The ops of the nn dialect: variables, element-wise, shape, reduction, contraction, loss.

#ifndef ASHLAR_DIALECTS_NN_NN_OPS_TD
#define ASHLAR_DIALECTS_NN_NN_OPS_TD

include "dialects/nn/nn_base.td"

//===-- Variables ---------------------------------------------------------------------------------------------------------------------===//

def Nn_VariableResource : Resource<"::ashlar::nn::VariableResource">;

def Nn_VariableOp : Nn_Op<"variable", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor that lives from step to step";
  let description = [{
    A parameter (`trainable`) or a state: optimizer state, step counter, seed. `init` is a dense attribute of the variable's type, or one of
    `#nn.fill`, `#nn.uniform`, `#nn.normal`; once the function @init computes it, the attribute is gone. `state_of` names the parameter of
    an optimizer state, of a sum of gradients, or of a copy. `internal` variables belong to the compiler: no rule matches them, and no report lists them.

        nn.variable @fc1.weight trainable : tensor<512x784xf32> = #nn.uniform<-0.03 : f64, 0.03 : f64>
        nn.variable @fc1.weight.momentum state_of @fc1.weight : tensor<512x784xf32> = dense<0.0> : tensor<512x784xf32>
        nn.variable @ashlar.step internal : tensor<i64>

    **Constraints:** (C1) a dense `init` has the type of the variable; (C2) the variable has no more bytes than a tensor may have; (C3)
    `state_of` names an `nn.variable` of the model, neither internal nor a state itself.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyStaticShapeTensor>:$type, OptionalAttr<AnyAttr>:$init, UnitAttr:$trainable,
                       OptionalAttr<FlatSymbolRefAttr>:$state_of, UnitAttr:$internal);
  let assemblyFormat = [{
    $sym_name (`trainable` $trainable^)? (`state_of` $state_of^)? (`internal` $internal^)? `:` $type (`=` $init^)? attr-dict
  }];
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
  let hasVerifier = 1;
}

def Nn_ReadOp : Nn_Op<"read", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a variable";
  let description = [{
        %w = nn.read @fc1.weight : tensor<512x784xf32>

    **Constraints:** (C1) the symbol is an `nn.variable`; (C2) of the type of the result.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemReadAt<0, FullEffect>]>:$variable);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$variable attr-dict `:` type($result)";
}

def Nn_WriteOp : Nn_Op<"write", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Gives a variable its next value";
  let description = [{
        nn.write @fc1.weight, %new : tensor<512x784xf32>

    **Constraints:** (C1) the symbol is an `nn.variable`; (C2) of the type of the value.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemWriteAt<0, FullEffect>]>:$variable, Nn_Tensor:$value);
  let assemblyFormat = "$variable `,` $value attr-dict `:` type($value)";
}

def Nn_GradientResource : Resource<"::ashlar::nn::GradientResource">;

def Nn_GradientOp : Nn_Op<"gradient", [SameOperandsAndResultType, AliasesOperands, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                       DeclareOpInterfaceMethods<ShardingRuleOpInterface>, Nn_HasReference]> {
  let summary = "The gradient of the loss with respect to a variable";
  let description = [{
    The value itself. The op names the variable whose gradient the value is, one op a trained variable, from automatic differentiation to
    the end of partitioning: ops that depend on it are the update (Phases in phases.h), so a pass that changes all gradients changes the
    uses of these ops. It stands where the gradient is complete and the value of the variable is no longer needed for others. Its effect
    keeps it where no update uses it.

        %gradient = nn.gradient %g of @fc1.weight : tensor<512x784xf32>

    **Constraints:** (C1) the symbol is an `nn.variable`; (C2) of the rank and element type of the value: after partitioning both are pieces,
    and may be cut differently.
  }];
  let arguments = (ins Nn_FloatTensor:$value, Arg<FlatSymbolRefAttr, "", [MemWrite<Nn_GradientResource, 0, FullEffect>]>:$variable);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$value `of` $variable attr-dict `:` type($result)";
}

//===-- Sources -----------------------------------------------------------------------------------------------------------------------===//

def Nn_ConstantOp : Nn_PureOp<"constant", Nn_Computes<"Free", "Source", "none">, [ConstantLike, AllTypesMatch<["value", "result"]>, Nn_FollowsResult]> {
  let summary = "A constant tensor";
  let description = [{    %c = nn.constant dense<2.0> : tensor<4xf32>}];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Nn_IndexOp : Nn_PureOp<"index", Nn_Computes<"Free", "Source", "none">, [Nn_FollowsResult]> {
  let summary = "The index of each element under the given strides";
  let description = [{
    Element (i0, i1, ...) of the result is i0 * strides[0] + i1 * strides[1] + ... With row-major strides it numbers the elements; with one
    stride 1 and the rest 0 it is an iota. Partitioning keeps the strides and adds the offset of the device's piece, so the numbers are
    global ones on every mesh.

        %i = nn.index [3, 1] : tensor<2x3xi64>   // [[0, 1, 2], [3, 4, 5]]

    **Constraints:** (C1) one stride a dim.
  }];
  let arguments = (ins DenseI64ArrayAttr:$strides);
  let results = (outs Nn_IndexTensor:$result);
  let assemblyFormat = "$strides attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Nn_RandomOp : Nn_PureOp<"random", Nn_Computes<"Random", "Wide", "none">,
                            [DeclareOpInterfaceMethods<ScalarOpInterface>, Nn_FollowsResult, Nn_Draws]> {
  let summary = "Counter-based random numbers";
  let description = [{
    Element-wise in `index`: the number depends only on (seed, stream, counter, index), so it is the same on every mesh. `stream` keeps
    tensors apart (a hash of the name), `counter` keeps steps apart. The stream is an operand, so that one kernel draws for all tensors
    of a shape. Philox4x32-10 with key = {lo(seed), hi(seed)} and counter words
    {lo(index), hi(index), lo(counter), stream}; its output words are w0, w1, w2, w3.

    `uniform` is in [0, 1): f32: (w0 >> 8) * 2^-24; f64: ((w0 >> 5) * 2^26 + (w1 >> 6)) * 2^-53.
    `normal`: Box-Muller, sqrt(-2 log(1 - u)) * cos(2 pi v), u from w0 and v from w1 as the f32 formula (f64: u from w0, w1; v from w2, w3).

        %u = nn.random uniform %index, %seed, %step, %stream : (tensor<4x8xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<4x8xf32>

    **Constraints:** (C1) `index` and the result have the same shape.
  }];
  let arguments = (ins Nn_DistributionAttr:$distribution, Nn_IndexTensor:$index, Nn_IndexScalar:$seed, Nn_IndexScalar:$counter,
                       0DTensorOf<[I32]>:$stream);
  let results = (outs StaticShapeTensorOf<[F32, F64]>:$result);
  let assemblyFormat = "`` $distribution $index `,` $seed `,` $counter `,` $stream attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===-- Element-wise ------------------------------------------------------------------------------------------------------------------===//

def Nn_NegOp : Nn_UnaryOp<"neg", "-x", Nn_Computes<"Simple", "Follow", "linear">, Nn_NumericTensor, [RoundsNothing, DelaysSums]>;
def Nn_AbsOp : Nn_UnaryOp<"abs", "|x|; gradient sign(x), 0 at 0",
                          Nn_Computes<"Simple", "Follow", "none">, Nn_NumericTensor, [RoundsNothing]>;
def Nn_SignOp : Nn_UnaryOp<"sign", "-1, 0 or 1; gradient 0", Nn_Computes<"Simple", "Follow", "none">, Nn_NumericTensor, [RoundsNothing]>;
def Nn_ExpOp : Nn_UnaryOp<"exp", "e^x", Nn_Computes<"Function", "Wide", "none">>;
def Nn_LogOp : Nn_UnaryOp<"log", "natural logarithm", Nn_Computes<"Function", "Wide", "none">>;
def Nn_SqrtOp : Nn_UnaryOp<"sqrt", "square root", Nn_Computes<"Division", "Follow", "none">>;
def Nn_ErfOp : Nn_UnaryOp<"erf", "error function", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_TanhOp : Nn_UnaryOp<"tanh", "hyperbolic tangent", Nn_Computes<"Function", "Follow", "none">>;
def Nn_SigmoidOp : Nn_UnaryOp<"sigmoid", "1 / (1 + e^-x)", Nn_Computes<"Function", "Follow", "none">>;
def Nn_ReluOp : Nn_UnaryOp<"relu", "max(x, 0); gradient 0 at 0", Nn_Computes<"Simple", "Follow", "none">, Nn_FloatTensor, [RoundsNothing]>;
def Nn_FloorOp : Nn_UnaryOp<"floor", "the largest integer that is not larger; gradient 0", Nn_Computes<"Simple", "Follow", "none">,
                            Nn_FloatTensor, [RoundsNothing]>;
def Nn_CeilOp : Nn_UnaryOp<"ceil", "the smallest integer that is not smaller; gradient 0", Nn_Computes<"Simple", "Follow", "none">,
                           Nn_FloatTensor, [RoundsNothing]>;
def Nn_RoundOp : Nn_UnaryOp<"round", "the nearest integer, the even one of two; gradient 0", Nn_Computes<"Simple", "Follow", "none">,
                            Nn_FloatTensor, [RoundsNothing]>;
def Nn_SinOp : Nn_UnaryOp<"sin", "sine of an angle in radians", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_CosOp : Nn_UnaryOp<"cos", "cosine of an angle in radians", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_LeakyReluOp : Nn_UnaryOp<"leaky_relu", "x for x > 0, alpha x otherwise", Nn_Computes<"Simple", "Follow", "none">> {
  let arguments = (ins Nn_FloatTensor:$input, F64Attr:$alpha);
  let assemblyFormat = "$input `,` $alpha attr-dict `:` type($result)";
}
def Nn_GeluOp : Nn_UnaryOp<"gelu", "x Phi(x); with `tanh_approximation` 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
                           Nn_Computes<"LongFunction", "Follow", "none">> {
  let arguments = (ins Nn_FloatTensor:$input, UnitAttr:$tanh_approximation);
  let assemblyFormat = "$input (`tanh_approximation` $tanh_approximation^)? attr-dict `:` type($result)";
}
def Nn_NotOp : Nn_ElementwiseOp<"not", Nn_Computes<"Simple", "Follow", "none">, [SameOperandsAndResultType]> {
  let summary = "logical not";
  let arguments = (ins Nn_BitsTensor:$input);
  let results = (outs Nn_BitsTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}
def Nn_CastOp : Nn_ElementwiseOp<"cast", Nn_Computes<"Simple", "Convert", "widened">,
                                 [Nn_Differentiable, SameOperandsAndResultShape, DelaysSums]> {
  let summary = "Converts the element type";
  let description = [{
    To an integer: truncates toward zero. To bool: x != 0. From bool: 0 or 1.

        %y = nn.cast %x : tensor<4xi1> -> tensor<4xf32>
  }];
  let arguments = (ins Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}
def Nn_BitcastOp : Nn_ElementwiseOp<"bitcast", Nn_Computes<"Simple", "Wide", "none">, [SameOperandsAndResultShape, RoundsNothing]> {
  let summary = "Takes the bits of each element as another type of the same width";
  let description = [{
    No gradient passes. A NaN stays a NaN, but not always the same one: the reference interpreter makes a signalling one quiet, and kernels,
    which compute bf16 and f16 in f32, may change all payload bits of one of these types.

        %y = nn.bitcast %x : tensor<4xf32> -> tensor<4xui32>

    **Constraints:** (C1) both element types have the same width.
  }];
  let arguments = (ins Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Nn_AddOp : Nn_BinaryOp<"add", "lhs + rhs", Nn_Computes<"Simple", "Follow", "linear">, Nn_NumericTensor,
                           [Commutative, DelaysSums]> { let hasFolder = 1; }
def Nn_SubOp : Nn_BinaryOp<"sub", "lhs - rhs", Nn_Computes<"Simple", "Follow", "linear">, Nn_NumericTensor,
                           [DelaysSums]> { let hasFolder = 1; }
def Nn_MulOp : Nn_BinaryOp<"mul", "lhs * rhs", Nn_Computes<"Simple", "Follow", "bilinear">, Nn_NumericTensor,
                           [Commutative, DelaysSums]> { let hasFolder = 1; }
def Nn_DivOp : Nn_BinaryOp<"div", "lhs / rhs; integers truncate toward zero, and x / 0 is 0",
                           Nn_Computes<"Division", "Follow", "dividend">, Nn_NumericTensor, [DelaysSums]> { let hasFolder = 1; }
def Nn_PowOp : Nn_BinaryOp<"pow", "lhs ^ rhs", Nn_Computes<"LongFunction", "Wide", "none">, Nn_FloatTensor>;
def Nn_MaxOp : Nn_BinaryOp<"max", "the larger; equal: the gradient goes to lhs",
                           Nn_Computes<"Simple", "Follow", "larger">, Nn_NumericTensor, [RoundsNothing]>;
def Nn_MinOp : Nn_BinaryOp<"min", "the smaller; equal: the gradient goes to lhs",
                           Nn_Computes<"Simple", "Follow", "smaller">, Nn_NumericTensor, [RoundsNothing]>;

class Nn_LogicalOp<string opMnemonic, string opSummary>
    : Nn_ElementwiseOp<opMnemonic, Nn_Computes<"Simple", "Follow", "none">, [SameOperandsAndResultType, Commutative]> {
  let summary = opSummary;
  let arguments = (ins Nn_BitsTensor:$lhs, Nn_BitsTensor:$rhs);
  let results = (outs Nn_BitsTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}
def Nn_AndOp : Nn_LogicalOp<"and", "logical and">;
def Nn_OrOp : Nn_LogicalOp<"or", "logical or">;

def Nn_CompareOp : Nn_ElementwiseOp<"compare", Nn_Computes<"Simple", "Follow", "none">, [SameTypeOperands, SameOperandsAndResultShape]> {
  let summary = "Compares element by element";
  let description = [{    %b = nn.compare lt %x, %y : tensor<4xf32>   // tensor<4xi1>}];
  let arguments = (ins Nn_PredicateAttr:$predicate, Nn_Tensor:$lhs, Nn_Tensor:$rhs);
  let results = (outs Nn_BoolTensor:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}

def Nn_SelectOp : Nn_ElementwiseOp<"select", Nn_Computes<"Simple", "Follow", "chosen">,
                                   [Nn_Differentiable, AllTypesMatch<["on_true", "on_false", "result"]>, SameOperandsAndResultShape,
                                    RoundsNothing, DelaysSums]> {
  let summary = "on_true where the condition holds, on_false elsewhere";
  let arguments = (ins Nn_BoolTensor:$condition, Nn_Tensor:$on_true, Nn_Tensor:$on_false);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)";
}

//===-- Shape -------------------------------------------------------------------------------------------------------------------------===//

def Nn_BroadcastOp : Nn_DifferentiableOp<"broadcast", Nn_Computes<"Free", "Move", "moved">, [MovesElements, Nn_FollowsResult]> {
  let summary = "Repeats a tensor along new dims";
  let description = [{
    Dim i of the operand becomes dim `dims[i]` of the result; along the other dims it repeats.

        %y = nn.broadcast %bias dims = [1] : tensor<10xf32> -> tensor<256x10xf32>

    **Constraints:** (C1) one entry of `dims` a dim of the operand, strictly increasing and within the result; (C2) sizes agree;
    (C3) element types agree.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nn_ReshapeOp : Nn_DifferentiableOp<"reshape", Nn_Computes<"Free", "Move", "moved">,
                                       [MovesElements, AliasesOperands, DelaysSums, DeclareOpInterfaceMethods<WindowedOpInterface>,
                                        Nn_Reorderable]> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{
    Where several dims are one of the other shape, `moves_rows` lets a split of the first of them, or of the one, be of any size: a device
    computes on whole elements of the first dim, and elements move between devices where its share of the one dim is another. Without it
    only even splits go through.

    **Constraints:** (C1) as many elements; (C2) element types agree.
  }];
  let arguments = (ins Nn_Tensor:$input, UnitAttr:$moves_rows);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Nn_TransposeOp : Nn_DifferentiableOp<"transpose", Nn_Computes<"Free", "Move", "moved">,
                                         [InferTypeOpAdaptor, MovesElements, DelaysSums, Nn_Reorderable]> {
  let summary = "Permutes the dims: dim i of the result is dim permutation[i] of the operand";
  let description = [{
        %y = nn.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>

    **Constraints:** (C1) `permutation` is a permutation of the operand's dims.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

// Of an op that cuts, extends or joins dims: along a sharded one it takes the run that its part of the result reads.
def Nn_TakesRuns : DeclareOpInterfaceMethods<WindowedOpInterface, ["isIdentityOfEqualTypes"]>;

def Nn_ConcatOp : Nn_DifferentiableOp<"concat", Nn_Computes<"Free", "Move", "moved">,
                                      [InferTypeOpAdaptor, MovesElements, DelaysSums, Nn_TakesRuns, Nn_Reorderable]> {
  let summary = "Joins tensors along one dim";
  let description = [{
        %y = nn.concat %a, %b dim = 1 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>

    **Constraints:** (C1) at least one operand; (C2) `dim` within the rank; (C3) all other dims and the element types agree.
  }];
  let arguments = (ins Variadic<Nn_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$inputs `dim` `=` $dim attr-dict `:` functional-type($inputs, $result)";
}

def Nn_SliceOp : Nn_DifferentiableOp<"slice", Nn_Computes<"Free", "Move", "moved">,
                                     [InferTypeOpAdaptor, MovesElements, DelaysSums, Nn_TakesRuns, Nn_Reorderable]> {
  let summary = "Elements starts[d], starts[d] + steps[d], ... below limits[d] of each dim d";
  let description = [{
        %y = nn.slice %x [0, 1] to [4, 3] by [1, 1] : tensor<4x8xf32> -> tensor<4x2xf32>

    **Constraints:** (C1) one start, limit and step a dim; (C2) 0 <= start <= limit <= size; (C3) steps >= 1.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$steps);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input $starts `to` $limits `by` $steps attr-dict `:` type($input) `->` type($result)";
}

def Nn_PadOp : Nn_DifferentiableOp<"pad", Nn_Computes<"Free", "Move", "moved">,
                                   [MovesElements, Nn_TakesRuns, Nn_Reorderable]> {
  let summary = "Puts a tensor into zeros: low[d] before, interior[d] between neighbours, the rest after";
  let description = [{
    Element i of the operand's dim d lands at low[d] + i * (interior[d] + 1); all else is 0. The gradient of `nn.slice`.

    **Constraints:** (C1) one `low` and one `interior` >= 0 a dim; (C2) the operand fits into the result; (C3) element types agree.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$interior);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input `low` `=` $low `interior` `=` $interior attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Nn_GatherOp : Nn_DifferentiableOp<"gather", Nn_Computes<"Free", "Move", "none">,
                                      [InferTypeOpAdaptor, IndexingOpInterface, MovesElements]> {
  let summary = "Rows of a table by number";
  let description = [{
    The table is (rows, rest...), the indices (places...), the result (places..., rest...): at each place the row with that number. A number
    outside [0, rows) gives zeros. With `batch_dims`, as many dims stand before the rows, before the places and before the result: each
    element of the batch has a table of its own.

        %y = nn.gather %table, %tokens : tensor<50000x512xf32>, tensor<8x128xi64> -> tensor<8x128x512xf32>
        %y = nn.gather %x, %i batch_dims = 1 : tensor<8x128x512xf32>, tensor<8x16xi64> -> tensor<8x16x512xf32>

    **Constraints:** (C1) the table has rank >= 1; (C2) `batch_dims` is in [0, rank of the table), and the indices have these dims of the table.
  }];
  let arguments = (ins Nn_NumericTensor:$table, Nn_LabelTensor:$indices, DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Nn_NumericTensor:$result);
  let assemblyFormat = [{
    $table `,` $indices (`batch_dims` `=` $batch_dims^)? attr-dict `:` type($table) `,` type($indices) `->` type($result)
  }];
  let extraClassDeclaration = [{
    ::mlir::Value getIndexed() { return getTable(); }
    int64_t getIndexedDim() { return static_cast<int64_t>(getBatchDims()); }
  }];
}

def Nn_ScatterAddOp : Nn_DifferentiableOp<"scatter_add", Nn_Computes<"Simple", "Wide", "none">, [IndexingOpInterface]> {
  let summary = "Adds up updates into rows by number";
  let description = [{
    The indices are (places...), the updates (places..., rest...), the result (rows, rest...): row v is the sum of the updates at all places
    with the number v, zeros where there is none. A number outside [0, rows) drops its update. `batch_dims` as of `nn.gather`. The
    gradient of `nn.gather`, and the other way round.

        %g = nn.scatter_add %tokens, %dy : tensor<8x128xi64>, tensor<8x128x512xf32> -> tensor<50000x512xf32>

    **Constraints:** (C1) the result has rank >= 1; (C2) `batch_dims` is in [0, rank of the result), and the indices have these dims of the
    result; (C3) the updates have the shape of the indices, then the shape of a row; (C4) element types of updates and result agree.
  }];
  let arguments = (ins Nn_LabelTensor:$indices, Nn_NumericTensor:$updates, DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Nn_NumericTensor:$result);
  let assemblyFormat = [{
    $indices `,` $updates (`batch_dims` `=` $batch_dims^)? attr-dict `:` type($indices) `,` type($updates) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Value getIndexed() { return getResult(); }
    int64_t getIndexedDim() { return static_cast<int64_t>(getBatchDims()); }
  }];
}

def Nn_InsertOp : Nn_DifferentiableOp<"insert", Nn_Computes<"Simple", "Move", "none">,
                                      [UpdatingOpInterface, Nn_Expandable, AllTypesMatch<["base", "result"]>, RoundsNothing]> {
  let summary = "A tensor with new rows at an index that is known when it runs";
  let description = [{
    The result is `base`, with the elements of `rows` at the places [index, index + n) of `dim`, where n is the size of `dim` in `rows`.
    Rows at places outside [0, size of `dim`) are dropped. So a program writes keys and values of new positions into its tables: where the
    base is a variable that the program writes next, only the rows move ([memory_plan.md](../memory_plan.md#in-place-updates)).

        %y = nn.insert %rows into %base at %index dim = 2
           : tensor<2x12x1x64xf32>, tensor<2x12x1024x64xf32>, tensor<i64> -> tensor<2x12x1024x64xf32>

    **Constraints:** (C1) `dim` is within the rank of the base; (C2) `rows` has the shape of the base, except for the size of `dim`; (C3) element
    types agree.
  }];
  let arguments = (ins Nn_Tensor:$rows, Nn_Tensor:$base, Nn_LabelScalar:$index, I64Attr:$dim);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $rows `into` $base `at` $index `dim` `=` $dim attr-dict `:` type($rows) `,` type($base) `,` type($index) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::OpOperand &getUpdatedMutable() { return getBaseMutable(); }
  }];
}

//===-- Reduction, contraction, loss --------------------------------------------------------------------------------------------------===//

def Nn_ReduceOp : Nn_DifferentiableOp<"reduce", Nn_Computes<"Simple", "Wide", "reduced">,
                                      [InferTypeOpAdaptor, DelaysSums, Nn_Reorderable]> {
  let summary = "Combines the elements along `dims`, which vanish";
  let description = [{
    The gradient of max and min goes to every element equal to the result, in equal shares.

        %s = nn.reduce sum %x dims = [0] : tensor<256x10xf32> -> tensor<10xf32>

    **Constraints:** (C1) `dims` strictly increasing and within the rank.
  }];
  let arguments = (ins Nn_ReductionAttr:$kind, Nn_NumericTensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Nn_NumericTensor:$result);
  let assemblyFormat = "`` $kind $input `dims` `=` $dims attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

// A sum of products, in whose operands it is linear.
class Nn_ContractionOp<string opMnemonic, list<Trait> traits = []>
    : Nn_DifferentiableOp<opMnemonic, Nn_Computes<"Contraction", "Narrow", "bilinear">,
                          !listconcat([DeclareOpInterfaceMethods<ContractionOpInterface>], traits)>;

def Nn_MatMulOp : Nn_ContractionOp<"matmul", [InferTypeOpAdaptorWithIsCompatible]> {
  let summary = "Matrix product over the last two dims, the leading dims are batch";
  let description = [{
    op(lhs) is (batch..., m, k), op(rhs) is (batch..., k, n), the result (batch..., m, n); op swaps the last two dims when transposed.

        %y = nn.matmul %x, %w transpose_b : tensor<256x784xf32>, tensor<512x784xf32> -> tensor<256x512xf32>

    The result of a product of bf16 or f16 is rounded to their type, or is f32 when the result type is. Products of integers of 8
    bits, each signed or not, are summed in i32. Sums of integers wrap around.

    **Constraints:** (C1) both ranks equal and >= 2; (C2) batch dims agree; (C3) contracted sizes agree; (C4) element types agree, except for
    an f32 result of bf16 or f16 operands, and i8 with ui8.
  }];
  let arguments = (ins Nn_NumericTensor:$lhs, Nn_NumericTensor:$rhs, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Nn_NumericTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

// The three convolutions are about the same tensors: x, the weights, y. Each of them computes one from the other two, and the gradients of
// each are made of the others. The C++ side is `Convolution` (convolution.h).
class Nn_ConvolutionOp<string opMnemonic, dag operands>
    : Nn_ContractionOp<opMnemonic, [DeclareOpInterfaceMethods<WindowedOpInterface>, Nn_Reorderable]> {
  let arguments = !con(operands, (ins Nn_WindowArrayAttr:$windows, UnitAttr:$channels_last, UnitAttr:$weights_last));
  let results = (outs Nn_FloatTensor:$result);
  let hasVerifier = 1;
}

def Nn_ConvOp : Nn_ConvolutionOp<"conv", (ins Nn_FloatTensor:$x, Nn_FloatTensor:$weights)> {
  let summary = "Convolution: y from x and the weights";
  let description = [{
    x is (batch, channels, in...), the weights (channels of y, channels of a group, size...), y (batch, channels of y, positions...), with 1 to
    3 spatial dims; with `channels_last` the channels of x and y come behind their spatial dims, with `weights_last` the channels of a group
    behind the size. Window k of `windows` stands along spatial dim k; padding adds nothing. x has as many channels as there are groups times the channels of a group: group g of y's channels sees group
    g of x's. So the number of groups follows from the shapes, of tensors as of pieces.

        y[b, m, o] = sum over c, k of x[b, g * C + c, element k of the window at o] * w[m, c, k], g the group of m, C channels a group

        %y = nn.conv %x, %w windows = [#nn.window<3, stride = 2, low = 1, high = 1>]
           : tensor<8x4x32xf32>, tensor<6x4x3xf32> -> tensor<8x6x16xf32>

    The result is rounded to the type of the operands, or is f32 when the result type is.

    **Constraints:** (C1) 1 to 3 windows, and x, weights and y of so many dims and two more; (C2) windows of the size of the weights; (C3) the
    channels of a group divide the channels of x, and the number of groups the channels of y; (C4) a window fits into each dim; (C5) y has the
    batch of x, the channels of the weights and the positions of the windows; (C6) element types agree, except for an f32 result of bf16 or
    f16 operands.
  }];
  let assemblyFormat = [{
    $x `,` $weights (`channels_last` $channels_last^)? (`weights_last` $weights_last^)? `windows` `=` $windows attr-dict
    `:` type($x) `,` type($weights) `->` type($result)
  }];
}

def Nn_ConvDataOp : Nn_ConvolutionOp<"conv_data", (ins Nn_FloatTensor:$y, Nn_FloatTensor:$weights)> {
  let summary = "The gradient of a convolution with respect to x: x from y and the weights; a transposed convolution";
  let description = [{
    Each element of y goes, times the weights, to the elements of its window; elements of x that no window has are 0.

        %x = nn.conv_data %y, %w windows = [#nn.window<3, stride = 2, low = 1, high = 1>]
           : tensor<8x6x16xf32>, tensor<6x4x3xf32> -> tensor<8x4x32xf32>

    **Constraints:** (C1) to (C6) as for nn.conv.
  }];
  let assemblyFormat = [{
    $y `,` $weights (`channels_last` $channels_last^)? (`weights_last` $weights_last^)? `windows` `=` $windows attr-dict
    `:` type($y) `,` type($weights) `->` type($result)
  }];
}

def Nn_ConvWeightsOp : Nn_ConvolutionOp<"conv_weights", (ins Nn_FloatTensor:$x, Nn_FloatTensor:$y)> {
  let summary = "The gradient of a convolution with respect to the weights: the weights from x and y";
  let description = [{
    Each weight gets the sum of the products of an element of y and the element of x that it takes there.

        %w = nn.conv_weights %x, %y windows = [#nn.window<3, stride = 2, low = 1, high = 1>]
           : tensor<8x4x32xf32>, tensor<8x6x16xf32> -> tensor<6x4x3xf32>

    **Constraints:** (C1) to (C6) as for nn.conv.
  }];
  let assemblyFormat = [{
    $x `,` $y (`channels_last` $channels_last^)? (`weights_last` $weights_last^)? `windows` `=` $windows attr-dict
    `:` type($x) `,` type($y) `->` type($result)
  }];
}

// Softmax or its logarithm.
class Nn_RowsOp<string opMnemonic, string opSummary>
    : Nn_DifferentiableOp<opMnemonic, Nn_Computes<"Function", "Wide", "none">, [SameOperandsAndResultType, Nn_Expandable]> {
  let summary = opSummary;
  let arguments = (ins Nn_FloatTensor:$input);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}
def Nn_SoftmaxOp : Nn_RowsOp<"softmax", "exp(x - max) / sum(exp(x - max)) along the last dim"> {
  let description = [{**Constraints:** (C1) rank >= 1.}];
  let hasVerifier = 1;
}
def Nn_LogSoftmaxOp : Nn_RowsOp<"log_softmax", "x - max - log(sum(exp(x - max))) along the last dim"> {
  let description = [{**Constraints:** (C1) rank >= 1.}];
  let hasVerifier = 1;
}

def Nn_SoftmaxCrossEntropyOp : Nn_DifferentiableOp<"softmax_cross_entropy", Nn_Computes<"Function", "Wide", "none">,
                                                   [InferTypeOpAdaptor, Nn_Expandable]> {
  let summary = "-log_softmax(logits) at the label, for each row";
  let description = [{
    logits: (rows..., classes), labels: (rows...) class indices; the result is (rows...). A label outside [0, classes) gives 0.

        %l = nn.softmax_cross_entropy %logits, %labels : tensor<256x10xf32>, tensor<256xi32> -> tensor<256xf32>

    **Constraints:** (C1) labels have the shape of logits without the last dim.
  }];
  let arguments = (ins Nn_FloatTensor:$logits, Nn_LabelTensor:$labels);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` type($logits) `,` type($labels) `->` type($result)";
}

#endif // ASHLAR_DIALECTS_NN_NN_OPS_TD
