// SPDX-License-Identifier: Apache-2.0
//
// The nn dialect itself, its attributes and the base classes of its ops.

#ifndef ASHLAR_DIALECTS_NN_NN_BASE_TD
#define ASHLAR_DIALECTS_NN_NN_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/nn/nn_enums.td"
include "dialects/support/enums.td"
include "dialects/support/op_interfaces.td"

def Nn_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::ashlar::nn";
  let summary = "The computation: the model and its training step, from one device's view";
  let description = [{
        frontend --> [ nn ] --> nn + dist --> exec

    Values are ranked tensors of static shape; nothing is implicit: broadcasting is an op (`nn.broadcast`), the last dim is the one that
    softmax works along, a mean is a sum and a product. So every op has one shape rule, one sharding rule and one gradient.

    A tensor has at most 2^46 bytes (64 TiB), so that sizes and offsets never overflow.

    Parameters, optimizer state, step counter and seed are module-level symbols (`nn.variable`); `nn.read` and `nn.write` are the only
    ops with effects. A function's arguments and results carry their outside name in the attribute `nn.name`.

    A function that is a program of the model has its role in the attribute `nn.program` (`#nn.program`). The name of a program is for
    reports and for the order of a step (`dist.order`) alone.

    The module path of an op (`layer1/Gemm`) is its location.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1; // nn.program
}

class Nn_Attr<string name, string attrMnemonic> : AttrDef<Nn_Dialect, name> { let mnemonic = attrMnemonic; }

def Nn_ProgramAttr : Nn_Attr<"Program", "program"> {
  let summary = "The role of a function in a model";
  let description = [{
    | role | the program |
    |---|---|
    | `init` | sets all variables |
    | `run` | runs the model |
    | `larger_run` | `run` for a larger batch; up to `ashlar-loss`, in a model that is trained |
    | `prepare` | computes values that all micro-batches of a step share |
    | `train_step` | runs a step, or one micro-batch of it |
    | `forward`, `backward`, `weights` | run a part of a micro-batch on a stage of a pipeline; `weights`: the gradients that no other stage needs |
    | `update` | updates the variables after the last micro-batch |
    | `eval_step` | computes the loss of a batch |
    | `prefill` | computes several positions of texts, without logits ([generate.md](../generate.md)) |
    | `decode` | computes one position of texts, and its logits |

    `chunk`: the chunk of a stage that has several. `round`: the update of a stage is one program for each round of messages. `prepares`,
    `updates`: one run joins the preparation of the step before the micro-batch, or its update after it.

        func.func @train_step(...) attributes {nn.program = #nn.program<train_step>}
        #nn.program<forward, chunk = 1>
        #nn.program<update, round = 2>
        #nn.program<train_step, updates = true>

    **Constraints:** (C1) chunk and round >= 0; (C2) a chunk of forward, backward, weights or eval_step; (C3) a round of update;
    (C4) prepares and updates of train_step, forward, backward or weights.
  }];
  let parameters = (ins EnumParameter<Nn_ProgramRole>:$role, DefaultValuedParameter<"int64_t", "0">:$chunk,
                        DefaultValuedParameter<"int64_t", "0">:$round, DefaultValuedParameter<"bool", "false">:$prepares,
                        DefaultValuedParameter<"bool", "false">:$updates);
  let assemblyFormat = "`<` $role (`,` struct($chunk, $round, $prepares, $updates)^)? `>`";
  let builders = [AttrBuilder<(ins "::ashlar::nn::ProgramRole":$role, CArg<"int64_t", "0">:$chunk, CArg<"int64_t", "0">:$round), [{
    return $_get($_ctxt, role, chunk, round, /*prepares=*/false, /*updates=*/false);
  }]>];
  let genVerifyDecl = 1;
}

// A double inside an attribute; written as an f64.
def Nn_F64Parameter : AttrOrTypeParameter<"::mlir::FloatAttr", "a double">;

def Nn_FillAttr : Nn_Attr<"Fill", "fill"> {
  let summary = "every element is `value`";
  let parameters = (ins Nn_F64Parameter:$value);
  let assemblyFormat = "`<` $value `>`";
  let builders = [AttrBuilder<(ins "double":$value), [{
    return $_get($_ctxt, ::mlir::FloatAttr::get(::mlir::Float64Type::get($_ctxt), value));
  }]>];
}
def Nn_UniformAttr : Nn_Attr<"Uniform", "uniform"> {
  let summary = "uniform in [low, high), keyed by seed, name and global index";
  let parameters = (ins Nn_F64Parameter:$low, Nn_F64Parameter:$high);
  let assemblyFormat = "`<` $low `,` $high `>`";
  let builders = [AttrBuilder<(ins "double":$low, "double":$high), [{
    auto type = ::mlir::Float64Type::get($_ctxt);
    return $_get($_ctxt, ::mlir::FloatAttr::get(type, low), ::mlir::FloatAttr::get(type, high));
  }]>];
}
def Nn_NormalAttr : Nn_Attr<"Normal", "normal"> {
  let summary = "normal with mean and standard deviation, keyed by seed, name and global index";
  let parameters = (ins Nn_F64Parameter:$mean, Nn_F64Parameter:$std);
  let assemblyFormat = "`<` $mean `,` $std `>`";
  let builders = [AttrBuilder<(ins "double":$mean, "double":$std), [{
    auto type = ::mlir::Float64Type::get($_ctxt);
    return $_get($_ctxt, ::mlir::FloatAttr::get(type, mean), ::mlir::FloatAttr::get(type, std));
  }]>];
}

def Nn_WindowAttr : Nn_Attr<"Window", "window"> {
  let summary = "the windows that stand along one dim";
  let description = [{
    Element k of the window at position o is element `o * stride + k * dilation - low` of the dim. Positions go from 0 on, as long as the
    window ends within `high` elements after the dim. Elements before and after the dim are padding; a negative `low` or `high` leaves out
    elements of the dim instead. Only the methods below count positions.

        #nn.window<3>                                                   // stride 1, dilation 1, no padding
        #nn.window<3, stride = 2, dilation = 1, low = 0, high = 1>

    **Constraints:** (C1) size, stride and dilation >= 1; (C2) all numbers below 2^31, so that no position overflows.
  }];
  let parameters = (ins "int64_t":$size, DefaultValuedParameter<"int64_t", "1">:$stride, DefaultValuedParameter<"int64_t", "1">:$dilation,
                        DefaultValuedParameter<"int64_t", "0">:$low, DefaultValuedParameter<"int64_t", "0">:$high);
  let assemblyFormat = "`<` $size (`,` struct($stride, $dilation, $low, $high)^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Returns the elements from the first one of a window to its last one.
    int64_t getSpan() const { return (getSize() - 1) * getDilation() + 1; }

    // Returns how many positions there are along a dim of `size` elements; nothing when not even one window fits.
    //   <3, stride = 2, low = 1> along 8: 4
    std::optional<int64_t> countPositions(int64_t size) const;

    // Returns which element of the dim is element `k` of the window at `position`; negative, or not below the dim's size, in the padding.
    int64_t elementAt(int64_t position, int64_t k) const { return position * getStride() + k * getDilation() - getLow(); }

    // Returns the elements that positions need.
    ::ashlar::Access getElements() const { return {getStride(), -getLow(), getSpan() - getLow()}; }

    // Returns the positions that have a window over elements of blocks of `stride` elements, as the needs of the blocks.
    ::ashlar::Access getPositionsOfBlocks() const;

    // Returns the windows along a run of elements at whose first one the first position's window begins, behind `low` elements of padding, and
    // which has so many positions.
    WindowAttr getOnRun(int64_t low, int64_t elements, int64_t positions) const;

    // Returns whether every window is one element, each element is a window, and nothing is added or left out.
    bool isIdentity() const { return getSize() == 1 && getStride() == 1 && getLow() == 0 && getHigh() == 0; }
  }];
}
def Nn_WindowArrayAttr : TypedArrayAttrBase<Nn_WindowAttr, "windows, one a dim">;

