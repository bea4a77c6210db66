// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-verify-train: what may not be there any more after this room; labels as in passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_VERIFYTRAINPASS
#include "passes/train/passes.h.inc"

namespace {

LogicalResult verifyFunctions(ModuleOp module) {
  using Role = nn::ProgramRole;
  if (failed(nn::verifyPrograms(module))) { // C8
    return failure();
  }
  auto has = [&](Role role) { return static_cast<bool>(nn::findProgram(module, role)); };
  if (!has(Role::Init)) { // C1
    return module.emitError("no program of role init; run ashlar-init");
  }
  bool trains = has(Role::TrainStep) && has(Role::EvalStep) && !has(Role::Run);
  const bool isForward = !has(Role::TrainStep) && !has(Role::Update) && !has(Role::EvalStep);
  bool infers = has(Role::Run) && isForward && !has(Role::Decode);
  bool generates = has(Role::Prefill) && has(Role::Decode) && isForward && !has(Role::Run);
  if (!trains && !infers && !generates) { // C2
    return module.emitError("programs are neither train_step and eval_step, nor prefill and decode, nor run alone");
  }
  return success();
}

// C3
LogicalResult verifyGradient(nn::GradientOp gradient, func::FuncOp function, llvm::StringMap<Operation *> &gradients) {
  if (!nn::hasRole(function, nn::ProgramRole::TrainStep)) {
    return gradient.emitOpError("in @") << function.getName() << "; gradients belong in the program train_step";
  }
  auto [previous, isFirst] = gradients.try_emplace(gradient.getVariable(), gradient);
  if (!isFirst) {
    InFlightDiagnostic diagnostic = gradient.emitOpError("is the second of @") << gradient.getVariable();
    diagnostic.attachNote(previous->second->getLoc()) << "the first";
    return diagnostic;
  }
  if (gradient.use_empty()) {
    return gradient.emitOpError("of @") << gradient.getVariable() << " is not used; run ashlar-optimizer";
  }
  return success();
}

LogicalResult verifyOrder(func::FuncOp function) {
  llvm::StringMap<Operation *> writes, gradients;
  WalkResult result = function.walk([&](Operation *op) -> WalkResult {
    if (auto gradient = dyn_cast<nn::GradientOp>(op)) {
      return verifyGradient(gradient, function, gradients);
    }
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      if (nn::hasRole(function, nn::ProgramRole::EvalStep) || nn::hasRole(function, nn::ProgramRole::Run)) { // C7
        return op->emitOpError("in @") << function.getName() << ", which may not write";
      }
      auto [previous, isFirst] = writes.try_emplace(write.getVariable(), op);
      if (!isFirst) { // C6
        InFlightDiagnostic diagnostic = op->emitOpError("is the second to @") << write.getVariable();
        diagnostic.attachNote(previous->second->getLoc()) << "the first";
        return diagnostic;
      }
    }
    if (auto read = dyn_cast<nn::ReadOp>(op); read && writes.count(read.getVariable())) { // C6
      InFlightDiagnostic diagnostic = op->emitOpError("of @") << read.getVariable() << " comes after its write";
      diagnostic.attachNote(writes.lookup(read.getVariable())->getLoc()) << "written here";
      return diagnostic;
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult verifyVariables(ModuleOp module) {
  llvm::StringSet<> written;
  nn::findProgram(module, nn::ProgramRole::Init).walk([&](nn::WriteOp write) { written.insert(write.getVariable()); });
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getInitAttr()) { // C4
      return variable.emitOpError("@") << variable.getSymName() << " still has an init; run ashlar-init";
    }
    if (variable.getSymName() != nn::kSeedVariable && !written.contains(variable.getSymName())) { // C5
      return variable.emitOpError("@") << variable.getSymName() << " is not written by @init";
    }
  }
  return success();
}

struct VerifyTrainPass : public impl::VerifyTrainPassBase<VerifyTrainPass> {
  void runOnOperation() override {
    bool failedAny = failed(verifyFunctions(getOperation()));
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      failedAny = failedAny || failed(verifyOrder(function));
    }
    if (failedAny || failed(verifyVariables(getOperation()))) {
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace

} // namespace ashlar::train
