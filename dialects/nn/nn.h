// SPDX-License-Identifier: Apache-2.0
//
// C++ side of the nn dialect. The ops are defined in nn_ops.td and window_ops.td.

#ifndef ASHLAR_DIALECTS_NN_NN_H
#define ASHLAR_DIALECTS_NN_NN_H

#include "dialects/nn/parts.h"
#include "dialects/support/enums.h"
#include "dialects/support/op_interfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/nn/nn_dialect.h.inc"
#include "dialects/nn/nn_enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/nn_attrs.h.inc"

namespace ashlar::nn {

// The resource of nn.read and nn.write.
struct VariableResource : public mlir::SideEffects::Resource::Base<VariableResource> {
  llvm::StringRef getName() final { return "nn.variable"; }
};

// The resource of nn.gradient.
struct GradientResource : public mlir::SideEffects::Resource::Base<GradientResource> {
  llvm::StringRef getName() final { return "nn.gradient"; }
};

// Attribute of function arguments and results: the outside name of an input or output.
inline constexpr llvm::StringLiteral kNameAttr = "nn.name";

// Attribute of functions, and of their exec programs: the role (#nn.program). See programs.h.
inline constexpr llvm::StringLiteral kProgramAttr = "nn.program";

// Attribute of ops: the outside names of their results (array of strings, "" for none).
inline constexpr llvm::StringLiteral kOutputsAttr = "nn.outputs";

// Attribute of ops with one result: more names of it (array of strings), as nodes that compute nothing give them.
inline constexpr llvm::StringLiteral kAliasesAttr = "nn.aliases";

// Attribute of ops that only training runs, as dropout: outside of it the result is operand 0, or what the
// op builds (EvaluatedOpInterface).
inline constexpr llvm::StringLiteral kTrainingOnlyAttr = "nn.training_only";

// Attribute of transposes (unit): the compiler moves a tensor to another order of dims in memory.
inline constexpr llvm::StringLiteral kReorderedAttr = "nn.reordered";

// Attribute of writes (unit): each run of the forward pass of training makes them, as it moves the running statistics of a batch
// normalization, or adds up losses; they are no part of the update.
inline constexpr llvm::StringLiteral kForwardWriteAttr = "nn.forward_write";

// Attribute of trainable variables: their weight decay, instead of the optimizer's (f64).
inline constexpr llvm::StringLiteral kWeightDecayAttr = "nn.weight_decay";

// Attribute of constants that a pass makes of the number of samples of the batch (i64): the power of it that they are proportional to.
inline constexpr llvm::StringLiteral kSamplesPowerAttr = "nn.samples_power";

// Attribute of the weight of a loss, a result (f64): the least sum of weights that losses are divided by.
inline constexpr llvm::StringLiteral kLeastAttr = "nn.least";

// Attribute of function arguments that the compiler adds for itself (unit): no rule means them, and no report lists them.
inline constexpr llvm::StringLiteral kInternalAttr = "nn.internal";

// The variable that holds the seed of all random numbers (written from outside, before @init), and the one that counts training steps.
inline constexpr llvm::StringLiteral kSeedVariable = "ashlar.seed";
inline constexpr llvm::StringLiteral kStepVariable = "ashlar.step";

// The variable that counts the updates of the parameters: steps less the ones that a loss scale skipped.
inline constexpr llvm::StringLiteral kUpdatesVariable = "ashlar.updates";

// The variables of a step of several runs of @train_step: the number of the next one, from 0, the shares of the loss so far, and their
// divisor at the end, where it is not known before.
inline constexpr llvm::StringLiteral kMicroBatchVariable = "ashlar.micro_batch";
inline constexpr llvm::StringLiteral kLossSumVariable = "ashlar.loss_sum";
inline constexpr llvm::StringLiteral kLossWeightVariable = "ashlar.loss_weight";

// Results of @train_step, or of @update behind several of its runs, and of @eval_step: the loss. Of @eval_step: the divisor of the sum of
// losses; rows with the right class; and the number of rows, where labels leave some out.
inline constexpr llvm::StringLiteral kLossResult = "loss";
inline constexpr llvm::StringLiteral kLossWeightResult = "loss_weight";
inline constexpr llvm::StringLiteral kCorrectResult = "correct";
inline constexpr llvm::StringLiteral kRowsResult = "rows";

// The input of @eval_step with the number of samples of the batch that count, the first ones.
inline constexpr llvm::StringLiteral kSamplesInput = "ashlar.samples";

// The variables of a dynamic loss scale: the gradient of the loss, and the steps without an overflow since it last changed.
inline constexpr llvm::StringLiteral kLossScaleVariable = "ashlar.loss_scale";
inline constexpr llvm::StringLiteral kGoodStepsVariable = "ashlar.good_steps";

// Returns the module path of an op ("layer1/Gemm"): the name of its location; "" when it has none.
llvm::StringRef getPath(mlir::Location loc);

// Returns the random stream of a name: its 32-bit FNV-1a hash, the same on every machine.
uint32_t streamOf(llvm::StringRef name);

// Returns the stream of a name as nn.random takes it, a scalar of type i32.
mlir::DenseElementsAttr streamConstant(mlir::MLIRContext *context, llvm::StringRef name);

// Returns a dense attribute of `type` with every element `value` (rounded to the element type).
mlir::DenseElementsAttr splat(mlir::RankedTensorType type, double value);

// Whether a value is a constant of zeros.
bool isZero(mlir::Value value);

// Returns true if indices share their first `batchDims` dims with the tensor that they index, and it has one more.
inline bool haveBatchDims(mlir::RankedTensorType indexed, mlir::RankedTensorType indices, int64_t batchDims) {
  return batchDims >= 0 && indexed.getRank() > batchDims && indices.getRank() >= batchDims &&
         indexed.getShape().take_front(batchDims) == indices.getShape().take_front(batchDims);
}

} // namespace ashlar::nn

#define GET_OP_CLASSES
#include "dialects/nn/nn_ops.h.inc"

#endif // ASHLAR_DIALECTS_NN_NN_H
