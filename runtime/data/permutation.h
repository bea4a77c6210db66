// SPDX-License-Identifier: Apache-2.0
//
// The order of the samples in one pass over a data set.

#ifndef ASHLAR_RUNTIME_DATA_PERMUTATION_H
#define ASHLAR_RUNTIME_DATA_PERMUTATION_H

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// Fills `order` with a permutation of 0 .. order.size() - 1 that follows from (seed, pass) alone: Fisher-Yates, draw i taken from Philox
// index i. O(n); does not allocate.
void shuffledOrder(uint64_t seed, uint64_t pass, std::vector<uint64_t> &order);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_PERMUTATION_H
