// SPDX-License-Identifier: Apache-2.0
//
// The table of op semantics.

#include "compiler/reference/semantics.h"

using namespace mlir;

namespace ashlar::reference {

const SemanticsTable &getSemantics() {
  static const SemanticsTable table = [] {
    SemanticsTable filled;
    addCollectiveSemantics(filled);
    addContractionSemantics(filled);
    addConvolutionSemantics(filled);
    addElementwiseSemantics(filled);
    addLossSemantics(filled);
    addShapeSemantics(filled);
    addSourceSemantics(filled);
    addWindowSemantics(filled);
    return filled;
  }();
  return table;
}

RankedTensorType resultType(Operation *op) {
  return cast<RankedTensorType>(op->getResult(0).getType());
}

} // namespace ashlar::reference
