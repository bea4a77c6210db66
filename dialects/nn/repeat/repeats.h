// SPDX-License-Identifier: Apache-2.0
//
// Repeats are made, and made again with other values: results of an op cannot be added or taken away in place.

#ifndef ASHLAR_DIALECTS_NN_REPEAT_REPEATS_H
#define ASHLAR_DIALECTS_NN_REPEAT_REPEATS_H

#include "dialects/nn/repeat.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallBitVector.h"

#include <optional>

namespace ashlar::nn {

// Attribute of a repeat in a body (unit): its gradient computes it again, instead of keeping what it stacks for that.
inline constexpr llvm::StringLiteral kComputedAgainAttr = "nn.computed_again";

// Calls `visit` with the bodies of the repeats in a block, inner ones first, and then with the block.
void visitBlocks(mlir::Block &block, llvm::function_ref<void(mlir::Block &)> visit);

// Returns the type of one row of a tensor, and of `count` rows.
//   tensor<3x4xf32> ==> tensor<4xf32>; tensor<4xf32>, 3 ==> tensor<3x4xf32>
mlir::RankedTensorType rowType(mlir::RankedTensorType type);
mlir::RankedTensorType stackType(mlir::RankedTensorType row, int64_t count);

// An argument of the body of a repeat, and what it stands for.
struct RepeatArgument {
  enum class Kind { Carried, Sliced, Captured };
  RepeatOp repeat;
  Kind kind;
  mlir::Value operand;
};

// Returns what a value is as an argument of the body of a repeat; nothing where it is none.
std::optional<RepeatArgument> argumentOfRepeat(mlir::Value value);

// Returns a repeat with the body `block`, which it takes over. The arguments of the block stand for `carried`, then for rows of `sliced`;
// `yielded`: the next carried values, then the rows of stacked results. Values from outside that the block reads become captured ones, and
// constants are copied into it. Assumes that the ops of the block read nothing else, and that it has no terminator.
RepeatOp createRepeat(mlir::OpBuilder &builder, mlir::Location loc, int64_t count, bool reversed, mlir::ValueRange carried,
                      mlir::ValueRange sliced, std::unique_ptr<mlir::Block> block, mlir::ValueRange yielded, mlir::Value condition = {});

// Returns how often a run of its function runs an op that may be in bodies of repeats; at most 2^40.
int64_t countRuns(mlir::Operation *op);

// Returns the repeat in a new form: without the carried values in `dropped`, and with a stacked result more for each of `stacked`, values
// of the body; with a condition, with a result more that is the value, or zeros. The other results take the places of the old ones, and the
// old op is erased. Assumes that nothing reads the results of dropped values and that nothing but their own next values reads their
// arguments.
RepeatOp rebuildRepeat(RepeatOp op, const llvm::SmallBitVector &dropped, llvm::ArrayRef<mlir::Value> stacked);

// Returns the value that a captured argument of a body stands for, out of all bodies that capture it; any other value itself.
mlir::Value resolveCaptured(mlir::Value value);

// Returns `value` in a block of a body that it is outside of: the argument that captures it in each body in between, which is added where
// there is none. A value of the block stays as it is.
mlir::Value captureIn(mlir::Value value, mlir::Block *block);

// Writes what a repeat with a condition computes into the block that it is in: its body always runs, and its results are selected. Returns
// the values that take the place of its results; it is erased.
llvm::SmallVector<mlir::Value> selectResults(RepeatOp op);

// Takes away the results of repeats in a block, and in their bodies, that nothing reads, and what computes them alone. A carried value goes
// where neither its result nor another value of the body needs it. Ops that this leaves dead go, too.
void pruneRepeats(mlir::Block &block);

// Adds to `marked` the results of an op that depend on a value in it, and of a repeat the values of its body that do. Only values that
// `mayDepend` holds for are added. Linear in the ops of a body, for each carried value that is found.
void markDependents(mlir::Operation *op, llvm::DenseSet<mlir::Value> &marked, llvm::function_ref<bool(mlir::Value)> mayDepend);

// Returns the values of a body on which the results in `results` depend, as far as `mayDepend` holds for them. Linear as
// markDependents.
llvm::DenseSet<mlir::Value> findNeeded(RepeatOp op, const llvm::SmallBitVector &results, llvm::function_ref<bool(mlir::Value)> mayDepend);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_REPEAT_REPEATS_H
