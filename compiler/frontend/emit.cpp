// SPDX-License-Identifier: Apache-2.0
//
// The ops that several handlers need.

#include "compiler/frontend/emit.h"

#include "compiler/frontend/shape_rules.h"

#include "dialects/support/element_type.h"
#include "dialects/support/integer_type.h"

#include "llvm/ADT/bit.h"

using namespace mlir;

namespace ashlar::frontend {

Value reshape(const Node &node, Value value, ArrayRef<int64_t> shape) {
  return shapeOf(value) == shape ? value : node.create<nn::ReshapeOp>(typeOf(value).clone(shape), value).getResult();
}

Value transpose(const Node &node, Value value, ArrayRef<int64_t> permutation) {
  return llvm::is_sorted(permutation) ? value : node.create<nn::TransposeOp>(value, permutation).getResult();
}

Value broadcastTo(const Node &node, Value value, ArrayRef<int64_t> shape) {
  RankedTensorType from = typeOf(value);
  if (from.getShape() == shape) {
    return value;
  }
  int64_t offset = static_cast<int64_t>(shape.size()) - from.getRank();
  SmallVector<int64_t> kept, dims;
  for (int64_t i = 0; i < from.getRank(); ++i) {
    if (from.getDimSize(i) == shape[offset + i]) {
      kept.push_back(from.getDimSize(i));
      dims.push_back(offset + i);
    }
  }
  Value narrow = reshape(node, value, kept);
  return node.create<nn::BroadcastOp>(from.clone(shape), narrow, dims);
}

std::pair<Value, Value> broadcastPair(const Node &node, Value lhs, Value rhs) {
  if (typeOf(lhs).getElementType() != typeOf(rhs).getElementType()) {
    std::string types;
    llvm::raw_string_ostream(types) << typeOf(lhs) << " and " << typeOf(rhs);
    node.fail("operands " + types + " have different element types");
  }
  Shape shape = broadcastShapes(node, shapeOf(lhs), shapeOf(rhs));
  return {broadcastTo(node, lhs, shape), broadcastTo(node, rhs, shape)};
}

Value splatConstant(const Node &node, RankedTensorType type, double value) {
  return node.create<nn::ConstantOp>(type, nn::splat(type, value));
}

Value compare(const Node &node, nn::Predicate predicate, Value lhs, Value rhs) {
  return node.create<nn::CompareOp>(typeOf(lhs).clone(node.builder().getI1Type()), predicate, lhs, rhs);
}

Value compare(const Node &node, nn::Predicate predicate, Value lhs, double rhs) {
  return compare(node, predicate, lhs, splatConstant(node, typeOf(lhs), rhs));
}

Value select(const Node &node, Value condition, Value onTrue, Value onFalse) {
  return node.create<nn::SelectOp>(onTrue.getType(), condition, onTrue, onFalse);
}

Value convertTo(const Node &node, Value value, Type element) {
  RankedTensorType from = typeOf(value);
  return from.getElementType() == element ? value
                                          : node.create<nn::CastOp>(RankedTensorType::get(from.getShape(), element), value).getResult();
}

std::optional<double> splatInput(const Node &node, size_t index) {
  DenseElementsAttr constant = node.constantInput(index);
  if (!constant || !constant.isSplat()) {
    return std::nullopt;
  }
  if (isa<FloatType>(constant.getElementType())) {
    APFloat value = constant.getSplatValue<APFloat>();
    bool losesInfo;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    return value.convertToDouble();
  }
  return constant.getSplatValue<APInt>().roundToDouble(/*isSigned=*/!isUnsigned(constant.getElementType()));
}

Value widen(const Node &node, Value value) {
  return isNarrowFloat(typeOf(value).getElementType()) ? convertTo(node, value, node.builder().getF32Type()) : value;
}

Value asNumbers(const Node &node, Value value) {
  return typeOf(value).getElementType().isInteger(1) ? convertTo(node, value, node.builder().getI32Type()) : value;
}

Value countFromFront(const Node &node, Value indices, int64_t size, Value count) {
  RankedTensorType type = typeOf(indices);
  auto boolType = RankedTensorType::get(type.getShape(), node.builder().getI1Type());
  Value isNegative = node.create<nn::CompareOp>(boolType, nn::Predicate::Lt, indices, splatConstant(node, type, 0));
  Value end = count ? broadcastTo(node, convertTo(node, count, type.getElementType()), type.getShape()) : splatConstant(node, type, size);
  Value fromEnd = node.create<nn::AddOp>(indices, end);
  return node.create<nn::SelectOp>(type, isNegative, fromEnd, indices);
}

Value reduce(const Node &node, Reduction kind, Value value, ArrayRef<int64_t> dims) {
  return dims.empty() ? value : node.create<nn::ReduceOp>(kind, value, dims).getResult();
}

Value multiplyAlong(const Node &node, Value x, int64_t dim) {
  for (int64_t size; (size = shapeOf(x)[dim]) > 1;) {
    int64_t kept = llvm::bit_floor(static_cast<uint64_t>(size) - 1), rest = size - kept;
    Value product = node.create<nn::MulOp>(sliceAlong(node, x, dim, 0, rest), sliceAlong(node, x, dim, kept, size));
    x = rest == kept ? product : node.create<nn::ConcatOp>(ValueRange{product, sliceAlong(node, x, dim, rest, kept)}, dim).getResult();
  }
  return x;
}

Value repeatAlong(const Node &node, Value value, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> others;
  llvm::copy_if(llvm::seq<int64_t>(0, shape.size()), std::back_inserter(others), [&](int64_t d) { return !llvm::is_contained(dims, d); });
  return dims.empty() ? value : node.create<nn::BroadcastOp>(typeOf(value).clone(shape), value, others).getResult();
}

Attribute zeroOf(Type element) {
  return isa<FloatType>(element) ? Attribute(FloatAttr::get(element, 0.0)) : IntegerAttr::get(element, 0);
}

Value isThere(const Node &node, Value value, int64_t dim, Value count) {
  auto type = RankedTensorType::get({shapeOf(value)[dim]}, node.builder().getI64Type());
  Value index = node.create<nn::IndexOp>(type, ArrayRef<int64_t>{1});
  Value before = compare(node, nn::Predicate::Lt, index, broadcastTo(node, count, type.getShape()));
  return node.create<nn::BroadcastOp>(typeOf(before).clone(shapeOf(value)), before, ArrayRef<int64_t>{dim});
}

Value fillMissing(const Node &node, Value value, ArrayRef<int64_t> dims, Attribute fill) {
  SmallVector<Value> counts = node.countsOf(value);
  for (int64_t dim : counts.empty() ? ArrayRef<int64_t>() : dims) {
    if (counts[dim]) {
      Value filled = node.create<nn::ConstantOp>(typeOf(value), DenseElementsAttr::get(typeOf(value), fill));
      value = select(node, isThere(node, value, dim, counts[dim]), value, filled);
      node.settle(value, dim);
    }
  }
  return value;
}

Value countElements(const Node &node, Value value, ArrayRef<int64_t> dims) {
  SmallVector<Value> counts = node.countsOf(value);
  Value product;
  int64_t known = 1;
  for (int64_t dim : counts.empty() ? ArrayRef<int64_t>() : dims) {
    if (!counts[dim]) {
      known *= shapeOf(value)[dim];
    } else {
      product = product ? node.create<nn::MulOp>(product, counts[dim]).getResult() : counts[dim];
    }
  }
  return !product || known == 1 ? product : node.create<nn::MulOp>(product, splatConstant(node, typeOf(product), known)).getResult();
}

Value sliceAlong(const Node &node, Value value, int64_t dim, int64_t start, int64_t limit) {
  if (start == 0 && limit == shapeOf(value)[dim]) {
    return value;
  }
  SmallVector<int64_t> starts(typeOf(value).getRank(), 0), limits(shapeOf(value)), steps(typeOf(value).getRank(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  return node.create<nn::SliceOp>(value, starts, limits, steps);
}

Value reverseAlong(const Node &node, Value value, int64_t dim) {
  Type element = typeOf(value).getElementType();
  int64_t size = shapeOf(value)[dim];
  node.spend(size);
  SmallVector<int64_t> places = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, size)));
  return convertTo(node, node.create<nn::ResampleOp>(asNumbers(node, value), dim, /*terms=*/1, places, ArrayRef<double>()), element);
}

