// SPDX-License-Identifier: Apache-2.0
//
// NonMaxSuppression of boxes or scores that only a run knows. What is chosen next depends on what was chosen before, and the program has no
// loops: it is written out, a round for each box that a class may keep. Rounds are equal, so their kernels are emitted once. A round takes
// the best box of each class that is left, by its score, and leaves out those that overlap it.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/index/selection.h"

#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Edges and area of boxes; each value has the same shape.
struct Boxes {
  Value top, left, bottom, right, area;
};

class Suppression {
public:
  // Boxes (batch, n, 4), scores (batch, classes, n).
  Suppression(const Node &node, Value boxes, Value scores, bool isCentred)
      : node(node), batch(shapeOf(scores)[0]), classes(shapeOf(scores)[1]), size(shapeOf(scores)[2]), left(scores) {
    SmallVector<Value> columns;
    for (int64_t i = 0; i < 4; ++i) {
      columns.push_back(reshape(node, sliceAlong(node, boxes, 2, i, i + 1), {batch, size}));
    }
    Boxes edges = isCentred ? fromCentre(columns) : fromCorners(columns);
    edges.area = mul(sub(edges.bottom, edges.top), sub(edges.right, edges.left));
    SmallVector<Value> packed;
    for (Value value : {edges.top, edges.left, edges.bottom, edges.right, edges.area}) {
      packed.push_back(reshape(node, value, {batch, size, 1}));
      all.push_back(node.create<nn::BroadcastOp>(typeOf(value).clone(shapeOf(scores)), value, ArrayRef<int64_t>{0, 2}));
    }
    table = node.create<nn::ConcatOp>(packed, 2);
    Value wide = node.create<nn::IndexOp>(typeOf(scores).clone(node.builder().getI64Type()), ArrayRef<int64_t>{0, 0, 1});
    index = convertTo(node, wide, node.builder().getI32Type());
  }

  // Leaves out the boxes whose score is not above a scalar; null: -infinity. A NaN is above nothing.
  void dropBelow(Value least) {
    Value limit = least ? broadcastTo(node, least, shapeOf(left)) : splatConstant(node, typeOf(left), -kInfinity);
    left = select(node, compare(node, nn::Predicate::Gt, left, limit), left, splatConstant(node, typeOf(left), -kInfinity));
  }

  // Returns the number of the next box of each class, (batch, classes), `n` where none is left. Boxes that have a larger share of their
  // union with it in common than the scalar `overlap` are left no more.
  Value takeBest(Value overlap) {
    Value best = repeatAlong(node, reduce(node, Reduction::Max, left, {2}), {2}, shapeOf(left));
    Value isBest = node.create<nn::AndOp>(compare(node, nn::Predicate::Eq, left, best), compare(node, nn::Predicate::Gt, left, -kInfinity));
    Value none = splatConstant(node, typeOf(index), static_cast<double>(size));
    Value place = reduce(node, Reduction::Min, select(node, isBest, index, none), {2});
    Value own = node.create<nn::GatherOp>(table, place, /*batch_dims=*/1); // zeros for none: a box without an area
    SmallVector<Value> chosen;
    for (int64_t i = 0; i < 5; ++i) {
      chosen.push_back(repeatAlong(node, reshape(node, sliceAlong(node, own, 2, i, i + 1), {batch, classes}), {2}, shapeOf(left)));
    }
    Value isOwn = compare(node, nn::Predicate::Eq, index, repeatAlong(node, place, {2}, shapeOf(left)));
    Value isClose = compare(node, nn::Predicate::Gt, shareOf(chosen), broadcastTo(node, overlap, shapeOf(left)));
    left = select(node, node.create<nn::OrOp>(isOwn, isClose), splatConstant(node, typeOf(left), -kInfinity), left);
    return place;
  }

private:
  Value sub(Value x, Value y) const { return node.create<nn::SubOp>(x, y); }
  Value mul(Value x, Value y) const { return node.create<nn::MulOp>(x, y); }

  // Two corners in any order.
  Boxes fromCorners(ArrayRef<Value> columns) const {
    return {node.create<nn::MinOp>(columns[0], columns[2]), node.create<nn::MinOp>(columns[1], columns[3]),
            node.create<nn::MaxOp>(columns[0], columns[2]), node.create<nn::MaxOp>(columns[1], columns[3]), Value()};
  }

  // The centre, width and height.
  Boxes fromCentre(ArrayRef<Value> columns) const {
    Value half = splatConstant(node, typeOf(columns[0]), 0.5), width = mul(columns[2], half), height = mul(columns[3], half);
    return {sub(columns[1], height), sub(columns[0], width), node.create<nn::AddOp>(columns[1], height),
            node.create<nn::AddOp>(columns[0], width), Value()};
  }

  // The share of their union that each box and the chosen one have in common; 0 where they have nothing, or one has no area.
  Value shareOf(ArrayRef<Value> chosen) const {
    Value top = node.create<nn::MaxOp>(all[0], chosen[0]), leftEdge = node.create<nn::MaxOp>(all[1], chosen[1]);
    Value bottom = node.create<nn::MinOp>(all[2], chosen[2]), right = node.create<nn::MinOp>(all[3], chosen[3]);
    Value common = mul(sub(bottom, top), sub(right, leftEdge));
    Value meet = node.create<nn::AndOp>(compare(node, nn::Predicate::Gt, bottom, top), compare(node, nn::Predicate::Gt, right, leftEdge));
    Value haveAreas = node.create<nn::AndOp>(compare(node, nn::Predicate::Gt, all[4], 0), compare(node, nn::Predicate::Gt, chosen[4], 0));
    Value share = node.create<nn::DivOp>(common, sub(node.create<nn::AddOp>(all[4], chosen[4]), common));
    return select(node, node.create<nn::AndOp>(meet, haveAreas), share, splatConstant(node, typeOf(share), 0));
  }

