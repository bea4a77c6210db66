// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-clip-gradients; see passes.td.

#include "passes/train/passes.h"

#include "dialects/nn/nonfinite_steps.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/tensor_values.h"
#include "passes/train/update/observe.h"
#include "passes/train/update/squares.h"
#include "passes/train/update/step_numbers.h"
#include "passes/train/update/update_phase.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_CLIPGRADIENTSPASS
#include "passes/train/passes.h.inc"

namespace {

// What PyTorch adds to the norm that it divides by.
constexpr double kLeastNorm = 1e-6;

struct ClipGradientsPass : public impl::ClipGradientsPassBase<ClipGradientsPass> {
  using ClipGradientsPassBase::ClipGradientsPassBase;

  // Returns the sum of the squares of all elements: in f64 where a gradient is that wide, else in f32. Devices that hold pieces add them
  // up, since these are sums like any other.
  Value buildSquares(ImplicitLocOpBuilder &b, ArrayRef<nn::GradientOp> gradients) {
    bool isWide = llvm::any_of(gradients, [](nn::GradientOp op) { return typeOf(op).getElementType().isF64(); });
    Location own = b.getLoc();
    Value sum;
    for (nn::GradientOp gradient : gradients) {
      b.setLoc(gradient.getLoc());
      bool isNarrow = typeOf(gradient).getElementTypeBitWidth() < 32;
      Value x = isNarrow ? converted(b, gradient, b.getF32Type()) : gradient.getResult();
      Value squares = sumOfSquares(b, x);
      squares = isWide ? converted(b, squares, b.getF64Type()) : squares;
      sum = sum ? nn::AddOp::create(b, sum, squares).getResult() : squares;
    }
    b.setLoc(own);
    return sum;
  }

  void runOnOperation() override {
    func::FuncOp function = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (!function || function.front().getOps<nn::GradientOp>().empty()) {
      getOperation().emitError("no @train_step with gradients to clip; run ashlar-autodiff and ashlar-optimizer first");
      return signalPassFailure();
    }
    if (!(maxNorm > 0)) {
      function.emitError("gradients are clipped to a norm above 0; got ") << maxNorm.getValue();
      return signalPassFailure();
    }
    UpdatePhase update(function);
    ImplicitLocOpBuilder b(NameLoc::get(StringAttr::get(&getContext(), "clip_gradients")), function.front().getTerminator());
    NumberBuilder numbers(b);
    Value squares = buildSquares(b, update.gradients());
    RankedTensorType scalar = typeOf(squares);
    auto norm = nn::SqrtOp::create(b, squares);
    norm->setAttr(nn::kGradientNormAttr, b.getUnitAttr());
    Value divisor = nn::AddOp::create(b, norm, numbers.spread(kLeastNorm, scalar));
    Value factor = nn::MinOp::create(b, nn::DivOp::create(b, numbers.spread(maxNorm, scalar), divisor), numbers.spread(1.0, scalar));
    for (nn::GradientOp gradient : update.gradients()) {
      b.setLoc(gradient.getLoc());
      Value own = converted(b, factor, typeOf(gradient).getElementType());
      Value everywhere = nn::BroadcastOp::create(b, typeOf(gradient), own, ArrayRef<int64_t>());
      update.replace(gradient, nn::MulOp::create(b, gradient, everywhere));
    }
    llvm::for_each(update.ops(), [&](Operation *op) { update.moveToEnd(op); });
    observe(function, nn::kGradientNormVariable, norm);
  }
};

} // namespace

} // namespace ashlar::train
