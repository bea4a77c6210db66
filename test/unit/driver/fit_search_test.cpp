// SPDX-License-Identifier: Apache-2.0
//
// The limit of a search for layouts, such that the program fits: by hand.

#include "compiler/planning/fit_search.h"

#include <catch2/catch.hpp>

namespace ashlar::test::fit_search_test {
namespace {

struct Fitted {
  std::vector<int64_t> limits; // that were tried; -1: data parallelism
  bool succeeded;
  bool takesBatch;
};

// Fits programs that take what `bytesOf` says of the limit that their search gets, and `batchBytes` with data parallelism.
template <typename BytesOf> Fitted fit(int64_t limit, BytesOf bytesOf, uint64_t batchBytes = 1000) {
  pipelines::Variant variant;
  variant.search.emplace();
  Fitted fitted;
  fitted.succeeded = mlir::succeeded(planning::fitSearch(variant, limit, [&]() -> mlir::FailureOr<uint64_t> {
    const bool isBatch = variant.search->prefersBatch;
    fitted.limits.push_back(isBatch ? -1 : variant.search->memoryLimit);
    const std::optional<uint64_t> bytes = isBatch ? std::optional(batchBytes) : bytesOf(variant.search->memoryLimit);
    return bytes ? mlir::FailureOr<uint64_t>(*bytes) : mlir::FailureOr<uint64_t>();
  }));
  fitted.takesBatch = variant.search->prefersBatch;
  return fitted;
}

} // namespace

TEST_CASE("fit search: the search gets less by as much as the program is too large", "[fit_search]") {
  using Limits = std::vector<int64_t>;
  auto more = [](int64_t limit) { return std::optional<uint64_t>(limit + 10); };
  CHECK(fit(100, more).limits == Limits{100, 90});
  CHECK(fit(0, more).limits == Limits{0});
  CHECK(fit(100, [](int64_t limit) { return std::optional<uint64_t>(limit); }).limits == Limits{100});
  // What it takes again for a lower limit needs a limit that is lower by more.
  CHECK(fit(100, [](int64_t limit) { return std::optional<uint64_t>(limit > 80 ? 110 : 70); }).limits == Limits{100, 90, 70});
  // What the search cannot change ends it, as does a limit of nothing and the fourth try.
  CHECK(fit(100, [](int64_t) { return std::optional<uint64_t>(150); }).limits == Limits{100, 50, -1, 50});
  CHECK(fit(100, [](int64_t) { return std::optional<uint64_t>(200); }).limits == Limits{100, -1, 100});
  CHECK(fit(100, [](int64_t limit) { return std::optional<uint64_t>(100 + limit / 4); }).limits == Limits{100, 75, 57, 43, -1, 43});
  CHECK_FALSE(fit(100, [](int64_t) { return std::optional<uint64_t>(); }).succeeded);
}

TEST_CASE("fit search: data parallelism is taken where what is searched does not fit", "[fit_search]") {
  auto same = [](int64_t) { return std::optional<uint64_t>(150); };
  CHECK(fit(100, same, 99).limits == std::vector<int64_t>{100, 50, -1});
  CHECK(fit(100, same, 99).takesBatch);
  CHECK(fit(100, same, 149).takesBatch); // the memory plan says what is too much
  CHECK_FALSE(fit(100, same, 150).takesBatch);
  CHECK_FALSE(fit(200, same, 99).takesBatch);
}

TEST_CASE("fit search: what is computed again leaves the search without a limit", "[fit_search]") {
  job::Job job;
  CHECK(planning::searchLimit(job, 80) == 80);
  job.set_recompute(job::Recompute::AUTO);
  CHECK(planning::searchLimit(job, 80) == 0);
}

} // namespace ashlar::test::fit_search_test
