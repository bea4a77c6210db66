// SPDX-License-Identifier: Apache-2.0
//
// Ops that take elements at the places that indices name.

#include "compiler/frontend/ops/index/places.h"
#include "compiler/frontend/ops/index/selection.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// One known index: the slice at that place, without the axis.
void takeSlice(Node &node, int64_t axis, int64_t at) {
  RankedTensorType type = node.inputType(0);
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  node.setResult(0, reshape(node, sliceAlong(node, node.input(0), axis, at, at + 1), shape));
}

// The axis goes to the front, its rows are gathered, and the dims of the indices go to where the axis was.
void takeRows(Node &node, Value data, int64_t axis, Value indices) {
  int64_t rank = typeOf(data).getRank(), places = typeOf(indices).getRank();
  SmallVector<int64_t> axisFirst = llvm::to_vector(llvm::seq<int64_t>(0, rank)), axisBack;
  std::rotate(axisFirst.begin(), axisFirst.begin() + axis, axisFirst.begin() + axis + 1);
  llvm::append_range(axisBack, llvm::seq<int64_t>(places, places + axis));
  llvm::append_range(axisBack, llvm::seq<int64_t>(0, places));
  llvm::append_range(axisBack, llvm::seq<int64_t>(places + axis, places + rank - 1));
  Value rows = node.create<nn::GatherOp>(transpose(node, asNumbers(node, data), axisFirst), indices);
  node.setResult(0, convertTo(node, transpose(node, rows, axisBack), node.inputType(0).getElementType()));
}

void importGather(Node &node) {
  RankedTensorType data = node.inputType(0), indices = node.inputType(1);
  if (data.getRank() == 0 || !indices.getElementType().isInteger() || indices.getElementType().isInteger(1)) {
    std::string types;
    llvm::raw_string_ostream(types) << data << " by indices of " << indices;
    node.fail("data of " + types + " is not supported; data has a dim, indices are int32 or int64");
  }
  int64_t axis = node.getAxis("axis", 0, data.getRank()), size = data.getDimSize(axis);
  if (Value count = node.inputCount(0, axis)) {
    Value rows = fillMissing(node, node.input(0), axis, zeroOf(data.getElementType()));
    return takeRows(node, rows, axis, countFromFront(node, node.input(1), size, count));
  }
  DenseElementsAttr known = node.constantInput(1);
  if (!known) {
    return takeRows(node, node.input(0), axis, countFromFront(node, node.input(1), size));
  }
  known = countKnownFromFront(node, known, size);
  if (indices.getRank() == 0) {
    return takeSlice(node, axis, known.getSplatValue<APInt>().getSExtValue());
  }
  takeRows(node, node.input(0), axis, node.create<nn::ConstantOp>(indices, known));
}

// Takes the padding out of data along an axis where the condition has the same elements: none of the padding is selected then.
Value settleAlong(const Node &node, Value data, int64_t axis, Value condition) {
  SmallVector<Value> counts = node.countsOf(data), others = node.countsOf(condition);
  const bool isSame = !counts.empty() && counts[axis] && !others.empty() && others[0] == counts[axis];
  return isSame ? fillMissing(node, data, axis, zeroOf(typeOf(data).getElementType())) : data;
}

// The slices along an axis, or the elements, where the condition holds. Where it is computed, as many as it has, with zeros behind those
// for which it holds.
void importCompress(Node &node) {
  Value data = node.input(0);
  if (!node.hasAttribute("axis")) {
    data = reshape(node, data, {typeOf(data).getNumElements()});
  }
  const int64_t axis = node.getAxis("axis", 0, typeOf(data).getRank()), size = shapeOf(data)[axis];
  RankedTensorType type = node.inputType(1);
  if (type.getRank() != 1 || !type.getElementType().isInteger(1) || type.getDimSize(0) > size) {
    node.fail("condition is " + describeTensor(type) + ", not at most " + Twine(size) + " bools");
  }
  DenseElementsAttr condition = node.constantInput(1);
  if (!condition) {
    return takeRows(node, settleAlong(node, data, axis, node.input(1)), axis, selectPlaces(node, node.input(1)));
  }
  node.spend(type.getDimSize(0));
  SmallVector<int64_t> places;
  for (auto [i, holds] : llvm::enumerate(condition.getValues<bool>())) {
    if (holds) {
      places.push_back(i);
    }
  }
  auto indexType = RankedTensorType::get({static_cast<int64_t>(places.size())}, node.builder().getI64Type());
  takeRows(node, data, axis, node.create<nn::ConstantOp>(indexType, DenseElementsAttr::get(indexType, ArrayRef<int64_t>(places))));
}

