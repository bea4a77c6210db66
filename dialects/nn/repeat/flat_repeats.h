// SPDX-License-Identifier: Apache-2.0
//
// The flat form of repeats: from and to nn.repeat, and which loops its ops are in. An op is in a loop where it depends on what the
// iterations read, so what does not stands in front of the loop in nn.repeat, whatever its place was in the flat form.

#ifndef ASHLAR_DIALECTS_NN_REPEAT_FLAT_REPEATS_H
#define ASHLAR_DIALECTS_NN_REPEAT_FLAT_REPEATS_H

#include "dialects/nn/repeat.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

namespace ashlar::nn {

// Writes the repeats of a block in the flat form, inner ones, too, without results that nothing reads.
void flattenRepeats(mlir::Block &block);

// Makes nn.repeat of all flat loops of a block. Broadcasts that only repeat elements of smaller tensors go into the bodies, as constants
// do. Emits an error where a value of a body is used behind its loop. Linear in the block for each loop.
mlir::LogicalResult nestRepeats(mlir::Block &block);

// Returns whether a block holds an op of the flat form.
bool hasFlatRepeats(mlir::Block &block);

// Returns the carried value that an op begins or ends, as the iterations read it: the op's first operand and its results are this value at
// other times, so all of them have one layout. Null for other ops.
mlir::Value findCarried(mlir::Operation *op);

// Returns the value behind the loop of a carried value, null where none of its users is an nn.repeat_next of it.
mlir::Value findLast(mlir::Value carried);

// The loops that the ops and values of a block in the flat form are in, by number, sorted.
using Loops = llvm::SmallVector<int64_t, 1>;

// State: for each value the loops in whose iterations it has other elements; for each loop the ones around it, and its count. Assumes that
// all ops of a loop come before its nn.repeat_next and nn.repeat_stack ops, as flattenRepeats() leaves them.
class LoopNest {
public:
  explicit LoopNest(mlir::Block &block);

  // Returns the loops of a value.
  Loops of(mlir::Value value) const { return loops.lookup(value); }

  // Returns the loops in which an op runs. The ops at the ends of a loop count as outside of it: they stand for the whole of a tensor.
  Loops of(mlir::Operation *op) const;

  // Returns the loops around a loop.
  Loops aroundLoop(int64_t loop) const { return around.lookup(loop); }

  // Returns the loops among these that run more than once, or not at all: the ones without a condition.
  Loops withoutConditions(Loops of) const;

  // Returns how often what is in these loops runs: the product of their counts, at least 1 and at most 2^40.
  int64_t countRuns(const Loops &of) const;

private:
  Loops gather(mlir::Operation *op) const;

  llvm::DenseMap<mlir::Value, Loops> loops;
  llvm::DenseMap<int64_t, Loops> around;
  llvm::DenseMap<int64_t, int64_t> counts;
  llvm::DenseSet<int64_t> conditional;
};

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_REPEAT_FLAT_REPEATS_H
