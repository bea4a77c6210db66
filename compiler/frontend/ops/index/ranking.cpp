// SPDX-License-Identifier: Apache-2.0
//
// Which elements along a dim are the largest, or the smallest: comparisons and reductions, no sorting, so the other dims stay split as they
// are. Indices are counted in i32 where twice the size fits.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// The index along `dim` of each element of a tensor of this shape.
Value indexAlong(const Node &node, ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> strides(shape.size(), 0);
  strides[dim] = 1;
  Type wide = node.builder().getI64Type(), narrow = node.builder().getI32Type();
  Value index = node.create<nn::IndexOp>(RankedTensorType::get(shape, wide), strides);
  return convertTo(node, index, shape[dim] < (int64_t(1) << 30) ? narrow : wide);
}

Value isNaN(const Node &node, Value x) {
  return compare(node, nn::Predicate::Ne, x, x);
}

bool isFloat(Value x) {
  return isa<FloatType>(typeOf(x).getElementType());
}

// The index along `dim`, which vanishes, of the largest (smallest) element: the first of equal ones, or the last. A NaN wins.
Value placeOfBest(const Node &node, Value x, Reduction kind, int64_t dim, bool last) {
  Value best = repeatAlong(node, reduce(node, kind, x, dim), dim, shapeOf(x));
  Value isBest = compare(node, nn::Predicate::Eq, x, best);
  isBest = isFloat(x) ? node.create<nn::OrOp>(isBest, isNaN(node, x)).getResult() : isBest;
  Value index = indexAlong(node, shapeOf(x), dim);
  Value loser = splatConstant(node, typeOf(index), last ? -1 : shapeOf(x)[dim]);
  return reduce(node, last ? Reduction::Max : Reduction::Min, select(node, isBest, index, loser), dim);
}

template <Reduction kind> void importArg(Node &node) {
  RankedTensorType type = node.inputType(0);
  const int64_t axis = node.getAxis("axis", 0, type.getRank());
  const bool keep = node.getInt("keepdims", 1) != 0, last = node.getInt("select_last_index", 0) != 0; // the latter since opset 12
  if (type.getDimSize(axis) == 0) {
    node.fail("axis " + Twine(axis) + " of " + describeTensor(type) + " has no elements");
  }
  SmallVector<int64_t> shape(type.getShape());
  keep ? void(shape[axis] = 1) : void(shape.erase(shape.begin() + axis));
  Value place = placeOfBest(node, node.input(0), kind, axis, last);
  node.setResult(0, reshape(node, convertTo(node, place, node.builder().getI64Type()), shape));
}

// 1 at the first largest element of each row, 0 elsewhere.
Value hardmax(const Node &node, Value x) {
  const int64_t dim = typeOf(x).getRank() - 1;
  Value place = placeOfBest(node, x, Reduction::Max, dim, /*last=*/false);
  Value isPlace = compare(node, nn::Predicate::Eq, indexAlong(node, shapeOf(x), dim), repeatAlong(node, place, dim, shapeOf(x)));
  return convertTo(node, isPlace, typeOf(x).getElementType());
}

void importHardmax(Node &node) {
  node.inputType(0).getNumElements() == 0 ? node.aliasResult(0, 0) : importRows(node, hardmax);
}

// The `count` largest (smallest) elements along a dim, sorted; equal ones in the order of their indices. A NaN is larger than any number.
class TopK {
public:
  TopK(const Node &node, Value x, Reduction kind, int64_t dim, int64_t count)
      : node(node), kind(kind), dim(dim), count(count), size(shapeOf(x)[dim]), x(x), index(indexAlong(node, shapeOf(x), dim)), key(x),
        order(index) {
    if (isFloat(x)) { // a NaN has the key of infinity, and its order is before all infinities, or behind them
      Value moved = node.create<nn::AddOp>(index, splatConstant(node, typeOf(index), kind == Reduction::Max ? -size : size));
      order = select(node, isNaN(node, x), moved, index);
      key = select(node, isNaN(node, x), splatConstant(node, typeOf(x), std::numeric_limits<double>::infinity()), x);
    }
  }

  // Sets the values and the indices.
  void run() {
    constexpr int64_t kMostRounds = 256, kRoundsPerElement = 8;
    count *kRoundsPerElement <= size &&count <= kMostRounds ? chooseInRounds() : chooseByRank();
    indices = convertTo(node, indices, node.builder().getI64Type());
  }

  Value values, indices;

private:
  // The element of `from` where `chosen`, one along `along`. Elements elsewhere do not count, be they infinite.
  Value pick(Value chosen, Value from, int64_t along) {
    return reduce(node, Reduction::Sum, select(node, chosen, from, splatConstant(node, typeOf(from), 0)), along);
  }

