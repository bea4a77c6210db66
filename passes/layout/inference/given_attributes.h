// SPDX-License-Identifier: Apache-2.0
//
// How a given layout stands in a module: the attributes beside it, written by ashlar-apply-rules, read by ashlar-propagate-layouts.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_GIVEN_ATTRIBUTES_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_GIVEN_ATTRIBUTES_H

#include "dialects/dist/dist.h"
#include "passes/layout/inference/named_tensors.h"

namespace ashlar::layout {

struct GivenAttributes {
  dist::LayoutAttr layout;      // null: none is given
  mlir::DenseI64ArrayAttr open; // dims to which axes may be added; null: none
  int64_t priority = 0;         // lower ones propagate first
  mlir::ArrayAttr origin;       // null: not known
};

// Reads the given layout of a variable, argument or result of a function from its attributes, which may be null.
GivenAttributes readGiven(mlir::DictionaryAttr attributes);

// Reads the given layout of a result of an op.
GivenAttributes readGiven(mlir::OpResult result);

// Reads the given layout in which an op takes an operand.
GivenAttributes readGiven(mlir::OpOperand &operand);

// Writes the given layout of a tensor.
void writeGiven(const TensorRef &tensor, const GivenAttributes &given);

// Erases everything from the attributes of an op but the layouts of its results and how it takes its operands.
void eraseGiven(mlir::NamedAttrList &attributes);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_GIVEN_ATTRIBUTES_H
