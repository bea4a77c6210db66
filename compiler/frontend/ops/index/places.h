// SPDX-License-Identifier: Apache-2.0
//
// The places that indices name in a tensor, for gathers and scatters. A negative index counts from the end; nn.gather counts from the front
// only. Dims that an index does not choose from are batch dims, in tensor and indices alike, so their sharding stays. An invalid number
// gives 0, and takes no update.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_INDEX_PLACES_H
#define ASHLAR_COMPILER_FRONTEND_OPS_INDEX_PLACES_H

#include "compiler/frontend/emit.h"

namespace ashlar::frontend {

// Returns indices of a dim of `size` that are known at import: checked, and counted from the front.
mlir::DenseElementsAttr countKnownFromFront(const Node &node, mlir::DenseElementsAttr indices, int64_t size);

// Numbers, (batch..., places...), of the rows of a tensor that is (batch..., rows, rest...).
struct Places {
  mlir::Value numbers;
  llvm::SmallVector<int64_t> table; // the shape of the tensor
  int64_t batchDims;
  llvm::SmallVector<int64_t> named = {}; // the dims of input 0 in the rows
};

// Returns the order of `rank` dims with `axis` behind the others, and the one that puts it back.
struct AxisLast {
  llvm::SmallVector<int64_t> order, back;

  AxisLast(int64_t rank, int64_t axis);
};

// Input 1 has one index a place of input 0, along `axis`, which is last in the table; of the other dims the table has the ones that the
// indices have.
Places placesAlong(Node &node, int64_t axis);

// The last dim of input 1 has an index for each of as many dims of input 0, which follow the first `batchDims` and are one in the table.
// Counted dims among them have to be filled (fillMissing) before the table is made.
Places placesOfTuples(Node &node, int64_t batchDims);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_INDEX_PLACES_H
