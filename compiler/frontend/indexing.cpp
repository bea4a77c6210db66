// SPDX-License-Identifier: Apache-2.0
//
// Ops that look at the index of an element. A negative index counts from the end; nn.gather counts from the front only. Elements that
// indices of several dims name are rows of the tensor with these dims as one; a row that is none gives 0, and takes no update.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

void checkIndex(const Node &node, int64_t index, int64_t size) {
  if (index < -size || index >= size) {
    node.fail("index " + Twine(index) + " is not in [" + Twine(-size) + ", " + Twine(size) + ")");
  }
}

// Indices of a dim of `size` that are known at import: checked, and counted from the front.
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

Value countFromFront(const Node &node, Value indices, int64_t size) {
  RankedTensorType type = typeOf(indices);
  auto boolType = RankedTensorType::get(type.getShape(), node.builder().getI1Type());
  Value isNegative = node.create<nn::CompareOp>(boolType, nn::Predicate::Lt, indices, splatConstant(node, type, 0));
  Value fromEnd = node.create<nn::AddOp>(indices, splatConstant(node, type, size));
  return node.create<nn::SelectOp>(type, isNegative, fromEnd, indices);
}

// One known index: the slice at that place, without the axis.
void takeSlice(Node &node, int64_t axis, int64_t at) {
  RankedTensorType type = node.inputType(0);
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()), steps(type.getRank(), 1), shape(type.getShape());
  starts[axis] = at;
  limits[axis] = at + 1;
  shape.erase(shape.begin() + axis);
  node.setResult(0, reshape(node, node.create<nn::SliceOp>(node.input(0), starts, limits, steps), shape));
}

// Returns a value's elements as numbers, which nn.gather and nn.scatter_add take: bools as 0 and 1.
Value asNumbers(const Node &node, Value value) {
  return typeOf(value).getElementType().isInteger(1) ? cast(node, value, node.builder().getI32Type()) : value;
}

// The axis goes to the front, its rows are gathered, and the dims of the indices go to where the axis was.
void takeRows(Node &node, int64_t axis, Value indices) {
  int64_t rank = node.inputType(0).getRank(), places = typeOf(indices).getRank();
  SmallVector<int64_t> axisFirst = llvm::to_vector(llvm::seq<int64_t>(0, rank)), axisBack;
  std::rotate(axisFirst.begin(), axisFirst.begin() + axis, axisFirst.begin() + axis + 1);
  llvm::append_range(axisBack, llvm::seq<int64_t>(places, places + axis));
  llvm::append_range(axisBack, llvm::seq<int64_t>(0, places));
  llvm::append_range(axisBack, llvm::seq<int64_t>(places + axis, places + rank - 1));
  Value rows = node.create<nn::GatherOp>(transpose(node, asNumbers(node, node.input(0)), axisFirst), indices);
  node.setResult(0, cast(node, transpose(node, rows, axisBack), node.inputType(0).getElementType()));
}

void importGather(Node &node) {
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  if (data.getRank() == 0 || !indices.getElementType().isInteger() || indices.getElementType().isInteger(1)) {
    std::string types;
    llvm::raw_string_ostream(types) << data << " by indices of " << indices;
    node.fail("data of " + types + " is not supported; data has a dim, indices are int32 or int64");
  }
  int64_t axis = node.getAxis("axis", 0, data.getRank()), size = data.getDimSize(axis);
  DenseElementsAttr known = node.constantInput(1);
  if (!known) {
    return takeRows(node, axis, countFromFront(node, node.input(1), size));
  }
  known = countKnownFromFront(node, known, size);
  if (indices.getRank() == 0) {
    return takeSlice(node, axis, known.getSplatValue<APInt>().getSExtValue());
  }
  takeRows(node, axis, node.create<nn::ConstantOp>(indices, known));
}

// Fails unless indices are integers.
void checkIndices(const Node &node, RankedTensorType indices) {
  if (!indices.getElementType().isInteger(32) && !indices.getElementType().isInteger(64)) {
    node.fail("indices of " + describeTensor(indices) + " are not supported; they are int32 or int64");
  }
}

