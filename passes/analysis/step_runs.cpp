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
  for (nn::ProgramRole role : {nn::ProgramRole::TrainStep, nn::ProgramRole::Run}) {
    func::FuncOp program = runs.empty() ? nn::findProgram(module, role) : func::FuncOp();
    if (program) {
      runs[program.getSymName()] = 1;
    }
  }
  return runs;
}

} // namespace ashlar::analysis
