// SPDX-License-Identifier: Apache-2.0
//
// Chooses the format of a data set.

#include "runtime/data/dataset.h"

#include <cstring>

namespace ashlar::rt {

const char *splitName(Split split) {
  return split == Split::kTrain ? "train" : "eval";
}

Status openDataset(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  // Null: not linked into this program.
  const DataFormat *const formats[] = {&ASHLAR_RT_COMPONENT(data_cifar10), &ASHLAR_RT_COMPONENT(data_csv),
                                       &ASHLAR_RT_COMPONENT(data_digits),  &ASHLAR_RT_COMPONENT(data_idx),
                                       &ASHLAR_RT_COMPONENT(data_images),  &ASHLAR_RT_COMPONENT(data_npy),
                                       &ASHLAR_RT_COMPONENT(data_npz),     &ASHLAR_RT_COMPONENT(data_regression),
                                       &ASHLAR_RT_COMPONENT(data_text),    &ASHLAR_RT_COMPONENT(data_tokens)};
  auto find = [&](const char *name) {
    const DataFormat *found = nullptr;
    for (const DataFormat *format : formats) {
      found = format != nullptr && std::strcmp(name, format->name) == 0 ? format : found;
    }
    return found;
  };
  const DataFormat *format = find(description.format);
  if (format && format->isGenerated && !directory.empty()) {
    if (!description.directory_format) {
      return invalid("--data \"{}\" was given but the data set \"{}\" is generated; run without --data", directory, format->name);
    }
    format = find(description.directory_format);
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
