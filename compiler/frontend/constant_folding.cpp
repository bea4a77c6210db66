// SPDX-License-Identifier: Apache-2.0
//
// The evaluator. All values are int64 while it works; bools are 0 and 1, i32 wraps when it is written back.

#include "compiler/frontend/constant_folding.h"
#include "compiler/frontend/shape_rules.h"
#include "compiler/frontend/tensor_data.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

struct IntTensor {
  Type element;
  Shape shape;
  std::vector<int64_t> values;
};

int64_t product(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

// Constants of more elements are data, not shape arithmetic; no index or mask that exporters write comes near.
constexpr int64_t kMostElements = int64_t{1} << 24;

// Returns the number of elements of a result to be computed, and pays for them, more for those of odd ranks.
int64_t countElements(const Node &node, Type element, ArrayRef<int64_t> shape) {
  node.checkSize(shape, element);
  int64_t count = product(shape);
  constexpr int64_t kRank = 8; // finding an element takes a step for each dim
  int64_t steps = 0;
  bool counted = !llvm::MulOverflow(count, static_cast<int64_t>(1 + shape.size() / kRank), steps);
  node.spend(counted ? steps : std::numeric_limits<int64_t>::max());
  return count;
}

IntTensor readInput(const Node &node, size_t index) {
  DenseElementsAttr constant = node.constantInput(index);
  if (!constant) { // what is there is known, or the node would not be folded
    node.fail("input " + Twine(index) + " is missing");
  }
  IntTensor tensor{constant.getElementType(), Shape(constant.getType().getShape()), {}};
  countElements(node, tensor.element, tensor.shape);
  bool isBool = tensor.element.isInteger(1);
  for (const APInt &value : constant.getValues<APInt>()) {
    tensor.values.push_back(isBool ? value.getZExtValue() : value.getSExtValue());
  }
  return tensor;
}

void setResult(Node &node, const IntTensor &tensor) {
  SmallVector<APInt> values;
  unsigned bits = tensor.element.getIntOrFloatBitWidth();
  for (int64_t value : tensor.values) {
    values.push_back(APInt(bits, value, /*isSigned=*/true, /*implicitTrunc=*/true));
  }
  node.setResult(0, DenseElementsAttr::get(RankedTensorType::get(tensor.shape, tensor.element), values));
}

// The element of `tensor` that lands at row-major position `at` of `shape` when it is broadcast to it.
int64_t broadcastElement(const IntTensor &tensor, ArrayRef<int64_t> shape, int64_t at) {
  int64_t offset = 0, stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) { // from the last dim
    int64_t index = at % shape[shape.size() - 1 - i];
    at /= shape[shape.size() - 1 - i];
    if (i < tensor.shape.size()) {
      int64_t size = tensor.shape[tensor.shape.size() - 1 - i];
      offset += size == 1 ? 0 : index * stride;
      stride *= size;
    }
  }
  return tensor.values[offset];
}

// Applies `compute` to every element; the result has the element type of the first operand, or bool.
void foldBinary(Node &node, int64_t (*compute)(int64_t, int64_t), bool toBool) {
  IntTensor lhs = readInput(node, 0), rhs = readInput(node, 1);
  if (lhs.element != rhs.element) {
    node.fail("operands have different element types");
  }
  IntTensor result{toBool ? node.builder().getI1Type() : lhs.element, broadcastShapes(node, lhs.shape, rhs.shape), {}};
  for (int64_t i = 0, count = countElements(node, result.element, result.shape); i < count; ++i) {
    result.values.push_back(compute(broadcastElement(lhs, result.shape, i), broadcastElement(rhs, result.shape, i)));
  }
  setResult(node, result);
}

void foldUnary(Node &node, int64_t (*compute)(int64_t)) {
  IntTensor result = readInput(node, 0);
  for (int64_t &value : result.values) {
    value = compute(value);
  }
  setResult(node, result);
}

// Arithmetic wraps like the machine's.
int64_t wrap(uint64_t value) {
  return static_cast<int64_t>(value);
}

