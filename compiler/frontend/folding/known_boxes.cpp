// SPDX-License-Identifier: Apache-2.0
//
// NonMaxSuppression of boxes that are known: how many remain is a size. Others: suppression.cpp.

#include "compiler/frontend/ops/index/selection.h"
#include "compiler/frontend/registry.h"

#include "dialects/support/reference_tensor.h"
#include "dialects/support/tensor_values.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace ashlar::frontend {

namespace {

using reference::Tensor;

struct Box {
  float top, left, bottom, right;

  float area() const { return (bottom - top) * (right - left); }
};

// Two corners in any order, or the centre, width and height.
Box boxAt(const Tensor &boxes, int64_t at, bool isCentred) {
  float values[4];
  for (int64_t i = 0; i < 4; ++i) {
    values[i] = static_cast<float>(boxes.getFloat(4 * at + i));
  }
  auto [a, b, c, d] = values;
  if (isCentred) {
    return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  }
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

// The share of two boxes' union that both have.
float overlapOf(const Box &x, const Box &y) {
  Box both{std::max(x.top, y.top), std::max(x.left, y.left), std::min(x.bottom, y.bottom), std::min(x.right, y.right)};
  if (both.bottom <= both.top || both.right <= both.left || x.area() <= 0 || y.area() <= 0) {
    return 0;
  }
  return both.area() / (x.area() + y.area() - both.area());
}

Tensor knownFloats(const Node &node, size_t index, StringRef name) {
  DenseElementsAttr known = node.constantInput(index);
  if (!known || !known.getElementType().isF32()) {
    node.fail("input \"" + name + "\" has to be floats known at compile time" + node.whyUnknown());
  }
  node.spend(known.getNumElements());
  return *Tensor::fromAttribute(known);
}

// One number, or `byDefault`.
double knownScalar(const Node &node, size_t index, double byDefault) {
  if (!node.hasInput(index)) {
    return byDefault;
  }
  DenseElementsAttr known = node.constantInput(index);
  if (!known || known.getNumElements() != 1) {
    node.fail("input " + Twine(index) + " has to be one number known at compile time" + node.whyUnknown());
  }
  return Tensor::fromAttribute(known)->getNumber(0);
}

void importNonMaxSuppression(Node &node) {
  for (size_t input = 0; input < node.numInputs(); ++input) {
    if (node.isGiven(input) && !node.peekConstant(input)) {
      return importNonMaxSuppressionAtRunTime(node);
    }
  }
  Tensor boxes = knownFloats(node, 0, "boxes"), scores = knownFloats(node, 1, "scores");
  ArrayRef<int64_t> shape = scores.getShape();
  if (shape.size() != 3 || boxes.getShape() != ArrayRef<int64_t>{shape[0], shape[2], 4}) {
    node.fail("boxes are " + describeTensor(boxes.getType()) + " and scores " + describeTensor(scores.getType()) +
              "; they have to be (batch, boxes, 4) and (batch, classes, boxes)");
  }
  const bool isCentred = node.getInt("center_point_box", 0) != 0;
  const double most = knownScalar(node, 2, 0), overlap = knownScalar(node, 3, 0);
  const double least = knownScalar(node, 4, -std::numeric_limits<double>::infinity());
  std::vector<int64_t> selected; // batch, class and box of each
  for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
    const int64_t batch = row / shape[1], count = shape[2];
    auto score = [&](int64_t box) { return scores.getFloat(row * count + box); };
    std::vector<int64_t> order(static_cast<size_t>(count)), kept;
    std::iota(order.begin(), order.end(), 0);
    llvm::erase_if(order, [&](int64_t box) { return !(score(box) > least); });
    llvm::sort(order, [&](int64_t x, int64_t y) { return score(x) != score(y) ? score(x) > score(y) : x < y; });
    for (int64_t box : order) {
      if (static_cast<double>(kept.size()) >= most) {
        break;
      }
      node.spend(static_cast<int64_t>(kept.size()));
      Box own = boxAt(boxes, batch * count + box, isCentred);
      if (llvm::none_of(kept, [&](int64_t other) { return overlapOf(own, boxAt(boxes, batch * count + other, isCentred)) > overlap; })) {
        kept.push_back(box);
        selected.insert(selected.end(), {batch, row % shape[1], box});
      }
    }
  }
  auto type = RankedTensorType::get({static_cast<int64_t>(selected.size()) / 3, 3}, node.builder().getI64Type());
  node.setResult(0, DenseElementsAttr::get(type, ArrayRef<int64_t>(selected)));
}

constexpr RegistryRow kKnownBoxRows[] = {flat({"NonMaxSuppression", importNonMaxSuppression, Accepts::Floats, /*knownFloats=*/0b11011})};

} // namespace

ArrayRef<RegistryRow> knownBoxRows() {
  return kKnownBoxRows;
}

} // namespace ashlar::frontend
