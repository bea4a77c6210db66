// SPDX-License-Identifier: Apache-2.0
//
// See divide_loss.h. What has to change is what SampleDependence found.

#include "passes/train/loss/divide_loss.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {
namespace {

// Builds what a share of a loss needs besides the loss; all ops have the module path "loss".
class ShareBuilder : public ImplicitLocOpBuilder {
public:
  explicit ShareBuilder(func::FuncOp function)
      : ImplicitLocOpBuilder(NameLoc::get(StringAttr::get(function.getContext(), "loss")), function.getContext()), function(function) {
    setInsertionPoint(function.front().getTerminator());
  }

  Value constant(RankedTensorType type, double value) { return nn::ConstantOp::create(*this, nn::splat(type, value)); }

  Value scaled(Value x, double factor) { return nn::MulOp::create(*this, x, constant(typeOf(x), factor)); }

  // Returns a tensor of one element as a scalar.
  Value scalar(Value x) {
    return typeOf(x).getRank() == 0 ? x : nn::ReshapeOp::create(*this, typeOf(x).clone(ArrayRef<int64_t>()), x).getResult();
  }

  Value cast(Value x, Type element) {
    RankedTensorType type = typeOf(x).clone(element);
    return x.getType() == type ? x : nn::CastOp::create(*this, type, x).getResult();
  }

  Value repeated(Value scalar, RankedTensorType type) { return nn::BroadcastOp::create(*this, type, scalar, ArrayRef<int64_t>()); }

  // Takes the values that constants have for all samples, or for one.
  void resize(ArrayRef<SampleDependence::Sized> sized) {
    OpBuilder::InsertionGuard guard(*this);
    for (SampleDependence::Sized each : sized) {
      setInsertionPoint(each.constant);
      Value value = nn::ConstantOp::create(*this, each.constant.getLoc(), nn::splat(typeOf(each.constant), each.value));
      each.constant.getResult().replaceAllUsesWith(value);
    }
  }

  // Leaves divisions to the end.
  void dropQuotients(ArrayRef<Operation *> quotients) {
    for (Operation *quotient : quotients) {
      quotient->getResult(0).replaceAllUsesWith(quotient->getOperand(0));
    }
  }

  // Adds what is the same for every batch with the weight of the sum that it is added to: factor, without one.
  void weighAddends(ArrayRef<SampleDependence::Addend> addends, Value samples, double factor) {
    OpBuilder::InsertionGuard guard(*this);
    for (const SampleDependence::Addend &addend : addends) {
      setInsertionPoint(addend.op);
      Value x = addend.op->getOperand(addend.operand);
      Divisor divisor = addend.divisor;
      divisor.sum = divisor.sum ? inBody(divisor.sum) : Value();
      Value weight = weightOf(divisor, samples ? inBody(samples) : Value(), typeOf(x).getElementType());
      addend.op->setOperand(addend.operand,
                            weight ? nn::MulOp::create(*this, x, repeated(weight, typeOf(x))).getResult() : scaled(x, factor));
    }
  }

  // Returns what is added up for a divisor, a scalar; null where there is none.
  Value weightOf(const Divisor &divisor, Value samples, Type element) {
    return divisor.kind == Divisor::Kind::Sum       ? cast(scalar(divisor.sum), element)
           : divisor.kind == Divisor::Kind::Samples ? cast(samples, element)
                                                    : Value();
  }

  // Has the parts of samples that do not count be 0 where they are added up.
  void mask(ArrayRef<SampleDependence::Summed> summed, Value samples, int64_t batch) {
    OpBuilder::InsertionGuard guard(*this);
    for (const SampleDependence::Summed &each : summed) {
      setInsertionPoint(each.operand->getOwner());
      Value x = each.operand->get();
      RankedTensorType index = typeOf(x).clone(getI64Type());
      SmallVector<int64_t> strides(index.getRank(), 0);
      strides[each.dim] = 1;
      Value sample = nn::IndexOp::create(*this, index, strides);
      const int64_t outer = std::max<int64_t>(each.outer, 1);
      if (int64_t inner = index.getDimSize(each.dim) / (outer * batch); inner > 1) {
        sample = nn::DivOp::create(*this, sample, constant(index, static_cast<double>(inner)));
      }
      if (outer > 1) { // the rest of a division by the batch
        Value count = constant(index, static_cast<double>(batch));
        sample = nn::SubOp::create(*this, sample, nn::MulOp::create(*this, nn::DivOp::create(*this, sample, count), count));
      }
      Value counts = nn::CompareOp::create(*this, index.clone(getI1Type()), nn::Predicate::Lt, sample, repeated(inBody(samples), index));
      each.operand->set(nn::SelectOp::create(*this, x.getType(), counts, x, constant(typeOf(x), 0)));
    }
  }

private:
  // Returns a value of the program where the builder is, maybe in the body of a repeat.
  Value inBody(Value value) { return nn::captureIn(value, getInsertionBlock()); }

  func::FuncOp function;
};

func::FuncOp functionOf(Value value) {
  return cast<func::FuncOp>(value.getParentBlock()->getParentOp());
}

// Returns why a value is no sum over samples; nothing where it is one.
std::optional<std::string> whyNoSum(const Dependence &dependence) {
  switch (dependence.kind) {
  case Dependence::Kind::Sum:
    return std::nullopt;
  case Dependence::Kind::Coupled:
    return dependence.reason;
  default:
    return "it is no sum over samples";
  }
}

} // namespace

FailureOr<LossShare> divideStep(SampleDependence &dependence, Value loss, int64_t microBatches, std::string &reason) {
  const Dependence &whole = dependence.of(loss);
  const double part = 1.0 / static_cast<double>(microBatches);
  ShareBuilder b(functionOf(loss));
  if (whole.kind == Dependence::Kind::None && !whole.divisor) { // the same for every micro-batch
    return LossShare{b.scaled(loss, part), {}, 0};
  }
  if (std::optional<std::string> why = whyNoSum(whole)) {
    reason = *why;
    return failure();
  }
  // The constant in the place of the loss keeps what the quotients leave of it.
  LossShare made{loss, {}, whole.divisor.least};
  Operation *end = functionOf(loss).front().getTerminator();
  b.resize(dependence.sized);
  b.weighAddends(dependence.addends, /*samples=*/{}, part);
  made.weight = b.weightOf(whole.divisor, /*samples=*/{}, typeOf(loss).getElementType());
  end->setOperands(loss);
  b.dropQuotients(dependence.quotients);
  made.share = end->getOperand(0);
  return made;
}

FailureOr<LossShare> divideEvaluation(SampleDependence &dependence, Value loss, ValueRange counts, Value samples, std::string &reason) {
  for (Value value : llvm::concat<Value>(SmallVector<Value>{loss}, SmallVector<Value>(counts))) {
    if (std::optional<std::string> why = whyNoSum(dependence.of(value))) {
      reason = *why;
      return failure();
    }
  }
  const Divisor divisor = dependence.of(loss).divisor;
  func::FuncOp function = functionOf(loss);
  ShareBuilder b(function);
  LossShare made{loss, {}, divisor.least};
  b.resize(dependence.sized);
  b.weighAddends(dependence.addends, samples, /*factor=*/1);
  b.mask(dependence.summed, samples, dependence.samplesOfBatch());
  made.weight = b.weightOf(divisor, samples, typeOf(loss).getElementType());
  Operation *end = function.front().getTerminator();
  end->setOperands(loss);
  b.dropQuotients(dependence.quotients);
  made.share = end->getOperand(0);
  return made;
}

} // namespace ashlar::train
