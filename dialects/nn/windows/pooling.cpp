// SPDX-License-Identifier: Apache-2.0
//
// Max pooling. The gradient looks for the place of the largest element once a window, from the operand and the result, and then asks at
// each element of the operand which windows chose it: sums of what views show, without a place in memory that two windows add to.

#include "dialects/nn/windows/window_views.h"

#include "dialects/nn/ops/evaluation.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

using namespace mlir;

namespace ashlar::nn {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t elementsOf(ArrayAttr windows) {
  int64_t elements = 1;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (llvm::MulOverflow(elements, windowAt(windows, i).getSize(), elements)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return elements;
}

FailureOr<SmallVector<int64_t>> pooledShape(std::optional<Location> loc, RankedTensorType from, ArrayRef<int64_t> dims, ArrayAttr windows) {
  auto positions = positionShape(loc, from.getShape(), dims, windows);
  if (succeeded(positions) && elementsOf(windows) > std::numeric_limits<int32_t>::max()) { // C4
    return emitOptionalError(loc, "window has 2^31 elements or more");
  }
  return positions;
}

// Repeats what each window has along the dims of the windows.
Value repeatAlongWindows(ImplicitLocOpBuilder &b, Value value, RankedTensorType like, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept, within = windowDims(dims);
  for (int64_t d = 0; d < like.getRank(); ++d) {
    if (!llvm::is_contained(within, d)) {
      kept.push_back(d);
    }
  }
  return BroadcastOp::create(b, like.clone(typeOf(value).getElementType()), value, kept);
}

// Returns the row-major number of each element in its window, as i32; `type` has the dims of the windows.
Value numberElements(ImplicitLocOpBuilder &b, RankedTensorType type, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> strides(type.getRank(), 0);
  int64_t first = dims.back() + 1;
  llvm::copy(rowMajorStrides(type.getShape().slice(first, dims.size())), strides.begin() + first);
  return CastOp::create(b, type.clone(b.getI32Type()), IndexOp::create(b, type.clone(b.getI64Type()), strides));
}

// Returns which elements of the windows are none of the padding; null where all are.
Value findInside(ImplicitLocOpBuilder &b, Value input, ArrayRef<int64_t> dims, ArrayAttr windows) {
  if (!hasPadding(shapeOf(input), dims, windows)) {
    return {};
  }
  RankedTensorType type = typeOf(input).clone(b.getI1Type());
  return WindowsOp::create(b, ConstantOp::create(b, splat(type, 1)), dims, windows);
}

} // namespace

//===-- nn.max_pool -------------------------------------------------------------------------------------------------------------------===//

LogicalResult MaxPoolOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto positions = pooledShape(loc, typeOf(adaptor.getInput()), adaptor.getDims(), adaptor.getWindows());
  if (failed(positions)) {
    return failure();
  }
  types.push_back(typeOf(adaptor.getInput()).clone(*positions));
  return success();
}

// max_pool dims = [1]: ([b, i]) -> ([b, i]) expanded={i}
ShardingRule MaxPoolOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors factors = addWindowFactors(rule, getType().getShape(), getDims(), FactorKind::Expanded);
  rule.operands = {factors};
  rule.results = {factors};
  return rule;
}

Value MaxPoolOp::buildExpansion(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value elements = WindowsOp::create(b, getInput(), getDims(), getWindows());
  if (Value inside = findInside(b, getInput(), getDims(), getWindows())) {
    Value lowest = ConstantOp::create(b, splat(typeOf(elements), -kInfinity));
    elements = SelectOp::create(b, elements.getType(), inside, elements, lowest);
  }
  return ReduceOp::create(b, Reduction::Max, elements, windowDims(getDims()));
}

