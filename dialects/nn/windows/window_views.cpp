// SPDX-License-Identifier: Apache-2.0
//
// nn.windows and nn.unwindows: types, sharding rules, gradients; labels as in window_ops.td.

#include "dialects/nn/windows/window_views.h"

#include "dialects/nn/ops/evaluation.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::nn {

SmallVector<int64_t> windowDims(ArrayRef<int64_t> dims) {
  return llvm::to_vector(llvm::seq<int64_t>(dims.back() + 1, dims.back() + 1 + static_cast<int64_t>(dims.size())));
}

FailureOr<SmallVector<int64_t>> positionShape(std::optional<Location> loc, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims,
                                              ArrayAttr windows) {
  int64_t rank = shape.size(), previous = -1;
  for (int64_t dim : dims) {
    if (dim <= previous || dim >= rank) { // C1
      return emitOptionalError(loc, "dims [", dims, "] of windows are not strictly increasing within rank ", rank);
    }
    previous = dim;
  }
  if (dims.empty()) { // C1
    return emitOptionalError(loc, "has windows along no dim");
  }
  if (windows.size() != dims.size()) { // C2
    return emitOptionalError(loc, "has ", windows.size(), " windows along ", dims.size(), " dims");
  }
  SmallVector<int64_t> positions(shape);
  for (auto [i, dim] : llvm::enumerate(dims)) {
    WindowAttr window = windowAt(windows, i);
    std::optional<int64_t> count = window.countPositions(shape[dim]);
    if (!count) { // C3
      return emitOptionalError(loc, "window that spans ", window.getSpan(), " elements does not fit into dim ", dim, " of size ",
                               shape[dim], " with padding of ", window.getLow(), " and ", window.getHigh());
    }
    positions[dim] = *count;
  }
  return positions;
}

SmallVector<int64_t> withWindows(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims, ArrayAttr windows) {
  SmallVector<int64_t> sizes(shape);
  for (size_t i = 0; i < dims.size(); ++i) {
    sizes.insert(sizes.begin() + dims.back() + 1 + i, windowAt(windows, i).getSize());
  }
  return sizes;
}

bool hasPadding(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims, ArrayAttr windows) {
  for (auto [i, dim] : llvm::enumerate(dims)) {
    WindowAttr window = windowAt(windows, i);
    int64_t last = window.elementAt(window.countPositions(shape[dim]).value_or(1) - 1, window.getSize() - 1);
    if (window.getLow() > 0 || last >= shape[dim]) {
      return true;
    }
  }
  return false;
}

TensorFactors addWindowFactors(ShardingRule &rule, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims, FactorKind kind) {
  TensorFactors factors;
  for (auto [d, size] : llvm::enumerate(shape)) {
    bool hasWindows = llvm::is_contained(dims, static_cast<int64_t>(d));
    factors.push_back({rule.addFactor(size, hasWindows ? kind : FactorKind::PassThrough)});
  }
  return factors;
}

namespace {

// Adds the dims of the windows, which are needed whole.
TensorFactors withWindowFactors(ShardingRule &rule, TensorFactors factors, ArrayRef<int64_t> dims, ArrayAttr windows) {
  for (auto [i, dim] : llvm::enumerate(windowDims(dims))) {
    factors.insert(factors.begin() + dim, {rule.addFactor(windowAt(windows, i).getSize(), FactorKind::NeedReplication)});
  }
  return factors;
}

ArrayRef<int64_t> dropWindows(SmallVector<int64_t> &shape, ArrayRef<int64_t> dims) {
  auto first = shape.begin() + dims.back() + 1;
  shape.erase(first, first + dims.size());
  return shape;
}

// Numbers the elements of windows, row-major, along the dims of the windows that begin at `first`.
Value numberPlaces(ImplicitLocOpBuilder &b, RankedTensorType type, int64_t first, size_t count) {
  SmallVector<int64_t> strides(type.getRank(), 0), within = rowMajorStrides(type.getShape().slice(first, count));
  llvm::copy(within, strides.begin() + first);
  return IndexOp::create(b, type.clone(b.getI64Type()), strides);
}

} // namespace

//===-- nn.windows --------------------------------------------------------------------------------------------------------------------===//

LogicalResult WindowsOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  auto positions = positionShape(loc, from.getShape(), adaptor.getDims(), adaptor.getWindows());
  if (failed(positions)) {
    return failure();
  }
  types.push_back(from.clone(withWindows(*positions, adaptor.getDims(), adaptor.getWindows())));
  return success();
}

// windows dims = [1] of size k: ([b, i]) -> ([b, i, k]) window={i} replicated={k}
ShardingRule WindowsOp::getShardingRule() {
  SmallVector<int64_t> positions(getType().getShape());
  ShardingRule rule;
  TensorFactors factors = addWindowFactors(rule, dropWindows(positions, getDims()), getDims(), FactorKind::PassThrough);
  rule.operands = {factors};
  rule.results = {withWindowFactors(rule, factors, getDims(), getWindows())};
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    rule.addWindow(/*tensor=*/0, dim, shapeOf(getInput())[dim], windowAt(getWindows(), i).getElements());
  }
  return rule;
}

void WindowsOp::computeOnRuns(const llvm::SmallBitVector &dims, RunStartBuilder) {
  SmallVector<Attribute> windows(getWindows().begin(), getWindows().end());
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (dims.test(dim)) {
      windows[i] = windowAt(getWindows(), i).getOnRun(/*low=*/0, shapeOf(getInput())[dim], getType().getDimSize(dim));
    }
  }
  setWindowsAttr(ArrayAttr::get(getContext(), windows));
}

