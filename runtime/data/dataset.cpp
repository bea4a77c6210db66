// SPDX-License-Identifier: Apache-2.0
//
// Chooses the format of a data set.

#include "runtime/data/dataset.h"

#include "runtime/data/formats/file_pattern.h"

#include <cstring>

namespace ashlar::rt {

const char *splitName(Split split) {
  return split == Split::kTrain ? "train" : "eval";
}

namespace {

// Returns the format of a name; null where it is not in this program.
const DataFormat *findFormat(const char *name) {
  // Null: not linked into this program.
  const DataFormat *const formats[] = {&ASHLAR_RT_COMPONENT(data_cifar10), &ASHLAR_RT_COMPONENT(data_csv),
                                       &ASHLAR_RT_COMPONENT(data_digits),  &ASHLAR_RT_COMPONENT(data_idx),
                                       &ASHLAR_RT_COMPONENT(data_images),  &ASHLAR_RT_COMPONENT(data_npy),
                                       &ASHLAR_RT_COMPONENT(data_npz),     &ASHLAR_RT_COMPONENT(data_regression),
                                       &ASHLAR_RT_COMPONENT(data_text),    &ASHLAR_RT_COMPONENT(data_tokens)};
  const DataFormat *found = nullptr;
  for (const DataFormat *format : formats) {
    found = format != nullptr && std::strcmp(name, format->name) == 0 ? format : found;
  }
  return found;
}

} // namespace

std::vector<std::string> dataFiles(const ashlar_rt_dataset &description, const std::string &directory) {
  const DataFormat *format = findFormat(description.format);
  if (format != nullptr && format->isGenerated && description.directory_format != nullptr) {
    format = findFormat(description.directory_format);
  }
  std::vector<std::string> paths;
  if (directory.empty() || format == nullptr || format->files == nullptr) {
    return paths;
  }
  for (const std::string &name : format->files(description)) {
    std::vector<std::string> found;
    (void)findFiles(directory, name, found).ok(); // of a pattern there may be none
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

Status openDataset(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  const DataFormat *format = findFormat(description.format);
  if (format && format->isGenerated && !directory.empty()) {
    if (!description.directory_format) {
      return invalid("--data \"{}\" was given but the data set \"{}\" is generated; run without --data", directory, format->name);
    }
    format = findFormat(description.directory_format);
  }
  if (format == nullptr) {
    return internal("data set format \"{}\" is not in this program", description.format);
  }
  if (!format->isGenerated && directory.empty()) {
    return invalid("the data set is read from {} files; name their folder with --data DIR", format->name);
  }
  return format->open(description, directory, split, dataset);
}

} // namespace ashlar::rt
