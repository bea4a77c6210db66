// SPDX-License-Identifier: Apache-2.0
//
// What is selected moves to the front: an element goes to the place that the number of selected ones before it says, a running sum, and a
// scatter puts its number there. No sorting, and nothing that a kernel could not do for parts of the elements at once.

#include "compiler/frontend/ops/index/selection.h"

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/scan.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

void checkIsWhole(const Node &node) {
  if (node.getInfo().options.local) {
    node.fail("selects by data that only a run knows, from a device's piece; mode HYBRID has no such ops, use SEMI_AUTO");
  }
}

Selection selectFlagged(const Node &node, Value flags) {
  constexpr int64_t kMostNarrow = int64_t{1} << 30; // counts of so many elements fit an i32, in which kernels count faster
  const int64_t size = shapeOf(flags)[0];
  Type wide = node.builder().getI64Type(), narrow = size < kMostNarrow ? Type(node.builder().getI32Type()) : wide;
  Value numbers = convertTo(node, flags, narrow);
  auto type = typeOf(numbers);
  Value count = convertTo(node, reduce(node, Reduction::Sum, numbers, {0}), wide);
  Value place = node.create<nn::SubOp>(sumUpTo(node, numbers, 0), splatConstant(node, type, 1));
  Value target = select(node, flags, place, splatConstant(node, type, -1));
  Value index = convertTo(node, node.create<nn::IndexOp>(type.clone(wide), ArrayRef<int64_t>{1}), narrow);
  return {convertTo(node, node.create<nn::ScatterAddOp>(type, target, index, /*batch_dims=*/0), wide), count};
}

namespace {

// Puts -1 behind the places.
Value markEnd(const Node &node, const Selection &selection) {
  Value isPlace = isThere(node, selection.places, 0, selection.count);
  return select(node, isPlace, selection.places, splatConstant(node, typeOf(selection.places), -1));
}

// Which elements of a tensor are other than 0; those that are not there are not. A NaN is other than 0.
Value isNonZero(const Node &node, Value x) {
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(x).getRank()));
  x = fillMissing(node, x, dims, zeroOf(typeOf(x).getElementType()));
  return typeOf(x).getElementType().isInteger(1) ? x : compare(node, nn::Predicate::Ne, x, 0);
}

} // namespace

Value selectPlaces(const Node &node, Value flags) {
  checkIsWhole(node);
  flags = fillMissing(node, flags, 0, zeroOf(typeOf(flags).getElementType()));
  Selection selection = selectFlagged(node, flags);
  Value places = markEnd(node, selection);
  node.setCount(places, 0, selection.count);
  return places;
}

void importNonZeroAtRunTime(Node &node) {
  checkIsWhole(node);
  Value x = node.input(0);
  SmallVector<int64_t> shape(shapeOf(x));
  const int64_t rank = shape.size(), size = typeOf(x).getNumElements();
  if (rank == 0) {
    node.fail("input \"X\" is a scalar, for which ONNX defines no result; give it a dim");
  }
  if (size == 0) {
    return node.setResult(0, splatConstant(node, RankedTensorType::get({rank, 0}, node.builder().getI64Type()), 0));
  }
  Selection selection = selectFlagged(node, reshape(node, isNonZero(node, x), {size}));
  SmallVector<int64_t> strides = rowMajorStrides(shape);
  SmallVector<Value> rows;
  auto number = [&](int64_t value) { return splatConstant(node, typeOf(selection.places), static_cast<double>(value)); };
  Value rest = selection.places; // what is left of the number of an element behind its index in a dim
  for (int64_t d = 0; d < rank; ++d) {
    Value index = d + 1 == rank ? rest : node.create<nn::DivOp>(rest, number(strides[d])).getResult();
    rest = d + 1 == rank ? rest : node.create<nn::SubOp>(rest, node.create<nn::MulOp>(index, number(strides[d]))).getResult();
    rows.push_back(reshape(node, index, {1, size}));
  }
  Value result = rank == 1 ? rows.front() : node.create<nn::ConcatOp>(rows, 0).getResult();
  node.setCount(result, 1, selection.count);
  node.setResult(0, result);
}

namespace {

// What Unique compares: the slices of a tensor along an axis, as rows. Each row looks at each other: n^2 comparisons, of which kernels keep
// nothing but the sums. A NaN is equal to itself, and larger than any number, as in NumPy.
class RowComparison {
public:
  RowComparison(const Node &node, Value rows)
      : node(node), rows(rows), size(shapeOf(rows)[0]), width(shapeOf(rows)[1]), cube({size, size, width}) {
    if (isa<FloatType>(typeOf(rows).getElementType())) {
      isNaN = compare(node, nn::Predicate::Ne, rows, rows);
    }
  }

