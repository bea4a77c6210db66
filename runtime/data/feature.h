// SPDX-License-Identifier: Apache-2.0
//
// One feature of the batch: the column it comes from, the tensor it goes to, the transforms on the way, and which piece of it a device
// holds.

#ifndef ASHLAR_RUNTIME_DATA_FEATURE_H
#define ASHLAR_RUNTIME_DATA_FEATURE_H

#include "runtime/base/piece.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/transform_chain.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ashlar::rt {

// A feature, resolved and checked.
struct Feature {
  size_t column = 0; // of the data set
  uint32_t from = ASHLAR_RT_F32, to = ASHLAR_RT_F32;
  uint32_t tensor = 0; // of the variant
  const ashlar_rt_tensor *info = nullptr;
  TransformChain chain;
  bool isDirect = false;     // the chain's result is a device's shard, in the tensor's type
  std::vector<char> scratch; // for reading the column
  std::vector<char> result;  // of the chain, where it is neither plain nor direct
  size_t rowBytes = 0;       // of one sample of a device's piece
  size_t pieceBytes = 0;     // padding included
};

// Resolves `description` against the data set and the variant. `info` stays null when the tensor is an input of another pipeline stage.
// Errors name the column, the tensor and both conflicting values.
Status resolveFeature(const ashlar_rt_feature &description, const ashlar_rt_variant &variant, uint64_t globalBatch, const Dataset &dataset,
                      Feature &feature);

// Checks the class labels of all samples, for the loss and for one_hot, and the indices into tables, once; does nothing when the feature
// holds none. The error names the first wrong label, its sample and the classes. `split` names the part of the data set.
Status checkLabels(const ashlar_rt_feature &description, const Feature &feature, const char *split, Dataset &dataset);

// Transforms a sample and converts its part in the piece: rowBytes at `to`, less padding. `sample` is the whole sample, in the column's
// type. Does not allocate.
void convertSample(Feature &feature, const Piece &piece, const void *sample, const SampleRandom &random, void *to);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FEATURE_H
