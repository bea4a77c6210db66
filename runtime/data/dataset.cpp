// SPDX-License-Identifier: Apache-2.0
//
// Chooses the format of a data set.

#include "runtime/data/dataset.h"

namespace ashlar::rt {

const char *splitName(Split split) {
  return split == Split::kTrain ? "train" : "eval";
}

Status openDataset(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  std::string format = description.format;
  const bool generated = format == "digits" || format == "regression";
  if (generated && !directory.empty()) {
    if (!description.directory_format) {
      return invalid("--data \"{}\" was given but the data set \"{}\" is generated; run without --data", directory, format);
    }
    format = description.directory_format;
  }
  if (format == "digits") {
    return openDigits(description, split, dataset);
  }
  if (format == "regression") {
    return openRegression(description, split, dataset);
  }
  if (format != "idx" && format != "npy" && format != "cifar10") {
    return internal("data set format \"{}\" is not known; cifar10, digits, idx, npy and regression are", format);
  }
  if (directory.empty()) {
    return invalid("the data set is read from {} files; name their folder with --data DIR", format);
  }
  if (format == "npy") {
    return openNpy(description, directory, split, dataset);
  }
  return format == "idx" ? openIdx(directory, split, dataset) : openCifar10(directory, split, dataset);
}

} // namespace ashlar::rt