  // Whether row i (dim 0) and row j (dim 1) are equal.
  Value areEqual() const {
    Value apart = convertTo(node, node.create<nn::NotOp>(elementsAreEqual()), node.builder().getI32Type());
    return compare(node, nn::Predicate::Eq, reduce(node, Reduction::Max, apart, {2}), 0);
  }

  // Whether row j comes before row i, by the first element in which they differ.
  Value isBefore() const {
    Value less = node.create<nn::CompareOp>(boolType(), nn::Predicate::Lt, second(rows), first(rows));
    if (isNaN) {
      less = node.create<nn::OrOp>(less, node.create<nn::AndOp>(node.create<nn::NotOp>(second(isNaN)), first(isNaN)));
    }
    if (width == 1) {
      return reshape(node, less, {size, size});
    }
    Value index = node.create<nn::IndexOp>(RankedTensorType::get(cube, node.builder().getI64Type()), ArrayRef<int64_t>{0, 0, 1});
    index = convertTo(node, index, node.builder().getI32Type());
    Value none = splatConstant(node, typeOf(index), static_cast<double>(width));
    Value differs = reduce(node, Reduction::Min, select(node, elementsAreEqual(), none, index), {2});
    Value isLess = reduce(node, Reduction::Min, select(node, less, index, none), {2});
    Value isDifferent = compare(node, nn::Predicate::Lt, differs, static_cast<double>(width));
    return node.create<nn::AndOp>(isDifferent, compare(node, nn::Predicate::Eq, differs, isLess));
  }

private:
  RankedTensorType boolType() const { return RankedTensorType::get(cube, node.builder().getI1Type()); }
  Value first(Value value) const { return node.create<nn::BroadcastOp>(typeOf(value).clone(cube), value, ArrayRef<int64_t>{0, 2}); }
  Value second(Value value) const { return node.create<nn::BroadcastOp>(typeOf(value).clone(cube), value, ArrayRef<int64_t>{1, 2}); }
  Value elementsAreEqual() const {
    Value equal = compare(node, nn::Predicate::Eq, first(rows), second(rows));
    return isNaN ? node.create<nn::OrOp>(equal, node.create<nn::AndOp>(first(isNaN), second(isNaN))).getResult() : equal;
  }

  const Node &node;
  Value rows, isNaN; // (n, width); isNaN: null of integers
  int64_t size, width;
  SmallVector<int64_t> cube;
};

// The distinct rows of (n, width), by numbers.
class DistinctRows {
public:
  // `count`: how many rows are there, null when all are.
  DistinctRows(const Node &node, Value rows, Value count, bool sorted) : node(node), size(shapeOf(rows)[0]) {
    RowComparison comparison(node, rows);
    Value equal = comparison.areEqual();
    square = typeOf(equal).clone(node.builder().getI32Type());
    if (count) { // a row that is not there is equal to none, and no row is the first one of its kind there
      there = isThere(node, node.create<nn::IndexOp>(listType(node.builder().getI64Type()), ArrayRef<int64_t>{1}), 0, count);
      equal = node.create<nn::AndOp>(equal, node.create<nn::BroadcastOp>(typeOf(equal), there, ArrayRef<int64_t>{1}));
    }
    Value other = index(1), none = splatConstant(node, square, static_cast<double>(size));
    firstEqual = reduce(node, Reduction::Min, select(node, equal, other, none), {1});
    times = sum(equal);
    Value isFirst = compare(node, nn::Predicate::Eq, firstEqual, listIndex());
    isFirst = there ? node.create<nn::AndOp>(isFirst, there).getResult() : isFirst;
    // The place of a row in the result: how many first ones come before its first one.
    Value before = sorted ? comparison.isBefore()
                          : compare(node, nn::Predicate::Lt, other, node.create<nn::BroadcastOp>(square, firstEqual, ArrayRef<int64_t>{0}));
    Value isFirstBefore = node.create<nn::AndOp>(before, node.create<nn::BroadcastOp>(typeOf(before), isFirst, ArrayRef<int64_t>{1}));
    place = sum(isFirstBefore);
    target = select(node, isFirst, place, splatConstant(node, typeOf(place), -1));
    distinct = convertTo(node, reduce(node, Reduction::Sum, convertTo(node, isFirst, node.builder().getI32Type()), {0}),
                         node.builder().getI64Type());
  }