  const Node &node;
  int64_t batch, classes, size;
  Value left; // scores of the boxes that are left, -infinity of others
  Value table, index;
  SmallVector<Value> all; // edges and areas, for each class
};

// An input that is one number, as a scalar of a type; null where it is not given.
Value scalarInput(const Node &node, size_t index, Type element) {
  if (!node.hasInput(index)) {
    return Value();
  }
  if (RankedTensorType type = node.inputType(index); type.getNumElements() != 1) {
    node.fail("input " + Twine(index) + " is " + describeTensor(type) + ", not one number");
  }
  return convertTo(node, reshape(node, node.input(index), {}), element);
}

// Puts what was chosen together: number `c` of class k of sample b is at (b, k, c) of `places` if it is below `size`. Rows (b, k, place),
// in this order.
void setChosen(Node &node, Value places, int64_t size) {
  const int64_t classes = shapeOf(places)[1], rounds = shapeOf(places)[2], most = typeOf(places).getNumElements();
  Value isChosen = reshape(node, compare(node, nn::Predicate::Lt, places, static_cast<double>(size)), {most});
  Selection chosen = selectFlagged(node, isChosen);
  auto number = [&](int64_t value) { return splatConstant(node, typeOf(chosen.places), static_cast<double>(value)); };
  Value isThereFlag = isThere(node, chosen.places, 0, chosen.count), zero = number(0);
  Value ofClass = node.create<nn::DivOp>(chosen.places, number(rounds)), sample = node.create<nn::DivOp>(ofClass, number(classes));
  Value kind = node.create<nn::SubOp>(ofClass, node.create<nn::MulOp>(sample, number(classes)));
  Value box = node.create<nn::GatherOp>(convertTo(node, reshape(node, places, {most}), node.builder().getI64Type()), chosen.places,
                                        /*batch_dims=*/0);
  SmallVector<Value> columns;
  for (Value column : {sample, kind, box}) {
    columns.push_back(reshape(node, select(node, isThereFlag, column, zero), {most, 1}));
  }
  Value result = node.create<nn::ConcatOp>(columns, 1);
  node.setCount(result, 0, chosen.count);
  node.setResult(0, result);
}

} // namespace

void importNonMaxSuppressionAtRunTime(Node &node) {
  checkIsWhole(node);
  Value boxes = node.input(0), scores = node.input(1);
  ArrayRef<int64_t> shape = shapeOf(scores);
  if (shape.size() != 3 || shapeOf(boxes) != ArrayRef<int64_t>{shape[0], shape[2], 4} || !typeOf(boxes).getElementType().isF32() ||
      !typeOf(scores).getElementType().isF32()) {
    node.fail("boxes are " + describeTensor(typeOf(boxes)) + " and scores " + describeTensor(typeOf(scores)) +
              "; they have to be (batch, boxes, 4) and (batch, classes, boxes) of f32");
  }
  const int64_t size = shape[2];
  Type wide = node.builder().getI64Type(), real = node.builder().getF32Type();
  DenseElementsAttr known = node.constantInput(2);
  int64_t most = node.hasInput(2) ? size : 0; // without it, no box is kept
  if (known && known.getNumElements() == 1 && known.getElementType().isInteger()) {
    most = std::clamp<int64_t>((*known.getValues<APInt>().begin()).getSExtValue(), 0, size);
  }
  constexpr int64_t kMostRounds = 2048; // some twenty ops each
  if (most > kMostRounds) {
    node.fail("may keep " + Twine(most) + " boxes of a class, a round of the program each, but at most " + Twine(kMostRounds) +
              " rounds are written out; give a smaller max_output_boxes_per_class, or fewer boxes (TopK)");
  }
  Value mostComputed = known ? Value() : scalarInput(node, 2, wide), overlap = scalarInput(node, 3, real);
  Value least = scalarInput(node, 4, real);
  overlap = overlap ? overlap : splatConstant(node, RankedTensorType::get({}, real), 0);
  const bool isCentred = node.getInt("center_point_box", 0) != 0;
  if (most == 0 || typeOf(scores).getNumElements() == 0) {
    return node.setResult(0, splatConstant(node, RankedTensorType::get({0, 3}, wide), 0));
  }
  boxes = fillMissing(node, boxes, {0, 1}, FloatAttr::get(real, 0.0));
  scores = fillMissing(node, scores, {0, 1, 2}, FloatAttr::get(real, -kInfinity));
  Suppression suppression(node, boxes, scores, isCentred);
  suppression.dropBelow(least);
  SmallVector<Value> rounds;
  for (int64_t i = 0; i < most; ++i) {
    rounds.push_back(reshape(node, suppression.takeBest(overlap), {shape[0], shape[1], 1}));
  }
  Value places = rounds.size() == 1 ? rounds.front() : node.create<nn::ConcatOp>(rounds, 2).getResult();
  if (mostComputed) {
    auto counts = typeOf(places).clone(wide);
    Value round = node.create<nn::IndexOp>(counts, ArrayRef<int64_t>{0, 0, 1});
    Value isWanted = compare(node, nn::Predicate::Lt, round, broadcastTo(node, mostComputed, counts.getShape()));
    places = select(node, isWanted, places, splatConstant(node, typeOf(places), static_cast<double>(size)));
  }
  setChosen(node, places, size);
}

} // namespace ashlar::frontend
