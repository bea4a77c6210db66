// SPDX-License-Identifier: Apache-2.0
//
// Packs buffers with known lifetimes into one arena: plain numbers, no IR. Two buffers that are alive at the same time never share a byte.
// Best fit, largest first, is within a few percent of the largest live set on training programs; a short local search does the rest.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_ARENA_H
#define ASHLAR_PASSES_LOWER_MEMORY_ARENA_H

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ashlar::lower {

// A buffer of `bytes`, alive from time `first` to time `last`, both included.
struct Lifetime {
  int64_t first = 0;
  int64_t last = 0;
  uint64_t bytes = 0;
};

// Where each buffer lies, and how many bytes all of them span.
struct ArenaPlan {
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0;
};

// Returns `bytes` rounded up to the boundary on which buffers start.
uint64_t alignedBytes(uint64_t bytes);

// Returns the largest sum of aligned bytes alive at one time: no plan is smaller. O(n log n).
uint64_t largestLiveSet(const std::vector<Lifetime> &buffers);

// Returns a plan without overlaps, offsets aligned, as small as a few greedy orders and a bounded local search find it. Deterministic.
// Quadratic in the number of buffers, with an inner loop of two compares: 10000 buffers take about 0.1 s.
ArenaPlan packArena(const std::vector<Lifetime> &buffers);

// Buffers, by index, that are to lie one after the other, each on the next boundary behind the one before. A buffer is in one run at most.
using BufferRun = std::vector<size_t>;

// The same, with runs side by side where that takes at most `slack` bytes more. The bytes of a run are taken from the birth of its first
// buffer to the death of its last one.
ArenaPlan packArena(const std::vector<Lifetime> &buffers, const std::vector<BufferRun> &runs, uint64_t slack);

// Returns two buffers that are alive at the same time and share a byte under `offsets`; nothing when there are none. O(n log n).
std::optional<std::pair<size_t, size_t>> findOverlap(const std::vector<Lifetime> &buffers, const std::vector<uint64_t> &offsets);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_ARENA_H
