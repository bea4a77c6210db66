// SPDX-License-Identifier: Apache-2.0
//
// Ops that put updates into a tensor at the places that indices name.

#include "compiler/frontend/ops/index/places.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

std::string readScatterReduction(Node &node) {
  std::string reduction = node.getOpset() >= 16 ? node.getString("reduction", "none") : "none";
  const bool isKnown =
      llvm::is_contained({"none", "add", "mul"}, reduction) || (node.getOpset() >= 18 && llvm::is_contained({"max", "min"}, reduction));
  if (!isKnown) {
    node.fail("attribute \"reduction\" is \"" + reduction + "\"; use none, add" +
              (node.getOpset() >= 18 ? ", mul, max or min" : " or mul"));
  }
  if (reduction != "none" && node.inputType(0).getElementType().isInteger(1)) {
    node.fail("input 0 is a tensor of bool, which reduction \"" + reduction + "\" does not take; its inputs are numbers");
  }
  return reduction;
}

void checkUpdates(const Node &node, ArrayRef<int64_t> shape) {
  auto expected = RankedTensorType::get(shape, node.inputType(0).getElementType());
  if (node.inputType(2) != expected) {
    node.fail("updates of " + describeTensor(node.inputType(2)) + " but the indices take " + describeTensor(expected));
  }
}

// Each element looks at each update: their products and extremes are no sums.
bool isPairwise(StringRef reduction) {
  return reduction != "none" && reduction != "add";
}

// Data (others..., n, row...) with all the updates (others..., p, row...) whose number (others..., p) an element has. Each of the n
// elements looks at each of the p numbers.
Value combinePairs(const Node &node, Value data, Value numbers, Value updates, StringRef reduction) {
  const int64_t of = typeOf(numbers).getRank() - 1, with = of + 1; // the dims of n and of p
  SmallVector<int64_t> shape(shapeOf(data)), strides(shape.size() + 1, 0), ofNumbers, ofData, ofUpdates;
  shape.insert(shape.begin() + with, shapeOf(numbers).back());
  strides[of] = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (d <= with && d != of) {
      ofNumbers.push_back(d);
    }
    if (d != with) {
      ofData.push_back(d);
    }
    if (d != of) {
      ofUpdates.push_back(d);
    }
  }
  RankedTensorType type = typeOf(data).clone(shape), indexType = type.clone(node.builder().getI64Type());
  numbers = convertTo(node, numbers, indexType.getElementType());
  Value isNamed =
      node.create<nn::CompareOp>(type.clone(node.builder().getI1Type()), nn::Predicate::Eq, node.create<nn::IndexOp>(indexType, strides),
                                 node.create<nn::BroadcastOp>(indexType, numbers, ofNumbers));
  Value update = node.create<nn::BroadcastOp>(type, updates, ofUpdates);
  if (reduction == "mul") {
    Value factors = node.create<nn::SelectOp>(type, isNamed, update, splatConstant(node, type, 1));
    return node.create<nn::MulOp>(data, reshape(node, multiplyAlong(node, factors, with), shapeOf(data)));
  }
  Value own = node.create<nn::BroadcastOp>(type, data, ofData), chosen = node.create<nn::SelectOp>(type, isNamed, update, own);
  if (reduction == "max") {
    return node.create<nn::MaxOp>(data, reduce(node, Reduction::Max, chosen, {with}));
  }
  return node.create<nn::MinOp>(data, reduce(node, Reduction::Min, chosen, {with}));
}