// The rows that indices name, dim by dim: row = base + sum of indices[j] * strides[j].
class Rows {
public:
  explicit Rows(const Node &node, ArrayRef<int64_t> shape, ArrayRef<int64_t> baseStrides)
      : node(node), type(RankedTensorType::get(shape, node.builder().getI64Type())),
        rows(node.create<nn::IndexOp>(type, SmallVector<int64_t>(baseStrides))) {}

  // Adds a dim of `size`; `indices` have the shape of the rows.
  void add(Value indices, int64_t size, int64_t stride) {
    auto boolType = RankedTensorType::get(type.getShape(), node.builder().getI1Type());
    Value index = countFromFront(node, cast(node, indices, type.getElementType()), size);
    Value isBehind = node.create<nn::CompareOp>(boolType, nn::Predicate::Ge, index, splatConstant(node, type, 0));
    Value isBefore = node.create<nn::CompareOp>(boolType, nn::Predicate::Lt, index, splatConstant(node, type, size));
    Value isHere = node.create<nn::AndOp>(isBehind, isBefore);
    isIn = isIn ? node.create<nn::AndOp>(isIn, isHere).getResult() : isHere;
    rows = node.create<nn::AddOp>(rows, node.create<nn::MulOp>(index, splatConstant(node, type, stride)));
  }

  // Returns the rows, -1 where an index is out of range.
  Value get() { return isIn ? node.create<nn::SelectOp>(type, isIn, rows, splatConstant(node, type, -1)).getResult() : rows; }

private:
  const Node &node;
  RankedTensorType type;
  Value rows, isIn;
};

// The places that an index tensor names in a tensor, and that tensor as rows.
struct Places {
  Value rows;
  SmallVector<int64_t> table; // the shape of the tensor with the dims that indices name as one
};

// One index a place, along `axis`; the other dims count along.
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
  if (DenseElementsAttr known = node.constantInput(1)) {
    countKnownFromFront(node, known, data.getDimSize(axis)); // none is out of range
  }
  SmallVector<int64_t> strides = rowMajorStrides(data.getShape()), base = strides;
  base[axis] = 0;
  Rows rows(node, indices.getShape(), base);
  rows.add(node.input(1), data.getDimSize(axis), strides[axis]);
  return {rows.get(), {data.getNumElements()}};
}

// The last dim of the indices has an index for each of as many dims, which follow the first `batchDims`; these count along.
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
  if (DenseElementsAttr known = node.constantInput(1)) {
    node.spend(known.getNumElements());
    for (auto [i, index] : llvm::enumerate(known.getValues<APInt>())) {
      checkIndex(node, index.getSExtValue(), all[batchDims + static_cast<int64_t>(i) % named]);
    }
  }
  SmallVector<int64_t> strides = rowMajorStrides(all), base(outer, 0), shape(indices.getShape().drop_back());
  llvm::copy(ArrayRef(strides).take_front(batchDims), base.begin());
  Rows rows(node, shape, base);
  for (int64_t j = 0; j < named; ++j) {
    SmallVector<int64_t> starts(indices.getRank(), 0), limits(indices.getShape()), steps(indices.getRank(), 1);
    starts.back() = j;
    limits.back() = j + 1;
    Value column = node.create<nn::SliceOp>(node.input(1), starts, limits, steps);
    rows.add(reshape(node, column, shape), all[batchDims + j], strides[batchDims + j]);
  }
  Places places{rows.get(), {llvm::product_of(all)}};
  llvm::append_range(places.table, data.getShape().drop_front(batchDims + named));
  return places;
}

void gatherPlaces(Node &node, const Places &places) {
  Value table = reshape(node, asNumbers(node, node.input(0)), places.table);
  Value found = node.create<nn::GatherOp>(table, places.rows);
  node.setResult(0, cast(node, found, node.inputType(0).getElementType()));
}

void importGatherElements(Node &node) {
  gatherPlaces(node, placesAlong(node, node.getAxis("axis", 0, node.inputType(0).getRank())));
}

void importGatherND(Node &node) {
  gatherPlaces(node, placesOfTuples(node, node.getInt("batch_dims", 0))); // since opset 12
}

