// SPDX-License-Identifier: Apache-2.0
//
// Reads samples as evaluation does.

#ifndef ASHLAR_TEST_UNIT_DATA_READ_SAMPLE_H
#define ASHLAR_TEST_UNIT_DATA_READ_SAMPLE_H

#include "runtime/data/dataset.h"

#include <map>
#include <vector>

namespace ashlar::test {

// Returns the elements of a column of a sample, valid until this thread reads that column again.
inline const void *readSample(rt::Dataset &dataset, size_t column, uint64_t sample) {
  thread_local std::map<size_t, std::vector<char>> memory;
  std::vector<char> &scratch = memory[column];
  scratch.assign(dataset.scratchBytes(column), '\x55');
  return dataset.read(column, rt::SampleRandom::evaluated(sample), scratch.data());
}

// Returns the elements of a column of a sample, which are of type T.
template <typename T> std::vector<T> sampleOf(rt::Dataset &dataset, size_t column, uint64_t sample) {
  const T *elements = static_cast<const T *>(readSample(dataset, column, sample));
  return std::vector<T>(elements, elements + rt::numElements(dataset.columns()[column].shape));
}

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_DATA_READ_SAMPLE_H
