// SPDX-License-Identifier: Apache-2.0
//
// See step_runs.h.

#include "passes/analysis/step_runs.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"

using namespace mlir;

namespace ashlar::analysis {

llvm::StringMap<int64_t> runsOfStep(ModuleOp module) {
  llvm::StringMap<int64_t> runs;
  if (auto order = module->getAttrOfType<ArrayAttr>(dist::kOrderAttr)) {
    for (auto part : order.getAsRange<dist::RepeatAttr>()) {
      for (auto run : part.getRuns().getAsRange<dist::RunAttr>()) {
        runs[run.getProgram()] += part.getCount();
      }
    }
    return runs;
  }
  if (func::FuncOp program = nn::findMain(module)) {
    runs[program.getSymName()] = 1;
  }
  return runs;
}

} // namespace ashlar::analysis
