// SPDX-License-Identifier: Apache-2.0
//
// See step_numbers.h.

#include "passes/train/update/step_numbers.h"

#include "dialects/support/tensor_values.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ashlar::train {

namespace {

bool areKnown(const Number &x, const Number &y) {
  return std::holds_alternative<double>(x) && std::holds_alternative<double>(y);
}

RankedTensorType scalarType(OpBuilder &builder) {
  return RankedTensorType::get({}, builder.getF64Type());
}

} // namespace

Value converted(ImplicitLocOpBuilder &builder, Value value, Type element) {
  RankedTensorType type = typeOf(value).clone(element);
  return type == value.getType() ? value : nn::CastOp::create(builder, type, value).getResult();
}

Value NumberBuilder::valueOf(Number x) {
  if (auto *value = std::get_if<Value>(&x)) {
    return *value;
  }
  return nn::ConstantOp::create(builder, nn::splat(scalarType(builder), std::get<double>(x)));
}

Number NumberBuilder::add(Number x, Number y) {
  return areKnown(x, y) ? Number(std::get<double>(x) + std::get<double>(y))
                        : Number(nn::AddOp::create(builder, valueOf(x), valueOf(y)).getResult());
}

Number NumberBuilder::subtract(Number x, Number y) {
  return areKnown(x, y) ? Number(std::get<double>(x) - std::get<double>(y))
                        : Number(nn::SubOp::create(builder, valueOf(x), valueOf(y)).getResult());
}

Number NumberBuilder::multiply(Number x, Number y) {
  return areKnown(x, y) ? Number(std::get<double>(x) * std::get<double>(y))
                        : Number(nn::MulOp::create(builder, valueOf(x), valueOf(y)).getResult());
}

Number NumberBuilder::divide(Number x, Number y) {
  return areKnown(x, y) ? Number(std::get<double>(x) / std::get<double>(y))
                        : Number(nn::DivOp::create(builder, valueOf(x), valueOf(y)).getResult());
}

Number NumberBuilder::power(Number base, Number exponent) {
  return areKnown(base, exponent) ? Number(std::pow(std::get<double>(base), std::get<double>(exponent)))
                                  : Number(nn::PowOp::create(builder, valueOf(base), valueOf(exponent)).getResult());
}

Number NumberBuilder::largest(Number x, Number y) {
  return areKnown(x, y) ? Number(std::max(std::get<double>(x), std::get<double>(y)))
                        : Number(nn::MaxOp::create(builder, valueOf(x), valueOf(y)).getResult());
}

Number NumberBuilder::smallest(Number x, Number y) {
  return areKnown(x, y) ? Number(std::min(std::get<double>(x), std::get<double>(y)))
                        : Number(nn::MinOp::create(builder, valueOf(x), valueOf(y)).getResult());
}

Number NumberBuilder::cosine(Number x) {
  auto *known = std::get_if<double>(&x);
  return known ? Number(std::cos(*known)) : Number(nn::CosOp::create(builder, valueOf(x)).getResult());
}

Number NumberBuilder::floor(Number x) {
  auto *known = std::get_if<double>(&x);
  return known ? Number(std::floor(*known)) : Number(nn::FloorOp::create(builder, valueOf(x)).getResult());
}

Number NumberBuilder::root(Number x) {
  auto *known = std::get_if<double>(&x);
  return known ? Number(std::sqrt(*known)) : Number(nn::SqrtOp::create(builder, valueOf(x)).getResult());
}

Number NumberBuilder::chooseBelow(Number x, double bound, Number below, Number otherwise) {
  if (auto *known = std::get_if<double>(&x)) {
    return *known < bound ? below : otherwise;
  }
  Type isBelow = scalarType(builder).clone(builder.getI1Type());
  Value condition = nn::CompareOp::create(builder, isBelow, nn::Predicate::Lt, valueOf(x), valueOf(bound));
  return Number(nn::SelectOp::create(builder, scalarType(builder), condition, valueOf(below), valueOf(otherwise)).getResult());
}

Number NumberBuilder::ofInteger(Value integer) {
  return Number(nn::CastOp::create(builder, scalarType(builder), integer).getResult());
}

Value NumberBuilder::spread(Number x, RankedTensorType type) {
  if (auto *known = std::get_if<double>(&x)) {
    return nn::ConstantOp::create(builder, nn::splat(type, *known));
  }
  Value rounded = valueOf(x);
  if (auto scalar = RankedTensorType::get({}, type.getElementType()); scalar != rounded.getType()) {
    rounded = nn::CastOp::create(builder, scalar, rounded);
  }
  return type.getRank() == 0 ? rounded : nn::BroadcastOp::create(builder, type, rounded, ArrayRef<int64_t>());
}

Value NumberBuilder::scaled(Value x, Number factor) {
  auto *known = std::get_if<double>(&factor);
  return known && *known == 1 ? x : nn::MulOp::create(builder, x, spread(factor, typeOf(x)));
}

} // namespace ashlar::train
