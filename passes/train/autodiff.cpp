// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-autodiff; see passes.td.

#include "passes/train/dead_ops.h"
#include "passes/train/passes.h"
#include "passes/train/widen_gradients.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_AUTODIFFPASS
#include "passes/train/passes.h.inc"

namespace {

bool hasFloats(Value value) {
  return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
}

// Reverse-mode differentiation of one function.
//
// State: `active`, the values that depend on a trainable variable; `gradients`, the gradient of each value as far as it has been
// accumulated; `variables`, how many uses of each are still to be visited. Ops are visited last to first, so when an op is visited
// all its users have been, and the gradients of its results are complete. A variable's gradient is given away as soon as its first use
// has been visited: nothing behind it needs the old value. Linear in the number of ops.
class ReverseMode {
public:
  // `scaled`: the gradient of the loss is the value of @ashlar.loss_scale instead of 1. `spreadsNonfinite`: NaN where the loss is not
  // finite.
  ReverseMode(func::FuncOp function, bool scaled, bool spreadsNonfinite)
      : scaled(scaled), spreadsNonfinite(spreadsNonfinite), function(function), builder(function.getBody().front().getTerminator()),
        symbols(function->getParentOfType<ModuleOp>()) {}

  LogicalResult run() {
    SmallVector<Operation *> forward;
    for (Operation &op : function.getBody().front().without_terminator()) {
      forward.push_back(&op);
      markActive(&op);
    }
    Operation *terminator = function.getBody().front().getTerminator();
    markActive(terminator);
    seedLoss();
    closeUses(terminator);
    for (Operation *op : llvm::reverse(forward)) {
      if (failed(visit(op))) {
        return failure();
      }
    }
    return success();
  }

private:
  struct VariableUses {
    SmallVector<nn::ReadOp> reads;
    int64_t openUses = 0; // uses of these reads that are still to be visited
  };

  // Returns the variable behind an active value that is read from one; "" for all other values.
  StringRef variableOf(Value value) {
    auto read = active.contains(value) ? value.getDefiningOp<nn::ReadOp>() : nn::ReadOp();
    return read ? read.getVariable() : StringRef();
  }

  // A float result is active when the op reads a trainable variable, or one of its operands is active.
  void markActive(Operation *op) {
    bool isActive = llvm::any_of(op->getOperands(), [&](Value operand) { return active.contains(operand); });
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      isActive = symbols.lookup<nn::VariableOp>(read.getVariable()).getTrainable();
    }
    if (isActive && op->getNumOperands() == 0) {
      active.insert(op->getResult(0));
    } else if (isActive) {
      nn::markDependents(op, active, hasFloats);
    }
    if (auto read = dyn_cast<nn::ReadOp>(op); read && isActive) {
      variables[read.getVariable()].reads.push_back(read);
    }
    for (Value operand : op->getOperands()) {
      if (StringRef variable = variableOf(operand); !variable.empty()) {
        ++variables[variable].openUses;
      }
    }
  }

  void seedLoss() {
    Value loss = function.getBody().front().getTerminator()->getOperand(0);
    if (!active.contains(loss)) {
      return;
    }
    auto type = cast<RankedTensorType>(loss.getType());
    Value seed = scaled ? nn::ReadOp::create(builder, loss.getLoc(), type, nn::kLossScaleVariable).getResult()
                        : nn::ConstantOp::create(builder, loss.getLoc(), nn::splat(type, 1)).getResult();
    if (spreadsNonfinite) { // 0 * loss is 0 or NaN
      Value zero = nn::ConstantOp::create(builder, loss.getLoc(), nn::splat(type, 0));
      seed = nn::AddOp::create(builder, loss.getLoc(), seed, nn::MulOp::create(builder, loss.getLoc(), loss, zero));
    }
    gradients[loss] = seed;
  }

  void accumulate(Value &sum, Value gradient, Location loc) {
    sum = sum ? nn::AddOp::create(builder, loc, sum, gradient).getResult() : gradient;
  }

  LogicalResult visit(Operation *op) {
    if (failed(propagate(op))) {
      return failure();
    }
    closeUses(op);
    return success();
  }

  void closeUses(Operation *op) {
    for (Value operand : op->getOperands()) {
      if (StringRef variable = variableOf(operand); !variable.empty() && --variables[variable].openUses == 0) {
        finishVariable(variable);
      }
    }
  }

  // Returns which operands get a gradient where `results` of an op have one: builds gradients that are thrown away.
  static llvm::SmallBitVector findDifferentiated(GradientOpInterface op, const llvm::SmallBitVector &results) {
    Block scratch;
    OpBuilder inside(op.getContext());
    inside.setInsertionPointToEnd(&scratch);
    SmallVector<Value> given(op->getNumResults()), found(op->getNumOperands());
    for (unsigned i : results.set_bits()) {
      given[i] = scratch.addArgument(op->getResult(i).getType(), op->getLoc());
    }
    op.buildGradients(inside, given, found);
    llvm::SmallBitVector differentiated(op->getNumOperands());
    for (auto [i, gradient] : llvm::enumerate(found)) {
      differentiated[i] = static_cast<bool>(gradient);
    }
    return differentiated;
  }

