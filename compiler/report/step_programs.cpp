// SPDX-License-Identifier: Apache-2.0
//
// Modules and orders -> programs.

#include "compiler/report/step_programs.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/nn.h"
#include "passes/analysis/step_runs.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ashlar::report {
namespace {

// Whether an op does more than read, write, transfer or count: what a reader of the model would look for.
bool computes(Operation &op) {
  bool counts = llvm::all_of(op.getResultTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 0 && tensor.getElementType().isInteger();
  });
  return !isa<nn::ReadOp, nn::WriteOp, nn::ConstantOp, dist::SlotOpInterface>(op) && !op.hasTrait<OpTrait::IsTerminator>() && !counts;
}

} // namespace

SmallVector<ModuleOp> programsOf(ModuleOp module) {
  SmallVector<ModuleOp> stages = llvm::to_vector(module.getOps<ModuleOp>());
  return stages.empty() ? SmallVector<ModuleOp>({module}) : stages;
}

std::optional<int64_t> stageOf(ModuleOp module) {
  auto stage = module->getAttrOfType<dist::StageAttr>(dist::kStageAttr);
  return stage ? std::optional<int64_t>(stage.getIndex()) : std::nullopt;
}

SmallVector<func::FuncOp> mainsOf(ModuleOp module, bool ofMicroBatches) {
  const llvm::StringMap<int64_t> runs = analysis::runsOfStep(module);
  SmallVector<func::FuncOp> mains;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (runs.lookup(function.getSymName()) > (ofMicroBatches ? 1 : 0)) {
      mains.push_back(function);
    }
  }
  return mains;
}

std::vector<std::string> listOps(ModuleOp stage, const llvm::StringSet<> &variables) {
  llvm::SetVector<StringRef> paths;
  for (func::FuncOp function : mainsOf(stage, /*ofMicroBatches=*/true)) {
    for (Operation &op : function.front()) {
      if (StringRef path = nn::getPath(op.getLoc()); !path.empty() && !variables.contains(path) && computes(op)) {
        paths.insert(path);
      }
    }
  }
  return std::vector<std::string>(paths.begin(), paths.end());
}

} // namespace ashlar::report
