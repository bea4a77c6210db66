// SPDX-License-Identifier: Apache-2.0
//
// See fit_search.h.

#include "compiler/planning/fit_search.h"

#include "passes/search/search_attributes.h"

using namespace mlir;

namespace ashlar::planning {

int64_t searchLimit(const job::Job &job, int64_t memoryLimit) {
  return job.recompute() == job::Recompute::AUTO ? 0 : memoryLimit;
}

void noteStopped(pipelines::Variant &variant, ModuleOp laidOut) {
  if (variant.search) {
    variant.search->wasStopped |= laidOut->hasAttr(search::kStoppedAttr);
  }
}

LogicalResult fitSearch(pipelines::Variant &variant, int64_t limit, function_ref<FailureOr<uint64_t>()> bytesOf) {
  constexpr int kMostTries = 4;
  variant.search->memoryLimit = limit;
  uint64_t least = UINT64_MAX, last = 0;
  for (int tries = 0;; ++tries) {
    FailureOr<uint64_t> bytes = bytesOf();
    if (failed(bytes)) {
      return failure();
    }
    const int64_t excess = static_cast<int64_t>(*bytes) - limit;
    if (limit == 0 || excess <= 0) {
      return success();
    }
    last = *bytes;
    // The search counts fewer bytes: where it takes the same strategy again, its limit has to go down by more.
    const int64_t less = *bytes == least ? 2 * excess : excess;
    if (less >= variant.search->memoryLimit || *bytes > least || tries + 1 == kMostTries) {
      break;
    }
    least = *bytes;
    variant.search->memoryLimit -= less;
  }
  const pipelines::Search searched = *variant.search;
  variant.search->memoryLimit = limit;
  variant.search->prefersBatch = variant.search->takesSmallest = true;
  if (FailureOr<uint64_t> bytes = bytesOf(); succeeded(bytes) && *bytes < last) {
    return success(); // or the memory plan says what is too much
  }
  variant.search = searched;
  return success(succeeded(bytesOf()));
}

} // namespace ashlar::planning
