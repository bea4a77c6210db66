// SPDX-License-Identifier: Apache-2.0
//
// Ops without a computed operand: constants, indices, random numbers. The reference has its own Philox, so that it shares no line with the
// code of kernels.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/philox.h"
#include "dialects/nn/ops/scalar_code.h"
#include "dialects/support/element_type.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

//===-- nn.constant -------------------------------------------------------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  return getValue();
}

ShardingRule ConstantOp::getShardingRule() {
  return ShardingRule::elementwise(getValue().getShapedType().getShape(), /*numOperands=*/0);
}

Tensor ConstantOp::evaluate(ArrayRef<Tensor>) {
  FailureOr<Tensor> value = Tensor::fromAttribute(getValue());
  if (failed(value)) {
    llvm::report_fatal_error("nn.constant without readable data");
  }
  return std::move(*value);
}

//===-- nn.index ----------------------------------------------------------------------------------------------------------------------===//

LogicalResult IndexOp::verify() {
  if (static_cast<int64_t>(getStrides().size()) != getType().getRank()) { // C1
    return emitOpError("has ") << getStrides().size() << " strides for a result of rank " << getType().getRank();
  }
  return success();
}

ShardingRule IndexOp::getShardingRule() {
  return ShardingRule::elementwise(getType().getShape(), /*numOperands=*/0);
}

Tensor IndexOp::evaluate(ArrayRef<Tensor>) {
  ArrayRef<int64_t> strides = getStrides();
  Tensor result(getType());
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> position, int64_t i) {
    int64_t value = 0;
    for (auto [p, stride] : llvm::zip_equal(position, strides)) {
      value += p * stride;
    }
    result.setInt(i, value);
  });
  return result;
}

//===-- nn.random ---------------------------------------------------------------------------------------------------------------------===//

LogicalResult RandomOp::verify() {
  if (getIndex().getType().getShape() != getType().getShape()) { // C1
    return emitOpError("index has type ") << getIndex().getType() << " but the result has type " << getType();
  }
  return success();
}

// random: ([i, j], [], [], []) -> ([i, j]); seed, counter and stream are scalars.
ShardingRule RandomOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/1);
  rule.operands.resize(4);
  return rule;
}

OpOperand *RandomOp::getDrawnIndex() {
  return &getIndexMutable();
}

RankedTensorType RandomOp::getDrawnType() {
  return getType();
}

namespace {

Value shiftRight(ImplicitLocOpBuilder &b, Value x, int64_t bits) {
  return arith::ShRUIOp::create(b, x, scalar::constant(b, x.getType(), bits));
}

// Philox4x32-10 of the four counter words under the two key words.
SmallVector<Value> buildPhilox(ImplicitLocOpBuilder &b, SmallVector<Value> counter, SmallVector<Value> key) {
  Type word = b.getI32Type();
  Value multiplier0 = scalar::constant(b, word, static_cast<int32_t>(0xD2511F53)),
        multiplier1 = scalar::constant(b, word, static_cast<int32_t>(0xCD9E8D57));
  Value weyl0 = scalar::constant(b, word, static_cast<int32_t>(0x9E3779B9)),
        weyl1 = scalar::constant(b, word, static_cast<int32_t>(0xBB67AE85));
  for (int round = 0; round < 10; ++round) {
    auto product0 = arith::MulUIExtendedOp::create(b, multiplier0, counter[0]);
    auto product1 = arith::MulUIExtendedOp::create(b, multiplier1, counter[2]);
    Value word0 = arith::XOrIOp::create(b, arith::XOrIOp::create(b, product1.getHigh(), counter[1]), key[0]);
    Value word2 = arith::XOrIOp::create(b, arith::XOrIOp::create(b, product0.getHigh(), counter[3]), key[1]);
    counter = {word0, product1.getLow(), word2, product0.getLow()};
    key = {arith::AddIOp::create(b, key[0], weyl0), arith::AddIOp::create(b, key[1], weyl1)};
  }
  return counter;
}

// Uniform in [0, 1) from one word (f32) or two (f64); the formulas are those of nn.random.
Value buildUnit(ImplicitLocOpBuilder &b, Type type, Value word0, Value word1) {
  if (type.isF32()) {
    return arith::MulFOp::create(b, arith::UIToFPOp::create(b, type, shiftRight(b, word0, 8)), scalar::constant(b, type, 0x1p-24));
  }
  Value high = arith::UIToFPOp::create(b, type, shiftRight(b, word0, 5)), low = arith::UIToFPOp::create(b, type, shiftRight(b, word1, 6));
  Value sum = arith::AddFOp::create(b, arith::MulFOp::create(b, high, scalar::constant(b, type, 0x1p26)), low);
  return arith::MulFOp::create(b, sum, scalar::constant(b, type, 0x1p-53));
}

// The four words of an element: its index, seed, counter and stream.
SmallVector<Value> buildWords(ImplicitLocOpBuilder &b, ValueRange in) {
  auto low = [&](Value x) -> Value { return arith::TruncIOp::create(b, b.getI32Type(), x); };
  auto high = [&](Value x) -> Value { return arith::TruncIOp::create(b, b.getI32Type(), shiftRight(b, x, 32)); };
  Value index = in[0], seed = in[1], counter = in[2], stream = in[3];
  return buildPhilox(b, {low(index), high(index), low(counter), stream}, {low(seed), high(seed)});
}

} // namespace

Value scalar::uniform(ImplicitLocOpBuilder &b, Type type, ValueRange place) {
  SmallVector<Value> words = buildWords(b, place);
  return buildUnit(b, type, words[0], words[1]);
}

Value RandomOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  Type type = computedType(getType().getElementType());
  if (getDistribution() == Distribution::Uniform) {
    return scalar::uniform(b, type, in);
  }
  SmallVector<Value> words = buildWords(b, in);
  Value uniform = buildUnit(b, type, words[0], words[1]);
  Value angle = type.isF32() ? buildUnit(b, type, words[1], {}) : buildUnit(b, type, words[2], words[3]);
  Value logarithm = math::LogOp::create(b, arith::SubFOp::create(b, scalar::constant(b, type, 1), uniform));
  Value radius = math::SqrtOp::create(b, arith::MulFOp::create(b, scalar::constant(b, type, -2), logarithm));
  return arith::MulFOp::create(b, radius, math::CosOp::create(b, arith::MulFOp::create(b, angle, scalar::constant(b, type, 2 * M_PI))));
}

namespace {

// [0, 1) with the 24 upper bits of a word, or with 53 bits of two words.
double uniform24(uint32_t word) {
  return (word >> 8) * 0x1p-24;
}
double uniform53(uint32_t high, uint32_t low) {
  return ((high >> 5) * 0x1p26 + (low >> 6)) * 0x1p-53;
}

} // namespace

Tensor RandomOp::evaluate(ArrayRef<Tensor> operands) {
  Tensor result(getType());
  bool wide = result.getType().getElementType().isF64(), normal = getDistribution() == Distribution::Normal;
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    PhiloxWords w = philoxOfElement(operands[0].getInt(i), operands[1].getInt(0), operands[2].getInt(0), operands[3].getInt(0));
    double u = wide ? uniform53(w[0], w[1]) : uniform24(w[0]);
    if (normal) {
      double v = wide ? uniform53(w[2], w[3]) : uniform24(w[1]);
      u = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v);
    }
    result.setFloat(i, u);
  }
  return result;
}

} // namespace ashlar::nn
