// SPDX-License-Identifier: Apache-2.0
//
// See update_rules.h.

#include "passes/train/update/update_rules.h"

#include "dialects/support/tensor_values.h"
#include "passes/train/update/squares.h"

using namespace mlir;

namespace ashlar::train {

namespace {

constexpr llvm::StringLiteral kMomentum = "momentum", kMoment1 = "moment1", kMoment2 = "moment2";

class UpdateBuilder {
public:
  UpdateBuilder(ImplicitLocOpBuilder &builder, const UpdateRule &rule, const StepRates &rates, const Parameter &parameter)
      : b(builder), numbers(builder), rule(rule), rates(rates), variable(parameter.variable), weight(parameter.weight),
        gradient(parameter.gradient), decay(parameter.decay) {}

  Value build() {
    switch (rule.kind) {
    case OptimizerKind::Sgd:
      return subtract(numbers.scaled(decayed(gradient), rates.learningRate));
    case OptimizerKind::Momentum:
      return subtract(numbers.scaled(momentumDirection(), rates.learningRate));
    case OptimizerKind::Adam:
      gradient = decayed(gradient);
      return subtract(numbers.scaled(momentDirection(), numbers.multiply(rates.learningRate, rates.meanFactor)));
    case OptimizerKind::AdamW: {
      Value step = numbers.scaled(momentDirection(), numbers.multiply(rates.learningRate, rates.meanFactor));
      return subtract(decay == 0 ? step : add(step, numbers.scaled(weight, numbers.multiply(rates.learningRate, decay))));
    }
    case OptimizerKind::Lamb:
      return buildLamb();
    }
    llvm_unreachable("unknown optimizer");
  }

private:
  Value add(Value x, Value y) { return nn::AddOp::create(b, x, y); }
  Value subtract(Value step) { return nn::SubOp::create(b, weight, step); }

  // Returns x + decay * weight.
  Value decayed(Value x) { return decay == 0 ? x : add(x, numbers.scaled(weight, decay)); }

  std::string stateName(StringRef name) { return (variable.getSymName() + "." + name).str(); }
  Value read(StringRef name) { return nn::ReadOp::create(b, weight.getType(), stateName(name)); }
  void write(StringRef name, Value value) { nn::WriteOp::create(b, stateName(name), value); }

  Value momentumDirection() {
    Value direction = decayed(gradient);
    Value next = add(numbers.scaled(read(kMomentum), rule.momentum), direction);
    write(kMomentum, next);
    return rule.nesterov ? add(direction, numbers.scaled(next, rule.momentum)) : next;
  }

  // Updates a moment of the gradient: beta * moment + (1 - beta) * x.
  Value nextMoment(StringRef name, double beta, Value x) {
    Value next = add(numbers.scaled(read(name), beta), numbers.scaled(x, 1 - beta));
    write(name, next);
    return next;
  }

  // Returns moment1 / (sqrt(moment2) * rootFactor + epsilon).
  Value momentDirection() {
    Value mean = nextMoment(kMoment1, rule.beta1, gradient);
    Value square = nextMoment(kMoment2, rule.beta2, nn::MulOp::create(b, gradient, gradient));
    Value root = numbers.scaled(nn::SqrtOp::create(b, square), rates.rootFactor);
    return nn::DivOp::create(b, mean, add(root, numbers.spread(rule.epsilon, typeOf(root))));
  }

  // Returns the Euclidean norm of all elements, a scalar.
  Value norm(Value x) { return nn::SqrtOp::create(b, sumOfSquares(b, x)); }

  // Returns |weight| / |direction|; 1 where one of them is 0.
  Value trustRatio(Value direction) {
    Value ofWeight = norm(weight), ofDirection = norm(direction);
    RankedTensorType type = typeOf(ofWeight);
    Value zero = numbers.spread(0.0, type), one = numbers.spread(1.0, type);
    auto orOne = [&](Value length, Value ratio) -> Value {
      Value isPositive = nn::CompareOp::create(b, type.clone(b.getI1Type()), nn::Predicate::Gt, length, zero);
      return nn::SelectOp::create(b, type, isPositive, ratio, one);
    };
    return orOne(ofWeight, orOne(ofDirection, nn::DivOp::create(b, ofWeight, ofDirection)));
  }

  Value buildLamb() {
    Value direction = decayed(numbers.scaled(momentDirection(), rates.meanFactor));
    Value rate = numbers.scaled(trustRatio(direction), rates.learningRate);
    Value everywhere = nn::BroadcastOp::create(b, typeOf(direction), rate, ArrayRef<int64_t>());
    return subtract(nn::MulOp::create(b, direction, everywhere));
  }

  ImplicitLocOpBuilder &b;
  NumberBuilder numbers;
  const UpdateRule &rule;
  const StepRates &rates;
  nn::VariableOp variable;
  Value weight, gradient;
  double decay;
};

} // namespace

SmallVector<StringRef> UpdateRule::stateNames() const {
  if (kind == OptimizerKind::Sgd) {
    return {};
  }
  return hasMoments() ? SmallVector<StringRef>{kMoment1, kMoment2} : SmallVector<StringRef>{kMomentum};
}

StepRates makeStepRates(NumberBuilder &numbers, const UpdateRule &rule, Number learningRate, Number t) {
  StepRates rates;
  rates.learningRate = learningRate;
  if (rule.hasMoments()) {
    rates.meanFactor = numbers.divide(1.0, numbers.subtract(1.0, numbers.power(rule.beta1, t)));
    rates.rootFactor = numbers.divide(1.0, numbers.root(numbers.subtract(1.0, numbers.power(rule.beta2, t))));
  }
  return rates;
}

Value buildUpdate(ImplicitLocOpBuilder &builder, const UpdateRule &rule, const StepRates &rates, const Parameter &parameter) {
  return UpdateBuilder(builder, rule, rates, parameter).build();
}

} // namespace ashlar::train