// Rows that an update goes to have it in place of what was there, or in addition. ONNX leaves open what several updates of one element
// give; here it is their sum.
void scatterPlaces(Node &node, const Places &places) {
  std::string reduction = node.getString("reduction", "none"); // since opset 16
  if (reduction != "none" && reduction != "add") {
    node.fail("attribute \"reduction\" \"" + reduction + "\" is not supported; one of none, add");
  }
  RankedTensorType type = node.inputType(0), updates = node.inputType(2);
  SmallVector<int64_t> expected(shapeOf(places.rows));
  llvm::append_range(expected, ArrayRef(places.table).drop_front());
  if (updates != RankedTensorType::get(expected, type.getElementType())) {
    node.fail("updates of " + describeTensor(updates) + " but the indices take " +
              describeTensor(RankedTensorType::get(expected, type.getElementType())));
  }
  Value data = reshape(node, asNumbers(node, node.input(0)), places.table);
  Value sums = node.create<nn::ScatterAddOp>(typeOf(data), places.rows, asNumbers(node, node.input(2)));
  Value result;
  if (reduction == "add") {
    if (type.getElementType().isInteger(1)) {
      node.fail("adds bools, which is not supported");
    }
    result = node.create<nn::AddOp>(data, sums);
  } else {
    auto countType = RankedTensorType::get({places.table.front()}, node.builder().getI32Type());
    Value ones = splatConstant(node, countType.clone(shapeOf(places.rows)), 1);
    Value counts = node.create<nn::ScatterAddOp>(countType, places.rows, ones);
    Value isHit = node.create<nn::CompareOp>(RankedTensorType::get(countType.getShape(), node.builder().getI1Type()), nn::Predicate::Gt,
                                             counts, splatConstant(node, countType, 0));
    Value mask = places.table.size() == 1
                     ? isHit
                     : node.create<nn::BroadcastOp>(typeOf(isHit).clone(places.table), isHit, ArrayRef<int64_t>{0}).getResult();
    result = node.create<nn::SelectOp>(typeOf(data), mask, sums, data);
  }
  node.setResult(0, cast(node, reshape(node, result, type.getShape()), type.getElementType()));
}

void importScatterElements(Node &node) {
  scatterPlaces(node, placesAlong(node, node.getAxis("axis", 0, node.inputType(0).getRank())));
}

void importScatterND(Node &node) {
  scatterPlaces(node, placesOfTuples(node, /*batchDims=*/0));
}

// Zeros below diagonal k, or above it.
void importTrilu(Node &node) {
  Value input = node.input(0);
  RankedTensorType type = typeOf(input);
  if (type.getRank() < 2) {
    node.fail("input has rank " + Twine(type.getRank()) + ", not at least 2");
  }
  SmallVector<int64_t> diagonal = node.hasInput(1) ? node.intsInput(1, "k") : SmallVector<int64_t>{0};
  if (diagonal.size() != 1) {
    node.fail("input \"k\" has " + Twine(diagonal.size()) + " elements, not 1");
  }
  nn::Predicate kept = node.getInt("upper", 1) != 0 ? nn::Predicate::Ge : nn::Predicate::Le;
  SmallVector<int64_t> strides(type.getRank(), 0); // column - row
  strides.end()[-1] = 1;
  strides.end()[-2] = -1;
  auto indexType = RankedTensorType::get(type.getShape(), node.builder().getI64Type());
  auto boolType = RankedTensorType::get(type.getShape(), node.builder().getI1Type());
  Value above = node.create<nn::IndexOp>(indexType, strides);
  Value isKept = node.create<nn::CompareOp>(boolType, kept, above, splatConstant(node, indexType, diagonal.front()));
  node.setResult(0, node.create<nn::SelectOp>(type, isKept, input, splatConstant(node, type, 0)).getResult());
}

constexpr RegistryRow kRows[] = {
    {"Gather", importGather},
    {"GatherElements", importGatherElements},
    {"GatherND", importGatherND},
    {"Scatter", importScatterElements}, // its name before opset 11
    {"ScatterElements", importScatterElements},
    {"ScatterND", importScatterND},
    {"Trilu", importTrilu},
};

} // namespace

ArrayRef<RegistryRow> indexingRows() {
  return kRows;
}

} // namespace ashlar::frontend
