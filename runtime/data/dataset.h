// SPDX-License-Identifier: Apache-2.0
//
// A data set: samples numbered from 0, each with a value in every column. One interface for files and generators; docs/data.md lists the
// formats.

#ifndef ASHLAR_RUNTIME_DATA_DATASET_H
#define ASHLAR_RUNTIME_DATA_DATASET_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/components.h"
#include "runtime/base/status.h"
#include "runtime/data/element.h"
#include "runtime/data/sample_random.h"

#include <memory>
#include <optional>
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

// The least and the greatest of some elements.
struct ElementRange {
  double least = 0, greatest = 0;
};

// Samples of one split. read() may be called by several threads at a time and does not allocate.
class Dataset {
public:
  virtual ~Dataset() = default;

  // Returns the number of samples.
  virtual uint64_t samples() const = 0;

  // Returns the columns; read() takes an index into them.
  virtual const std::vector<Column> &columns() const = 0;

  // Returns the bytes of memory that a caller of read() lends it for a column; 0: none.
  virtual size_t scratchBytes(size_t column) const { return 0; }

  // Returns the elements of `column` of sample `which.sample`, row major; valid as long as the data set, and unless another read() is given
  // `scratch`, the caller's scratchBytes(column) bytes aligned for any element. Assumes which.sample < samples().
  virtual const void *read(size_t column, const SampleRandom &which, void *scratch) = 0;

  // Returns the range of the elements of a column, ignored labels left out, where it is known without reading sample by sample.
  virtual std::optional<ElementRange> range(size_t column) { return std::nullopt; }

  // Fails when results of read() cannot be trusted: a file was changed meanwhile. May be called concurrently with read().
  virtual Status check() const { return Status(); }
};

// Opens a split of a data set. `directory` is --data, empty for a generator.
using OpenDataset = Status(const ashlar_rt_dataset &description, const std::string &directory, Split split,
                           std::unique_ptr<Dataset> &dataset);

// Opens the split of the data set that `description` names. `directory` is --data, empty when it was not given: a generator with a
// directory becomes its directory_format. Checks all of the files' sizes.
OpenDataset openDataset;

// Returns the paths of the files of both splits, whether they are there or not; one that ends in '/' is a folder with all below it. None of
// a generator.
std::vector<std::string> dataFiles(const ashlar_rt_dataset &description, const std::string &directory);

// The formats, one opener each.
OpenDataset openCifar10, openCsv, openDigits, openIdx, openImages, openNpy, openNpz, openRegression, openText, openTokens;

// A format of data sets, whether its samples are generated, and the names of the files of both splits below its folder: the last part may
// have wildcards, and one that ends in '/' is a folder with all below it. Components: each is there where the program needs it.
struct DataFormat {
  const char *name;
  OpenDataset *open;
  bool isGenerated;
  std::vector<std::string> (*files)(const ashlar_rt_dataset &description) = nullptr; // null: generated
};
extern "C" {
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_cifar10);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_csv);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_digits);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_idx);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_images);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_npy);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_npz);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_regression);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_text);
[[gnu::weak]] extern const DataFormat ASHLAR_RT_COMPONENT(data_tokens);
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_DATASET_H
