// SPDX-License-Identifier: Apache-2.0
//
// Reductions, norms and the softmax family.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include "dialects/support/integer_type.h"

#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

enum class Kind { Sum, SumAbs, SumSquare, Norm, LogSum, LogSumExp, Product, Mean, Max, Min };

bool isInteger(Value value) {
  return typeOf(value).getElementType().isInteger();
}

// A function of a sum, but `atZero` where the sum is 0: there its slope is infinite, and the gradient is 0 instead.
template <typename Op> Value functionOfSum(const Node &node, Value sum, double atZero) {
  Value isZero = compare(node, nn::Predicate::Eq, sum, 0);
  Value result = node.create<Op>(select(node, isZero, splatConstant(node, typeOf(sum), 1), sum));
  return select(node, isZero, splatConstant(node, typeOf(sum), atZero), result);
}

// sqrt(sum(x^2))
Value norm(const Node &node, Value x, ArrayRef<int64_t> dims) {
  Value sum = reduce(node, Reduction::Sum, node.create<nn::MulOp>(x, x), dims);
  return isInteger(x)
             ? convertTo(node, node.create<nn::SqrtOp>(convertTo(node, sum, node.builder().getF64Type())), typeOf(x).getElementType())
             : functionOfSum<nn::SqrtOp>(node, sum, 0);
}

// log(sum(e^(x - m))) + m, m the largest x, rounded to an integer: the gradient of nn.round is 0, and m has none here. An m that is
// infinite would make NaN of its own elements.
Value logSumExp(const Node &node, Value x, ArrayRef<int64_t> dims) {
  Value largest = node.create<nn::RoundOp>(reduce(node, Reduction::Max, x, dims));
  Value isFinite = compare(node, nn::Predicate::Lt, node.create<nn::AbsOp>(largest), std::numeric_limits<double>::infinity());
  largest = select(node, isFinite, largest, splatConstant(node, typeOf(largest), 0));
  Value shifted = node.create<nn::SubOp>(x, repeatAlong(node, largest, dims, shapeOf(x)));
  Value sum = reduce(node, Reduction::Sum, node.create<nn::ExpOp>(shifted), dims);
  return node.create<nn::AddOp>(functionOfSum<nn::LogOp>(node, sum, -std::numeric_limits<double>::infinity()), largest);
}

Value multiply(const Node &node, Value x, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(shapeOf(x))) {
    if (!llvm::is_contained(dims, d)) {
      shape.push_back(size);
    }
  }
  if (llvm::any_of(dims, [&](int64_t d) { return shapeOf(x)[d] == 0; })) {
    return splatConstant(node, typeOf(x).clone(shape), 1);
  }
  for (int64_t dim : dims) {
    x = multiplyAlong(node, x, dim);
  }
  return reshape(node, x, shape);
}

// `elements`: how many each mean is of, where only a run finds it.
Value mean(const Node &node, Value x, ArrayRef<int64_t> dims, Value elements) {
  Value sum = reduce(node, Reduction::Sum, x, dims);
  RankedTensorType type = typeOf(sum);
  if (elements) {
    return node.create<nn::DivOp>(sum, broadcastTo(node, convertTo(node, elements, type.getElementType()), type.getShape()));
  }
  int64_t count = typeOf(x).getNumElements() / std::max<int64_t>(type.getNumElements(), 1);
  // Of one element too: a product that another number of samples has.
  return isInteger(x) ? node.create<nn::DivOp>(sum, splatConstant(node, type, count)).getResult()
                      : node.create<nn::MulOp>(sum, splatConstant(node, type, 1.0 / count)).getResult();
}

// An element that makes no difference to a reduction.
Attribute neutralOf(Kind kind, Type element) {
  const bool isLeast = kind == Kind::Max || kind == Kind::LogSumExp;
  if (isLeast || kind == Kind::Min) {
    if (auto real = dyn_cast<FloatType>(element)) {
      return FloatAttr::get(real, APFloat::getInf(real.getFloatSemantics(), /*Negative=*/isLeast));
    }
    return IntegerAttr::get(element, isLeast ? lowestInteger(element) : highestInteger(element));
  }
  const int64_t value = kind == Kind::Product ? 1 : 0;
  return isa<FloatType>(element) ? Attribute(FloatAttr::get(element, static_cast<double>(value))) : IntegerAttr::get(element, value);
}

// Reduces `dims`, which vanish; where there are none, each element by itself. Of counted dims, the elements that are there.
Value reduceBy(const Node &node, Kind kind, Value x, ArrayRef<int64_t> dims) {
  Value elements = countElements(node, x, dims);
  x = fillMissing(node, x, dims, neutralOf(kind, typeOf(x).getElementType()));
  switch (kind) {
  case Kind::Sum:
    return reduce(node, Reduction::Sum, x, dims);
  case Kind::SumAbs:
    return reduce(node, Reduction::Sum, node.create<nn::AbsOp>(x), dims);
  case Kind::SumSquare:
    return reduce(node, Reduction::Sum, node.create<nn::MulOp>(x, x), dims);
  case Kind::Norm:
    return norm(node, x, dims);
  case Kind::LogSum:
    return node.create<nn::LogOp>(reduce(node, Reduction::Sum, x, dims));
  case Kind::LogSumExp:
    return logSumExp(node, x, dims);
  case Kind::Product:
    return multiply(node, x, dims);
  case Kind::Mean:
    return mean(node, x, dims, elements);
  case Kind::Max:
    return reduce(node, Reduction::Max, x, dims);
  case Kind::Min:
    return reduce(node, Reduction::Min, x, dims);
  }
  llvm_unreachable("unknown reduction");
}

