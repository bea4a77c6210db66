// SPDX-License-Identifier: Apache-2.0
//
// Seeds in processes of their own, so that an assertion, a crash or an endless loop costs one seed and not the run, and so that whatever a
// context has interned goes away with its process.

#ifndef ASHLAR_TEST_FUZZ_WORKER_H
#define ASHLAR_TEST_FUZZ_WORKER_H

#include "test/fuzz/oracle.h"

#include <functional>
#include <vector>

namespace ashlar::fuzz {

// The outcome of one seed.
struct SeedResult {
  uint64_t seed = 0;
  Verdict verdict;
};

struct Run {
  uint64_t begin = 0, count = 0; // seeds
  unsigned jobs = 1;             // processes at a time
  unsigned secondsPerSeed = 60;  // then its process is ended
  std::function<void()> prepare; // run first by each process
};

// Checks one seed; adds to the census.
using SeedCheck = std::function<Verdict(uint64_t seed, Census &census)>;

// Runs `check` on every seed of the run, in forked processes of some dozens of seeds each, and calls `report` here once with each seed, in
// no order, even if processes crash. Returns the census of all seeds except seeds of processes that crashed.
Census runSeeds(const Run &run, const SeedCheck &check, const std::function<void(const SeedResult &)> &report);

// Runs `check` once in a forked process.
Verdict runIsolated(const std::function<Verdict()> &check, unsigned seconds);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_WORKER_H
