// SPDX-License-Identifier: Apache-2.0
//
// Fisher-Yates with counter-based draws.

#include "runtime/data/permutation.h"

#include "runtime/data/sample_random.h"

#include <utility>

namespace ashlar::rt {

void shuffledOrder(uint64_t seed, uint64_t pass, std::vector<uint64_t> &order) {
  for (uint64_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  const uint64_t key = keyOfPass(seed, pass);
  for (uint64_t i = order.size(); i > 1; --i) {
    const PhiloxWords words = philoxWords(key, kShuffleStream, static_cast<uint32_t>(pass), i);
    // 64 random bits modulo i: biased by less than i * 2^-64.
    const uint64_t draw = (uint64_t{words[0]} << 32 | words[1]) % i;
    std::swap(order[i - 1], order[draw]);
  }
}

} // namespace ashlar::rt
