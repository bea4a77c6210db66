// SPDX-License-Identifier: Apache-2.0
//
// The places that an index tensor names in a tensor: those of gathers and scatters. A negative index counts from the end; nn.gather counts
// from the front only. Elements that indices of several dims name are rows of the tensor with these dims as one; a row that is none gives
// 0, and takes no update.

#ifndef ASHLAR_COMPILER_FRONTEND_PLACES_H
#define ASHLAR_COMPILER_FRONTEND_PLACES_H

#include "compiler/frontend/emit.h"

namespace ashlar::frontend {

// Returns indices of a dim of `size` that are known at import: checked, and counted from the front.
mlir::DenseElementsAttr countKnownFromFront(const Node &node, mlir::DenseElementsAttr indices, int64_t size);

// The rows that indices name, dim by dim: row = base + sum of indices[j] * strides[j].
class Rows {
public:
  Rows(const Node &node, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> baseStrides);

  // Adds a dim of `size`; `indices` have the shape of the rows.
  void add(mlir::Value indices, int64_t size, int64_t stride);

  // Returns the rows, -1 where an index is out of range.
  mlir::Value get() const;

private:
  const Node &node;
  mlir::RankedTensorType type;
  mlir::Value rows, isIn;
};

struct Places {
  mlir::Value rows;
  llvm::SmallVector<int64_t> table; // the shape of the tensor with the dims that indices name as one
};

// Fails unless input 1 has one index a place of input 0, along `axis`.
void checkPlacesAlong(Node &node, int64_t axis);

// One index a place, along `axis`; the other dims count along.
Places placesAlong(Node &node, int64_t axis);

// The last dim of the indices has an index for each of as many dims, which follow the first `batchDims`; these count along.
Places placesOfTuples(Node &node, int64_t batchDims);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_PLACES_H