void importGatherElements(Node &node) {
  const int64_t axis = node.getAxis("axis", 0, node.inputType(0).getRank());
  Places places = placesAlong(node, axis);
  AxisLast last(node.inputType(0).getRank(), axis);
  Value data = leadingPart(node, transpose(node, asNumbers(node, node.input(0)), last.order), places.table);
  Value found = node.create<nn::GatherOp>(data, places.numbers, places.batchDims);
  node.setResult(0, convertTo(node, transpose(node, found, last.back), node.inputType(0).getElementType()));
}

void importGatherND(Node &node) {
  Places places = placesOfTuples(node, node.getInt("batch_dims", 0)); // since opset 12
  Value data = fillMissing(node, node.input(0), places.named, zeroOf(node.inputType(0).getElementType()));
  Value table = reshape(node, asNumbers(node, data), places.table);
  Value found = node.create<nn::GatherOp>(table, places.numbers, places.batchDims);
  node.setResult(0, convertTo(node, found, node.inputType(0).getElementType()));
}

// The first elements of each sequence, as many as its length says, turned round; 0 where a length is beyond the end.
void importReverseSequence(Node &node) {
  RankedTensorType type = node.inputType(0), lengths = node.inputType(1);
  int64_t time = node.getInt("time_axis", 0), batch = node.getInt("batch_axis", 1);
  if (type.getRank() < 2 || std::min(time, batch) != 0 || std::max(time, batch) != 1) {
    node.fail("time_axis " + Twine(time) + " and batch_axis " + Twine(batch) + " of " + describeTensor(type) +
              " are not its first two dims");
  }
  const int64_t sequences = type.getDimSize(batch), steps = type.getDimSize(time);
  auto indexType = RankedTensorType::get({sequences, steps}, node.builder().getI64Type());
  if (lengths != indexType.clone({sequences})) {
    node.fail("sequence_lens are " + describeTensor(lengths) + ", not " + describeTensor(indexType.clone({sequences})));
  }
  if (DenseElementsAttr known = node.constantInput(1)) {
    node.spend(sequences);
    for (const APInt &length : known.getValues<APInt>()) {
      if (length.isNegative() || length.sgt(steps)) {
        node.fail("length " + Twine(length.getSExtValue()) + " is not in [0, " + Twine(steps) + "]");
      }
    }
  }
  Value step = node.create<nn::IndexOp>(indexType, ArrayRef<int64_t>{0, 1});
  Value length = node.create<nn::BroadcastOp>(indexType, node.input(1), ArrayRef<int64_t>{0});
  Value isFirst = node.create<nn::CompareOp>(indexType.clone(node.builder().getI1Type()), nn::Predicate::Lt, step, length);
  Value fromEnd = node.create<nn::SubOp>(node.create<nn::SubOp>(length, step), splatConstant(node, indexType, 1));
  Value numbers = node.create<nn::SelectOp>(indexType, isFirst, fromEnd, step);
  SmallVector<int64_t> batchFirst = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())); // its own inverse
  std::swap(batchFirst[0], batchFirst[batch]);
  Value data = transpose(node, asNumbers(node, node.input(0)), batchFirst);
  Value found = node.create<nn::GatherOp>(data, numbers, /*batch_dims=*/1);
  node.setResult(0, convertTo(node, transpose(node, found, batchFirst), type.getElementType()));
}

constexpr RegistryRow kIndexingRows[] = {
    {"Compress", importCompress},
    {"Gather", importGather},
    {"GatherElements", importGatherElements},
    {"GatherND", importGatherND},
    {"ReverseSequence", importReverseSequence},
};

} // namespace

ArrayRef<RegistryRow> indexingRows() {
  return kIndexingRows;
}

} // namespace ashlar::frontend
