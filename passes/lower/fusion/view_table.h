// SPDX-License-Identifier: Apache-2.0
//
// The views of a block: ops that every kernel which reads through them has a copy of.

#ifndef ASHLAR_PASSES_LOWER_FUSION_VIEW_TABLE_H
#define ASHLAR_PASSES_LOWER_FUSION_VIEW_TABLE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace ashlar::lower {

// A view maps each element to an element of its operand (isView), or is arithmetic on places alone: nn.index, dist.axis_index, integer
// constants, and sums and products of these. So the index of a shard in its whole tensor is computed where it is needed, and two kernels
// that need the same one share no buffer. State: the code of each view as a tree, down to the loads. Invariant: no view has more code than
// kMaxViewCode; larger ones are no views, so a copy is O(1) however long the chain of views is.
class ViewTable {
public:
  // Notes the op if it is a view, and returns whether it is. Operands are noted before their users.
  bool note(mlir::Operation &op);

  bool contains(mlir::Operation *op) const { return entries.contains(op); }

  // Returns the code that computes an element of a value which a kernel reads: a view's code, or 1 for a load.
  int64_t codeOf(mlir::Value value) const;

private:
  struct Entry {
    int64_t code = 1;
    bool isPlace = false; // depends on places alone
  };

  llvm::DenseMap<mlir::Operation *, Entry> entries;

  bool isPlace(mlir::Value value) const;
  bool isPlaceArithmetic(mlir::Operation &op) const;
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_VIEW_TABLE_H
