// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-assign-stages; see passes.td.

#include "passes/stage/passes.h"

#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "passes/stage/stage_assignment.h"

using namespace mlir;

namespace ashlar::stage {

#define GEN_PASS_DEF_ASSIGNSTAGESPASS
#include "passes/stage/passes.h.inc"

namespace {

struct AssignStagesPass : public impl::AssignStagesPassBase<AssignStagesPass> {
  using AssignStagesPassBase::AssignStagesPassBase;

  void runOnOperation() override {
    func::FuncOp step = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (!step || stages < 2 || chunks < 1) {
      getOperation().emitError("a pipeline has a @train_step, at least 2 stages and at least one chunk of each; got ")
          << stages.getValue() << " stages, " << chunks.getValue() << " chunks" << (step ? "" : " and no @train_step");
      return signalPassFailure();
    }
    FailureOr<StageAssignment> assignment = StageAssignment::create(getOperation(), {stages.getValue(), chunks.getValue()});
    if (failed(assignment)) {
      return signalPassFailure();
    }
    nn::Phases phases(step.front());
    Builder builder(&getContext());
    for (Operation &op : step.front().without_terminator()) {
      if (phases.of(&op) == nn::Phase::Forward && assignment->accessOf(&op) == Access::Fixed) {
        op.setAttr(dist::kVirtualStageAttr, builder.getI64IntegerAttr(assignment->of(&op)));
      }
    }
  }
};

} // namespace
} // namespace ashlar::stage
