// SPDX-License-Identifier: Apache-2.0
//
// A data set of .npy files, one a column: <column>_train.npy and <column>_eval.npy. The first dim counts the samples.

#include "runtime/data/dataset.h"
#include "runtime/data/formats/npy.h"

#include <algorithm>

namespace ashlar::rt {

namespace {

class NpyDataset final : public Dataset {
public:
  NpyDataset(std::vector<Column> columns, std::vector<NpyFile> files) : allColumns(std::move(columns)), files(std::move(files)) {
    for (const Column &column : allColumns) {
      sampleBytes.push_back(numElements(column.shape) * dtypeBytes(column.element));
    }
  }

  uint64_t samples() const override { return files[0].shape()[0]; }
  const std::vector<Column> &columns() const override { return allColumns; }
  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    return static_cast<const char *>(files[column].data()) + which.sample * sampleBytes[column];
  }
  Status check() const override {
    Status status;
    for (const NpyFile &file : files) {
      status.update(file.check());
    }
    return status;
  }

private:
  std::vector<Column> allColumns;
  std::vector<NpyFile> files;
  std::vector<size_t> sampleBytes;
};

} // namespace

Status openNpy(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  std::vector<Column> columns;
  std::vector<NpyFile> files;
  for (uint32_t i = 0; i < description.num_features; ++i) {
    const std::string name = description.features[i].column;
    if (std::any_of(columns.begin(), columns.end(), [&](const Column &column) { return column.name == name; })) {
      continue;
    }
    NpyFile file;
    ASHLAR_RETURN_IF_ERROR(NpyFile::open(fmt::format("{}/{}_{}.npy", directory, name, splitName(split)), file));
    if (file.shape().empty()) {
      return invalid("\"{}\" has shape () but its first dim must count the samples", file.path());
    }
    if (!files.empty() && file.shape()[0] != files[0].shape()[0]) {
      return invalid("\"{}\" holds {} samples but \"{}\" holds {}", file.path(), file.shape()[0], files[0].path(), files[0].shape()[0]);
    }
    columns.push_back({name, file.element(), {file.shape().begin() + 1, file.shape().end()}});
    files.push_back(std::move(file));
  }
  dataset = std::make_unique<NpyDataset>(std::move(columns), std::move(files));
  return {};
}

static std::vector<std::string> npyFiles(const ashlar_rt_dataset &description) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < description.num_features; ++i) {
    for (Split split : {Split::kTrain, Split::kEval}) {
      names.push_back(fmt::format("{}_{}.npy", description.features[i].column, splitName(split)));
    }
  }
  return names;
}

const DataFormat ASHLAR_RT_COMPONENT(data_npy) = {"npy", openNpy, /*isGenerated=*/false, npyFiles};

} // namespace ashlar::rt
