// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-optimizer; see passes.td. What all parameters share (learning rate, corrections) is computed at the start of the step, and each
// parameter is updated right behind its gradient.

#include "passes/train/passes.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/tensor_values.h"
#include "passes/train/update/observe.h"
#include "passes/train/update/schedule.h"
#include "passes/train/update/step_numbers.h"
#include "passes/train/update/update_rules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_OPTIMIZERPASS
#include "passes/train/passes.h.inc"

namespace {

bool isShare(double x) {
  return x >= 0 && x < 1;
}

struct OptimizerPass : public impl::OptimizerPassBase<OptimizerPass> {
  using OptimizerPassBase::OptimizerPassBase;

  UpdateRule rule() { return {kind, momentum, nesterov, beta1, beta2, epsilon}; }

  Schedule schedule() {
    return {scheduleKind, learningRate, warmupSteps, stepSize, gamma, *boundaries, *values, decaySteps, endLearningRate, power};
  }

  LogicalResult checkOptions() {
    bool hasMomentum = kind == OptimizerKind::Momentum;
    if (!(learningRate > 0) || !(weightDecay >= 0) || (hasMomentum && !isShare(momentum))) {
      return getOperation().emitError(
                 "optimizer takes a learning rate above 0, a weight decay of at least 0 and a momentum in [0, 1); got ")
             << learningRate.getValue() << ", " << weightDecay.getValue() << " and " << momentum.getValue();
    }
    if (!hasMomentum && nesterov) {
      return getOperation().emitError("nesterov looks ahead by momentum, which only kind=momentum has; leave nesterov out or use that");
    }
    if (rule().hasMoments() && (!isShare(beta1) || !isShare(beta2) || !(epsilon > 0))) {
      return getOperation().emitError("optimizer takes beta1 and beta2 in [0, 1) and an epsilon above 0; got ")
             << beta1.getValue() << ", " << beta2.getValue() << " and " << epsilon.getValue();
    }
    std::string fault = findFault(schedule());
    return fault.empty() ? success() : getOperation().emitError(fault);
  }

  // Declares a counter of the compiler's own; returns what one step later is in it. Assumes that nothing writes it yet.
  Value advance(ImplicitLocOpBuilder &builder, StringRef counter) {
    auto type = RankedTensorType::get({}, builder.getI64Type());
    if (!getOperation().lookupSymbol(counter)) {
      OpBuilder atStart = OpBuilder::atBlockBegin(getOperation().getBody());
      nn::VariableOp::create(atStart, builder.getLoc(), counter, type, nn::splat(type, 0), /*trainable=*/false,
                             /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
    }
    Value count = nn::ReadOp::create(builder, type, counter);
    return nn::AddOp::create(builder, count, nn::ConstantOp::create(builder, nn::splat(type, 1)));
  }

  // Computes what all updates of a step share, at its start, and advances the counters at its end.
  StepRates buildRates(func::FuncOp function) {
    auto loc = NameLoc::get(StringAttr::get(&getContext(), "optimizer"));
    auto atStart = ImplicitLocOpBuilder::atBlockBegin(loc, &function.front());
    ImplicitLocOpBuilder atEnd(loc, function.front().getTerminator());
    NumberBuilder numbers(atStart);
    bool needsStep = !schedule().isConstant();
    Value nextStep = advance(needsStep ? atStart : atEnd, nn::kStepVariable);
    nn::WriteOp::create(atEnd, nn::kStepVariable, nextStep);
    Number rate = needsStep ? learningRateAt(numbers, schedule(), numbers.subtract(numbers.ofInteger(nextStep), 1.0)) : learningRate;
    if (const Value *changing = std::get_if<Value>(&rate)) {
      observe(function, nn::kLearningRateVariable, *changing);
    }
    Number update = 0.0;
    if (rule().hasMoments()) {
      Value next = advance(atStart, nn::kUpdatesVariable);
      nn::WriteOp::create(atEnd, nn::kUpdatesVariable, next);
      update = numbers.ofInteger(next);
    }
    return makeStepRates(numbers, rule(), rate, update);
  }

  LogicalResult declareStates(nn::VariableOp parameter, RankedTensorType type, SymbolTable &symbols) {
    OpBuilder builder(getOperation().getContext());
    builder.setInsertionPointAfter(parameter);
    for (StringRef state : rule().stateNames()) {
      std::string name = (parameter.getSymName() + "." + state).str();
      if (symbols.lookup(name)) {
        return parameter.emitOpError("needs a state named @") << name << ", which the model already has";
      }
      auto variable = nn::VariableOp::create(builder, parameter.getLoc(), name, type, nn::splat(type, 0), /*trainable=*/false,
                                             FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
      symbols.insert(variable);
      builder.setInsertionPointAfter(variable);
    }
    return success();
  }

  // Returns "3: "a", "b", "c"", the parameters that are trained.
  std::string describeTrainable() {
    constexpr size_t kShown = 8;
    SmallVector<std::string> names;
    for (auto variable : getOperation().getOps<nn::VariableOp>()) {
      if (variable.getTrainable()) {
        names.push_back("\"" + variable.getSymName().str() + "\"");
      }
    }
    return std::to_string(names.size()) + (names.empty() ? "" : ": ") + llvm::join(ArrayRef(names).take_front(kShown), ", ") +
           (names.size() > kShown ? ", ..." : "");
  }

  // Returns the weight decay of a parameter: its own, or that of all.
  double decayOf(nn::VariableOp parameter) {
    auto own = parameter->getAttrOfType<FloatAttr>(nn::kWeightDecayAttr);
    return own ? own.getValueAsDouble() : weightDecay;
  }

  // Updates the variable right behind its gradient, in f32 where it is narrower.
  LogicalResult applyGradient(nn::GradientOp op, const llvm::StringMap<Value> &reads, const StepRates &rates, SymbolTable &symbols) {
    ImplicitLocOpBuilder builder(op.getLoc(), &getContext());
    builder.setInsertionPointAfter(op);
    auto variable = symbols.lookup<nn::VariableOp>(op.getVariable());
    Type own = variable.getTensorType().getElementType();
    Type wide = own.getIntOrFloatBitWidth() < 32 ? Type(builder.getF32Type()) : own;
    if (failed(declareStates(variable, variable.getTensorType().clone(wide), symbols))) {
      return failure();
    }
    Parameter parameter{variable, converted(builder, reads.lookup(op.getVariable()), wide), converted(builder, op, wide),
                        decayOf(variable)};
    Value next = buildUpdate(builder, rule(), rates, parameter);
    nn::WriteOp::create(builder, op.getVariableAttr(), converted(builder, next, own));
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
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
      function.emitError("nothing is trained: the loss depends on none of the parameters that are trained, ")
          << describeTrainable() << "; compute the loss of another tensor, or leave its parameters out of the job's frozen";
      return signalPassFailure();
    }
    if (failed(checkOptions())) {
      return signalPassFailure();
    }
    StepRates rates = buildRates(function);
    SymbolTable symbols(getOperation()); // a look-up in the module itself is linear
    for (nn::GradientOp gradient : gradients) {
      if (failed(applyGradient(gradient, reads, rates, symbols))) {
        return signalPassFailure();
      }
    }
  }
};

} // namespace

} // namespace ashlar::train
