// SPDX-License-Identifier: Apache-2.0
//
// Facts on data that are cheap to find, so that ranks on several hosts notice when their data differ.

#ifndef ASHLAR_RUNTIME_DATA_DATA_FACTS_H
#define ASHLAR_RUNTIME_DATA_DATA_FACTS_H

#include "runtime/data/dataset.h"
#include "runtime/data/formats/npy.h"

namespace ashlar::rt {

// Equal for equal data. Different data have different facts, unless only samples differ that were not looked at.
struct DataFacts {
  std::string what;      // "the train split"
  std::string text;      // number of samples, types, shapes: "512 samples, image u8 (28, 28), label u8 ()"
  uint64_t contents = 0; // hash of up to 64 samples, the first and the last among them, up to 4 KiB of each
};

// Returns the facts of a split of a data set, all that its files announce in their headers among them.
DataFacts factsOf(Dataset &dataset, Split split);

// Takes up to 64 blocks of a file into a hash, the first and the last among them.
void mixContents(uint64_t &hash, const char *data, size_t bytes);

// Returns the facts of a file that holds the tensor `name`.
DataFacts factsOf(const NpyFile &file, const std::string &name);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_DATA_FACTS_H
