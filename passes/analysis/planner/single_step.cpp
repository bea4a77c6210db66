// SPDX-License-Identifier: Apache-2.0
//
// Reads the step off the axes that leave a dim and those that join one.

#include "passes/analysis/planner/single_step.h"

using namespace mlir;

namespace ashlar::analysis {

std::optional<Step> findSingleStep(const dist::Layout &from, const dist::Layout &to) {
  dist::AxisList reduced;
  llvm::copy_if(from.partial, std::back_inserter(reduced), [&](StringAttr axis) { return !llvm::is_contained(to.partial, axis); });
  int64_t grown = -1, shrunk = -1; // the last dim that gets axes, and that loses some; applyStep below finds out about others
  for (auto [d, before, after] : llvm::enumerate(from.dims, to.dims)) {
    grown = after.size() > before.size() ? d : grown;
    shrunk = after.size() < before.size() ? d : shrunk;
  }
  Step step;
  step.kind = CollectiveKind::AllReduce;
  step.axes = reduced;
  if (grown >= 0) {
    step.kind = shrunk >= 0 ? CollectiveKind::AllToAll : reduced.empty() ? CollectiveKind::Slice : CollectiveKind::ReduceScatter;
    step.axes.assign(to.dims[grown].begin() + from.dims[grown].size(), to.dims[grown].end());
    step.dim = grown;
    step.concatDim = shrunk;
  } else if (shrunk >= 0) {
    step.kind = CollectiveKind::AllGather;
    step.axes.assign(from.dims[shrunk].begin() + to.dims[shrunk].size(), from.dims[shrunk].end());
    step.dim = shrunk;
  }
  bool fits = !step.axes.empty() && (shrunk < 0 || from.dims[shrunk].size() >= step.axes.size());
  return fits && applyStep(from, step) == to ? std::optional(step) : std::nullopt;
}

} // namespace ashlar::analysis
