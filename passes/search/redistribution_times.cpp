// SPDX-License-Identifier: Apache-2.0
//
// See redistribution_times.h.

#include "passes/search/redistribution_times.h"

#include "dialects/support/element_type.h"
#include "passes/search/solver/decision_graph.h"

using namespace mlir;

namespace ashlar::search {

using dist::LayoutAttr;

// Returns how many devices compute parts of a value, or of terms of it.
int64_t RedistributionTimes::countTerms(const layout::Layout &layout) const {
  int64_t count = space.problem.mesh.groupSize(layout.partial);
  for (const dist::AxisList &axes : layout.dims) {
    count *= space.problem.mesh.groupSize(axes);
  }
  return count;
}

int64_t RedistributionTimes::of(const Redistributed &value, LayoutAttr from, LayoutAttr to) {
  if (from == to) {
    return 0;
  }
  if (!canBecome(from, to)) {
    return kForbidden;
  }
  auto [known, isNew] = planned.try_emplace({value.type, from, to}, std::pair(0, false));
  if (isNew) {
    int64_t time = 0;
    bool sends = false;
    layout::Layout layout = from.getLayout();
    for (const analysis::Step &step : planner.withoutCuts().plan(value.type, layout, to.getLayout()).steps) {
      const int64_t before = byteSize(dist::localType(space.problem.mesh, value.type, layout));
      layout = analysis::applyStep(layout, step);
      const bool isSlice = step.kind == CollectiveKind::Slice;
      time += isSlice ? space.rates.callPs({}, before + byteSize(dist::localType(space.problem.mesh, value.type, layout))) : step.timePs;
      sends |= !isSlice;
    }
    known->second = {time, sends};
  }
  auto [time, sends] = known->second;
  if (!sends) {
    return time;
  }
  const int64_t again = value.bytesAgain / countTerms(from.getLayout());
  const int64_t moved = value.isStored ? 0 : space.localBytes(value.type, from) + space.localBytes(value.type, to);
  return time + (moved + again > 0 ? space.rates.timePs(0, 0, moved + again) : 0);
}

int64_t RedistributionTimes::ofSum(const Redistributed &value, LayoutAttr from, LayoutAttr to) {
  layout::Layout terms = from.getLayout();
  if (!terms.isPartial()) {
    auto splits = [&](StringAttr axis) { return llvm::any_of(terms.dims, [&](const auto &dim) { return llvm::is_contained(dim, axis); }); };
    for (const dist::AxisList &dim : to.getLayout().dims) {
      llvm::copy_if(dim, std::back_inserter(terms.partial), [&](StringAttr axis) { return !splits(axis); });
    }
  }
  return of(value, LayoutAttr::get(space.problem.mesh.getContext(), terms), to);
}

} // namespace ashlar::search
