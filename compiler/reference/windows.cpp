// SPDX-License-Identifier: Apache-2.0
//
// Windows along dims, max pooling over them, and sums of elements at known places.

#include "compiler/reference/semantics.h"

#include "dialects/nn/windows/window_views.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::reference {

namespace {

// Calls `body` with each element that stands in a window: its position in the operand, and its index in nn.windows' result.
void forEachPlace(ArrayRef<int64_t> elements, ArrayRef<int64_t> dims, ArrayAttr windows,
                  function_ref<void(ArrayRef<int64_t> element, ArrayRef<int64_t> place)> body) {
  SmallVector<int64_t> positions = *nn::positionShape(std::nullopt, elements, dims, windows);
  size_t first = dims.back() + 1;
  forEachIndex(nn::withWindows(positions, dims, windows), [&](ArrayRef<int64_t> place, int64_t) {
    Index element(place.take_front(first));
    llvm::append_range(element, place.drop_front(first + dims.size()));
    bool isInside = true;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      element[dim] = nn::windowAt(windows, i).elementAt(place[dim], place[first + i]);
      isInside = isInside && element[dim] >= 0 && element[dim] < elements[dim];
    }
    if (isInside) {
      body(element, place);
    }
  });
}

// Drops the dims of the windows from an index.
Index withoutWindows(ArrayRef<int64_t> index, ArrayRef<int64_t> dims) {
  size_t first = dims.back() + 1;
  Index left(index.take_front(first));
  llvm::append_range(left, index.drop_front(first + dims.size()));
  return left;
}

Tensor windows(Operation *op, ArrayRef<Tensor> operands) {
  auto windowsOp = cast<nn::WindowsOp>(op);
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  forEachPlace(input.getShape(), windowsOp.getDims(), windowsOp.getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    result.copyElement(result.linearize(place), input, input.linearize(element));
  });
  return result;
}

Tensor unwindows(Operation *op, ArrayRef<Tensor> operands) {
  auto unwindowsOp = cast<nn::UnwindowsOp>(op);
  ArrayRef<int64_t> dims = unwindowsOp.getDims();
  Tensor result(resultType(op));
  Index elements = withoutWindows(result.getShape(), dims);
  forEachPlace(elements, dims, unwindowsOp.getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    Index to(place);
    for (int64_t dim : dims) {
      to[dim] = element[dim];
    }
    result.copyElement(result.linearize(to), operands[0], operands[0].linearize(place));
  });
  return result;
}

Tensor maxPool(Operation *op, ArrayRef<Tensor> operands) {
  auto pool = cast<nn::MaxPoolOp>(op);
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setFloat(i, -std::numeric_limits<double>::infinity());
  }
  forEachPlace(input.getShape(), pool.getDims(), pool.getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    int64_t to = result.linearize(withoutWindows(place, pool.getDims()));
    double x = input.getFloat(input.linearize(element));
    if (std::isnan(x) || x > result.getFloat(to)) {
      result.setFloat(to, x);
    }
  });
  return result;
}

Tensor maxPoolPlace(Operation *op, ArrayRef<Tensor> operands) {
  auto pool = cast<nn::MaxPoolPlaceOp>(op);
  const Tensor &input = operands[0], &largest = operands[1];
  Tensor result(resultType(op));
  Index sizes;
  for (size_t i = 0; i < pool.getWindows().size(); ++i) {
    sizes.push_back(nn::windowAt(pool.getWindows(), i).getSize());
  }
  int64_t none = llvm::product_of(sizes);
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setInt(i, none);
  }
  size_t first = pool.getDims().back() + 1;
  forEachPlace(input.getShape(), pool.getDims(), pool.getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    int64_t to = result.linearize(withoutWindows(place, pool.getDims())), number = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      number = number * sizes[i] + place[first + i];
    }
    double x = input.getFloat(input.linearize(element));
    if (std::isnan(x) || x == largest.getFloat(to)) {
      result.setInt(to, std::min(result.getInt(to), number));
    }
  });
  return result;
}

// Floats are summed in double and rounded once. A row behind the last has no places.
Tensor resample(Operation *op, ArrayRef<Tensor> operands) {
  auto resampleOp = cast<nn::ResampleOp>(op);
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  int64_t dim = resampleOp.getDim(), size = input.getShape()[dim];
  int64_t terms = cast<ShapedType>(resampleOp.getPlaces().getShapedType()).getDimSize(1);
  int64_t firstRow = operands.size() > 1 ? operands[1].getInt(0) : 0, firstElement = operands.size() > 1 ? operands[2].getInt(0) : 0;
  auto places = llvm::to_vector(resampleOp.getPlaces().getValues<int64_t>());
  auto weights = resampleOp.getWeights() ? llvm::to_vector(resampleOp.getWeights()->getValues<double>()) : SmallVector<double>();
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    double sum = 0;
    uint64_t intSum = 0; // wraps around
    int64_t row = firstRow + index[dim], rows = static_cast<int64_t>(places.size()) / terms;
    for (int64_t k = row * terms; row < rows && k < (row + 1) * terms; ++k) {
      int64_t place = places[k] - firstElement;
      if (places[k] < 0 || place < 0 || place >= size) {
        continue;
      }
      Index from(index);
      from[dim] = place;
      int64_t at = input.linearize(from);
      if (input.isFloat()) {
        sum += (weights.empty() ? 1 : weights[k]) * input.getFloat(at);
      } else {
        intSum += static_cast<uint64_t>(input.getInt(at));
      }
    }
    input.isFloat() ? result.setFloat(i, sum) : result.setInt(i, static_cast<int64_t>(intSum));
  });
  return result;
}

} // namespace

void addWindowSemantics(SemanticsTable &table) {
  table.add<nn::WindowsOp>(windows);
  table.add<nn::UnwindowsOp>(unwindows);
  table.add<nn::MaxPoolOp>(maxPool);
  table.add<nn::MaxPoolPlaceOp>(maxPoolPlace);
  table.add<nn::ResampleOp>(resample);
}

} // namespace ashlar::reference
