// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), written from the paper. An oracle
// for the runtime's own version, so the two share no line.

#ifndef ASHLAR_DIALECTS_NN_OPS_PHILOX_H
#define ASHLAR_DIALECTS_NN_OPS_PHILOX_H

#include <array>
#include <cstdint>

namespace ashlar::nn {

using PhiloxWords = std::array<uint32_t, 4>;

// Returns the four random words that belong to a counter under a key.
PhiloxWords philox(PhiloxWords counter, std::array<uint32_t, 2> key);

// Returns the words of nn.random: key = seed, counter = {index, lo(counter), stream}; see nn_ops.td.
PhiloxWords philoxOfElement(uint64_t index, uint64_t seed, uint64_t counter, uint32_t stream);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_OPS_PHILOX_H
