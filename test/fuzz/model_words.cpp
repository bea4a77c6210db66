// SPDX-License-Identifier: Apache-2.0
//
// Integers at both ends of the range of their type, in random models. An op that takes a number of the upper half for a negative one, or
// the other way around, shows in the result; planted.h counts in how many programs.

#include "test/fuzz/model_generator.h"

#include "dialects/support/tensor_values.h"

#include <cmath>

using namespace mlir;

namespace ashlar::fuzz {

namespace {

constexpr int64_t kDigit = 16;    // four bits of a word tell enough of it
constexpr unsigned kWordOps = 12; // that make a word of the type of two others
constexpr unsigned kReadings = 4; // that make something else of one
constexpr int64_t kLongestFactor = int64_t(1) << 40;

} // namespace

// Returns integers of any type, most of them without a sign.
RankedTensorType ModelGenerator::wordType(ArrayRef<int64_t> shape) {
  auto sign = lastDice.oneIn(4) ? IntegerType::Signless : IntegerType::Unsigned;
  const auto width = static_cast<unsigned>(8 << lastDice.roll(4));
  return i64(shape).clone(IntegerType::get(b.getContext(), width, sign));
}

// Op number `op` of those that make a word of two.
Value ModelGenerator::wordOp(unsigned op, Value x, Value y) {
  RankedTensorType type = typeOf(x);
  switch (op) {
  case 0:
    return nn::AbsOp::create(b, x);
  case 1:
    return nn::SignOp::create(b, x);
  case 2:
    return nn::NegOp::create(b, x);
  case 3:
    return nn::NotOp::create(b, x);
  case 4:
    return nn::AddOp::create(b, x, y);
  case 5:
    return nn::SubOp::create(b, x, y);
  case 6:
    return nn::MulOp::create(b, x, y);
  case 7:
    return nn::DivOp::create(b, x, y);
  case 8:
    return nn::MaxOp::create(b, x, y);
  case 9:
    return nn::MinOp::create(b, x, y);
  case 10:
    return nn::AndOp::create(b, x, y);
  default:
    constexpr nn::Predicate kPredicates[] = {nn::Predicate::Lt, nn::Predicate::Le, nn::Predicate::Gt, nn::Predicate::Ge};
    Value first = nn::CompareOp::create(b, type.clone(b.getI1Type()), lastDice.pick(kPredicates), x, y);
    return nn::SelectOp::create(b, type, first, y, nn::OrOp::create(b, x, y));
  }
}

// Returns four bits of each word, the lowest or the highest ones, as i64.
Value ModelGenerator::digit(Value word) {
  RankedTensorType type = typeOf(word);
  const auto width = static_cast<int>(type.getElementTypeBitWidth());
  Value bits = lastDice.oneIn(2) ? nn::AndOp::create(b, word, splat(type, kDigit - 1)).getResult()
                                 : nn::DivOp::create(b, word, splat(type, std::ldexp(1, width - 4))).getResult();
  return b.createOrFold<nn::CastOp>(i64(type.getShape()), bits);
}

// Integers of both signs before they are cast to words, by way of floats or not: what has no sign is at the end of its range then.
void ModelGenerator::words() {
  ArrayRef<int64_t> shape = shapeOf(pool[lastDice.roll(static_cast<int64_t>(pool.size()))]);
  RankedTensorType type = wordType(shape);
  auto draw = [&]() -> Value {
    SmallVector<int64_t> strides = llvm::map_to_vector(shape, [&](int64_t) { return lastDice.roll(3) - 1; });
    Value places = nn::IndexOp::create(b, i64(shape), strides);
    places = nn::SubOp::create(b, places, splat(i64(shape), static_cast<double>(lastDice.roll(4))));
    places = lastDice.oneIn(2) ? nn::CastOp::create(b, floats(shape), places).getResult() : places;
    return b.createOrFold<nn::CastOp>(type, places);
  };
  Value x = draw(), y = draw();
  for (int64_t count = 1 + lastDice.roll(3); count > 0; --count) {
    x = wordOp(static_cast<unsigned>(lastDice.roll(kWordOps)), x, y);
  }
  add(nn::CastOp::create(b, floats(shape), digit(x)), kDigit);
}

// Words from both ends of the range, or from all of it. The first one is the last but a few.
Value ModelGenerator::fullWords(RankedTensorType type) {
  RankedTensorType places = i64(type.getShape());
  SmallVector<int64_t> strides = llvm::map_to_vector(type.getShape(), [&](int64_t) { return lastDice.roll(4) - 1; });
  Value below = splat(places, static_cast<double>(1 + lastDice.roll(4)));
  Value words = b.createOrFold<nn::CastOp>(type, nn::SubOp::create(b, nn::IndexOp::create(b, places, strides), below));
  if (lastDice.oneIn(2)) {
    return words;
  }
  const int64_t limit = std::min(kLongestFactor, int64_t(1) << (type.getElementTypeBitWidth() - 1));
  return nn::MulOp::create(b, words, splat(type, static_cast<double>(lastDice.roll(limit) | 1)));
}

// What is read off words otherwise: other types, and the largest or the sum along dims. As i64.
Value ModelGenerator::readWords(unsigned reading, Value x) {
  RankedTensorType type = typeOf(x);
  switch (reading) {
  case 0: { // the bits in front of those that x has
    const auto width = static_cast<int>(type.getElementTypeBitWidth());
    RankedTensorType wide = type.clone(IntegerType::get(b.getContext(), 64, IntegerType::Unsigned));
    Value words = b.createOrFold<nn::CastOp>(wide, x);
    return digit(width == 64 ? words : nn::DivOp::create(b, words, splat(wide, std::ldexp(1, width))).getResult());
  }
  case 1:
    return digit(b.createOrFold<nn::CastOp>(wordType(type.getShape()), x));
  default: {
    SmallVector<int64_t> dims, kept;
    for (int64_t d = 0; d < type.getRank(); ++d) {
      (lastDice.oneIn(2) ? dims : kept).push_back(d);
    }
    const auto kind = lastDice.oneIn(4) ? Reduction::Sum : lastDice.oneIn(2) ? Reduction::Max : Reduction::Min;
    Value reduced = nn::ReduceOp::create(b, kind, x, dims);
    return digit(nn::BroadcastOp::create(b, type, reduced, kept));
  }
  }
}

// Many ops of two words, each of which changes the sum of all by its own: one that is wrong cannot be taken back by another.
void ModelGenerator::wordOps() {
  constexpr int64_t kLeast = 8, kMore = 5;
  RankedTensorType type = wordType(shapeOf(pool[lastDice.roll(static_cast<int64_t>(pool.size()))]));
  ArrayRef<int64_t> shape = type.getShape();
  Value x = fullWords(type), y = fullWords(type), sum;
  for (int64_t count = kLeast + lastDice.roll(kMore); count > 0; --count) {
    auto op = static_cast<unsigned>(lastDice.roll(kWordOps + kReadings));
    Value word = lastDice.oneIn(2) ? x : y, other = word == x ? y : x;
    Value read = op < kWordOps ? digit(wordOp(op, word, other)) : readWords(op - kWordOps, word);
    Value term = nn::MulOp::create(b, read, splat(i64(shape), static_cast<double>(2 * count + 1)));
    sum = sum ? nn::AddOp::create(b, sum, term).getResult() : term;
  }
  add(nn::CastOp::create(b, floats(shape), nn::AndOp::create(b, sum, splat(i64(shape), kDigit - 1))), kDigit);
  Value share = nn::CastOp::create(b, floats(shape), x);
  add(nn::MulOp::create(b, share, splat(floats(shape), std::ldexp(1, -static_cast<int>(type.getElementTypeBitWidth())))), 1);
}

} // namespace ashlar::fuzz
