// SPDX-License-Identifier: Apache-2.0
//
// Ops of random models that add up along dims: reductions, matrix products, softmax, normalization.

#include "test/fuzz/model_generator.h"

#include "dialects/nn/pairs.h"
#include "dialects/support/tensor_values.h"

#include <cmath>

using namespace mlir;

namespace ashlar::fuzz {

void ModelGenerator::reduce() {
  Value x = pick();
  SmallVector<int64_t> dims = randomDims(x);
  auto kind = static_cast<Reduction>(dice.roll(3));
  double count = 1;
  for (int64_t dim : dims) {
    count *= shapeOf(x)[dim];
  }
  if (kind == Reduction::Sum) {
    return add(nn::ReduceOp::create(b, kind, x, dims), boundOf(x) * count);
  }
  add(nn::ReduceOp::create(b, kind, generic(x), dims), boundOf(x) + 1);
}

// Integers of 8 bits, signed or not, of the whole range.
Value ModelGenerator::bytes(ArrayRef<int64_t> shape) {
  Type type = dice.oneIn(2) ? b.getIntegerType(8, /*isSigned=*/false) : b.getI8Type();
  return nn::CastOp::create(b, RankedTensorType::get(shape, type), numbers(shape, 255));
}

// x times a tensor that fits, in one of the four transposed forms, on one of the two sides.
void ModelGenerator::matmul() {
  Value x = pick();
  if (shapeOf(x).size() < 2) {
    return;
  }
  bool transposeX = dice.oneIn(2), transposeY = dice.oneIn(2);
  SmallVector<int64_t> shape(shapeOf(x));
  size_t rows = shape.size() - 2, columns = shape.size() - 1;
  bool first = dice.oneIn(2);
  int64_t k = shape[transposeX == first ? rows : columns], n = dice.pick(options.sizes);
  shape[transposeY == first ? columns : rows] = k;
  shape[transposeY == first ? rows : columns] = n;
  if (laterDice.oneIn(8)) {
    Value product = first ? nn::MatMulOp::create(b, bytes(shapeOf(x)), bytes(shape), transposeX, transposeY)
                          : nn::MatMulOp::create(b, bytes(shape), bytes(shapeOf(x)), transposeY, transposeX);
    return add(nn::CastOp::create(b, floats(shapeOf(product)), product), 255. * 255 * k);
  }
  Value y = another(shape);
  double bound = k * boundOf(x) * boundOf(y);
  add(first ? nn::MatMulOp::create(b, x, y, transposeX, transposeY) : nn::MatMulOp::create(b, y, x, transposeY, transposeX), bound);
}

// Ops along the last dim.
void ModelGenerator::rows() {
  Value x = pick();
  if (shapeOf(x).empty()) {
    return;
  }
  switch (dice.roll(3)) {
  case 0:
    return add(nn::SoftmaxOp::create(b, x), 1);
  case 1:
    return add(nn::LogSoftmaxOp::create(b, x), 2 * boundOf(x) + std::log(shapeOf(x).back()));
  default:
    return add(nn::SoftmaxCrossEntropyOp::create(b, x, numbers(shapeOf(x).drop_back(), shapeOf(x).back())),
               2 * boundOf(x) + std::log(shapeOf(x).back()));
  }
}

// Returns what a dropout of weights of these rows and of so many keys draws from.
SmallVector<Value> ModelGenerator::drawOf(ArrayRef<int64_t> rows, int64_t keys) {
  SmallVector<int64_t> ofRows = rowMajorStrides(rows), shape(rows.size(), 1), ofKeys(rows.size(), 0);
  llvm::for_each(ofRows, [&](int64_t &stride) { stride *= keys; });
  shape.back() = keys;
  ofKeys.back() = 1;
  return {nn::IndexOp::create(b, i64(rows), ofRows), nn::IndexOp::create(b, i64(shape), ofKeys), seed, step, stream(attentionDice)};
}

// Of x to itself, or to another value of its type. No op couples samples, which are dim 0 of models with a batch.
void ModelGenerator::attention() {
  auto any = [&](ArrayRef<Value> values) { return values[attentionDice.roll(static_cast<int64_t>(values.size()))]; };
  Value x = any(pool);
  if (shapeOf(x).size() < (options.batch != 0 ? 3 : 2)) {
    return;
  }
  SmallVector<Value> alike = llvm::to_vector(llvm::make_filter_range(pool, [&](Value value) { return value.getType() == x.getType(); }));
  Value key = any(alike), value = any(alike), mask;
  const double scale = 1 / (std::max(1.0, boundOf(x) * boundOf(key)) * static_cast<double>(shapeOf(x).back()));
  const bool isCausal = attentionDice.oneIn(2);
  const int64_t diagonal = isCausal ? attentionDice.roll(3) : 0;
  const int64_t window = isCausal && attentionDice.oneIn(3) ? diagonal + 1 + attentionDice.roll(3) : 0;
  const llvm::APFloat softcap(attentionDice.oneIn(4) ? 0.5 : 0.0);
  if (attentionDice.oneIn(3)) { // what is added to the scores of each key
    SmallVector<int64_t> shape(shapeOf(x).size(), 1);
    shape.back() = shapeOf(x).end()[-2];
    mask = nn::MulOp::create(b, nn::CastOp::create(b, floats(shape), rowMajorIndex(shape)), splat(floats(shape), 0.125));
  }
  SmallVector<Value> draw;
  llvm::APFloat dropout(attentionDice.oneIn(3) ? 0.25 : 0.0);
  if (!dropout.isZero()) {
    draw = drawOf(shapeOf(x).drop_back(), shapeOf(x).end()[-2]);
  }
  SmallVector<Value> positions;
  if (isCausal && attentionDice.oneIn(2)) {
    SmallVector<int64_t> shape(shapeOf(x).size() - 1, 1), strides(shape.size(), 0);
    shape.back() = shapeOf(x).end()[-2];
    strides.back() = 1;
    positions.assign(2, nn::IndexOp::create(b, i64(shape), strides));
  }
  Value logSum = nn::AttentionLogSumOp::create(b, x, key, mask, llvm::APFloat(scale), isCausal, diagonal, window, softcap, positions);
  add(nn::AttentionOp::create(b, x, key, value, logSum, mask, llvm::APFloat(scale), isCausal, diagonal, window, softcap, positions, draw,
                              dropout),
      boundOf(value) / (1 - dropout.convertToDouble()));
}

// x by its own moments along some dims, as a batch or a sample is normalized, or by others.
void ModelGenerator::normaliseByMoments(Value x) {
  SmallVector<int64_t> along, kept, shape;
  for (int64_t d = 0; d < typeOf(x).getRank(); ++d) {
    (laterDice.oneIn(2) ? along : kept).push_back(d);
  }
  llvm::transform(kept, std::back_inserter(shape), [&](int64_t d) { return shapeOf(x)[d]; });
  Value moments = nn::MomentsOp::create(b, x, along);
  Value mean = nn::partOf(b, moments, 0), variance = nn::partOf(b, moments, 1);
  auto parameter = [&] { return splat(floats(shape), 0.25 + laterDice.roll(4) * 0.25); };
  if (laterDice.oneIn(4)) {
    variance = parameter();
  }
  double count = typeOf(x).getNumElements() / std::max<int64_t>(floats(shape).getNumElements(), 1);
  add(nn::NormalizeOp::create(b, x.getType(), x, parameter(), parameter(), mean, variance, kept, llvm::APFloat(0.1),
                              /*momentum=*/FloatAttr(), /*unbiased=*/false),
      std::max(std::sqrt(count), 4 * boundOf(x)) + 1);
}

// (x - mean) / sqrt(variance + 0.1) along one dim.
void ModelGenerator::normalise() {
  Value x = pick();
  if (shapeOf(x).empty()) {
    return;
  }
  if (laterDice.oneIn(2)) {
    return normaliseByMoments(x);
  }
  int64_t dim = dice.roll(shapeOf(x).size()), count = shapeOf(x)[dim];
  SmallVector<int64_t> others;
  for (int64_t d = 0; d < typeOf(x).getRank(); ++d) {
    if (d != dim) {
      others.push_back(d);
    }
  }
  auto mean = [&](Value value) -> Value {
    Value sum = nn::ReduceOp::create(b, Reduction::Sum, value, dim);
    return nn::MulOp::create(b, sum, splat(typeOf(sum), 1.0 / count));
  };
  auto along = [&](Value value) -> Value { return nn::BroadcastOp::create(b, x.getType(), value, others); };
  Value centred = nn::SubOp::create(b, x, along(mean(x)));
  Value variance = mean(nn::MulOp::create(b, centred, centred));
  Value deviation = nn::SqrtOp::create(b, nn::AddOp::create(b, variance, splat(typeOf(variance), 0.1)));
  add(nn::DivOp::create(b, centred, along(deviation)), std::sqrt(count) + 1);
}

} // namespace ashlar::fuzz
