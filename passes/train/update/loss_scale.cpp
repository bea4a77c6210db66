// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-loss-scale; see passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/support/tensor_values.h"
#include "passes/train/update/guarded_update.h"
#include "passes/train/update/update_phase.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_LOSSSCALEPASS
#include "passes/train/passes.h.inc"

namespace {

// The scale stays between these: its inverse and its products with finite gradients are numbers.
constexpr double kLeastScale = 0x1p-24, kLargestScale = 0x1p96;

// Builds scalars and element-wise ops at the end of a function.
class ScaleBuilder : public ImplicitLocOpBuilder {
public:
  explicit ScaleBuilder(func::FuncOp function)
      : ImplicitLocOpBuilder(NameLoc::get(StringAttr::get(function.getContext(), "loss_scale")), function.getContext()) {
    setInsertionPoint(function.front().getTerminator());
  }

  Value constant(Value like, double value) { return nn::ConstantOp::create(*this, nn::splat(typeOf(like), value)); }

  Value compare(nn::Predicate predicate, Value lhs, double rhs) {
    return nn::CompareOp::create(*this, typeOf(lhs).clone(getI1Type()), predicate, lhs, constant(lhs, rhs));
  }

  Value select(Value condition, Value onTrue, Value onFalse) {
    return nn::SelectOp::create(*this, onTrue.getType(), condition, onTrue, onFalse);
  }

  Value read(StringRef variable, Type element) { return nn::ReadOp::create(*this, RankedTensorType::get({}, element), variable); }
};

struct LossScalePass : public impl::LossScalePassBase<LossScalePass> {
  using LossScalePassBase::LossScalePassBase;

  // Has the update take each gradient divided by the scale.
  void divideGradients(ScaleBuilder &b, const UpdatePhase &update, Value scale) {
    Value inverse = nn::DivOp::create(b, b.constant(scale, 1), scale);
    Location own = b.getLoc();
    for (nn::GradientOp gradient : update.gradients()) {
      b.setLoc(gradient.getLoc());
      Value factor = nn::BroadcastOp::create(b, gradient.getType(), inverse, ArrayRef<int64_t>());
      update.replace(gradient, nn::MulOp::create(b, gradient, factor));
    }
    b.setLoc(own);
  }

  // Writes the scale and the count of good steps for the next step.
  void updateScale(ScaleBuilder &b, Value isGood, Value scale) {
    Value steps = b.read(nn::kGoodStepsVariable, b.getI64Type());
    Value next = nn::AddOp::create(b, steps, b.constant(steps, 1));
    Value isDue = b.compare(nn::Predicate::Ge, next, static_cast<double>(growthSteps));
    Value grown = nn::MinOp::create(b, nn::MulOp::create(b, scale, b.constant(scale, factor)), b.constant(scale, kLargestScale));
    Value shrunk = nn::MaxOp::create(b, nn::MulOp::create(b, scale, b.constant(scale, 1 / factor)), b.constant(scale, kLeastScale));
    Value none = b.constant(steps, 0);
    nn::WriteOp::create(b, nn::kLossScaleVariable, b.select(isGood, b.select(isDue, grown, scale), shrunk));
    nn::WriteOp::create(b, nn::kGoodStepsVariable, b.select(isGood, b.select(isDue, none, next), none));
  }

  void declareGoodSteps(nn::VariableOp scale) {
    OpBuilder builder(scale->getContext());
    builder.setInsertionPointAfter(scale);
    auto type = RankedTensorType::get({}, builder.getI64Type());
    nn::VariableOp::create(builder, scale.getLoc(), nn::kGoodStepsVariable, type, nn::splat(type, 0), /*trainable=*/false,
                           /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
  }

  void runOnOperation() override {
    func::FuncOp function = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    auto variable = getOperation().lookupSymbol<nn::VariableOp>(nn::kLossScaleVariable);
    if (!function || !variable) {
      getOperation().emitError("no @train_step with gradients of a scaled loss; run ashlar-autodiff with a loss-scale first");
      return signalPassFailure();
    }
    if (growthSteps < 1 || !(factor > 1) || !std::isfinite(factor)) {
      function.emitError("loss scale takes growth steps of at least 1 and a factor above 1; got ")
          << growthSteps.getValue() << " and " << factor.getValue();
      return signalPassFailure();
    }
    UpdatePhase update(function);
    if (update.gradients().empty()) {
      function.emitError("has no gradients: the loss depends on no trainable variable");
      return signalPassFailure();
    }
    declareGoodSteps(variable);
    ScaleBuilder builder(function);
    Value isGood = areFinite(builder, update.gradients());
    Value scale = builder.read(nn::kLossScaleVariable, variable.getTensorType().getElementType());
    divideGradients(builder, update, scale);
    llvm::for_each(update.ops(), [&](Operation *op) { update.moveToEnd(op); }); // behind isGood
    guardUpdate(function, update, isGood);
    updateScale(builder, isGood, scale);
  }
};

} // namespace

} // namespace ashlar::train