Value leadingPart(const Node &node, Value value, ArrayRef<int64_t> shape) {
  for (auto [dim, size] : llvm::enumerate(shape)) {
    value = sliceAlong(node, value, static_cast<int64_t>(dim), 0, size);
  }
  return value;
}

void importRows(Node &node, llvm::function_ref<Value(const Node &, Value)> alongLast) {
  Value input = node.input(0);
  SmallVector<int64_t> shape(shapeOf(input));
  int64_t rank = shape.size();
  if (rank == 0) {
    node.fail("input is a scalar");
  }
  bool oneAxis = node.getOpset() >= 13;
  int64_t axis = node.getAxis("axis", oneAxis ? -1 : (rank == 1 ? 0 : 1), rank);
  if (axis == rank - 1) {
    node.setResult(0, alongLast(node, input));
  } else if (oneAxis) {
    SmallVector<int64_t> swapped = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    std::swap(swapped[axis], swapped[rank - 1]); // its own inverse
    node.setResult(0, transpose(node, alongLast(node, transpose(node, input, swapped)), swapped));
  } else {
    SmallVector<int64_t> flat(ArrayRef(shape).take_front(axis));
    flat.push_back(llvm::product_of(ArrayRef(shape).drop_front(axis)));
    node.setResult(0, reshape(node, alongLast(node, reshape(node, input, flat)), shape));
  }
}

} // namespace ashlar::frontend
