// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10, see philox.h.

#include "dialects/nn/ops/philox.h"

namespace ashlar::nn {

PhiloxWords philox(PhiloxWords counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = kMultiplier0 * counter[0];
    uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

PhiloxWords philoxOfElement(uint64_t index, uint64_t seed, uint64_t counter, uint32_t stream) {
  return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(counter), stream},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

} // namespace ashlar::nn