void foldAdd(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return wrap(uint64_t(a) + uint64_t(b)); }, false);
}
void foldSub(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return wrap(uint64_t(a) - uint64_t(b)); }, false);
}
void foldMul(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return wrap(uint64_t(a) * uint64_t(b)); }, false);
}
void foldDiv(Node &node) {
  if (llvm::is_contained(readInput(node, 1).values, 0)) {
    node.fail("divides by zero");
  }
  foldBinary(node, [](int64_t a, int64_t b) { return b == -1 ? wrap(-uint64_t(a)) : a / b; }, false);
}
void foldNeg(Node &node) {
  foldUnary(node, [](int64_t a) { return wrap(-uint64_t(a)); });
}
void foldAbs(Node &node) {
  foldUnary(node, [](int64_t a) { return a < 0 ? wrap(-uint64_t(a)) : a; });
}
void foldNot(Node &node) {
  foldUnary(node, [](int64_t a) { return int64_t(!a); });
}
void foldAnd(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return int64_t(a && b); }, true);
}
void foldOr(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return int64_t(a || b); }, true);
}
void foldEqual(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return int64_t(a == b); }, true);
}
void foldLess(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return int64_t(a < b); }, true);
}
void foldLessOrEqual(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return int64_t(a <= b); }, true);
}
void foldGreater(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return int64_t(a > b); }, true);
}
void foldGreaterOrEqual(Node &node) {
  foldBinary(node, [](int64_t a, int64_t b) { return int64_t(a >= b); }, true);
}

void foldWhere(Node &node) {
  IntTensor condition = readInput(node, 0), onTrue = readInput(node, 1), onFalse = readInput(node, 2);
  IntTensor result{onTrue.element, broadcastShapes(node, condition.shape, broadcastShapes(node, onTrue.shape, onFalse.shape)), {}};
  if (onTrue.element != onFalse.element) {
    node.fail("inputs X and Y have different element types");
  }
  for (int64_t i = 0, count = countElements(node, result.element, result.shape); i < count; ++i) {
    result.values.push_back(broadcastElement(broadcastElement(condition, result.shape, i) ? onTrue : onFalse, result.shape, i));
  }
  setResult(node, result);
}

void foldReshapeTo(Node &node, Shape shape) {
  IntTensor result = readInput(node, 0);
  result.shape = std::move(shape);
  setResult(node, result);
}
void foldReshape(Node &node) {
  foldReshapeTo(node, reshapedShape(node, readInput(node, 0).shape));
}
void foldSqueeze(Node &node) {
  foldReshapeTo(node, squeezedShape(node, readInput(node, 0).shape));
}
void foldUnsqueeze(Node &node) {
  foldReshapeTo(node, unsqueezedShape(node, readInput(node, 0).shape));
}

void foldExpand(Node &node) {
  IntTensor from = readInput(node, 0), result{from.element, broadcastShapes(node, from.shape, node.intsInput(1, "shape")), {}};
  for (int64_t i = 0, count = countElements(node, result.element, result.shape); i < count; ++i) {
    result.values.push_back(broadcastElement(from, result.shape, i));
  }
  setResult(node, result);
}

// Views a shape around `axis` as (outer, size, inner).
struct AxisView {
  AxisView(ArrayRef<int64_t> shape, int64_t axis)
      : outer(product(shape.take_front(axis))), size(shape[axis]), inner(product(shape.drop_front(axis + 1))) {}
  int64_t outer, size, inner;
};

void foldGather(Node &node) {
  IntTensor data = readInput(node, 0), indices = readInput(node, 1);
  int64_t axis = node.getAxis("axis", 0, data.shape.size());
  AxisView view(data.shape, axis);
  IntTensor result{data.element, Shape(ArrayRef(data.shape).take_front(axis)), {}};
  result.shape.append(indices.shape);
  llvm::append_range(result.shape, ArrayRef(data.shape).drop_front(axis + 1));
  countElements(node, result.element, result.shape);
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    for (int64_t index : indices.values) {
      int64_t at = node.normalizeAxis(index, view.size);
      auto begin = data.values.begin() + (outer * view.size + at) * view.inner;
      result.values.insert(result.values.end(), begin, begin + view.inner);
    }
  }
  setResult(node, result);
}

void foldConcat(Node &node) {
  IntTensor result = readInput(node, 0);
  int64_t axis = node.getAxis("axis", 0, result.shape.size());
  SmallVector<IntTensor> parts;
  result.shape[axis] = 0;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    IntTensor part = readInput(node, i);
    Shape expected = result.shape;
    if (part.shape.size() == expected.size()) {
      expected[axis] = part.shape[axis];
    }
    if (part.shape != expected || part.element != result.element) {
      node.fail("input " + Twine(i) + " cannot be joined with input 0 along axis " + Twine(axis));
    }
    result.shape[axis] = joinedSize(result.shape[axis], part.shape[axis]);
    parts.push_back(std::move(part));
  }
  result.values.clear();
  countElements(node, result.element, result.shape);
  for (int64_t outer = 0, count = AxisView(result.shape, axis).outer; outer < count; ++outer) {
    for (const IntTensor &part : parts) {
      AxisView view(part.shape, axis);
      auto begin = part.values.begin() + outer * view.size * view.inner;
      result.values.insert(result.values.end(), begin, begin + view.size * view.inner);
    }
  }
  setResult(node, result);
}

