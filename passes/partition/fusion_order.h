// SPDX-License-Identifier: Apache-2.0
//
// An order of a program in which groups of its collectives are one op each.

#ifndef ASHLAR_PASSES_PARTITION_FUSION_ORDER_H
#define ASHLAR_PASSES_PARTITION_FUSION_ORDER_H

#include "dialects/dist/dist.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace ashlar::partition {

// Collectives that become one: of one kind, over the same axes, of one element type, with one reduction.
struct CollectiveGroup {
  dist::FusionAttr fusion;
  llvm::SmallVector<dist::CollectiveOpInterface> members; // in program order, each of one operand
  std::vector<std::string> names;                         // of their parameters, for errors
};

// State: the predecessors of each op of a block. Linear in the program, except for the heap of ready ops.
class FusionOrder {
public:
  // Valid as long as no op of the block is added or moved.
  explicit FusionOrder(mlir::Block &block);

  // Returns the ops of the block that must come before `op`: the producers of its operands, and the last reader or writer of its variable.
  llvm::SmallVector<mlir::Operation *> predecessors(mlir::Operation *op) const;

  // Makes each group one op, after the last producer of its operands and before the first user of its results; all other ops keep their
  // order as far as that allows. Fails, with an error at one of two members, where one needs the result of the other.
  mlir::LogicalResult fuse(llvm::ArrayRef<CollectiveGroup> groups);

private:
  mlir::Block &block;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> accesses; // the access of the same variable before one
};

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_FUSION_ORDER_H
