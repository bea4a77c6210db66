// SPDX-License-Identifier: Apache-2.0
//
// The binary batches of CIFAR-10: records of a label and an image of 3 planes of 32 x 32 bytes, red, green, blue. Files are mapped, one
// record is touched at a time, and its image is delivered with the channels last, as other images are.

#include "runtime/base/mapped_file.h"
#include "runtime/data/dataset.h"

#include <unistd.h>

namespace ashlar::rt {

namespace {

constexpr int64_t kSide = 32, kChannels = 3, kPlaneBytes = kSide * kSide;
constexpr size_t kRecordBytes = 1 + kChannels * kPlaneBytes;
constexpr int kMostBatches = 5; // of the train split
constexpr uint8_t kClasses = 10;

// A file of records.
struct BatchFile {
  std::string path;
  MappedFile mapping;

  uint64_t records() const { return mapping.size() / kRecordBytes; }
};

class Cifar10Dataset final : public Dataset {
public:
  explicit Cifar10Dataset(std::vector<BatchFile> batches) : files(std::move(batches)) {
    allColumns = {{"image", ASHLAR_RT_U8, {kSide, kSide, kChannels}}, {"label", ASHLAR_RT_U8, {}}};
    for (const BatchFile &file : files) {
      count += file.records();
    }
  }

  uint64_t samples() const override { return count; }
  const std::vector<Column> &columns() const override { return allColumns; }

  size_t scratchBytes(size_t column) const override { return column == 0 ? kChannels * kPlaneBytes : 0; }

  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    const auto *record = reinterpret_cast<const uint8_t *>(recordAt(which.sample));
    if (column == 1) {
      return record;
    }
    auto *image = static_cast<uint8_t *>(scratch);
    for (int64_t pixel = 0; pixel < kPlaneBytes; ++pixel) {
      for (int64_t channel = 0; channel < kChannels; ++channel) {
        image[pixel * kChannels + channel] = record[1 + channel * kPlaneBytes + pixel];
      }
    }
    return image;
  }

  Status check() const override {
    Status status;
    for (const BatchFile &file : files) {
      status.update(file.mapping.check());
    }
    return status;
  }

private:
  const char *recordAt(uint64_t sample) const {
    size_t file = 0;
    while (sample >= files[file].records()) {
      sample -= files[file++].records();
    }
    return files[file].mapping.data() + sample * kRecordBytes;
  }

  std::vector<Column> allColumns;
  std::vector<BatchFile> files;
  uint64_t count = 0;
};

// Maps a file and looks at its length and labels.
Status openBatch(const std::string &path, BatchFile &file) {
  file.path = path;
  ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, file.mapping));
  const size_t bytes = file.mapping.size();
  if (bytes % kRecordBytes != 0) {
    return invalid("\"{}\" has {} bytes but records of CIFAR-10 have {}: {} samples and {} bytes more; copy the file again", path, bytes,
                   kRecordBytes, bytes / kRecordBytes, bytes % kRecordBytes);
  }
  for (uint64_t record = 0; record < file.records(); ++record) {
    const auto label = static_cast<uint8_t>(file.mapping.data()[record * kRecordBytes]);
    if (label >= kClasses) {
      return invalid("label {} of sample {} in \"{}\" is not one of the {} classes 0 .. {} of CIFAR-10; the file is damaged or of another "
                     "format, copy it again",
                     label, record, path, kClasses, kClasses - 1);
    }
  }
  return file.mapping.check();
}

bool exists(const std::string &path) {
  return access(path.c_str(), F_OK) == 0;
}

// Returns the files of the split: the batches from 1 on, as many as there are.
Status findBatches(const std::string &directory, Split split, std::vector<std::string> &paths) {
  if (split == Split::kEval) {
    paths = {directory + "/test_batch.bin"};
  }
  std::string missing;
  for (int batch = 1; batch <= kMostBatches && split == Split::kTrain; ++batch) {
    const std::string path = fmt::format("{}/data_batch_{}.bin", directory, batch);
    if (!exists(path)) {
      missing = missing.empty() ? path : missing;
    } else if (!missing.empty()) {
      return unavailable("\"{}\" is missing but \"{}\" is there; copy the batch, or take away the later ones", missing, path);
    } else {
      paths.push_back(path);
    }
  }
  if (paths.empty() || !exists(paths[0])) {
    return unavailable("no {} in \"{}\"; --data names the folder with CIFAR-10's binary batches",
                       split == Split::kEval ? "test_batch.bin" : "data_batch_1.bin", directory);
  }
  return {};
}

} // namespace

Status openCifar10(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  std::vector<std::string> paths;
  ASHLAR_RETURN_IF_ERROR(findBatches(directory, split, paths));
  std::vector<BatchFile> files;
  for (const std::string &path : paths) {
    BatchFile file;
    ASHLAR_RETURN_IF_ERROR(openBatch(path, file));
    files.push_back(std::move(file));
  }
  dataset = std::make_unique<Cifar10Dataset>(std::move(files));
  return {};
}

static std::vector<std::string> cifar10Files(const ashlar_rt_dataset &) {
  return {"data_batch_*.bin", "test_batch.bin"};
}

const DataFormat ASHLAR_RT_COMPONENT(data_cifar10) = {"cifar10", openCifar10, /*isGenerated=*/false, cifar10Files};

} // namespace ashlar::rt
