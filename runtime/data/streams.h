// SPDX-License-Identifier: Apache-2.0
//
// The random streams of the data room, so that no two uses of Philox share numbers, and the seed of generated data sets.

#ifndef ASHLAR_RUNTIME_DATA_STREAMS_H
#define ASHLAR_RUNTIME_DATA_STREAMS_H

#include <cstdint>

namespace ashlar::rt {

// Order of the samples; counter: the pass, seed: the run's.
inline constexpr uint32_t kShuffleStream = 0x73687566; // "shuf"
// Random transforms; counter: the pass, index: 256 * sample + the transform's number, seed: the run's.
inline constexpr uint32_t kTransformStream = 0x7472616e; // "tran"
// Shape of a digit and its noise; index: the sample, or sample and place.
inline constexpr uint32_t kDigitStream = 0x64696769;      // "digi"
inline constexpr uint32_t kDigitNoiseStream = 0x646e6f69; // "dnoi"
// Point and noise of a regression sample; index: the sample.
inline constexpr uint32_t kRegressionStream = 0x72656772; // "regr"
// The part of an image in training; counter: the pass, index: 16 * sample + the draw, seed: the run's.
inline constexpr uint32_t kImageCropStream = 0x696d6167; // "imag"
// The parts of a sentence; counter: the split, index: the sentence.
inline constexpr uint32_t kTextStream = 0x74657874; // "text"

// Generated samples do not depend on --seed: they stand for files, which do not either.
inline constexpr uint64_t kGeneratorSeed = 20240229;

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_STREAMS_H
