// SPDX-License-Identifier: Apache-2.0
//
// Indices become rows of a table.

#include "compiler/frontend/ops/index/places.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

void checkIndex(const Node &node, int64_t index, int64_t size) {
  if (index < -size || index >= size) {
    node.fail("index " + Twine(index) + " is not in [" + Twine(-size) + ", " + Twine(size) + ")");
  }
}

// Fails unless indices are integers.
void checkIndices(const Node &node, RankedTensorType indices) {
  if (!indices.getElementType().isInteger(32) && !indices.getElementType().isInteger(64)) {
    node.fail("indices of " + describeTensor(indices) + " are not supported; they are int32 or int64");
  }
}

} // namespace

DenseElementsAttr countKnownFromFront(const Node &node, DenseElementsAttr indices, int64_t size) {
  SmallVector<APInt> counted;
  node.spend(indices.getNumElements());
  for (const APInt &index : indices.getValues<APInt>()) {
    int64_t value = index.getSExtValue();
    checkIndex(node, value, size);
    counted.push_back(APInt(index.getBitWidth(), value < 0 ? value + size : value));
  }
  return DenseElementsAttr::get(indices.getType(), counted);
}

AxisLast::AxisLast(int64_t rank, int64_t axis) : order(llvm::to_vector(llvm::seq<int64_t>(0, rank))), back(order) {
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end());
  std::rotate(back.begin() + axis, back.end() - 1, back.end());
}

Places placesAlong(Node &node, int64_t axis) {
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  checkIndices(node, indices);
  bool fits = data.getRank() == indices.getRank();
  for (int64_t d = 0; fits && d < data.getRank(); ++d) {
    fits = d == axis || indices.getDimSize(d) <= data.getDimSize(d);
  }
  if (!fits) {
    node.fail("indices of " + describeTensor(indices) + " do not fit into data of " + describeTensor(data));
  }
  const int64_t size = data.getDimSize(axis);
  DenseElementsAttr known = node.constantInput(1);
  Value numbers = known ? node.create<nn::ConstantOp>(indices, countKnownFromFront(node, known, size)).getResult()
                        : countFromFront(node, node.input(1), size);
  Places places{transpose(node, numbers, AxisLast(data.getRank(), axis).order), {}, data.getRank() - 1};
  llvm::append_range(places.table, shapeOf(places.numbers).drop_back());
  places.table.push_back(size);
  return places;
}

namespace {

// Returns the numbers of elements that tuples of known indices name in dims of these sizes, so that the program has no arithmetic left.
Value knownNumbers(const Node &node, RankedTensorType type, DenseElementsAttr tuples, ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> strides = rowMajorStrides(sizes), numbers(type.getNumElements(), 0);
  node.spend(tuples.getNumElements());
  for (auto [i, index] : llvm::enumerate(tuples.getValues<APInt>())) {
    const size_t dim = i % sizes.size();
    int64_t value = index.getSExtValue();
    checkIndex(node, value, sizes[dim]);
    numbers[i / sizes.size()] += (value < 0 ? value + sizes[dim] : value) * strides[dim];
  }
  return node.create<nn::ConstantOp>(type, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
}

// The same of tuples that are computed, -1 where one of several indices is out of range.
Value computedNumbers(const Node &node, RankedTensorType type, Value tuples, ArrayRef<int64_t> sizes, ArrayRef<Value> counts) {
  SmallVector<int64_t> strides = rowMajorStrides(sizes);
  const int64_t last = typeOf(tuples).getRank() - 1;
  Value numbers, isIn;
  for (auto [j, size] : llvm::enumerate(sizes)) {
    const auto at = static_cast<int64_t>(j);
    Value column = reshape(node, sliceAlong(node, tuples, last, at, at + 1), type.getShape());
    Value index = countFromFront(node, convertTo(node, column, type.getElementType()), size, counts[j]);
    if (sizes.size() == 1) {
      return index;
    }
    Value isHere = node.create<nn::AndOp>(compare(node, nn::Predicate::Ge, index, 0),
                                          compare(node, nn::Predicate::Lt, index, static_cast<double>(size)));
    Value part = node.create<nn::MulOp>(index, splatConstant(node, type, static_cast<double>(strides[j])));
    isIn = isIn ? node.create<nn::AndOp>(isIn, isHere).getResult() : isHere;
    numbers = numbers ? node.create<nn::AddOp>(numbers, part).getResult() : part;
  }
  return select(node, isIn, numbers, splatConstant(node, type, -1));
}

} // namespace

Places placesOfTuples(Node &node, int64_t batchDims) {
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  checkIndices(node, indices);
  const int64_t named = indices.getRank() > 0 ? indices.getShape().back() : 0, outer = indices.getRank() - 1;
  if (indices.getRank() == 0 || batchDims < 0 || batchDims > outer || batchDims + named > data.getRank() ||
      data.getShape().take_front(batchDims) != indices.getShape().take_front(batchDims)) {
    node.fail("indices of " + describeTensor(indices) + " name no places in data of " + describeTensor(data) + " with " + Twine(batchDims) +
              " batch dims");
  }
  ArrayRef<int64_t> sizes = data.getShape().slice(batchDims, named);
  auto type = RankedTensorType::get(indices.getShape().drop_back(), node.builder().getI64Type());
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq(batchDims, batchDims + named));
  SmallVector<Value> counts = llvm::map_to_vector(dims, [&](int64_t dim) { return node.inputCount(0, dim); });
  const bool isCounted = llvm::any_of(counts, [](Value count) { return static_cast<bool>(count); });
  DenseElementsAttr known = isCounted ? DenseElementsAttr() : node.constantInput(1);
  Value numbers = named == 0 ? splatConstant(node, type, 0) // an empty tuple names all of the data
                  : known    ? knownNumbers(node, type, known, sizes)
                             : computedNumbers(node, type, node.input(1), sizes, counts);
  Places places{numbers, SmallVector<int64_t>(data.getShape().take_front(batchDims)), batchDims, std::move(dims)};
  places.table.push_back(llvm::product_of(sizes));
  llvm::append_range(places.table, data.getShape().drop_front(batchDims + named));
  return places;
}

} // namespace ashlar::frontend