def Nn_ReductionAttr : EnumAttr<Nn_Dialect, Ashlar_Reduction, "reduction"> { let cppNamespace = "::ashlar::nn"; }
def Nn_PredicateAttr : EnumAttr<Nn_Dialect, Nn_Predicate, "predicate">;
def Nn_DistributionAttr : EnumAttr<Nn_Dialect, Nn_Distribution, "distribution">;

defvar Nn_Integers = [I8, I16, I32, I64, UI8, UI16, UI32, UI64];
def Nn_Tensor : StaticShapeTensorOf<!listconcat([F16, BF16, F32, F64, I1], Nn_Integers)>;
def Nn_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32, F64]>;
def Nn_NumericTensor : StaticShapeTensorOf<!listconcat([F16, BF16, F32, F64], Nn_Integers)>;
def Nn_BoolTensor : StaticShapeTensorOf<[I1]>;
def Nn_BitsTensor : StaticShapeTensorOf<!listconcat([I1], Nn_Integers)>; // of integers, a logical op is one of each bit
def Nn_LabelScalar : 0DTensorOf<[I32, I64]>;
def Nn_BoolScalar : 0DTensorOf<[I1]>;
def Nn_IndexTensor : StaticShapeTensorOf<[I64]>;
def Nn_LabelTensor : StaticShapeTensorOf<[I32, I64]>;
def Nn_IndexScalar : 0DTensorOf<[I64]>;