  // Takes the best one, `count` times. What is taken gets the key of the worst and an order behind all others.
  void chooseInRounds() {
    SmallVector<int64_t> one(shapeOf(x));
    one[dim] = 1;
    Value worst = repeatAlong(node, reduce(node, kind == Reduction::Max ? Reduction::Min : Reduction::Max, key, dim), dim, shapeOf(x));
    Value behind = splatConstant(node, typeOf(order), 2 * size);
    SmallVector<Value> pickedValues, pickedIndices;
    for (int64_t i = 0; i < count; ++i) {
      Value best = compare(node, nn::Predicate::Eq, key, repeatAlong(node, reduce(node, kind, key, dim), dim, shapeOf(x)));
      Value first = reduce(node, Reduction::Min, select(node, best, order, behind), dim);
      Value chosen = compare(node, nn::Predicate::Eq, order, repeatAlong(node, first, dim, shapeOf(x)));
      pickedValues.push_back(reshape(node, pick(chosen, x, dim), one));
      pickedIndices.push_back(reshape(node, pick(chosen, index, dim), one));
      key = select(node, chosen, worst, key);
      order = select(node, chosen, behind, order);
    }
    values = node.create<nn::ConcatOp>(pickedValues, dim);
    indices = node.create<nn::ConcatOp>(pickedIndices, dim);
  }

  // Counts for each element how many come before it; the one with i before it is the result at i.
  void chooseByRank() {
    SmallVector<int64_t> pairs(shapeOf(x)), choices(shapeOf(x));
    pairs.insert(pairs.begin() + dim, size);
    choices.insert(choices.begin() + dim, count);
    auto mine = [&](Value value) { return repeatAlong(node, value, dim + 1, pairs); };
    auto others = [&](Value value) { return repeatAlong(node, value, dim, pairs); };
    Value isBetter = compare(node, kind == Reduction::Max ? nn::Predicate::Gt : nn::Predicate::Lt, others(key), mine(key));
    Value isEqual = compare(node, nn::Predicate::Eq, others(key), mine(key));
    Value isEarlier = compare(node, nn::Predicate::Lt, others(order), mine(order));
    Value isBefore = node.create<nn::OrOp>(isBetter, node.create<nn::AndOp>(isEqual, isEarlier));
    Value rank = reduce(node, Reduction::Sum, convertTo(node, isBefore, typeOf(index).getElementType()), dim + 1);
    Value place = convertTo(node, indexAlong(node, choices, dim), typeOf(index).getElementType());
    Value chosen = compare(node, nn::Predicate::Eq, repeatAlong(node, rank, dim, choices), place);
    values = pick(chosen, repeatAlong(node, x, dim, choices), dim + 1);
    indices = pick(chosen, repeatAlong(node, index, dim, choices), dim + 1);
  }

  const Node &node;
  Reduction kind;
  int64_t dim, count, size;
  Value x, index, key, order;
};

// The number of elements is an attribute before opset 10, an input since.
int64_t readCount(Node &node, RankedTensorType type, int64_t axis) {
  SmallVector<int64_t> counts = {node.getOpset() < 10 ? node.getInt("k", -1) : 0};
  if (node.getOpset() >= 10) {
    counts = node.intsInput(1, "K");
  }
  if (counts.size() != 1 || counts.front() < 0 || counts.front() > type.getDimSize(axis)) {
    std::string given = counts.size() == 1 ? std::to_string(counts.front()) : std::to_string(counts.size()) + " numbers";
    node.fail("k is " + given + " along axis " + Twine(axis) + " of " + describeTensor(type) +
              "; it is one number from 0 to the size of the axis");
  }
  return counts.front();
}

void importTopK(Node &node) {
  RankedTensorType type = node.inputType(0);
  const int64_t axis = node.getAxis("axis", -1, type.getRank()), count = readCount(node, type, axis);
  node.getInt("sorted", 1); // else any order will do
  Reduction kind = node.getInt("largest", 1) != 0 ? Reduction::Max : Reduction::Min;
  if (count == 0) {
    SmallVector<int64_t> shape(type.getShape());
    shape[axis] = 0;
    node.setResult(0, splatConstant(node, type.clone(shape), 0));
    return node.setResult(1, splatConstant(node, RankedTensorType::get(shape, node.builder().getI64Type()), 0));
  }
  TopK chosen(node, node.input(0), kind, axis, count);
  chosen.run();
  node.setResult(0, chosen.values);
  node.setResult(1, chosen.indices);
}

constexpr RegistryRow kRankingRows[] = {
    flat({"ArgMax", importArg<Reduction::Max>, Accepts::Numbers}),
    flat({"ArgMin", importArg<Reduction::Min>, Accepts::Numbers}),
    flat({"Hardmax", importHardmax, Accepts::Floats}),
    {"TopK", importTopK, Accepts::Numbers},
};

} // namespace

ArrayRef<RegistryRow> rankingRows() {
  return kRankingRows;
}

} // namespace ashlar::frontend
