// SPDX-License-Identifier: Apache-2.0
//
// Ops of random models that move elements: other shapes, parts, rows by number.

#include "test/fuzz/model_generator.h"

#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::fuzz {

void ModelGenerator::broadcast() {
  Value x = pick();
  SmallVector<int64_t> shape, dims;
  for (int64_t size : shapeOf(x)) {
    if (dice.oneIn(4)) {
      shape.push_back(dice.pick(options.sizes));
    }
    dims.push_back(shape.size());
    shape.push_back(size);
  }
  if (shape.size() == dims.size()) {
    shape.push_back(dice.pick(options.sizes));
  }
  if (shape.size() <= 4) {
    add(nn::BroadcastOp::create(b, floats(shape), x, dims), boundOf(x));
  }
}

// Joins neighbours, cuts a dim in two, or all of it at once.
void ModelGenerator::reshape() {
  Value x = pick();
  SmallVector<int64_t> shape(shapeOf(x));
  for (int64_t change = dice.roll(3); change >= 0; --change) {
    if (shape.empty() || dice.oneIn(6)) {
      shape.insert(shape.begin() + dice.roll(shape.size() + 1), 1);
      continue;
    }
    int64_t d = dice.roll(shape.size());
    if (d > 0 && dice.oneIn(2)) {
      shape[d - 1] *= shape[d];
      shape.erase(shape.begin() + d);
      continue;
    }
    for (int64_t factor : {2 + dice.roll(3), 2 + dice.roll(4)}) {
      if (shape[d] % factor == 0) {
        shape[d] /= factor;
        shape.insert(shape.begin() + d + dice.roll(2), factor);
        break;
      }
    }
  }
  if (shape.size() <= 4) {
    add(nn::ReshapeOp::create(b, floats(shape), x), boundOf(x));
  }
}

// Two shapes of a value that differ by which of two neighbours has all of a dim: cut by an axis as long as the factor, they are one on a
// device (random_program.cpp gives them such layouts).
void ModelGenerator::twoShapes() {
  Value x = pool[lastDice.roll(static_cast<int64_t>(pool.size()))];
  SmallVector<std::pair<int64_t, int64_t>> factors; // of which dim
  for (auto [dim, size] : llvm::enumerate(shapeOf(x))) {
    for (int64_t factor = 2; factor <= size; ++factor) {
      if (size % factor == 0) {
        factors.emplace_back(dim, factor);
      }
    }
  }
  constexpr size_t kMaxRank = 4;
  if (factors.empty() || shapeOf(x).size() >= kMaxRank) {
    return;
  }
  auto [dim, factor] = factors[lastDice.roll(static_cast<int64_t>(factors.size()))];
  for (int64_t outer : {factor, int64_t(1)}) {
    SmallVector<int64_t> shape(shapeOf(x));
    shape[dim] /= outer;
    shape.insert(shape.begin() + dim, outer);
    add(nn::TanhOp::create(b, nn::ReshapeOp::create(b, floats(shape), x)), 1);
  }
}

void ModelGenerator::transpose() {
  Value x = pick();
  SmallVector<int64_t> permutation;
  for (size_t d = 0; d < shapeOf(x).size(); ++d) {
    permutation.insert(permutation.begin() + dice.roll(d + 1), d);
  }
  add(nn::TransposeOp::create(b, x, permutation), boundOf(x));
}

void ModelGenerator::concat() {
  Value x = pick();
  if (shapeOf(x).empty()) {
    return;
  }
  int64_t dim = dice.roll(shapeOf(x).size());
  SmallVector<Value> parts = {x, another(shapeOf(x))};
  if (dice.oneIn(2)) {
    SmallVector<int64_t> shape(shapeOf(x));
    shape[dim] = dice.pick(options.sizes);
    parts.insert(parts.begin() + dice.roll(3), another(shape));
  }
  add(nn::ConcatOp::create(b, parts, dim), kMaxBound);
}

