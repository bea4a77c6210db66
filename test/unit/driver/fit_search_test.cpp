// SPDX-License-Identifier: Apache-2.0
//
// The limit of a search for layouts, such that the program fits: by hand.

#include "compiler/planning/fit_search.h"

#include <catch2/catch.hpp>

namespace ashlar::test::fit_search_test {
namespace {

using Constants = std::vector<int64_t>;

struct Fitted {
  Constants constants; // of bytes that are not counted, that were tried; -1: data parallelism
  bool succeeded;
  bool takesBatch;
  bool takesSmallest;
};

// Fits programs of which the search counts so many bytes, and which take what `bytesOf` returns of the constant that their search gets,
// and `batchBytes` with data parallelism.
template <typename BytesOf> Fitted fit(int64_t limit, uint64_t counted, BytesOf bytesOf, uint64_t batchBytes = 1000) {
  pipelines::Variant variant;
  variant.search.emplace();
  Fitted fitted;
  fitted.succeeded = mlir::succeeded(planning::fitSearch(variant, limit, [&]() -> mlir::FailureOr<planning::PlannedBytes> {
    CHECK(variant.search->memoryLimit == limit);
    const bool isBatch = variant.search->prefersBatch;
    fitted.constants.push_back(isBatch ? -1 : variant.search->uncountedBytes);
    const std::optional<uint64_t> bytes = isBatch ? std::optional(batchBytes) : bytesOf(variant.search->uncountedBytes);
    return bytes ? mlir::FailureOr<planning::PlannedBytes>({*bytes, counted}) : mlir::FailureOr<planning::PlannedBytes>();
  }));
  fitted.takesBatch = variant.search->prefersBatch;
  fitted.takesSmallest = variant.search->takesSmallest;
  return fitted;
}

} // namespace

TEST_CASE("fit search: uncounted bytes become a constant of the search", "[fit_search]") {
  auto one = [](uint64_t first, uint64_t then) {
    return [=](int64_t constant) { return std::optional<uint64_t>(constant == 0 ? first : then); };
  };
  CHECK(fit(100, 70, one(100, 0)).constants == Constants{0});
  CHECK_FALSE(fit(100, 70, one(100, 0)).takesSmallest);
  CHECK(fit(0, 70, one(1000, 0)).constants == Constants{0});
  CHECK(fit(100, 70, one(110, 100)).constants == Constants{0, 40});
  CHECK(fit(100, 70, one(110, 100)).takesSmallest); // an excess then is the memory plan's error
  // Other layouts hold more besides: once more, but not for ever. Those that hold no more are as they are.
  CHECK(fit(100, 70, [](int64_t constant) { return std::optional<uint64_t>(constant == 50 ? 90 : 110 + constant / 4); }).constants ==
        Constants{0, 40, 50});
  CHECK(fit(100, 70, [](int64_t constant) { return std::optional<uint64_t>(110 + constant); }).constants == Constants{0, 40, 80, -1, 80});
  CHECK(fit(100, 70, one(110, 105)).constants == Constants{0, 40, -1, 40});
  CHECK(fit(100, 10, one(110, 0)).constants == Constants{0, -1, 0}); // nothing would be left to search in
  CHECK_FALSE(fit(100, 70, [](int64_t) { return std::optional<uint64_t>(); }).succeeded);
}

TEST_CASE("fit search: data parallelism is taken where what is searched does not fit", "[fit_search]") {
  auto same = [](int64_t) { return std::optional<uint64_t>(150); };
  CHECK(fit(100, 90, same, 99).constants == Constants{0, 60, -1});
  CHECK(fit(100, 90, same, 99).takesBatch);
  CHECK(fit(100, 90, same, 149).takesBatch); // the memory plan names the excess
  CHECK_FALSE(fit(100, 90, same, 150).takesBatch);
  CHECK_FALSE(fit(200, 90, same, 99).takesBatch);
}

TEST_CASE("fit search: what is computed again leaves the search without a limit", "[fit_search]") {
  job::Job job;
  CHECK(planning::searchLimit(job, 80) == 80);
  job.set_recompute(job::Recompute::AUTO);
  CHECK(planning::searchLimit(job, 80) == 0);
}

} // namespace ashlar::test::fit_search_test
