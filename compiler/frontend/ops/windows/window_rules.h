// SPDX-License-Identifier: Apache-2.0
//
// ONNX's attributes of windows: kernel_shape, strides, dilations, pads and auto_pad, of convolutions and of pooling. Shapes here cover the
// spatial dims. All fail through the node.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_WINDOWS_WINDOW_RULES_H
#define ASHLAR_COMPILER_FRONTEND_OPS_WINDOWS_WINDOW_RULES_H

#include "compiler/frontend/shape_rules.h"

#include <limits>

namespace ashlar::frontend {

// The dims of a tensor in front of the spatial ones: batch and channels.
constexpr int64_t kFirstSpatial = 2;

// The largest number of an attribute of windows, and of a size that they make.
constexpr int64_t kMostInWindow = std::numeric_limits<int32_t>::max();

enum class AutoPad { NotSet, SameUpper, SameLower, Valid };

struct WindowAttributes {
  Shape kernel, strides, dilations; // one a spatial dim; defaults filled in, each in [1, 2^31)
  Shape low, high;                  // from `pads`; zeros without, each in [0, 2^31)
  AutoPad autoPad = AutoPad::NotSet;

  size_t rank() const { return kernel.size(); }

  // Returns the elements from the first one of a window to its last one.
  int64_t span(size_t dim) const { return (kernel[dim] - 1) * dilations[dim] + 1; }
};

// Reads the attributes of a node with `rank` spatial dims. `kernel`: the size that the weights have, which kernel_shape must then repeat if
// it is there; empty: kernel_shape must be there.
WindowAttributes readWindowAttributes(Node &node, size_t rank, llvm::ArrayRef<int64_t> kernel);

// Reads an attribute of one number a spatial dim, each in [least, 2^31); `byDefault` for all where it is left out.
Shape readSpatialInts(Node &node, llvm::StringRef name, size_t rank, int64_t least, int64_t byDefault);

// Reads attribute `pads`: in front of and behind each spatial dim, zeros where it is left out, each in [0, 2^31).
std::pair<Shape, Shape> readPads(Node &node, size_t rank);

// Returns the windows over an input of these sizes, padded by `pads` or auto_pad: SAME_UPPER and SAME_LOWER pad to size / stride positions,
// rounded up, with the odd element behind, or in front. Fails where not even one window fits.
llvm::SmallVector<mlir::Attribute> windowsOver(const Node &node, const WindowAttributes &attributes, llvm::ArrayRef<int64_t> sizes);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_WINDOWS_WINDOW_RULES_H