  // Fails where an op, or one in its body, has no gradient though `results` of it do, which depend on a trainable variable through it.
  // Returns which operands may get a gradient.
  FailureOr<llvm::SmallBitVector> checkGradient(Operation *op, const llvm::SmallBitVector &results) {
    llvm::SmallBitVector operands(op->getNumOperands());
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return active.contains(operand); })) {
      return operands;
    }
    if (!isa<GradientOpInterface>(op)) {
      return op->emitOpError("has no gradient, but the loss depends on a trainable variable through it");
    }
    auto repeat = dyn_cast<nn::RepeatOp>(op);
    if (!repeat) {
      return repeatsAround(op) ? findDifferentiated(cast<GradientOpInterface>(op), results) : operands;
    }
    DenseSet<Value> needed;
    auto add = [&](Value value) { return hasFloats(value) && needed.insert(value).second; };
    for (unsigned i : results.set_bits()) {
      add(repeat.getYielded()[i]);
    }
    for (bool changed = true; changed;) {
      if (failed(checkBody(repeat, needed))) {
        return failure();
      }
      changed = false;
      for (auto [argument, next] : llvm::zip(repeat.getCarriedArguments(), repeat.getYielded())) {
        changed |= needed.contains(argument) && add(next);
      }
    }
    for (BlockArgument argument : repeat.getBody().getArguments()) {
      operands[argument.getArgNumber()] = needed.contains(argument);
    }
    if (repeat.getCondition()) { // a result may be the first value
      operands |= results;
    }
    return operands;
  }

  static bool repeatsAround(Operation *op) { return isa<nn::RepeatOp>(op->getParentOp()); }

  // The same for the ops of a body. `needed`: its values with a gradient; gets the operands of their ops.
  LogicalResult checkBody(nn::RepeatOp repeat, DenseSet<Value> &needed) {
    for (Operation &inner : llvm::reverse(repeat.getBody().front().without_terminator())) {
      llvm::SmallBitVector results(inner.getNumResults());
      for (OpResult result : inner.getResults()) {
        results[result.getResultNumber()] = needed.contains(result);
      }
      if (results.none()) {
        continue;
      }
      FailureOr<llvm::SmallBitVector> operands = checkGradient(&inner, results);
      if (failed(operands)) {
        return failure();
      }
      for (unsigned i : operands->set_bits()) {
        if (hasFloats(inner.getOperand(i))) {
          needed.insert(inner.getOperand(i));
        }
      }
    }
    return success();
  }

  // Passes the gradients of the op's results on to its operands.
  LogicalResult propagate(Operation *op) {
    SmallVector<Value> resultGradients;
    for (Value result : op->getResults()) {
      resultGradients.push_back(gradients.lookup(result));
    }
    if (isa<nn::ReadOp>(op) || llvm::none_of(resultGradients, [](Value gradient) { return static_cast<bool>(gradient); })) {
      return success();
    }
    llvm::SmallBitVector given(op->getNumResults());
    for (auto [i, gradient] : llvm::enumerate(resultGradients)) {
      given[i] = static_cast<bool>(gradient);
    }
    if (failed(checkGradient(op, given))) {
      return failure();
    }
    SmallVector<Value> operandGradients(op->getNumOperands());
    cast<GradientOpInterface>(op).buildGradients(builder, resultGradients, operandGradients);
    for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), operandGradients)) {
      if (gradient && active.contains(operand)) {
        accumulate(gradients[operand], gradient, op->getLoc());
      }
    }
    return success();
  }

  // Emits the gradient of a variable: the sum over all reads of it.
  void finishVariable(StringRef name) {
    Value sum;
    Location loc = function.getLoc();
    for (nn::ReadOp read : variables[name].reads) {
      if (Value gradient = gradients.lookup(read)) {
        loc = read.getLoc();
        accumulate(sum, gradient, loc);
      }
    }
    if (sum) {
      nn::GradientOp::create(builder, loc, sum, name);
    }
  }

  bool scaled, spreadsNonfinite;
  func::FuncOp function;
  OpBuilder builder;
  SymbolTable symbols;
  DenseSet<Value> active;
  DenseMap<Value, Value> gradients;
  llvm::StringMap<VariableUses> variables;
};

struct AutodiffPass : public impl::AutodiffPassBase<AutodiffPass> {
  using AutodiffPassBase::AutodiffPassBase;

  void warnAboutUntrained(func::FuncOp function) {
    llvm::StringSet<> trained;
    function.walk([&](nn::GradientOp gradient) { trained.insert(gradient.getVariable()); });
    for (auto variable : getOperation().getOps<nn::VariableOp>()) {
      if (variable.getTrainable() && !trained.contains(variable.getSymName())) {
        variable.emitWarning("trainable variable @") << variable.getSymName() << " is not trained: the loss does not depend on it";
      }
    }
  }

  void declareLossScale(func::FuncOp function, RankedTensorType type) {
    OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
    nn::VariableOp::create(builder, function.getLoc(), nn::kLossScaleVariable, type, nn::splat(type, lossScale),
                           /*trainable=*/false, /*state_of=*/FlatSymbolRefAttr(), /*internal=*/true);
  }

  void runOnOperation() override {
    func::FuncOp function = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (!function) {
      getOperation().emitError("no function @train_step to differentiate; run ashlar-loss first");
      return signalPassFailure();
    }
    auto type = function.getNumResults() > 0 ? dyn_cast<RankedTensorType>(function.getResultTypes()[0]) : RankedTensorType();
    if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType()) || function.getNumResults() > 2) {
      function.emitError("has results ") << function.getResultTypes()
                                         << "; the first has to be the loss, a scalar of floats, and one more at most its weight";
      return signalPassFailure();
    }
    if (lossScale < 0 || !std::isfinite(lossScale)) {
      function.emitError("loss scale ") << lossScale.getValue() << " is not a positive number";
      return signalPassFailure();
    }
    if (lossScale != 0) {
      declareLossScale(function, type);
    }
    if (failed(ReverseMode(function, /*scaled=*/lossScale != 0, spreadsNonfinite).run())) {
      return signalPassFailure();
    }
    widenGradients(function);
    eraseDeadOps(function);
    warnAboutUntrained(function);
  }
};

} // namespace

} // namespace ashlar::train