void WindowsOp::buildGradients(OpBuilder &builder, ValueRange g, MutableArrayRef<Value> out) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  RankedTensorType from = getInput().getType();
  Value each = UnwindowsOp::create(b, from.clone(withWindows(from.getShape(), getDims(), getWindows())), g[0], getDims(), getWindows());
  out[0] = ReduceOp::create(b, Reduction::Sum, each, windowDims(getDims()));
}

//===-- nn.unwindows ------------------------------------------------------------------------------------------------------------------===//

LogicalResult UnwindowsOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  SmallVector<int64_t> elements(to.getShape());
  if (getDims().empty() || getDims().back() < 0 || getDims().back() + 1 + static_cast<int64_t>(getDims().size()) > to.getRank()) { // C1
    return emitOpError("dims [") << getDims() << "] of windows leave no dims of the windows in rank " << to.getRank();
  }
  auto positions = positionShape(getLoc(), dropWindows(elements, getDims()), getDims(), getWindows());
  if (failed(positions)) { // C1
    return failure();
  }
  SmallVector<int64_t> sizes = withWindows(elements, getDims(), getWindows());
  RankedTensorType expected = to.clone(withWindows(*positions, getDims(), getWindows()));
  if (to.getShape() != ArrayRef<int64_t>(sizes) || from != expected) { // C2
    return emitOpError("gives ") << to << " from " << from << "; the windows of " << to.clone(elements) << " are " << expected;
  }
  return success();
}

// A factor counts blocks of `stride` elements, so that the places of windows in them are the same on every device.
ShardingRule UnwindowsOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> sizes(getType().getShape());
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    sizes[dim] = llvm::divideCeil(sizes[dim], windowAt(getWindows(), i).getStride());
  }
  TensorFactors factors = addWindowFactors(rule, dropWindows(sizes, getDims()), getDims(), FactorKind::PassThrough);
  factors = withWindowFactors(rule, factors, getDims(), getWindows());
  rule.operands = {factors};
  rule.results = {factors};
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    WindowAttr window = windowAt(getWindows(), i);
    rule.addWindow(/*tensor=*/0, dim, shapeOf(getInput())[dim], window.getPositionsOfBlocks());
    rule.addWindow(/*tensor=*/1, dim, getType().getDimSize(dim), {window.getStride(), 0, window.getStride()});
  }
  return rule;
}

void UnwindowsOp::computeOnRuns(const llvm::SmallBitVector &dims, RunStartBuilder) {
  SmallVector<Attribute> windows(getWindows().begin(), getWindows().end());
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (dims.test(dim)) {
      WindowAttr window = windowAt(getWindows(), i);
      int64_t low = window.getLow() - window.getPositionsOfBlocks().first * window.getStride();
      windows[i] = window.getOnRun(low, getType().getDimSize(dim), shapeOf(getInput())[dim]);
    }
  }
  setWindowsAttr(ArrayAttr::get(getContext(), windows));
}

// The windows of the gradient have the dims of the windows twice, those of `windows` and the gradient's own: an element of the operand is
// where they are equal. Nothing that a model trains is differentiated through here.
void UnwindowsOp::buildGradients(OpBuilder &builder, ValueRange g, MutableArrayRef<Value> out) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  Value twice = WindowsOp::create(b, g[0], getDims(), getWindows());
  RankedTensorType type = typeOf(twice);
  int64_t first = getDims().back() + 1;
  size_t count = getDims().size();
  Value isOwn = CompareOp::create(b, type.clone(b.getI1Type()), Predicate::Eq, numberPlaces(b, type, first, count),
                                  numberPlaces(b, type, first + static_cast<int64_t>(count), count));
  Value own = SelectOp::create(b, type, isOwn, twice, ConstantOp::create(b, splat(type, 0)));
  out[0] = ReduceOp::create(b, Reduction::Sum, own, windowDims(getDims()));
}

//===-- Reference semantics -----------------------------------------------------------------------------------------------------------===//

void forEachPlace(ArrayRef<int64_t> elements, ArrayRef<int64_t> dims, ArrayAttr windows,
                  llvm::function_ref<void(ArrayRef<int64_t> element, ArrayRef<int64_t> place)> body) {
  SmallVector<int64_t> positions = *positionShape(std::nullopt, elements, dims, windows);
  size_t first = dims.back() + 1;
  forEachIndex(withWindows(positions, dims, windows), [&](ArrayRef<int64_t> place, int64_t) {
    Index element(place.take_front(first));
    llvm::append_range(element, place.drop_front(first + dims.size()));
    bool isInside = true;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      element[dim] = windowAt(windows, i).elementAt(place[dim], place[first + i]);
      isInside = isInside && element[dim] >= 0 && element[dim] < elements[dim];
    }
    if (isInside) {
      body(element, place);
    }
  });
}

Index withoutWindows(ArrayRef<int64_t> index, ArrayRef<int64_t> dims) {
  size_t first = dims.back() + 1;
  Index left(index.take_front(first));
  llvm::append_range(left, index.drop_front(first + dims.size()));
  return left;
}

Tensor WindowsOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(getType());
  forEachPlace(input.getShape(), getDims(), getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    result.copyElement(result.linearize(place), input, input.linearize(element));
  });
  return result;
}

Tensor UnwindowsOp::evaluate(ArrayRef<Tensor> operands) {
  ArrayRef<int64_t> dims = getDims();
  Tensor result(getType());
  Index elements = withoutWindows(result.getShape(), dims);
  forEachPlace(elements, dims, getWindows(), [&](ArrayRef<int64_t> element, ArrayRef<int64_t> place) {
    Index to(place);
    for (int64_t dim : dims) {
      to[dim] = element[dim];
    }
    result.copyElement(result.linearize(to), operands[0], operands[0].linearize(place));
  });
  return result;
}

} // namespace ashlar::nn
