// SPDX-License-Identifier: Apache-2.0
//
// The values that random models are made of: inputs, constants, random numbers, integers and conditions.

#include "test/fuzz/model_generator.h"

#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::fuzz {

SmallVector<int64_t> ModelGenerator::randomShape(int64_t minRank, int64_t front) {
  SmallVector<int64_t> shape;
  for (int64_t rank = minRank + dice.roll(3); rank > 0; --rank) {
    int64_t size = dice.pick(options.sizes);
    size = floats(shape).getNumElements() * size > options.maxElements ? 1 : size;
    shape.push_back(shape.empty() && front != 0 ? front : size);
  }
  return shape;
}

void ModelGenerator::add(Value value, double bound) {
  if (typeOf(value).getNumElements() > options.maxElements) {
    return;
  }
  if (bound > kMaxBound) {
    value = nn::MulOp::create(b, value, splat(typeOf(value), kMaxBound / bound));
    bound = kMaxBound;
  }
  pool.push_back(value);
  bounds[value] = bound;
}

Value ModelGenerator::pick() {
  size_t window = std::min<size_t>(pool.size(), 5);
  return dice.oneIn(2) ? pool[dice.roll(pool.size())] : pool[pool.size() - 1 - dice.roll(window)];
}

Value ModelGenerator::constant(ArrayRef<int64_t> shape) {
  RankedTensorType type = floats(shape);
  if (dice.oneIn(3)) {
    return splat(type, dice.real());
  }
  return numbers(type, /*bound=*/1);
}

Value ModelGenerator::numbers(RankedTensorType type, double bound) {
  SmallVector<APFloat> elements;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    bool losesInfo = false;
    elements.emplace_back(dice.real() * bound);
    elements.back().convert(cast<FloatType>(options.floatType).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  }
  return nn::ConstantOp::create(b, DenseElementsAttr::get(type, elements));
}

Value ModelGenerator::another(ArrayRef<int64_t> shape) {
  SmallVector<Value> fitting = llvm::to_vector(llvm::make_filter_range(pool, [&](Value value) { return shapeOf(value) == shape; }));
  int64_t kind = dice.roll(6);
  if (kind == 0) {
    return randomNumbers(shape, nn::Distribution::Uniform);
  }
  return kind == 1 || fitting.empty() ? constant(shape) : dice.pick(fitting);
}

double ModelGenerator::boundOf(Value value) {
  auto found = bounds.find(value);
  return found == bounds.end() ? 1 : found->second;
}

Value ModelGenerator::positive(Value x, double offset) {
  return nn::AddOp::create(b, nn::AbsOp::create(b, generic(x)), splat(typeOf(x), offset));
}

Value ModelGenerator::randomNumbers(ArrayRef<int64_t> shape, nn::Distribution distribution) {
  Value stream = this->stream(dice);
  return nn::RandomOp::create(b, floats(shape), distribution, rowMajorIndex(shape), seed, step, stream);
}

Value ModelGenerator::integersLike(Value x) {
  if (options.jumps && dice.oneIn(3)) { // away from the steps, and from 0, where both sides truncate toward it
    Value scaled = nn::MulOp::create(b, generic(x), splat(typeOf(x), 3));
    return nn::CastOp::create(b, i64(shapeOf(x)), scaled);
  }
  SmallVector<int64_t> strides;
  for (size_t d = 0; d < shapeOf(x).size(); ++d) {
    strides.push_back(dice.roll(3));
  }
  return nn::IndexOp::create(b, i64(shapeOf(x)), strides);
}

Value ModelGenerator::condition(Value x) {
  constexpr nn::Predicate kPredicates[] = {nn::Predicate::Eq, nn::Predicate::Ne, nn::Predicate::Lt,
                                           nn::Predicate::Le, nn::Predicate::Gt, nn::Predicate::Ge};
  Value result;
  if (!options.jumps || dice.oneIn(2)) {
    Value bound = splat(i64(shapeOf(x)), dice.roll(8));
    result = nn::CompareOp::create(b, i1(shapeOf(x)), dice.pick(kPredicates), integersLike(x), bound);
  } else {
    result = nn::CompareOp::create(b, i1(shapeOf(x)), dice.pick(kPredicates), generic(x), another(shapeOf(x)));
  }
  switch (dice.roll(5)) {
  case 0:
    return nn::NotOp::create(b, result);
  case 1:
    return nn::AndOp::create(b, result, condition(x));
  case 2:
    return nn::OrOp::create(b, result, condition(x));
  default:
    return result;
  }
}

SmallVector<int64_t> ModelGenerator::randomDims(Value x) {
  SmallVector<int64_t> dims;
  for (size_t d = 0; d < shapeOf(x).size(); ++d) {
    if (dice.oneIn(2)) {
      dims.push_back(d);
    }
  }
  return dims;
}

Value ModelGenerator::numbers(ArrayRef<int64_t> shape, int64_t limit) {
  if (dice.oneIn(3)) {
    return integersLike(another(shape));
  }
  Type type = dice.oneIn(2) ? b.getI64Type() : b.getI32Type();
  SmallVector<Attribute> elements;
  for (int64_t i = 0; i < i64(shape).getNumElements(); ++i) {
    elements.push_back(b.getIntegerAttr(type, dice.roll(limit + 2) - 1));
  }
  return nn::ConstantOp::create(b, DenseElementsAttr::get(RankedTensorType::get(shape, type), elements));
}

} // namespace ashlar::fuzz
