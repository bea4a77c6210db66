// SPDX-License-Identifier: Apache-2.0
//
// Random decoders: models of tokens in which a position sees those before it.

#ifndef ASHLAR_TEST_UNIT_REFERENCE_RANDOM_DECODER_H
#define ASHLAR_TEST_UNIT_REFERENCE_RANDOM_DECODER_H

#include <cstdint>
#include <string>

namespace ashlar::test {

struct Decoder {
  int64_t batch, positions, vocabulary;
  std::string text; // a module with @forward, of tokens (batch, positions), in f64
};

// Returns the decoder of a seed: one or two layers of causal attentions with all that models have around them (shared keys, masks, windows,
// rotations by tables, merged dims of samples and positions).
Decoder randomDecoder(uint64_t seed);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_REFERENCE_RANDOM_DECODER_H
