// SPDX-License-Identifier: Apache-2.0
//
// See step_runs.h.

#include "passes/analysis/step_runs.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"
#include "passes/analysis/costs.h"

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

CollectiveSum sumCollectives(func::FuncOp program) {
  CollectiveSum sum;
  program.walk([&](dist::CollectiveOpInterface op) {
    const int64_t runs = nn::countRuns(op);
    sum.count += runs;
    addRuns(sum.bytes, runs, dist::collectiveBytes(op));
    addRuns(sum.timePs, runs, collectiveTimePs(op));
  });
  return sum;
}

void addRuns(int64_t &sum, __int128 runs, int64_t each) {
  sum = static_cast<int64_t>(std::min<__int128>(sum + runs * each, INT64_MAX / 4));
}

} // namespace ashlar::analysis
