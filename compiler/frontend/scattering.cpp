// SPDX-License-Identifier: Apache-2.0
//
// Ops that put updates into a tensor at the places that indices name.

#include "compiler/frontend/places.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

std::string readReduction(Node &node) {
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

// Rows that an update goes to have it in place of what was there, or in addition. ONNX leaves open what several updates of one element
// give; here it is their sum.
void addPlaces(Node &node, const Places &places, bool replaces) {
  RankedTensorType type = node.inputType(0);
  Value data = reshape(node, asNumbers(node, node.input(0)), places.table);
  Value sums = node.create<nn::ScatterAddOp>(typeOf(data), places.rows, asNumbers(node, node.input(2)));
  Value result;
  if (!replaces) {
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

// Appends rows that are none, -1, so that the numbers have a place for each element of the dims that they do not name.
Value padNumbers(const Node &node, Value numbers, ArrayRef<int64_t> shape) {
  if (shapeOf(numbers) == shape) {
    return numbers;
  }
  RankedTensorType from = typeOf(numbers), to = from.clone(shape);
  SmallVector<int64_t> none(shape.size(), 0);
  Value shifted = node.create<nn::AddOp>(numbers, splatConstant(node, from, 1));
  return node.create<nn::SubOp>(node.create<nn::PadOp>(to, shifted, none, none), splatConstant(node, to, 1));
}

void importScatterElements(Node &node) {
  RankedTensorType type = node.inputType(0), indices = node.inputType(1);
  const int64_t axis = node.getAxis("axis", 0, type.getRank());
  std::string reduction = readReduction(node);
  checkUpdates(node, indices.getShape());
  if (reduction == "none" || reduction == "add") {
    return addPlaces(node, placesAlong(node, axis), reduction == "none");
  }
  checkPlacesAlong(node, axis);
  if (indices.getNumElements() == 0) {
    return node.aliasResult(0, 0);
  }
  SmallVector<int64_t> axisLast = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())), axisBack(axisLast), shape(type.getShape());
  std::rotate(axisLast.begin() + axis, axisLast.begin() + axis + 1, axisLast.end());
  std::rotate(axisBack.begin() + axis, axisBack.end() - 1, axisBack.end());
  shape[axis] = indices.getDimSize(axis);
  Value numbers = countFromFront(node, cast(node, node.input(1), node.builder().getI64Type()), type.getDimSize(axis));
  numbers = padNumbers(node, numbers, shape);
  Value updates = node.input(2);
  if (shapeOf(updates) != ArrayRef(shape)) {
    SmallVector<int64_t> none(shape.size(), 0);
    updates = node.create<nn::PadOp>(type.clone(shape), updates, none, none);
  }
  Value result = combinePairs(node, transpose(node, node.input(0), axisLast), transpose(node, numbers, axisLast),
                              transpose(node, updates, axisLast), reduction);
  node.setResult(0, transpose(node, result, axisBack));
}

void importScatterND(Node &node) {
  RankedTensorType type = node.inputType(0);
  std::string reduction = readReduction(node);
  Places places = placesOfTuples(node, /*batchDims=*/0);
  SmallVector<int64_t> taken(shapeOf(places.rows)), row(ArrayRef(places.table).drop_front());
  llvm::append_range(taken, row);
  checkUpdates(node, taken);
  if (reduction == "none" || reduction == "add") {
    return addPlaces(node, places, reduction == "none");
  }
  const int64_t count = typeOf(places.rows).getNumElements();
  if (count == 0) {
    return node.aliasResult(0, 0);
  }
  row.insert(row.begin(), count);
  Value result = combinePairs(node, reshape(node, node.input(0), places.table), reshape(node, places.rows, {count}),
                              reshape(node, node.input(2), row), reduction);
  node.setResult(0, reshape(node, result, type.getShape()));
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
  Rows rows(node, type.getShape(), {count, 0});
  rows.add(node.create<nn::SelectOp>(
               type,
               node.create<nn::CompareOp>(type.clone(node.builder().getI1Type()), nn::Predicate::Ge, place, splatConstant(node, type, 0)),
               place, splatConstant(node, type, static_cast<double>(count))),
           count, /*stride=*/1);
  Value named = rows.get();
  SmallVector<int64_t> axisNext = llvm::to_vector(llvm::seq<int64_t>(0, rank)), axisBack(axisNext);
  std::rotate(axisNext.begin() + 1, axisNext.begin() + axis, axisNext.begin() + axis + 1);
  std::rotate(axisBack.begin() + 1, axisBack.begin() + 2, axisBack.begin() + axis + 1);
  Value updates = transpose(node, asNumbers(node, node.input(1)), axisNext);
  SmallVector<int64_t> table(shapeOf(updates).drop_front());
  table.front() *= batch;
  Value found = transpose(node, node.create<nn::GatherOp>(reshape(node, updates, table), named), axisBack);
  Value isWritten =
      node.create<nn::CompareOp>(type.clone(node.builder().getI1Type()), nn::Predicate::Ge, named, splatConstant(node, type, 0));
  Value mask = node.create<nn::BroadcastOp>(cache.clone(node.builder().getI1Type()), isWritten, ArrayRef<int64_t>{0, axis});
  node.setResult(0, node.create<nn::SelectOp>(cache, mask, cast(node, found, cache.getElementType()), node.input(0)).getResult());
}

constexpr RegistryRow kRows[] = {
    {"Scatter", importScatterElements}, // its name before opset 11
    {"ScatterElements", importScatterElements},
    {"ScatterND", importScatterND},
    {"TensorScatter", importTensorScatter},
};

} // namespace

ArrayRef<RegistryRow> scatteringRows() {
  return kRows;
}

} // namespace ashlar::frontend