void foldSlice(Node &node) {
  IntTensor from = readInput(node, 0), result{from.element, {}, {}};
  SliceBounds bounds = sliceBounds(node, from.shape);
  for (size_t d = 0; d < from.shape.size(); ++d) {
    result.shape.push_back(llvm::divideCeil(bounds.limits[d] - bounds.starts[d], bounds.steps[d]));
  }
  for (int64_t i = 0, count = countElements(node, result.element, result.shape); i < count; ++i) {
    int64_t rest = i, offset = 0, stride = 1;
    for (int64_t d = from.shape.size() - 1; d >= 0; --d) {
      offset += (bounds.starts[d] + rest % result.shape[d] * bounds.steps[d]) * stride;
      rest /= result.shape[d];
      stride *= from.shape[d];
    }
    result.values.push_back(from.values[offset]);
  }
  setResult(node, result);
}

// A cast to a float leaves the evaluator's domain.
bool foldCast(Node &node) {
  Type element = convertElementType(node.getInt("to", 0), node.builder().getContext(), "node \"" + node.getPath() + "\"");
  if (!element.isInteger()) {
    return false;
  }
  IntTensor result = readInput(node, 0);
  result.element = element;
  if (element.isInteger(1)) {
    llvm::for_each(result.values, [](int64_t &value) { value = value != 0; });
  }
  setResult(node, result);
  return true;
}

// Shape and Size need only the type of their input.
void foldShape(Node &node) {
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  int64_t rank = shape.size();
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = clamp(node.getInt("start", 0)), end = clamp(node.getInt("end", rank)); // since opset 15
  ArrayRef<int64_t> part = start < end ? shape.slice(start, end - start) : ArrayRef<int64_t>();
  setResult(node, {node.builder().getI64Type(), {static_cast<int64_t>(part.size())}, {part.begin(), part.end()}});
}
void foldSize(Node &node) {
  setResult(node, {node.builder().getI64Type(), {}, {node.inputType(0).getNumElements()}});
}

using Fold = void (*)(Node &);
const llvm::StringMap<Fold> &foldTable() {
  static const llvm::StringMap<Fold> table = {
      {"Abs", foldAbs},
      {"Add", foldAdd},
      {"And", foldAnd},
      {"Concat", foldConcat},
      {"Div", foldDiv},
      {"Equal", foldEqual},
      {"Expand", foldExpand},
      {"Gather", foldGather},
      {"Greater", foldGreater},
      {"Less", foldLess},
      {"GreaterOrEqual", foldGreaterOrEqual},
      {"Mul", foldMul},
      {"LessOrEqual", foldLessOrEqual},
      {"Neg", foldNeg},
      {"Not", foldNot},
      {"Or", foldOr},
      {"Reshape", foldReshape},
      {"Slice", foldSlice},
      {"Squeeze", foldSqueeze},
      {"Sub", foldSub},
      {"Unsqueeze", foldUnsqueeze},
      {"Where", foldWhere},
  };
  return table;
}

bool isKnownInteger(const Node &node, size_t index) {
  DenseElementsAttr constant = node.peekConstant(index);
  return constant && constant.getElementType().isInteger() && constant.getNumElements() <= kMostElements;
}

} // namespace

bool foldNode(Node &node) {
  if (node.opType() == "Shape") {
    foldShape(node);
    return true;
  }
  if (node.opType() == "Size") {
    foldSize(node);
    return true;
  }
  Fold fold = foldTable().lookup(node.opType());
  if ((!fold && node.opType() != "Cast") || node.numInputs() == 0) {
    return false;
  }
  for (size_t i = 0; i < node.numInputs(); ++i) {
    if (node.isGiven(i) && !isKnownInteger(node, i)) {
      return false;
    }
  }
  if (node.opType() == "Cast") {
    return foldCast(node);
  }
  fold(node);
  return true;
}

} // namespace ashlar::frontend
