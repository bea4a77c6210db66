// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-optimizer; see passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_OPTIMIZERPASS
#include "passes/train/passes.h.inc"

namespace {

// Returns factor * x; x itself when the factor is 1.
Value scaled(ImplicitLocOpBuilder &builder, Value x, double factor) {
  if (factor == 1) {
    return x;
  }
  Value constant = nn::ConstantOp::create(builder, nn::splat(cast<RankedTensorType>(x.getType()), factor));
  return nn::MulOp::create(builder, x, constant);
}

struct OptimizerPass : public impl::OptimizerPassBase<OptimizerPass> {
  using OptimizerPassBase::OptimizerPassBase;

  LogicalResult checkOptions() {
    bool hasMomentum = kind == OptimizerKind::Momentum;
    if (!(learningRate > 0) || weightDecay < 0 || (hasMomentum && (momentum < 0 || momentum >= 1))) {
      return getOperation().emitError(
                 "optimizer takes a learning rate above 0, a weight decay of at least 0 and a momentum in [0, 1); got ")
             << learningRate.getValue() << ", " << weightDecay.getValue() << " and " << momentum.getValue();
    }
    if (!hasMomentum && nesterov) {
      return getOperation().emitError("optimizer sgd has no momentum to look ahead by; leave nesterov out or use kind=momentum");
    }
    return success();
  }

  // Returns what is subtracted from the parameter, before the learning rate; updates the optimizer's state.
  FailureOr<Value> buildDirection(ImplicitLocOpBuilder &builder, nn::VariableOp parameter, Value gradient) {
    if (kind == OptimizerKind::Sgd) {
      return gradient;
    }
    std::string name = (parameter.getSymName() + ".momentum").str();
    if (getOperation().lookupSymbol(name)) {
      return parameter.emitOpError("needs a state named @") << name << ", which the model already has";
    }
    OpBuilder atVariable(getOperation().getContext());
    atVariable.setInsertionPointAfter(parameter);
    RankedTensorType type = parameter.getTensorType();
    nn::VariableOp::create(atVariable, parameter.getLoc(), name, type, nn::splat(type, 0), /*trainable=*/false,
                           FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
    Value velocity = nn::ReadOp::create(builder, type, name);
    Value next = nn::AddOp::create(builder, scaled(builder, velocity, momentum), gradient);
    nn::WriteOp::create(builder, name, next);
    return nesterov ? nn::AddOp::create(builder, gradient, scaled(builder, next, momentum)).getResult() : next;
  }

  // Returns the weight decay of a parameter: its own, or that of all.
  double decayOf(nn::VariableOp parameter) {
    auto own = parameter->getAttrOfType<FloatAttr>(nn::kWeightDecayAttr);
    return own ? own.getValueAsDouble() : weightDecay;
  }

  // Updates the variable right behind its gradient.
  LogicalResult applyGradient(nn::GradientOp op, const llvm::StringMap<Value> &reads) {
    ImplicitLocOpBuilder builder(op.getLoc(), &getContext());
    builder.setInsertionPointAfter(op);
    auto parameter = getOperation().lookupSymbol<nn::VariableOp>(op.getVariable());
    Value current = reads.lookup(op.getVariable());
    Value gradient = op.getResult();
    if (double decay = decayOf(parameter); decay != 0) {
      gradient = nn::AddOp::create(builder, gradient, scaled(builder, current, decay));
    }
    FailureOr<Value> direction = buildDirection(builder, parameter, gradient);
    if (failed(direction)) {
      return failure();
    }
    nn::WriteOp::create(builder, op.getVariableAttr(), nn::SubOp::create(builder, current, scaled(builder, *direction, learningRate)));
    return success();
  }

  // Adds one to @ashlar.step at the end of the training step.
  void advanceStep(func::FuncOp function) {
    auto type = RankedTensorType::get({}, IntegerType::get(&getContext(), 64));
    if (!getOperation().lookupSymbol(nn::kStepVariable)) {
      OpBuilder atStart = OpBuilder::atBlockBegin(getOperation().getBody());
      nn::VariableOp::create(atStart, function.getLoc(), nn::kStepVariable, type, nn::splat(type, 0), /*trainable=*/false,
                             /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
    }
    auto loc = NameLoc::get(StringAttr::get(&getContext(), "optimizer"));
    ImplicitLocOpBuilder builder(loc, function.getBody().front().getTerminator());
    Value step = nn::ReadOp::create(builder, type, nn::kStepVariable);
    Value one = nn::ConstantOp::create(builder, nn::splat(type, 1));
    nn::WriteOp::create(builder, nn::kStepVariable, nn::AddOp::create(builder, step, one));
  }

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>(nn::kTrainStep);
    if (!function) {
      getOperation().emitError("no function @train_step to optimize; run ashlar-loss and ashlar-autodiff first");
      return signalPassFailure();
    }
    llvm::StringMap<Value> reads;
    SmallVector<nn::GradientOp> gradients;
    function.walk([&](Operation *op) {
      if (auto read = dyn_cast<nn::ReadOp>(op)) {
        reads.try_emplace(read.getVariable(), read);
      } else if (auto gradient = dyn_cast<nn::GradientOp>(op)) {
        gradients.push_back(gradient);
      }
    });
    if (gradients.empty()) {
      function.emitError("has no gradients: the loss depends on no trainable variable, or ashlar-autodiff has not run");
      return signalPassFailure();
    }
    if (failed(checkOptions())) {
      return signalPassFailure();
    }
    for (nn::GradientOp gradient : gradients) {
      if (failed(applyGradient(gradient, reads))) {
        return signalPassFailure();
      }
    }
    advanceStep(function);
  }
};

} // namespace

} // namespace ashlar::train
