// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops of random models.

#include "test/fuzz/model_generator.h"

#include "dialects/support/tensor_values.h"

#include <cmath>

using namespace mlir;

namespace ashlar::fuzz {

// An op whose result is bounded by 1, or jumps.
void ModelGenerator::bounded(Value x) {
  auto away = [&] { return nn::AddOp::create(b, x, splat(typeOf(x), 0.0371)); }; // sums of nice numbers are no ties
  switch (laterDice.roll(options.jumps ? 8 : 5)) {
  case 0:
    return add(nn::SinOp::create(b, x), 1);
  case 1:
    return add(nn::CosOp::create(b, x), 1);
  case 5:
    return add(nn::FloorOp::create(b, away()), boundOf(x) + 1);
  case 6:
    return add(nn::CeilOp::create(b, away()), boundOf(x) + 2);
  case 7:
    return add(nn::RoundOp::create(b, away()), boundOf(x) + 1);
  default:
    return add(nn::TanhOp::create(b, x), 1);
  }
}

void ModelGenerator::unary() {
  Value x = pick();
  double bound = boundOf(x);
  switch (dice.roll(14)) {
  case 0:
    return add(nn::NegOp::create(b, x), bound);
  case 1:
    return add(nn::AbsOp::create(b, generic(x)), bound + 1);
  case 2:
    return options.jumps ? add(nn::MulOp::create(b, nn::SignOp::create(b, generic(x)), another(shapeOf(x))), kMaxBound)
                         : add(nn::TanhOp::create(b, x), 1);
  case 3:
    return add(nn::ExpOp::create(b, nn::MulOp::create(b, x, splat(typeOf(x), 1 / kMaxBound))), std::exp(1));
  case 4:
    return add(nn::LogOp::create(b, positive(x, 0.2)), 2);
  case 5:
    return add(nn::SqrtOp::create(b, positive(x, 0.1)), std::sqrt(bound + 1));
  case 6:
    return add(nn::ErfOp::create(b, x), 1);
  case 7:
    return bounded(x);
  case 8:
    return add(nn::SigmoidOp::create(b, x), 1);
  case 9:
    return add(nn::ReluOp::create(b, generic(x)), bound + 1);
  case 10:
    return add(nn::LeakyReluOp::create(b, x.getType(), generic(x), llvm::APFloat(dice.oneIn(2) ? 0.1 : -0.3)), bound + 1);
  case 11:
    return add(nn::GeluOp::create(b, x.getType(), x, /*tanh_approximation=*/dice.oneIn(2)), bound);
  case 12:
    return add(nn::CastOp::create(b, typeOf(x), condition(x)), 1);
  default:
    Value exact = nn::CastOp::create(b, typeOf(x), integersLike(x));
    return laterDice.oneIn(2) ? exponents(exact) : add(exact, 64);
  }
}

// The bits in front of the fraction, of numbers that are the same on every mesh.
void ModelGenerator::exponents(Value exact) {
  const unsigned width = typeOf(exact).getElementTypeBitWidth(), exponentBits = width == 64 ? 11 : 8;
  RankedTensorType type = typeOf(exact).clone(b.getIntegerType(width));
  Value bits = nn::BitcastOp::create(b, type, exact), unit = splat(type, std::ldexp(1, static_cast<int>(width - 1 - exponentBits)));
  add(nn::CastOp::create(b, typeOf(exact), nn::DivOp::create(b, bits, unit)), std::ldexp(1, static_cast<int>(exponentBits)));
}

void ModelGenerator::binary() {
  Value x = pick(), y = another(shapeOf(x));
  double bound = boundOf(x);
  switch (dice.roll(8)) {
  case 0:
    return add(nn::SubOp::create(b, x, y), bound + boundOf(y));
  case 1:
  case 2:
    return add(nn::MulOp::create(b, x, y), bound * boundOf(y));
  case 3:
    return add(nn::DivOp::create(b, x, positive(y, 0.5)), 2 * bound);
  case 4:
    return add(nn::PowOp::create(b, positive(x, 0.2), nn::TanhOp::create(b, y)), kMaxBound + 2);
  case 5:
    return add(nn::MaxOp::create(b, generic(x), y), kMaxBound + 1);
  case 6:
    return add(nn::MinOp::create(b, generic(x), y), kMaxBound + 1);
  default:
    return add(nn::AddOp::create(b, x, y), bound + boundOf(y));
  }
}

void ModelGenerator::select() {
  Value x = pick(), y = another(shapeOf(x));
  add(nn::SelectOp::create(b, x.getType(), condition(x), x, y), kMaxBound);
}

// Integer arithmetic is exact, whatever the order.
void ModelGenerator::integers() {
  Value x = pick(), i = integersLike(x), j = integersLike(x), result;
  auto sign = laterDice.oneIn(2) ? IntegerType::Signless : IntegerType::Unsigned;
  RankedTensorType type = i64(shapeOf(x)).clone(IntegerType::get(b.getContext(), 8 << laterDice.roll(4), sign));
  i = b.createOrFold<nn::CastOp>(type, i);
  j = b.createOrFold<nn::CastOp>(type, j);
  switch (dice.roll(9)) {
  case 0:
    result = nn::MulOp::create(b, i, j);
    break;
  case 1:
    result = nn::DivOp::create(b, i, nn::AddOp::create(b, nn::AbsOp::create(b, j), splat(typeOf(j), 1)));
    break;
  case 2:
    result = nn::SubOp::create(b, nn::NegOp::create(b, i), j);
    break;
  case 3:
    result = nn::MaxOp::create(b, i, nn::SignOp::create(b, j));
    break;
  case 4:
    result = nn::MinOp::create(b, i, j);
    break;
  case 5:
    if (shapeOf(x).size() < 2) {
      return;
    }
    result = nn::MatMulOp::create(b, i, j, /*transpose_a=*/false, /*transpose_b=*/true);
    break;
  default:
    result = nn::ReduceOp::create(b, static_cast<Reduction>(dice.roll(3)), i, randomDims(x));
    break;
  }
  add(nn::TanhOp::create(
          b, nn::MulOp::create(b, nn::CastOp::create(b, floats(shapeOf(result)), result), splat(floats(shapeOf(result)), 0.05))),
      1);
}

// A vector along a random dim of x, added.
void ModelGenerator::bias() {
  Value x = pick();
  if (shapeOf(x).empty()) {
    return;
  }
  int64_t dim = dice.roll(shapeOf(x).size());
  Value vector = another(shapeOf(x)[dim]);
  double bound = boundOf(x) + boundOf(vector);
  add(nn::AddOp::create(b, x, nn::BroadcastOp::create(b, x.getType(), vector, dim)), bound);
}

void ModelGenerator::dropout() {
  Value x = pick();
  if (dice.oneIn(3)) {
    return add(nn::AddOp::create(b, x, randomNumbers(shapeOf(x), nn::Distribution::Normal)), boundOf(x) + 6);
  }
  Value numbers = randomNumbers(shapeOf(x), nn::Distribution::Uniform);
  Value keep = nn::CompareOp::create(b, i1(shapeOf(x)), nn::Predicate::Ge, numbers, splat(typeOf(x), 0.25));
  auto result = nn::SelectOp::create(b, x.getType(), keep, x, splat(typeOf(x), 0));
  add(result, boundOf(x));
}

} // namespace ashlar::fuzz
