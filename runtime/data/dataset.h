// SPDX-License-Identifier: Apache-2.0
//
// A data set: samples numbered from 0, each with a value in every column. One interface for files and generators; docs/data.md lists the
// formats.

#ifndef ASHLAR_RUNTIME_DATA_DATASET_H
#define ASHLAR_RUNTIME_DATA_DATASET_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"
#include "runtime/data/element.h"

#include <memory>
#include <string>
#include <vector>

namespace ashlar::rt {

// The two parts of every data set.
enum class Split { kTrain, kEval };

// Returns "train" or "eval", the word in file names and errors.
const char *splitName(Split split);

// One column: the same type and shape for every sample.
struct Column {
  std::string name;
  uint32_t element = ASHLAR_RT_F32;
  std::vector<int64_t> shape; // of one sample
};

// Samples of one split. read() may be called by several threads at a time and does not allocate.
class Dataset {
public:
  virtual ~Dataset() = default;

  // Returns the number of samples.
  virtual uint64_t samples() const = 0;

  // Returns the columns; read() takes an index into them.
  virtual const std::vector<Column> &columns() const = 0;

  // Returns the elements of `column` of `sample`, row major, valid until this thread's next read() of that column. Assumes sample <
  // samples().
  virtual const void *read(size_t column, uint64_t sample) = 0;

  // Fails when results of read() cannot be trusted: a file was changed meanwhile. May be called concurrently with read().
  virtual Status check() const { return Status(); }
};

// Opens the split of the data set that `description` names. `directory` is --data, empty when it was not given: a generator with a
// directory becomes its directory_format. Checks all of the files' sizes.
Status openDataset(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset);

// The formats, one opener each.
Status openCifar10(const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset);
Status openIdx(const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset);
Status openNpy(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset);
Status openDigits(const ashlar_rt_dataset &description, Split split, std::unique_ptr<Dataset> &dataset);
Status openRegression(const ashlar_rt_dataset &description, Split split, std::unique_ptr<Dataset> &dataset);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_DATASET_H
