// SPDX-License-Identifier: Apache-2.0
//
// Ops whose results have sizes that the inputs' values say: Range and windows, of which they have to be known, and NonZero and Unique,
// where they are; else selection.h.

#include "compiler/frontend/ops/index/selection.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"

#include "dialects/support/element_type.h"
#include "dialects/support/reference_tensor.h"
#include "dialects/support/tensor_values.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;

namespace ashlar::frontend {

namespace {

using reference::Tensor;

Tensor knownInput(const Node &node, size_t index, StringRef name) {
  DenseElementsAttr constant = node.constantInput(index);
  if (!constant) {
    node.fail("input \"" + name + "\" has to be known at compile time" + node.whyUnknown());
  }
  node.spend(constant.getNumElements());
  return *Tensor::fromAttribute(constant);
}

RankedTensorType indexType(const Node &node, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, node.builder().getI64Type());
}

void importRange(Node &node) {
  Tensor bounds[] = {knownInput(node, 0, "start"), knownInput(node, 1, "limit"), knownInput(node, 2, "delta")};
  for (const Tensor &bound : bounds) {
    if (bound.getNumElements() != 1 || bound.getType().getElementType() != bounds[0].getType().getElementType()) {
      node.fail("start, limit and delta have to be scalars of one type");
    }
  }
  constexpr int64_t kF32 = onnx::TensorProto::FLOAT; // what bounds of 16 bits are computed in, since opset 27
  if (int64_t type = node.getInt("stash_type", kF32); type != kF32 && isNarrowFloat(bounds[0].getType().getElementType())) {
    node.fail("attribute \"stash_type\" is " + Twine(type) + " but ranges of 16-bit floats are computed in FLOAT (1)");
  }
  const double start = bounds[0].getNumber(0), limit = bounds[1].getNumber(0), delta = bounds[2].getNumber(0);
  const double exact = std::ceil((limit - start) / delta);
  if (!(delta != 0 && std::isfinite(exact))) {
    node.fail("a range from " + std::to_string(start) + " to " + std::to_string(limit) + " by " + std::to_string(delta) + " has no end");
  }
  const int64_t count = static_cast<int64_t>(std::min(std::max(exact, 0.0), static_cast<double>(ImportBudget::kElements) + 1));
  node.spend(count);
  Tensor result(RankedTensorType::get({count}, bounds[0].getType().getElementType()));
  for (int64_t i = 0; i < count; ++i) {
    if (result.isFloat()) {
      result.setFloat(i, start + static_cast<double>(i) * delta);
    } else {
      result.setInt(i, bounds[0].getInt(0) + i * bounds[2].getInt(0));
    }
  }
  node.setResult(0, result.toAttribute());
}

void importNonZero(Node &node) {
  if (!node.constantInput(0)) {
    return importNonZeroAtRunTime(node);
  }
  Tensor input = knownInput(node, 0, "X");
  const int64_t rank = input.getType().getRank();
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(rank));
  int64_t count = 0;
  reference::forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t position) {
    if (input.getNumber(position) != 0) {
      ++count;
      for (auto [d, i] : llvm::enumerate(index)) {
        places[d].push_back(i);
      }
    }
  });
  std::vector<int64_t> flat;
  for (const std::vector<int64_t> &each : places) {
    flat.insert(flat.end(), each.begin(), each.end());
  }
  node.setResult(0, DenseElementsAttr::get(indexType(node, {rank, count}), ArrayRef(flat)));
}

// Slices of a tensor along an axis, or its elements.
struct Slices {
  int64_t outer = 1, count = 0, inner = 1;

  // Returns the positions of slice `at`, in row-major order of the other dims.
  std::vector<int64_t> positions(int64_t at) const {
    std::vector<int64_t> result;
    for (int64_t i = 0; i < outer * inner; ++i) {
      result.push_back((i / inner * count + at) * inner + i % inner);
    }
    return result;
  }
};

