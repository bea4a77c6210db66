// SPDX-License-Identifier: Apache-2.0
//
// Checks that several ops share.

#ifndef ASHLAR_DIALECTS_NN_OPS_OP_CHECKS_H
#define ASHLAR_DIALECTS_NN_OPS_OP_CHECKS_H

#include "dialects/nn/nn.h"

namespace ashlar::nn {

// Returns true when the dims are some of a tensor of this rank, in order.
inline bool isIncreasing(llvm::ArrayRef<int64_t> dims, int64_t rank) {
  int64_t previous = -1;
  for (int64_t dim : dims) {
    if (dim <= previous || dim >= rank) {
      return false;
    }
    previous = dim;
  }
  return true;
}

// Returns true when the model names the result of the op: such an op stays even where it computes nothing, since rules may match it.
inline bool isNamed(mlir::Operation *op) {
  return op->hasAttr(kOutputsAttr);
}

// Fails with an error at the op where the element types of two of its tensors differ.
inline mlir::LogicalResult verifySameElementType(mlir::Operation *op, mlir::RankedTensorType from, mlir::RankedTensorType to) {
  if (from.getElementType() != to.getElementType()) {
    return op->emitOpError("changes the element type from ") << from.getElementType() << " to " << to.getElementType();
  }
  return mlir::success();
}

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_OPS_OP_CHECKS_H
