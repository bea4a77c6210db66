// SPDX-License-Identifier: Apache-2.0
//
// The random numbers that belong to a sample in a pass. They follow from these numbers alone, so they are the same on every mesh, and the
// same for all features of a sample whose transforms stand at the same places: an image and its mask are cut alike.

#ifndef ASHLAR_RUNTIME_DATA_SAMPLE_RANDOM_H
#define ASHLAR_RUNTIME_DATA_SAMPLE_RANDOM_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/philox.h"
#include "runtime/data/streams.h"

namespace ashlar::rt {

// The counter of Philox has 32 bits; the higher bits of a longer pass go into the key.
inline uint64_t keyOfPass(uint64_t seed, uint64_t pass) {
  return seed + (pass >> 32) * 0x9e3779b97f4a7c15;
}

// Which sample, when.
struct SampleRandom {
  bool isTraining = false; // false: random transforms as in evaluation (docs/data.md)
  uint64_t seed = 0, pass = 0, sample = 0;

  // Returns a sample as evaluation reads it.
  static SampleRandom evaluated(uint64_t sample) { return {false, 0, 0, sample}; }

  // Returns the random words of the feature's transform `number`, from 0 on.
  PhiloxWords words(uint32_t number) const {
    return philoxWords(keyOfPass(seed, pass), kTransformStream, static_cast<uint32_t>(pass), sample * ASHLAR_RT_MAX_TRANSFORMS + number);
  }
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_SAMPLE_RANDOM_H
