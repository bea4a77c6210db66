// SPDX-License-Identifier: Apache-2.0
//
// ONNX's shape arithmetic: the shape of a node's result from its attributes and inputs. Shared by the handlers and by the evaluator of
// constants. All fail through the node.

#ifndef ASHLAR_COMPILER_FRONTEND_SHAPE_RULES_H
#define ASHLAR_COMPILER_FRONTEND_SHAPE_RULES_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

using Shape = llvm::SmallVector<int64_t>;

// Returns the numpy broadcast of two shapes: aligned at the last dim, sizes equal or 1. Given [4, 1] and [3], returns [4, 3].
Shape broadcastShapes(const Node &node, llvm::ArrayRef<int64_t> lhs, llvm::ArrayRef<int64_t> rhs);

// Returns the axes in attribute `name`, or in input `index` from `inputSince` on, sorted and counted from the front; `rank` dims there are.
Shape readAxes(Node &node, size_t index, int64_t inputSince, int64_t rank);

// Reshape: 0 copies a dim (unless allowzero), -1 takes the rest.
Shape reshapedShape(Node &node, llvm::ArrayRef<int64_t> from);

// Squeeze: without axes every dim of size 1 goes.
Shape squeezedShape(Node &node, llvm::ArrayRef<int64_t> from);

// Unsqueeze: axes count in the result.
Shape unsqueezedShape(Node &node, llvm::ArrayRef<int64_t> from);

// Slice: bounds of every dim, clamped; steps are positive, and dims of negative ones are turned round afterwards.
struct SliceBounds {
  Shape starts, limits, steps, reversed;
};
SliceBounds sliceBounds(Node &node, llvm::ArrayRef<int64_t> from);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_SHAPE_RULES_H
