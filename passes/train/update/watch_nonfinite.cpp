// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-watch-nonfinite; see passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/nonfinite_steps.h"
#include "dialects/nn/programs.h"
#include "dialects/support/tensor_values.h"
#include "passes/train/update/guarded_update.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_WATCHNONFINITEPASS
#include "passes/train/passes.h.inc"

namespace {

struct WatchNonfinitePass : public impl::WatchNonfinitePassBase<WatchNonfinitePass> {
  using WatchNonfinitePassBase::WatchNonfinitePassBase;

  // Returns the op whose result is the norm of the gradients; null when they are not clipped.
  static Operation *findNorm(func::FuncOp function) {
    for (Operation &op : function.front()) {
      if (op.hasAttr(nn::kGradientNormAttr)) {
        return &op;
      }
    }
    return nullptr;
  }

  // Has the running statistics of the forward pass keep the elements whose next value is not finite.
  static void guardStatistics(func::FuncOp function) {
    for (auto write : llvm::make_early_inc_range(function.front().getOps<nn::WriteOp>())) {
      RankedTensorType type = write.getValue().getType();
      if (!write->hasAttr(nn::kForwardWriteAttr) || !isa<FloatType>(type.getElementType())) {
        continue;
      }
      ImplicitLocOpBuilder b(write.getLoc(), write);
      Value current = nn::ReadOp::create(b, type, write.getVariable());
      Value next = nn::SelectOp::create(b, type, isFinite(b, write.getValue()), write.getValue(), current);
      write.getValueMutable().assign(next);
    }
  }

  // Guards the update by the norm of the gradients where there is one, else by their elements.
  void skipSteps(func::FuncOp function, const UpdatePhase &update, Operation *norm) {
    ImplicitLocOpBuilder b(NameLoc::get(StringAttr::get(&getContext(), "nonfinite")), function.front().getTerminator());
    if (norm) {
      b.setInsertionPointAfter(norm); // clipping moved the update behind it
      return guardUpdate(function, update, isFinite(b, norm->getResult(0)));
    }
    Value isGood = areFinite(b, update.gradients());
    llvm::for_each(update.ops(), [&](Operation *op) { update.moveToEnd(op); });
    guardUpdate(function, update, isGood);
  }

  void runOnOperation() override {
    func::FuncOp function = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (!function || function.front().getOps<nn::GradientOp>().empty()) {
      getOperation().emitError("no @train_step with gradients to watch; run ashlar-autodiff and ashlar-optimizer first");
      return signalPassFailure();
    }
    Operation *norm = findNorm(function);
    const bool isScaled = getOperation().lookupSymbol(nn::kLossScaleVariable) != nullptr; // then its pass leaves steps out
    if (skips) {
      guardStatistics(function);
    }
    if (isScaled) {
      return;
    }
    if (skips) {
      skipSteps(function, UpdatePhase(function), norm);
    } else if (norm) {
      ImplicitLocOpBuilder b(norm->getLoc(), &getContext());
      b.setInsertionPointAfter(norm);
      countBadSteps(function, nn::kBadNormsVariable, isFinite(b, norm->getResult(0)));
    }
  }
};

} // namespace

} // namespace ashlar::train
