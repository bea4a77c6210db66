// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10: random numbers as a pure function of (seed, stream, counter, index), so that the same element gets the same number on
// every mesh. The compiler generates the same function into init and dropout kernels; keep the two definitions equal:
//   key     = { lo32(seed), hi32(seed) }
//   counter = { lo32(index), hi32(index), lo32(counter), stream }
//   f32 uniform in [0,1) = (word0 >> 8) * 2^-24
//   f64 uniform in [0,1) = ((word0 >> 5) * 2^26 + (word1 >> 6)) * 2^-53
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11.

#ifndef ASHLAR_RUNTIME_BASE_PHILOX_H
#define ASHLAR_RUNTIME_BASE_PHILOX_H

#include <array>
#include <cstdint>

namespace ashlar::rt {

// Four random words.
using PhiloxWords = std::array<uint32_t, 4>;

// Returns the ten-round Philox4x32 block of `counter` under `key`.
inline PhiloxWords philox4x32(PhiloxWords counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Returns the four words of element `index` of the stream. `counter` distinguishes draws of one element: the step, the epoch.
inline PhiloxWords philoxWords(uint64_t seed, uint32_t stream, uint32_t counter, uint64_t index) {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), counter, stream},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Returns the f32 uniform in [0,1) that belongs to the words. Exact: 24 bits.
inline float uniformFloat(const PhiloxWords &words) {
  return static_cast<float>(words[0] >> 8) * 0x1p-24f;
}

// Returns the f64 uniform in [0,1) that belongs to the words. Exact: 53 bits.
inline double uniformDouble(const PhiloxWords &words) {
  return (static_cast<double>(words[0] >> 5) * 0x1p26 + static_cast<double>(words[1] >> 6)) * 0x1p-53;
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_PHILOX_H
