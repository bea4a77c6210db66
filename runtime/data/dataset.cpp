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
  if (format != "idx" && format != "npy") {
    return internal("data set format \"{}\" is not known; digits, idx, npy and regression are", format);
  }
  if (directory.empty()) {
    return invalid("the data set is read from {} files; name their folder with --data DIR", format);
  }
  return format == "idx" ? openIdx(directory, split, dataset) : openNpy(description, directory, split, dataset);
}

} // namespace ashlar::rt