// Data (batch..., n, row...) with updates (batch..., places..., row...). One takes the place of what was there, or is combined with it;
// ONNX leaves open what several updates of one element give without a reduction, and here it is their sum.
Value scatter(const Node &node, Value data, const Places &places, Value updates, StringRef reduction) {
  if (isPairwise(reduction)) {
    return combinePairs(node, data, places.numbers, updates, reduction);
  }
  Value sums = node.create<nn::ScatterAddOp>(typeOf(data), places.numbers, updates, places.batchDims);
  if (reduction == "add") {
    return node.create<nn::AddOp>(data, sums);
  }
  auto countType = RankedTensorType::get(ArrayRef(places.table).take_front(places.batchDims + 1), node.builder().getI32Type());
  Value ones = splatConstant(node, countType.clone(shapeOf(places.numbers)), 1);
  Value isHit = compare(node, nn::Predicate::Gt, node.create<nn::ScatterAddOp>(countType, places.numbers, ones, places.batchDims), 0);
  SmallVector<int64_t> row = llvm::to_vector(llvm::seq(countType.getRank(), typeOf(data).getRank()));
  return select(node, repeatAlong(node, isHit, row, places.table), sums, data);
}

// Data with another leading part.
Value withLeadingPart(const Node &node, Value data, Value part) {
  RankedTensorType type = typeOf(data), boolType = type.clone(node.builder().getI1Type());
  if (typeOf(part) == type) {
    return part;
  }
  SmallVector<int64_t> none(type.getRank(), 0);
  Value isPart = node.create<nn::PadOp>(boolType, splatConstant(node, boolType.clone(shapeOf(part)), 1), none, none);
  return select(node, isPart, node.create<nn::PadOp>(type, part, none, none), data);
}

void importScatterElements(Node &node) {
  RankedTensorType type = node.inputType(0);
  const int64_t axis = node.getAxis("axis", 0, type.getRank());
  std::string reduction = readScatterReduction(node);
  checkUpdates(node, node.inputType(1).getShape());
  Places places = placesAlong(node, axis);
  if (node.inputType(1).getNumElements() == 0) {
    return node.aliasResult(0, 0);
  }
  AxisLast last(type.getRank(), axis);
  Value data = transpose(node, asNumbers(node, node.input(0)), last.order);
  Value updates = transpose(node, asNumbers(node, node.input(2)), last.order);
  Value part = scatter(node, leadingPart(node, data, places.table), places, updates, reduction);
  node.setResult(0, convertTo(node, transpose(node, withLeadingPart(node, data, part), last.back), type.getElementType()));
}

// Where as many updates as places are there (counted_dims.h), the others go nowhere.
void dropMissing(const Node &node, Value &numbers, Value &updates) {
  SmallVector<Value> counts = node.countsOf(numbers), others = node.countsOf(updates);
  for (auto [d, count] : llvm::enumerate(counts)) {
    if (count && !others.empty() && others[d] == count) {
      numbers = fillMissing(node, numbers, static_cast<int64_t>(d), IntegerAttr::get(typeOf(numbers).getElementType(), -1));
      updates = fillMissing(node, updates, static_cast<int64_t>(d), zeroOf(typeOf(updates).getElementType()));
    }
  }
}

void importScatterND(Node &node) {
  RankedTensorType type = node.inputType(0);
  std::string reduction = readScatterReduction(node);
  Places places = placesOfTuples(node, /*batchDims=*/0);
  SmallVector<int64_t> taken(shapeOf(places.numbers)), row(ArrayRef(places.table).drop_front());
  llvm::append_range(taken, row);
  checkUpdates(node, taken);
  const int64_t count = typeOf(places.numbers).getNumElements();
  if (count == 0) {
    return node.aliasResult(0, 0);
  }
  Value data = reshape(node, asNumbers(node, node.input(0)), places.table), updates = asNumbers(node, node.input(2));
  dropMissing(node, places.numbers, updates);
  if (isPairwise(reduction)) {
    row.insert(row.begin(), count);
    places.numbers = reshape(node, places.numbers, {count});
    updates = reshape(node, updates, row);
  }
  Value result = scatter(node, data, places, updates, reduction);
  node.setResult(0, convertTo(node, reshape(node, result, type.getShape()), type.getElementType()));
}