class Nn_Op<string opMnemonic, list<Trait> traits = []> : Op<Nn_Dialect, opMnemonic, !listconcat([SizedTensors], traits)>;

// How an op computes: a Cost, a Precision (op_interfaces.h), and the operands in which it is linear, a function of parts.h.
class Nn_Computes<string cost, string precision, string parts>
    : TraitList<[ComputeOpInterface, Computes<cost, precision, "::ashlar::nn::parts::" # parts>]>;

// An op with a gradient.
def Nn_Differentiable : DeclareOpInterfaceMethods<GradientOpInterface>;

// An op that draws random numbers.
def Nn_Draws : DeclareOpInterfaceMethods<DrawingOpInterface>;

// An expandable op whose results on parts of a dim give the result on all of it.
def Nn_Combinable : DeclareOpInterfaceMethods<CombinableOpInterface>;

// An op that an evaluation computes in another way where it is marked as one of the training.
def Nn_DiffersInEvaluation : DeclareOpInterfaceMethods<EvaluatedOpInterface>;

// An op with reference semantics.
def Nn_HasReference : DeclareOpInterfaceMethods<ReferenceOpInterface>;

// A pure op with a sharding rule and reference semantics.
class Nn_PureOp<string opMnemonic, Nn_Computes computes, list<Trait> traits = []>
    : Nn_Op<opMnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface>, Nn_HasReference, computes], traits)>;

// A pure op with a sharding rule, reference semantics and a gradient.
class Nn_DifferentiableOp<string opMnemonic, Nn_Computes computes, list<Trait> traits = []>
    : Nn_PureOp<opMnemonic, computes, !listconcat([Nn_Differentiable], traits)>;

// The traits of a pure op that computes each element from the elements at the same place: with scalar form and reference semantics.
class Nn_ElementwiseTraits<Nn_Computes computes, list<Trait> more> {
  list<Trait> traits = !listconcat([SizedTensors, Pure, Elementwise, ShardingRuleOpInterface, PassesDimsThrough, Nn_HasReference,
                                    DeclareOpInterfaceMethods<ScalarOpInterface>, computes], more);
}

// Such an op.
class Nn_ElementwiseOp<string opMnemonic, Nn_Computes computes, list<Trait> traits = []>
    : Op<Nn_Dialect, opMnemonic, Nn_ElementwiseTraits<computes, traits>.traits>;

// A composition of other ops.
def Nn_Expandable : DeclareOpInterfaceMethods<ExpandableOpInterface>;

// An op with numbers of dims in its attributes, which may become those of places in memory.
def Nn_Reorderable : DeclareOpInterfaceMethods<DimOrderOpInterface>;

// The same, of an op whose result may stand in any order.
def Nn_FollowsResult : DeclareOpInterfaceMethods<DimOrderOpInterface, ["followsResult"]>;

// One operand, result of the same type; an op of any dialect, as of a plugin.
class Nn_UnaryOpOf<Dialect dialect, string opMnemonic, string opSummary, Nn_Computes computes, TypeConstraint type, list<Trait> traits = []>
    : Op<dialect, opMnemonic, Nn_ElementwiseTraits<computes, !listconcat([Nn_Differentiable, SameOperandsAndResultType], traits)>.traits> {
  let summary = opSummary;
  let arguments = (ins type:$input);
  let results = (outs type:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

class Nn_UnaryOp<string opMnemonic, string opSummary, Nn_Computes computes, TypeConstraint type = Nn_FloatTensor, list<Trait> traits = []>
    : Nn_UnaryOpOf<Nn_Dialect, opMnemonic, opSummary, computes, type, traits>;

// Two operands and a result of one type.
class Nn_BinaryOp<string opMnemonic, string opSummary, Nn_Computes computes, TypeConstraint type = Nn_NumericTensor,
                  list<Trait> traits = []>
    : Nn_ElementwiseOp<opMnemonic, computes, !listconcat([Nn_Differentiable, SameOperandsAndResultType], traits)> {
  let summary = opSummary;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

#endif // ASHLAR_DIALECTS_NN_NN_BASE_TD
