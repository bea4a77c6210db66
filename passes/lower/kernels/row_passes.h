// SPDX-License-Identifier: Apache-2.0
//
// The passes over a row: which reduction runs in which, and which values several of them need.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_ROW_PASSES_H
#define ASHLAR_PASSES_LOWER_KERNELS_ROW_PASSES_H

#include "dialects/nn/nn.h"

namespace ashlar::lower {

// A sum along a row of which one element counts, as the score of a label: of nn.select where nn.index is `place`, and 0 elsewhere.
struct RowElement {
  mlir::Value element, place; // full values; the place is the same for the row
};

// Returns that element; nothing where a reduction combines others, too.
std::optional<RowElement> elementOf(nn::ReduceOp reduce);

// The level of a value is the number of reductions that must be done before it can be computed; a reduction of level n runs in pass n over
// the row, 1 <= n <= lastLevel(), and full results are stored in the pass after. Softmax: max in pass 1, sum of exp in pass 2, quotient
// in 3.
class RowPasses {
public:
  // `body` is the body of a fusion of kind rows over `domain`.
  RowPasses(mlir::Block &body, llvm::ArrayRef<int64_t> domain);

  int64_t lastLevel() const { return last; }
  int64_t levelOf(mlir::Value value) const { return levels.lookup(value); }

  // Returns the reductions of a level in the order of the body.
  llvm::SmallVector<nn::ReduceOp> reductionsOf(int64_t level) const;

  // Returns the passes that evaluate a full value when nothing is kept from pass to pass.
  llvm::ArrayRef<int64_t> passesOf(mlir::Value value) const;

  // Returns the bytes an element of the row takes, in registers of at least 4 bytes, when each value is computed or read in the first pass
  // that needs it and kept up to the last: the largest sum between two passes.
  int64_t heldBytes() const;

private:
  mlir::Block &body;
  llvm::ArrayRef<int64_t> domain;
  int64_t last = 0;
  llvm::DenseMap<mlir::Value, int64_t> levels;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> passes;

  // Calls `visit(value, pass)` for the full values that the pass over the row needs, from the results back; stops where it returns false.
  void walk(llvm::function_ref<bool(mlir::Value, int64_t)> visit) const;
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_ROW_PASSES_H