// Returns write_indices + step of the cache as a place in the update: step - index, counted round the cache if it is circular; (batch,
// steps).
Value placesInUpdate(Node &node, RankedTensorType type, bool isCircular) {
  const int64_t batch = type.getDimSize(0), size = type.getDimSize(1);
  Value step = node.create<nn::IndexOp>(type, ArrayRef<int64_t>{0, 1});
  Value place = node.create<nn::SubOp>(step, node.create<nn::BroadcastOp>(type, node.input(2), ArrayRef<int64_t>{0}));
  if (!isCircular || batch == 0) {
    return place;
  }
  Value divisor = splatConstant(node, type, static_cast<double>(size));
  Value rest = node.create<nn::SubOp>(place, node.create<nn::MulOp>(node.create<nn::DivOp>(place, divisor), divisor));
  return countFromFront(node, rest, size);
}

// Each sequence of the cache takes its update from write_indices on: elements of the cache look for theirs in the update. What would go
// beyond the end is dropped.
void importTensorScatter(Node &node) {
  RankedTensorType cache = node.inputType(0), update = node.inputType(1);
  const int64_t rank = cache.getRank(), axis = node.getAxis("axis", -2, rank);
  std::string mode = node.getString("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    node.fail("attribute \"mode\" is \"" + mode + "\"; use linear or circular");
  }
  SmallVector<int64_t> expected(cache.getShape());
  if (axis > 0 && update.getRank() == rank) {
    expected[axis] = std::min(expected[axis], update.getDimSize(axis));
  }
  if (axis == 0 || update != cache.clone(expected)) {
    node.fail("update of " + describeTensor(update) + " does not fit into past_cache of " + describeTensor(cache) + " along axis " +
              Twine(axis) + ", which is not the batch");
  }
  const int64_t batch = cache.getDimSize(0), size = cache.getDimSize(axis), count = update.getDimSize(axis);
  if (!node.hasInput(2)) { // from the start on
    SmallVector<int64_t> starts(rank, 0), steps(rank, 1);
    starts[axis] = count;
    Value rest = node.create<nn::SliceOp>(node.input(0), starts, cache.getShape(), steps);
    return node.setResult(0, node.create<nn::ConcatOp>(ValueRange{node.input(1), rest}, axis).getResult());
  }
  auto type = RankedTensorType::get({batch, size}, node.builder().getI64Type());
  if (node.inputType(2) != type.clone({batch})) {
    node.fail("write_indices are " + describeTensor(node.inputType(2)) + ", not " + describeTensor(type.clone({batch})));
  }
  if (size == 0) {
    return node.aliasResult(0, 0);
  }
  Value place = placesInUpdate(node, type, mode == "circular");
  Value isWritten = node.create<nn::AndOp>(compare(node, nn::Predicate::Ge, place, 0),
                                           compare(node, nn::Predicate::Lt, place, static_cast<double>(count)));
  SmallVector<int64_t> axisNext = llvm::to_vector(llvm::seq<int64_t>(0, rank)), axisBack(axisNext);
  std::rotate(axisNext.begin() + 1, axisNext.begin() + axis, axisNext.begin() + axis + 1);
  std::rotate(axisBack.begin() + 1, axisBack.begin() + 2, axisBack.begin() + axis + 1);
  Value updates = transpose(node, asNumbers(node, node.input(1)), axisNext);
  Value found = transpose(node, node.create<nn::GatherOp>(updates, place, /*batch_dims=*/1), axisBack);
  Value mask = node.create<nn::BroadcastOp>(cache.clone(node.builder().getI1Type()), isWritten, ArrayRef<int64_t>{0, axis});
  node.setResult(0, node.create<nn::SelectOp>(cache, mask, convertTo(node, found, cache.getElementType()), node.input(0)).getResult());
}

constexpr RegistryRow kScatteringRows[] = {
    {"Scatter", importScatterElements}, // its name before opset 11
    {"ScatterElements", importScatterElements},
    {"ScatterND", importScatterND},
    {"TensorScatter", importTensorScatter},
};

} // namespace

ArrayRef<RegistryRow> scatteringRows() {
  return kScatteringRows;
}

} // namespace ashlar::frontend
