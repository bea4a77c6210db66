// SPDX-License-Identifier: Apache-2.0
//
// Declarations of an op about itself, which replace knowledge in passes: the size of its tensors, its sharding rule, its gradient, its
// expansion, and its computation.

#ifndef ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_TD
#define ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_TD

include "mlir/IR/OpBase.td"

// No operand or result has more bytes than a tensor may have (tensor_size.h).
def SizedTensors : NativeOpTrait<"SizedTensors"> { let cppNamespace = "::ashlar"; }

// Each element of the result is an element of an operand, or 0: nothing is computed.
def MovesElements : NativeOpTrait<"MovesElements"> { let cppNamespace = "::ashlar"; }

// Each result is another name of the bytes of the operand with its number: nothing moves (aliases.h). Further operands are not read.
def AliasesOperands : NativeOpTrait<"AliasesOperands"> { let cppNamespace = "::ashlar"; }

// The result needs no rounding where the operands have its type.
def RoundsNothing : NativeOpTrait<"RoundsNothing"> { let cppNamespace = "::ashlar"; }

// Reductions are cheaper after this op than before it, where it is linear in its operands: its result has no more elements than the terms,
// or it makes one tensor of several.
def DelaysSums : NativeOpTrait<"DelaysSums"> { let cppNamespace = "::ashlar"; }

// The ops of the body are ops of the program, which run as often as the op says.
def RepeatsBody : NativeOpTrait<"RepeatsBody"> { let cppNamespace = "::ashlar"; }

// The result has the shape of all operands, and every dim passes through: answers ShardingRuleOpInterface.
def PassesDimsThrough : NativeOpTrait<"PassesDimsThrough"> { let cppNamespace = "::ashlar"; }

def ComputeOpInterface : OpInterface<"ComputeOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    The cost of an element, the type for mixed precision, and whether the op may compute on terms that devices have not reduced yet. An op
    answers with the trait `Computes`, and does not compile without.
  }];
  let methods = [
    InterfaceMethod<"Returns the cost of one element.", "::ashlar::Cost", "getCost", (ins)>,
    InterfaceMethod<"Returns the type in which mixed precision computes this op.", "::ashlar::Precision", "getPrecision", (ins)>,
    InterfaceMethod<"Returns whether a reduction of the operands in `partial` by `kind` may be done after this op instead; the other "
                    "operands are replicated.",
                    "bool", "passesParts", (ins "::ashlar::Reduction":$kind, "const ::llvm::SmallBitVector &":$partial)>
  ];
}

// Answers ComputeOpInterface: a Cost and a Precision (op_interfaces.h), and a function that answers passesParts.
class Computes<string cost, string precision, string parts>
    : ParamNativeOpTrait<"Computes", "::ashlar::Cost::" # cost # ", ::ashlar::Precision::" # precision # ", " # parts> {
  let cppNamespace = "::ashlar";
}

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op with a sharding rule: its dims written as factors, like an einsum (`ShardingRule`). The possible shardings of an op and their
    costs follow from it alone. Passes know these facts of single ops besides: the rows that an op finds by number (`IndexingOpInterface`),
    its expansion (`ExpandableOpInterface`), its computation (`ComputeOpInterface`), and numbers of elements in attributes
    (passes/partition/partition.cpp).
  }];
  let methods = [
    InterfaceMethod<"Returns the factors of this op's operands and results.",
                    "::ashlar::ShardingRule", "getShardingRule", (ins)>
  ];
}

def ScalarOpInterface : OpInterface<"ScalarOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op whose result has the shape of its operands and computes each element from the elements at the same place; an operand may also be a
    scalar. Generated kernels hold such ops, any number of them in one loop.
  }];
  let methods = [
    InterfaceMethod<[{
                      Builds the code of one element from an element of each operand, in arith and math ops. All are scalars of
                      `computedType` (element_type.h): the caller rounds narrow floats.
                    }],
                    "::mlir::Value", "buildScalar", (ins "::mlir::ImplicitLocOpBuilder &":$builder, "::mlir::ValueRange":$operands)>
  ];
}

def ReferenceOpInterface : OpInterface<"ReferenceOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op with reference semantics: plain loops in double precision, rounded once. The interpreter runs them, constant folding uses them, and
    every pass and kernel is tested against them.
  }];
  let methods = [
    InterfaceMethod<"Returns the one result of the op for these operands.", "::ashlar::reference::Tensor", "evaluate",
                    (ins "::llvm::ArrayRef<::ashlar::reference::Tensor>":$operands)>
  ];
}

def ContractionOpInterface : OpInterface<"ContractionOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op of cost Contraction: each element of the result is a sum of products. The products are added up in f32 at least, so the result can
    come in f32 where the operands are narrower.
  }];
  let methods = [
    InterfaceMethod<"Returns how many products it adds up, in all, on operands and results of these types, which may be shards; at most "
                    "INT64_MAX.",
                    "int64_t", "countProducts",
                    (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operandTypes,
                         "::llvm::ArrayRef<::mlir::RankedTensorType>":$resultTypes)>,
    InterfaceMethod<"Returns the class of its library calls, which decides their rate, for these types, which may be local.",
                    "::ashlar::RateClass", "getRateClass",
                    (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operandTypes,
                         "::llvm::ArrayRef<::mlir::RankedTensorType>":$resultTypes)>,
    InterfaceMethod<"Returns the operand that a library computes in the same call, of the other operands; null: none.", "::mlir::Value",
                    "getComputedTogether", (ins), /*methodBody=*/"", "return {};">
  ];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    A differentiable op. `buildGradients` gets the gradient of every result (null where nothing depends on it) and sets the gradient of
    every operand it can reach; an operand left null has gradient zero (labels, indices).
  }];
  let methods = [
    InterfaceMethod<"Builds the gradients of the operands at the builder's insertion point.", "void", "buildGradients",
                    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGradients,
                         "::llvm::MutableArrayRef<::mlir::Value>":$operandGradients)>
  ];
}

