// SPDX-License-Identifier: Apache-2.0
//
// ashlar-propagate-layouts: infers the layouts of a module's problem and writes them back.

#include "passes/layout/inference/propagate_layouts.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/scratch_state.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/expand_split_ops.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/layout_writer.h"
#include "passes/layout/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_PROPAGATELAYOUTSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Whether a variable is the compiler's own, from one run to the next: keys and values of a text have the layout in which they are computed.
bool followsPrograms(nn::VariableOp variable) {
  return variable.getInternal() && nn::isScratch(variable);
}

// Returns the problem of a module all of whose ops can be inferred through.
FailureOr<LayoutProblem> createInferable(ModuleOp module, MeshAttr mesh, bool splitVariables) {
  FailureOr<LayoutProblem> problem = LayoutProblem::create(module, mesh);
  if (failed(problem)) {
    return failure();
  }
  for (const ProblemOp &op : problem->ops) {
    bool isPlaced = isa<dist::RedistributeOp>(op.op) && op.op->hasAttr(dist::kExplicitAttr); // goes between layouts that are given
    if (!op.rule && !isPlaced && !isa<nn::ReadOp, nn::WriteOp, func::ReturnOp>(op.op)) {
      return op.op->emitOpError("has no sharding rule, so its layouts cannot be inferred");
    }
  }
  for (auto [variable, number] : problem->variables) {
    ProblemTensor &tensor = problem->tensors[number];
    if (!tensor.given && !splitVariables && !followsPrograms(variable)) {
      int64_t rank = tensor.type.getRank();
      tensor.given = GivenLayout{Layout::replicated(rank), SmallVector<bool>(rank, false)};
    }
  }
  return problem;
}

} // namespace

FailureOr<Inferred> inferLayouts(ModuleOp module, bool splitVariables, bool keeps) {
  MeshAttr mesh = requirePrograms(module);
  if (!mesh) {
    return failure();
  }
  while (true) {
    llvm::for_each(module.getOps<func::FuncOp>(), copySources);
    FailureOr<LayoutProblem> problem = createInferable(module, mesh, splitVariables);
    if (failed(problem)) {
      return failure();
    }
    Inference inference(*problem);
    inference.run();
    SmallVector<SplitOp> split = findSplitOps(*problem, inference);
    if (split.empty()) {
      return Inferred{std::move(*problem), std::move(inference)};
    }
    if (keeps) {
      writeLayouts(*problem, inference); // all that has a layout by now is given in the next round
    }
    llvm::for_each(split, expand);
  }
}

LogicalResult propagateLayouts(ModuleOp module, bool splitVariables) {
  FailureOr<Inferred> inferred = inferLayouts(module, splitVariables);
  if (failed(inferred)) {
    return failure();
  }
  writeLayouts(inferred->problem, inferred->inference);
  return success();
}

namespace {

struct PropagateLayouts : impl::PropagateLayoutsPassBase<PropagateLayouts> {
  using PropagateLayoutsPassBase::PropagateLayoutsPassBase;

  void runOnOperation() override {
    if (failed(propagateLayouts(getOperation(), splitVariables))) {
      signalPassFailure();
    }
  }
};

} // namespace

} // namespace ashlar::layout