// `axesInputSince`: the opset that turned the attribute `axes` into an input.
void importReduce(Node &node, Kind kind, int64_t axesInputSince) {
  RankedTensorType type = node.inputType(0);
  SmallVector<int64_t> axes = readAxes(node, 1, axesInputSince, type.getRank());
  bool keep = node.getInt("keepdims", 1) != 0;
  bool noAxesNoReduction = node.getOpset() >= axesInputSince && node.getInt("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && !noAxesNoReduction) {
    axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  }
  SmallVector<int64_t> kept;
  bool isEmpty = false;
  for (auto [i, dim] : llvm::enumerate(type.getShape())) {
    bool reduced = llvm::is_contained(axes, i);
    isEmpty |= reduced && dim == 0;
    if (!reduced || keep) {
      kept.push_back(reduced ? 1 : dim);
    }
  }
  if (isEmpty && kind == Kind::Mean) {
    node.fail("has no elements to reduce");
  }
  bool isPlain = llvm::is_contained({Kind::Sum, Kind::Mean, Kind::Max, Kind::Min}, kind); // whose sums are f32 by themselves
  Value input = node.input(0), x = isPlain ? input : widen(node, input);
  if (type.getElementType().isInteger(1)) { // u8, whose least number is 0
    x = convertTo(node, x, node.builder().getIntegerType(8, /*isSigned=*/false));
  }
  Value result = reshape(node, convertTo(node, reduceBy(node, kind, x, axes), type.getElementType()), kept);
  result == input ? node.aliasResult(0, 0) : node.setResult(0, result);
}

void importReduceSum(Node &node) {
  importReduce(node, Kind::Sum, /*axesInputSince=*/13);
}
template <Kind kind> void importReduceSince18(Node &node) {
  importReduce(node, kind, /*axesInputSince=*/18);
}

// x / norm(x) along one axis, and 0 where the norm is: the quotient by infinity, whose gradient is 0, too.
void importLpNormalization(Node &node) {
  const int64_t p = node.getInt("p", 2);
  if (p != 1 && p != 2) {
    node.fail("attribute \"p\" is " + Twine(p) + "; one of 1, 2");
  }
  RankedTensorType type = node.inputType(0);
  const int64_t axis = node.getAxis("axis", -1, type.getRank());
  Value x = widen(node, node.input(0));
  Value size = p == 2 ? norm(node, x, axis) : reduce(node, Reduction::Sum, node.create<nn::AbsOp>(x), axis);
  Value infinity = splatConstant(node, typeOf(size), std::numeric_limits<double>::infinity());
  size = select(node, compare(node, nn::Predicate::Eq, size, 0), infinity, size);
  Value result = node.create<nn::DivOp>(x, repeatAlong(node, size, axis, shapeOf(x)));
  node.setResult(0, convertTo(node, result, type.getElementType()));
}

// Elements that are not there have no share in the sum.
template <typename Op> Value alongLast(const Node &node, Value x) {
  const int64_t last = typeOf(x).getRank() - 1;
  SmallVector<Value> counts = node.countsOf(x);
  Value result = node.create<Op>(fillMissing(node, x, last, neutralOf(Kind::Max, typeOf(x).getElementType())));
  if (!counts.empty() && counts[last]) {
    node.setCount(result, last, counts[last]);
  }
  return result;
}
template <typename Op> void importSoftmax(Node &node) {
  importRows(node, alongLast<Op>);
}

constexpr RegistryRow kReductionRows[] = {
    {"LogSoftmax", importSoftmax<nn::LogSoftmaxOp>, Accepts::Floats},
    {"LpNormalization", importLpNormalization, Accepts::Floats},
    {"ReduceL1", importReduceSince18<Kind::SumAbs>, Accepts::Numbers},
    {"ReduceL2", importReduceSince18<Kind::Norm>, Accepts::Numbers},
    {"ReduceLogSum", importReduceSince18<Kind::LogSum>, Accepts::Floats},
    {"ReduceLogSumExp", importReduceSince18<Kind::LogSumExp>, Accepts::Floats},
    {"ReduceMax", importReduceSince18<Kind::Max>},
    {"ReduceMean", importReduceSince18<Kind::Mean>, Accepts::Numbers},
    {"ReduceMin", importReduceSince18<Kind::Min>},
    {"ReduceProd", importReduceSince18<Kind::Product>, Accepts::Numbers},
    {"ReduceSum", importReduceSum, Accepts::Numbers},
    {"ReduceSumSquare", importReduceSince18<Kind::SumSquare>, Accepts::Numbers},
    {"Softmax", importSoftmax<nn::SoftmaxOp>, Accepts::Floats},
};

} // namespace

ArrayRef<RegistryRow> reductionRows() {
  return kReductionRows;
}

} // namespace ashlar::frontend