void importUnique(Node &node) {
  if (!node.constantInput(0)) {
    return importUniqueAtRunTime(node);
  }
  Tensor input = knownInput(node, 0, "X");
  constexpr int64_t kSteps = 64; // of an element: each is a key of a map
  node.spend(input.getNumElements() > ImportBudget::kElements ? -1 : kSteps * input.getNumElements());
  for (int64_t i = 0; i < input.getNumElements(); ++i) {
    if (std::isnan(input.getNumber(i))) {
      node.fail("input \"X\" has a NaN, which is equal to nothing");
    }
  }
  ArrayRef<int64_t> shape = input.getShape();
  Slices slices;
  SmallVector<int64_t> resultShape(shape);
  int64_t axis = 0;
  if (node.hasAttribute("axis")) {
    axis = node.getAxis("axis", 0, static_cast<int64_t>(shape.size()));
    slices = {llvm::product_of(shape.take_front(axis)), shape[axis], llvm::product_of(shape.drop_front(axis + 1))};
  } else {
    slices.count = input.getNumElements();
    resultShape = {0};
  }
  const bool sorted = node.getInt("sorted", 1) != 0;
  std::map<std::vector<double>, int64_t> numbers; // of each distinct slice, in the order of their first places
  std::vector<int64_t> firsts, inverse, counts;
  for (int64_t i = 0; i < slices.count; ++i) {
    std::vector<double> key;
    for (int64_t position : slices.positions(i)) {
      key.push_back(input.getNumber(position));
    }
    auto [found, isNew] = numbers.try_emplace(std::move(key), static_cast<int64_t>(firsts.size()));
    if (isNew) {
      firsts.push_back(i);
      counts.push_back(0);
    }
    ++counts[static_cast<size_t>(found->second)];
    inverse.push_back(found->second);
  }
  std::vector<int64_t> order(firsts.size()); // numbers by their places in the result
  std::iota(order.begin(), order.end(), 0);
  if (sorted) {
    std::transform(numbers.begin(), numbers.end(), order.begin(), [](const auto &entry) { return entry.second; });
  }
  std::vector<int64_t> placeOf(order.size()), sortedFirsts, sortedCounts;
  for (auto [place, number] : llvm::enumerate(order)) {
    placeOf[static_cast<size_t>(number)] = static_cast<int64_t>(place);
    sortedFirsts.push_back(firsts[static_cast<size_t>(number)]);
    sortedCounts.push_back(counts[static_cast<size_t>(number)]);
  }
  for (int64_t &number : inverse) {
    number = placeOf[static_cast<size_t>(number)];
  }
  resultShape[static_cast<size_t>(axis)] = static_cast<int64_t>(order.size());
  Tensor result(RankedTensorType::get(resultShape, input.getType().getElementType()));
  Slices made{slices.outer, static_cast<int64_t>(order.size()), slices.inner};
  for (auto [place, first] : llvm::enumerate(sortedFirsts)) {
    for (auto [to, from] : llvm::zip_equal(made.positions(static_cast<int64_t>(place)), slices.positions(first))) {
      result.copyElement(to, input, from);
    }
  }
  node.setResult(0, result.toAttribute());
  auto setInts = [&](size_t i, ArrayRef<int64_t> values) {
    node.setResult(i, DenseElementsAttr::get(indexType(node, {static_cast<int64_t>(values.size())}), values));
  };
  setInts(1, sortedFirsts);
  setInts(2, inverse);
  setInts(3, sortedCounts);
}

// The terms of a window: a0 - a1 cos(x) + a2 cos(2 x), where x goes once round.
struct Terms {
  double a0, a1, a2;
};
constexpr Terms kHann{0.5, 0.5, 0}, kHamming{25.0 / 46, 21.0 / 46, 0}, kBlackman{0.42, 0.5, 0.08};

template <const Terms &terms> void importWindow(Node &node) {
  SmallVector<int64_t> size = node.intsInput(0, "size");
  if (size.size() != 1 || size.front() < 0) {
    node.fail("input \"size\" is not one number that is not negative");
  }
  const int64_t count = size.front();
  const bool isPeriodic = node.getInt("periodic", 1) != 0;
  Type element = convertElementType(node.getInt("output_datatype", 1), node.builder().getContext(), "node \"" + node.getPath() + "\"");
  node.spend(count);
  Tensor result(RankedTensorType::get({count}, element));
  for (int64_t i = 0; i < count; ++i) { // a symmetric window of one element is 0 / 0
    double x = 2 * M_PI * static_cast<double>(i) / static_cast<double>(isPeriodic ? count : count - 1);
    double value = terms.a0 - terms.a1 * std::cos(x) + terms.a2 * std::cos(2 * x);
    result.isFloat() ? result.setFloat(i, value) : result.setInt(i, std::isnan(value) ? 0 : static_cast<int64_t>(value));
  }
  node.setResult(0, result.toAttribute());
}

constexpr RegistryRow kKnownRows[] = {
    {"BlackmanWindow", importWindow<kBlackman>},
    {"HammingWindow", importWindow<kHamming>},
    {"HannWindow", importWindow<kHann>},
    flat({"NonZero", importNonZero, Accepts::Any, /*knownFloats=*/0b1}),
    flat({"Range", importRange}),
    {"Unique", importUnique, Accepts::Any, /*knownFloats=*/0b1},
};

} // namespace

ArrayRef<RegistryRow> knownRows() {
  return kKnownRows;
}

} // namespace ashlar::frontend