def ExpandableOpInterface : OpInterface<"ExpandableOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op that is a composition of others. Its expansion gives the same numbers up to rounding, on global and on local shapes. It is
    expanded where a dim that it needs unsharded is sharded (FactorKind::Expanded), and before lowering.
  }];
  let methods = [
    InterfaceMethod<"Builds the op's one result from other ops at the builder's insertion point.", "::mlir::Value", "buildExpansion",
                    (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def CombinableOpInterface : OpInterface<"CombinableOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An expandable op whose results on parts of a dim determine its result on all of it: a maximum or a sum is one of the parts', a log-sum-exp
    one of theirs, and an attention a sum of theirs, weighted by their log-sum-exps. Where the dim is sharded into parts of one size, the op is
    replaced by itself on parts, which each device computes of its own shard, and by what combines these: ops that reduce a dim of parts, and so
    get their collectives from their layouts.
  }];
  let methods = [
    InterfaceMethod<"Returns whether results on `parts` parts of a factor, of one size, give the result.", "bool", "combines",
                    (ins "int64_t":$factor, "int64_t":$parts)>,
    InterfaceMethod<"Builds the op's one result from those on `parts` parts of a factor at the builder's insertion point.", "::mlir::Value",
                    "buildCombination", (ins "::mlir::OpBuilder &":$builder, "int64_t":$factor, "int64_t":$parts)>
  ];
}

def IndexingOpInterface : OpInterface<"IndexingOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op that finds the rows of a tensor by number. A number outside of the tensor has no effect, so a device with a shard of the rows
    counts from its first one and leaves all other numbers to other devices; padding needs no other mask than such a number.
  }];
  let methods = [
    InterfaceMethod<"Returns the operand that holds the numbers.", "::mlir::OpOperand &", "getIndicesMutable", (ins)>,
    InterfaceMethod<"Returns the operand or result that has a dim which they count.", "::mlir::Value", "getIndexed", (ins)>,
    InterfaceMethod<"Returns that dim.", "int64_t", "getIndexedDim", (ins)>
  ];
}

def UpdatingOpInterface : OpInterface<"UpdatingOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op whose result is an operand of its type with some elements replaced by elements of others. The result takes the bytes of that
    operand where nothing else reads them: then only the other operands move, and a program is to be estimated by them.
  }];
  let methods = [
    InterfaceMethod<"Returns the operand that the result replaces.", "::mlir::OpOperand &", "getUpdatedMutable", (ins)>
  ];
}

def DrawingOpInterface : OpInterface<"DrawingOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op that draws random numbers, each keyed by its place in the whole tensor. The places come with an operand, so that a shard of it
    draws what the whole tensor has there, and a pass can move them.
  }];
  let methods = [
    InterfaceMethod<"Returns the operand that numbers what is drawn, one number or a row of them for each of its elements; null where the op "
                    "draws nothing.",
                    "::mlir::OpOperand *", "getDrawnIndex", (ins)>,
    InterfaceMethod<"Returns the type of the tensor whose elements it draws.",
                    "::mlir::RankedTensorType", "getDrawnType", (ins)>
  ];
}

def EvaluatedOpInterface : OpInterface<"EvaluatedOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op that computes something else in an evaluation where it is marked as one of the training (`nn.training_only`). A marked op without
    this interface is its first operand then.
  }];
  let methods = [
    InterfaceMethod<"Builds the op's one result in an evaluation.", "::mlir::Value", "buildEvaluation", (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def DimOrderOpInterface : OpInterface<"DimOrderOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op that computes the same on tensors whose dims have another order in memory (`DimOrder`), once the numbers of dims in its attributes
    are numbers of places. Element-wise ops do without.
  }];
  let methods = [
    InterfaceMethod<[{
                      Chooses orders, and rewrites the attributes from dims to places; the types still number dims. An entry of an order that is
                      open is empty: the results' entries, and the entries of operands that may stand in any order; where the op follows its
                      result, the operands' entries. The op fills them, and may replace an operand's order by a better one.
                      Returns false, with nothing changed, where the op can't compute on such orders.
                    }],
                    "bool", "reorderDims", (ins "::llvm::MutableArrayRef<::ashlar::DimOrder>":$operands,
                                                "::llvm::MutableArrayRef<::ashlar::DimOrder>":$results)>,
    InterfaceMethod<"Returns whether the result may take the order of its readers at no cost.", "bool", "followsResult",
                    (ins), "", [{ return false; }]>
  ];
}

def WindowedOpInterface : OpInterface<"WindowedOpInterface"> {
  let cppNamespace = "::ashlar";
  let description = [{
    An op whose sharding rule has windowed dims (`WindowedDim`) and whose attributes hold the places of windows. On a device the windows
    stand on the run of elements that its positions need, without padding.
  }];
  let methods = [
    InterfaceMethod<"Makes the attributes of windows along `dims`, which are sharded, fit the types of operands and results, which are local "
                    "by now. A dim with windows has the same number in each tensor that has it. `buildStart` builds, before the op, "
                    "the begin of the device's part of such a dim of an operand, for ops that need numbers of elements.",
                    "void", "computeOnRuns", (ins "const ::llvm::SmallBitVector &":$dims, "::ashlar::RunStartBuilder":$buildStart)>,
    InterfaceMethod<"Returns whether the op is the identity where it has one operand, of the type of its result: it takes all of a run.",
                    "bool", "isIdentityOfEqualTypes", (ins), "", [{ return false; }]>
  ];
}

#endif // ASHLAR_DIALECTS_SUPPORT_OP_INTERFACES_TD