void ModelGenerator::slice() {
  Value x = pick();
  SmallVector<int64_t> starts, limits, steps;
  for (int64_t size : shapeOf(x)) {
    bool touch = dice.oneIn(2);
    starts.push_back(touch ? dice.roll(size) : 0);
    limits.push_back(touch ? starts.back() + 1 + dice.roll(size - starts.back()) : size);
    steps.push_back(touch ? 1 + dice.roll(2) : 1);
  }
  add(nn::SliceOp::create(b, x, starts, limits, steps), boundOf(x));
}

void ModelGenerator::pad() {
  Value x = pick();
  SmallVector<int64_t> low, interior, shape;
  for (int64_t size : shapeOf(x)) {
    bool touch = dice.oneIn(2);
    low.push_back(touch ? dice.roll(3) : 0);
    interior.push_back(touch ? dice.roll(2) : 0);
    shape.push_back(low.back() + size + interior.back() * (size - 1) + (touch ? dice.roll(2) : 0));
  }
  if (laterDice.oneIn(2) && !shapeOf(x).empty()) {
    return windows(x);
  }
  add(nn::PadOp::create(b, floats(shape), x, low, interior), boundOf(x));
}

// Rows of x by number, of the whole or of each element of a batch.
void ModelGenerator::gather() {
  Value x = pick();
  ArrayRef<int64_t> shape = shapeOf(x);
  SmallVector<int64_t> places = randomShape(/*minRank=*/0);
  if (!shape.empty() && places.size() + shape.size() <= 5) {
    const int64_t batchDims = laterDice.roll(shape.size());
    places.insert(places.begin(), shape.begin(), shape.begin() + batchDims);
    add(nn::GatherOp::create(b, x, numbers(places, shape[batchDims]), batchDims), boundOf(x));
  }
}

// The leading dims of x are a batch and places, the others a row.
void ModelGenerator::scatter() {
  Value x = pick();
  int64_t rank = dice.roll(shapeOf(x).size() + 1);
  ArrayRef<int64_t> places = shapeOf(x).take_front(rank);
  const int64_t rows = dice.pick(options.sizes), batchDims = laterDice.roll(rank + 1);
  SmallVector<int64_t> shape(places.take_front(batchDims));
  shape.push_back(rows);
  llvm::append_range(shape, shapeOf(x).drop_front(rank));
  double bound = boundOf(x) * llvm::product_of(places.drop_front(batchDims)); // all in one row
  add(nn::ScatterAddOp::create(b, floats(shape), numbers(places, rows), x, batchDims), bound);
}

// The first rows of a value into another one of its type, at a place that may be outside, and may be another one in each step. No op
// couples samples.
void ModelGenerator::insert() {
  auto any = [&](ArrayRef<Value> values) { return values[insertDice.roll(static_cast<int64_t>(values.size()))]; };
  Value x = any(pool);
  const int64_t rank = shapeOf(x).size(), firstDim = options.batch != 0 ? 1 : 0;
  if (rank <= firstDim) {
    return;
  }
  SmallVector<Value> alike = llvm::to_vector(llvm::make_filter_range(pool, [&](Value value) { return value.getType() == x.getType(); }));
  Value base = any(alike);
  const int64_t dim = firstDim + insertDice.roll(rank - firstDim), size = shapeOf(x)[dim];
  SmallVector<int64_t> starts(rank, 0), limits(shapeOf(x)), steps(rank, 1);
  limits[dim] = 1 + insertDice.roll(size);
  Value rows = nn::SliceOp::create(b, x, starts, limits, steps);
  Value index = splat(i64({}), static_cast<double>(insertDice.roll(size + 3) - 2));
  index = insertDice.oneIn(2) ? nn::AddOp::create(b, index, step).getResult() : index;
  index = insertDice.oneIn(2) ? nn::CastOp::create(b, typeOf(index).clone(b.getI32Type()), index).getResult() : index;
  add(nn::InsertOp::create(b, base.getType(), rows, base, index, dim), std::max(boundOf(x), boundOf(base)));
}

} // namespace ashlar::fuzz
