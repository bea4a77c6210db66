// SPDX-License-Identifier: Apache-2.0
//
// The outcome of a run. Every requested seed is counted once, by its verdict; a run in which one is missing has not passed.

#ifndef ASHLAR_TEST_FUZZ_SUMMARY_H
#define ASHLAR_TEST_FUZZ_SUMMARY_H

#include "test/fuzz/worker.h"

#include <array>
#include <set>

namespace ashlar::fuzz {

class Summary {
public:
  // Of a run over `count` seeds from `begin`.
  Summary(uint64_t begin, uint64_t count) : begin(begin), count(count) {}

  void add(const SeedResult &result);

  // Returns true when each seed was checked and passed, and rounding decided no more than kMaxUndecidedOfRun of all elements.
  bool allPassed() const;

  // Returns two lines without an end: the elements decided by rounding and the largest difference of each precision, with its seed; and the
  // counts of verdicts, also of missing ones.
  std::string text() const;

  const std::vector<SeedResult> &getFailures() const { return failures; }

  // Returns the failures to reduce, in the order of the seeds: of each signature the first `each`.
  std::vector<SeedResult> failuresToReduce(unsigned each) const;

private:
  // The largest difference in one precision, and where it was seen.
  struct Largest {
    double difference = 0;
    uint64_t seed = 0;
  };

  uint64_t begin, count;
  std::set<uint64_t> seen;
  uint64_t passed = 0, failed = 0, died = 0, late = 0, undecidedPrograms = 0;
  int64_t elements = 0, undecided = 0;
  std::array<Largest, kNumPrecisions> largest;
  std::vector<SeedResult> failures;
};

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_SUMMARY_H