  // The place of each row among the distinct ones, i64.
  Value places() const { return convertTo(node, place, node.builder().getI64Type()); }

  // Of each distinct one: the number of the first row that is equal, and how many are; zeros behind them.
  Selection firsts() const { return {atPlaces(listIndex()), distinct}; }
  Selection counts() const { return {atPlaces(times), distinct}; }

private:
  RankedTensorType listType(Type element) const { return RankedTensorType::get({size}, element); }
  Value index(int64_t dim) const {
    SmallVector<int64_t> strides = {0, 0};
    strides[dim] = 1;
    auto wide = RankedTensorType::get({size, size}, node.builder().getI64Type());
    return convertTo(node, node.create<nn::IndexOp>(wide, strides), square.getElementType());
  }
  Value listIndex() const {
    Value wide = node.create<nn::IndexOp>(listType(node.builder().getI64Type()), ArrayRef<int64_t>{1});
    return convertTo(node, wide, node.builder().getI32Type());
  }
  Value sum(Value flags) const { return reduce(node, Reduction::Sum, convertTo(node, flags, node.builder().getI32Type()), {1}); }
  Value atPlaces(Value numbers) const {
    return convertTo(node, node.create<nn::ScatterAddOp>(typeOf(numbers), target, numbers, /*batch_dims=*/0), node.builder().getI64Type());
  }

  const Node &node;
  int64_t size;
  RankedTensorType square;
  Value there, firstEqual, times, place, target, distinct;
};

} // namespace

// The slices become rows. NumPy and ONNX order slices by their elements, the first one first.
void importUniqueAtRunTime(Node &node) {
  checkIsWhole(node);
  Value x = node.input(0);
  SmallVector<int64_t> shape(shapeOf(x));
  const bool hasAxis = node.hasAttribute("axis"), sorted = node.getInt("sorted", 1) != 0;
  const int64_t axis = hasAxis ? node.getAxis("axis", 0, static_cast<int64_t>(shape.size())) : 0;
  if (typeOf(x).getNumElements() == 0) {
    node.fail("input \"X\" is " + describeTensor(typeOf(x)) + ", which has no elements");
  }
  if (!hasAxis && shape.size() != 1) {
    x = reshape(node, x, {typeOf(x).getNumElements()});
    shape = {typeOf(x).getNumElements()};
  }
  const int64_t size = shape[axis];
  constexpr int64_t kMostRows = int64_t{1} << 15; // n^2 comparisons have to be counted in an i32
  if (size > kMostRows) {
    node.fail("compares " + Twine(size) + " slices of input \"X\", each with each other, but at most " + Twine(kMostRows) +
              " of values known only at run time; make it smaller, or known");
  }
  SmallVector<int64_t> axisFirst = llvm::to_vector(llvm::seq<int64_t>(0, shape.size())), axisBack(axisFirst);
  std::rotate(axisFirst.begin(), axisFirst.begin() + axis, axisFirst.begin() + axis + 1);
  std::rotate(axisBack.begin(), axisBack.begin() + 1, axisBack.begin() + axis + 1);
  Value data = transpose(node, asNumbers(node, x), axisFirst);
  SmallVector<Value> counts = node.countsOf(data);
  Value count = counts.empty() ? Value() : counts[0];
  data = fillMissing(node, data, 0, zeroOf(typeOf(data).getElementType())); // which the count leaves out
  DistinctRows distinct(node, reshape(node, data, {size, typeOf(data).getNumElements() / size}), count, sorted);
  auto setNumbers = [&](size_t result, const Selection &numbers) {
    node.setCount(numbers.places, 0, numbers.count);
    node.setResult(result, numbers.places);
  };
  if (node.hasResult(0)) {
    Selection firsts = distinct.firsts();
    Value rows = node.create<nn::GatherOp>(data, markEnd(node, firsts), /*batch_dims=*/0);
    Value result = convertTo(node, transpose(node, rows, axisBack), typeOf(x).getElementType());
    node.setCount(result, axis, firsts.count);
    node.setResult(0, result);
  }
  if (node.hasResult(1)) {
    setNumbers(1, distinct.firsts());
  }
  if (node.hasResult(2)) {
    Value places = distinct.places();
    if (count) {
      node.setCount(places, 0, count);
    }
    node.setResult(2, places);
  }
  if (node.hasResult(3)) {
    setNumbers(3, distinct.counts());
  }
}

} // namespace ashlar::frontend
