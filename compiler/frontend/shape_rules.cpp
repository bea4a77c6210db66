// SPDX-License-Identifier: Apache-2.0
//
// Shape arithmetic of the ONNX ops, with the changes between opsets.

#include "compiler/frontend/shape_rules.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

std::string print(ArrayRef<int64_t> shape) {
  return "[" + llvm::join(llvm::map_range(shape, [](int64_t d) { return std::to_string(d); }), ", ") + "]";
}

int64_t product(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

} // namespace

Shape broadcastShapes(const Node &node, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  Shape result(std::max(lhs.size(), rhs.size()));
  for (size_t i = 0; i < result.size(); ++i) { // i counts from the last dim
    int64_t l = i < lhs.size() ? lhs[lhs.size() - 1 - i] : 1, r = i < rhs.size() ? rhs[rhs.size() - 1 - i] : 1;
    if (l != r && l != 1 && r != 1) {
      node.fail("shapes " + print(lhs) + " and " + print(rhs) + " do not broadcast");
    }
    result[result.size() - 1 - i] = l == 1 ? r : l;
  }
  return result;
}

Shape readAxes(Node &node, size_t index, int64_t inputSince, int64_t rank) {
  Shape axes;
  if (node.getOpset() >= inputSince) {
    axes = node.hasInput(index) ? node.intsInput(index, "axes") : Shape();
  } else {
    axes = node.getInts("axes");
  }
  for (int64_t &axis : axes) {
    axis = node.normalizeAxis(axis, rank);
  }
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    node.fail("axes " + print(axes) + " name an axis twice");
  }
  return axes;
}

Shape reshapedShape(Node &node, ArrayRef<int64_t> from) {
  bool allowZero = node.getInt("allowzero", 0) != 0; // since opset 14
  Shape given = node.intsInput(1, "shape"), to = given;
  int64_t known = 1, open = -1;
  for (auto [i, dim] : llvm::enumerate(to)) {
    if (dim == 0 && !allowZero) {
      if (i >= from.size()) {
        node.fail("shape " + print(given) + " copies dim " + Twine(i) + " of " + print(from));
      }
      dim = from[i];
    }
    if (dim < -1 || (dim == -1 && open >= 0)) {
      node.fail("shape " + print(given) + " is not a shape with at most one -1");
    }
    if (dim == -1) {
      open = i;
    } else if (llvm::MulOverflow(known, dim, known)) {
      node.fail("shape " + print(given) + " has more elements than can be counted");
    }
  }
  int64_t count = product(from);
  if (open >= 0) {
    if (known == 0 || count % known != 0) {
      node.fail("shape " + print(from) + " cannot become " + print(given));
    }
    to[open] = count / known;
  }
  if (product(to) != count) {
    node.fail("shape " + print(from) + " has " + Twine(count) + " elements but " + print(to) + " has " + Twine(product(to)));
  }
  return to;
}

Shape squeezedShape(Node &node, ArrayRef<int64_t> from) {
  Shape axes = readAxes(node, 1, /*inputSince=*/13, from.size());
  bool all = axes.empty();
  Shape to;
  for (auto [i, dim] : llvm::enumerate(from)) {
    bool named = llvm::is_contained(axes, i);
    if (named && dim != 1) {
      node.fail("axis " + Twine(i) + " of " + print(from) + " has size " + Twine(dim) + ", not 1");
    }
    if (!(named || (all && dim == 1))) {
      to.push_back(dim);
    }
  }
  return to;
}

Shape unsqueezedShape(Node &node, ArrayRef<int64_t> from) {
  // The rank of the result is known once the number of axes is; so the axes are counted first.
  size_t count = node.getOpset() >= 13 ? node.intsInput(1, "axes").size() : node.getInts("axes").size();
  Shape axes = readAxes(node, 1, /*inputSince=*/13, from.size() + count);
  Shape to(from);
  for (int64_t axis : axes) {
    to.insert(to.begin() + axis, 1);
  }
  return to;
}

SliceBounds sliceBounds(Node &node, ArrayRef<int64_t> from) {
  Shape starts, ends, axes, steps;
  if (node.getOpset() < 10) {
    starts = node.getInts("starts"), ends = node.getInts("ends"), axes = node.getInts("axes");
  } else {
    starts = node.intsInput(1, "starts"), ends = node.intsInput(2, "ends");
    axes = node.hasInput(3) ? node.intsInput(3, "axes") : Shape();
    steps = node.hasInput(4) ? node.intsInput(4, "steps") : Shape();
  }
  if (axes.empty()) {
    axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  }
  if (steps.empty()) {
    steps.assign(starts.size(), 1);
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    node.fail("has " + Twine(starts.size()) + " starts, " + Twine(ends.size()) + " ends, " + Twine(axes.size()) + " axes and " +
              Twine(steps.size()) + " steps");
  }
  SliceBounds bounds{Shape(from.size(), 0), Shape(from), Shape(from.size(), 1), {}};
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t axis = node.normalizeAxis(axes[i], from.size()), size = from[axis];
    if (steps[i] == 0) {
      node.fail("step of axis " + Twine(axis) + " is 0");
    }
    auto clamp = [&](int64_t at, int64_t least, int64_t most) { return std::clamp(at < 0 ? at + size : at, least, most); };
    if (steps[i] > 0) {
      bounds.starts[axis] = clamp(starts[i], 0, size);
      bounds.limits[axis] = std::max(bounds.starts[axis], clamp(ends[i], 0, size));
      bounds.steps[axis] = steps[i];
      continue;
    }
    // From `first` down to above `end`: the same elements upwards, and these turned round.
    int64_t step = -std::max(steps[i], -size - 1), first = size == 0 ? -1 : clamp(starts[i], 0, size - 1), end = clamp(ends[i], -1, size);
    int64_t count = first > end ? llvm::divideCeil(first - end, step) : 0;
    bounds.starts[axis] = count == 0 ? 0 : first - (count - 1) * step;
    bounds.limits[axis] = count == 0 ? 0 : first + 1;
    bounds.steps[axis] = step;
    if (count > 1) {
      bounds.reversed.push_back(axis);
    }
  }
  return bounds;
}

} // namespace ashlar::frontend
