// SPDX-License-Identifier: Apache-2.0
//
// Indices become rows of a table.

#include "compiler/frontend/places.h"

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

// The rows of places of `shape` whose indices are known, `strides.size()` of them a place, in dims of these sizes: numbers, so that the
// program has no arithmetic left. Place (p0, p1, ...) begins at row p0 * base[0] + p1 * base[1] + ...
Value knownRows(const Node &node, ArrayRef<int64_t> shape, ArrayRef<int64_t> base, DenseElementsAttr indices, ArrayRef<int64_t> sizes,
                ArrayRef<int64_t> strides) {
  auto type = RankedTensorType::get(shape, node.builder().getI64Type());
  SmallVector<int64_t> rows(type.getNumElements(), 0), place(rowMajorStrides(shape));
  node.spend(indices.getNumElements());
  for (auto [i, index] : llvm::enumerate(indices.getValues<APInt>())) {
    const size_t at = i / sizes.size(), dim = i % sizes.size();
    int64_t value = index.getSExtValue();
    checkIndex(node, value, sizes[dim]);
    rows[at] += (value < 0 ? value + sizes[dim] : value) * strides[dim];
  }
  for (auto [at, row] : llvm::enumerate(rows)) {
    for (size_t d = 0; d < shape.size(); ++d) {
      row += static_cast<int64_t>(at) / place[d] % shape[d] * base[d];
    }
  }
  return node.create<nn::ConstantOp>(type, DenseElementsAttr::get(type, ArrayRef<int64_t>(rows)));
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

Rows::Rows(const Node &node, ArrayRef<int64_t> shape, ArrayRef<int64_t> baseStrides)
    : node(node), type(RankedTensorType::get(shape, node.builder().getI64Type())),
      rows(node.create<nn::IndexOp>(type, SmallVector<int64_t>(baseStrides))) {}

void Rows::add(Value indices, int64_t size, int64_t stride) {
  auto boolType = RankedTensorType::get(type.getShape(), node.builder().getI1Type());
  Value index = countFromFront(node, cast(node, indices, type.getElementType()), size);
  Value isBehind = node.create<nn::CompareOp>(boolType, nn::Predicate::Ge, index, splatConstant(node, type, 0));
  Value isBefore = node.create<nn::CompareOp>(boolType, nn::Predicate::Lt, index, splatConstant(node, type, size));
  Value isHere = node.create<nn::AndOp>(isBehind, isBefore);
  isIn = isIn ? node.create<nn::AndOp>(isIn, isHere).getResult() : isHere;
  rows = node.create<nn::AddOp>(rows, node.create<nn::MulOp>(index, splatConstant(node, type, stride)));
}

Value Rows::get() const {
  return isIn ? node.create<nn::SelectOp>(type, isIn, rows, splatConstant(node, type, -1)).getResult() : rows;
}

void checkPlacesAlong(Node &node, int64_t axis) {
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  checkIndices(node, indices);
  bool fits = data.getRank() == indices.getRank();
  for (int64_t d = 0; fits && d < data.getRank(); ++d) {
    fits = d == axis || indices.getDimSize(d) <= data.getDimSize(d);
  }
  if (!fits) {
    node.fail("indices of " + describeTensor(indices) + " do not fit into data of " + describeTensor(data));
  }
  if (DenseElementsAttr known = node.constantInput(1)) {
    countKnownFromFront(node, known, data.getDimSize(axis)); // none is out of range
  }
}

Places placesAlong(Node &node, int64_t axis) {
  checkPlacesAlong(node, axis);
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  SmallVector<int64_t> strides = rowMajorStrides(data.getShape()), base = strides;
  base[axis] = 0;
  if (DenseElementsAttr known = node.constantInput(1)) {
    return {knownRows(node, indices.getShape(), base, known, data.getDimSize(axis), strides[axis]), {data.getNumElements()}};
  }
  Rows rows(node, indices.getShape(), base);
  rows.add(node.input(1), data.getDimSize(axis), strides[axis]);
  return {rows.get(), {data.getNumElements()}};
}

Places placesOfTuples(Node &node, int64_t batchDims) {
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  checkIndices(node, indices);
  const int64_t named = indices.getRank() > 0 ? indices.getShape().back() : 0, outer = indices.getRank() - 1;
  if (indices.getRank() == 0 || batchDims < 0 || batchDims > outer || batchDims + named > data.getRank() ||
      data.getShape().take_front(batchDims) != indices.getShape().take_front(batchDims)) {
    node.fail("indices of " + describeTensor(indices) + " name no places in data of " + describeTensor(data) + " with " + Twine(batchDims) +
              " batch dims");
  }
  ArrayRef<int64_t> all = data.getShape().take_front(batchDims + named);
  SmallVector<int64_t> strides = rowMajorStrides(all), base(outer, 0), shape(indices.getShape().drop_back());
  llvm::copy(ArrayRef(strides).take_front(batchDims), base.begin());
  Places places{{}, {llvm::product_of(all)}};
  llvm::append_range(places.table, data.getShape().drop_front(batchDims + named));
  if (DenseElementsAttr known = node.constantInput(1); known && named > 0) {
    places.rows = knownRows(node, shape, base, known, all.drop_front(batchDims), ArrayRef(strides).drop_front(batchDims));
    return places;
  }
  Rows rows(node, shape, base);
  for (int64_t j = 0; j < named; ++j) {
    SmallVector<int64_t> starts(indices.getRank(), 0), limits(indices.getShape()), steps(indices.getRank(), 1);
    starts.back() = j;
    limits.back() = j + 1;
    Value column = node.create<nn::SliceOp>(node.input(1), starts, limits, steps);
    rows.add(reshape(node, column, shape), all[batchDims + j], strides[batchDims + j]);
  }
  places.rows = rows.get();
  return places;
}

} // namespace ashlar::frontend