void MaxPoolOp::buildGradients(OpBuilder &builder, ValueRange g, MutableArrayRef<Value> out) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value place = MaxPoolPlaceOp::create(b, getInput(), getResult(), getDims(), getWindows());
  RankedTensorType from = getInput().getType();
  RankedTensorType atPositions = from.clone(withWindows(getType().getShape(), getDims(), getWindows()));
  RankedTensorType atElements = from.clone(withWindows(from.getShape(), getDims(), getWindows()));
  auto ofElements = [&](Value value) -> Value {
    Value repeated = repeatAlongWindows(b, value, atPositions, getDims());
    return UnwindowsOp::create(b, atElements.clone(typeOf(value).getElementType()), repeated, getDims(), getWindows());
  };
  // Where an element is in no window at a place, both are 0: nothing is chosen, or 0.
  Value isChosen =
      CompareOp::create(b, atElements.clone(b.getI1Type()), Predicate::Eq, ofElements(place), numberElements(b, atElements, getDims()));
  Value chosen = SelectOp::create(b, atElements, isChosen, ofElements(g[0]), ConstantOp::create(b, splat(atElements, 0)));
  out[0] = ReduceOp::create(b, Reduction::Sum, chosen, windowDims(getDims()));
}

Tensor MaxPoolOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(getType());
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setFloat(i, -std::numeric_limits<double>::infinity());
  }
  forEachPlace(input.getShape(), getDims(), getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    int64_t to = result.linearize(withoutWindows(place, getDims()));
    double x = input.getFloat(input.linearize(element));
    if (std::isnan(x) || x > result.getFloat(to)) {
      result.setFloat(to, x);
    }
  });
  return result;
}

//===-- nn.max_pool_place -------------------------------------------------------------------------------------------------------------===//

LogicalResult MaxPoolPlaceOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput()), largest = typeOf(adaptor.getLargest());
  auto positions = pooledShape(loc, from, adaptor.getDims(), adaptor.getWindows());
  if (failed(positions)) {
    return failure();
  }
  if (largest != from.clone(*positions)) { // C5
    return emitOptionalError(loc, "the largest elements have type ", largest, " but those of the windows have type ",
                             from.clone(*positions));
  }
  types.push_back(largest.clone(IntegerType::get(context, 32)));
  return success();
}

ShardingRule MaxPoolPlaceOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors factors = addWindowFactors(rule, getType().getShape(), getDims(), FactorKind::Expanded);
  rule.operands = {factors, factors};
  rule.results = {factors};
  return rule;
}

Value MaxPoolPlaceOp::buildExpansion(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value elements = WindowsOp::create(b, getInput(), getDims(), getWindows());
  RankedTensorType type = typeOf(elements);
  RankedTensorType boolType = type.clone(b.getI1Type()), placeType = type.clone(b.getI32Type());
  Value isLargest = CompareOp::create(b, boolType, Predicate::Eq, elements, repeatAlongWindows(b, getLargest(), type, getDims()));
  isLargest = OrOp::create(b, isLargest, CompareOp::create(b, boolType, Predicate::Ne, elements, elements)); // a NaN
  if (Value inside = findInside(b, getInput(), getDims(), getWindows())) {
    isLargest = AndOp::create(b, isLargest, inside);
  }
  Value none = ConstantOp::create(b, splat(placeType, static_cast<double>(elementsOf(getWindows()))));
  Value places = SelectOp::create(b, placeType, isLargest, numberElements(b, type, getDims()), none);
  return ReduceOp::create(b, Reduction::Min, places, windowDims(getDims()));
}

Tensor MaxPoolPlaceOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0], &largest = operands[1];
  Tensor result(getType());
  Index sizes;
  for (size_t i = 0; i < getWindows().size(); ++i) {
    sizes.push_back(windowAt(getWindows(), i).getSize());
  }
  int64_t none = llvm::product_of(sizes);
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    result.setInt(i, none);
  }
  size_t first = getDims().back() + 1;
  forEachPlace(input.getShape(), getDims(), getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    int64_t to = result.linearize(withoutWindows(place, getDims())), number = 0;
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

} // namespace ashlar::nn
