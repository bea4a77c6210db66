// SPDX-License-Identifier: Apache-2.0
//
// See fit_search.h.

#include "compiler/planning/fit_search.h"

#include "dialects/dist/dist.h"
#include "passes/search/search_attributes.h"

using namespace mlir;

namespace ashlar::planning {

int64_t searchLimit(const job::Job &job, int64_t memoryLimit) {
  return job.recompute() == job::Recompute::AUTO ? 0 : memoryLimit;
}

uint64_t noteSearch(pipelines::Variant &variant, ModuleOp laidOut) {
  const auto searched = laidOut->getAttrOfType<dist::SearchAttr>(dist::kSearchAttr);
  if (!searched || !variant.search) {
    return 0;
  }
  variant.search->wasStopped |= laidOut->hasAttr(search::kStoppedAttr);
  return searched.getTakenStrategy().getBytes() / (variant.pipeline ? variant.pipeline->stages : 1);
}

LogicalResult fitSearch(pipelines::Variant &variant, int64_t limit, function_ref<FailureOr<PlannedBytes>()> plan) {
  constexpr int kMostCorrections = 2;
  variant.search->memoryLimit = limit;
  uint64_t last = 0;
  for (int corrections = 0;; ++corrections) {
    FailureOr<PlannedBytes> planned = plan();
    if (failed(planned)) {
      return failure();
    }
    if (limit == 0 || planned->whole <= static_cast<uint64_t>(limit)) {
      return success();
    }
    last = planned->whole;
    const int64_t uncounted = static_cast<int64_t>(planned->whole) - static_cast<int64_t>(planned->counted);
    if (uncounted <= variant.search->uncountedBytes || uncounted >= limit || corrections == kMostCorrections) {
      break;
    }
    variant.search->uncountedBytes = uncounted;
    variant.search->takesSmallest = true; // the memory plan names the excess
  }
  const pipelines::Search searched = *variant.search;
  variant.search->prefersBatch = variant.search->takesSmallest = true;
  if (FailureOr<PlannedBytes> planned = plan(); succeeded(planned) && planned->whole < last) {
    return success(); // or the memory plan names the excess
  }
  variant.search = searched;
  return success(succeeded(plan()));
}

} // namespace ashlar::planning
