// SPDX-License-Identifier: Apache-2.0
//
// The times of redistributions between ops of a search.

#ifndef ASHLAR_PASSES_SEARCH_REDISTRIBUTION_TIMES_H
#define ASHLAR_PASSES_SEARCH_REDISTRIBUTION_TIMES_H

#include "passes/search/layout_space.h"

namespace ashlar::search {

// A value that is redistributed, and whether it lies in memory as it is made.
struct Redistributed {
  mlir::RankedTensorType type;
  bool isStored;
  bool isDelayed;         // it adds up in a variable that may hold terms (layout::findDelayedSums)
  int64_t bytesAgain = 0; // that its kernel reads again behind a collective, of the whole mesh
};

// State: the plans so far, by type and layouts. Times of one run, in picoseconds; kForbidden where a value cannot become the other.
class RedistributionTimes {
public:
  RedistributionTimes(const LayoutSpace &space, analysis::Planner &planner) : space(space), planner(planner) {}

  // Returns the time of the redistribution of a value. One that no kernel writes otherwise is written for it, and
  // read, and so are the operands that its kernel reads behind it. A slice sends nothing, but copies.
  int64_t of(const Redistributed &value, dist::LayoutAttr from, dist::LayoutAttr to);

  // Returns the time of the redistribution of a sum that is delayed up to its variable. Where it is combined here, and cut only later, the
  // variable holds a part that is smaller than the terms, and each run has to scatter them after all.
  int64_t ofSum(const Redistributed &value, dist::LayoutAttr from, dist::LayoutAttr to);

private:
  int64_t countTerms(const layout::Layout &layout) const;

  const LayoutSpace &space;
  analysis::Planner &planner;
  llvm::DenseMap<std::tuple<mlir::Type, mlir::Attribute, mlir::Attribute>, std::pair<int64_t, bool>>
      planned; // and whether anything is sent
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_REDISTRIBUTION_TIMES_H
