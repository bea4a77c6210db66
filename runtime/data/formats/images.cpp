// SPDX-License-Identifier: Apache-2.0
//
// Folders of images, a folder a class. A file is read, decoded and resized when a batch needs it. In training a random part is taken, as
// torchvision's RandomResizedCrop does it; in evaluation the middle, as its Resize and CenterCrop.

#include "runtime/base/philox.h"
#include "runtime/data/dataset.h"
#include "runtime/data/formats/image_folder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

namespace ashlar::rt {

namespace {

constexpr int kCropDraws = 10; // of torchvision
constexpr double kLeastRatio = 3.0 / 4, kGreatestRatio = 4.0 / 3;

double uniformOf(uint32_t word) {
  return static_cast<double>(word >> 8) * 0x1p-24;
}

// A number of 0 .. count - 1.
int64_t numberBelow(uint32_t word, int64_t count) {
  return static_cast<int64_t>(static_cast<uint64_t>(word) * static_cast<uint64_t>(count) >> 32);
}

// Returns the whole of a window, resized to height x width.
ResizedPart wholeOf(int64_t top, int64_t left, int64_t rows, int64_t columns, int64_t height, int64_t width) {
  return {top,
          left,
          rows,
          columns,
          static_cast<double>(top),
          static_cast<double>(left),
          static_cast<double>(rows) / static_cast<double>(height),
          static_cast<double>(columns) / static_cast<double>(width),
          height,
          width};
}

class ImageFolders final : public Dataset {
public:
  ImageFolders(const double *params, ImageFolder imageFolder)
      : height(static_cast<int64_t>(params[ASHLAR_RT_IMAGE_HEIGHT])), width(static_cast<int64_t>(params[ASHLAR_RT_IMAGE_WIDTH])),
        shortSide(static_cast<int64_t>(params[ASHLAR_RT_IMAGE_SHORT_SIDE])), leastArea(params[ASHLAR_RT_IMAGE_LEAST_AREA]),
        folder(std::move(imageFolder)), allColumns({{"image", ASHLAR_RT_U8, {height, width, 3}}, {"label", ASHLAR_RT_I32, {}}}) {}

  uint64_t samples() const override { return folder.files().size(); }
  const std::vector<Column> &columns() const override { return allColumns; }
  size_t scratchBytes(size_t column) const override { return column == 0 ? 3 * height * width : 0; }

  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    if (column == 1) {
      return &folder.files()[which.sample].label;
    }
    auto *to = static_cast<uint8_t *>(scratch);
    Status status = folder.read(which.sample, [&](const DecodedImage &image) {
      resizePart(image, which.isTraining && leastArea > 0 ? randomPart(image, which) : middlePart(image), to);
    });
    if (!status.ok()) {
      std::fill_n(to, 3 * height * width, uint8_t{0});
      noteDamage(std::move(status));
    }
    return scratch;
  }

  std::optional<ElementRange> range(size_t column) override {
    return column == 1 ? std::optional<ElementRange>({0, static_cast<double>(folder.classes().size() - 1)}) : std::nullopt;
  }

  Status check() const override {
    if (!isDamaged.load(std::memory_order_acquire)) {
      return {};
    }
    std::lock_guard<std::mutex> lock(mutex);
    return damage;
  }

private:
  // The middle of the image whose shorter side has the length shortSide: torchvision's numbers, where halves round to even.
  ResizedPart middlePart(const DecodedImage &image) const {
    const bool isTall = image.width < image.height;
    const int64_t longSide = shortSide * std::max(image.height, image.width) / std::min(image.height, image.width);
    const int64_t rows = isTall ? longSide : shortSide, columns = isTall ? shortSide : longSide;
    ResizedPart part = wholeOf(0, 0, image.height, image.width, rows, columns);
    part.top = std::nearbyint(static_cast<double>(rows - height) / 2) * part.rowScale;
    part.left = std::nearbyint(static_cast<double>(columns - width) / 2) * part.columnScale;
    part.height = height;
    part.width = width;
    return part;
  }

  // A part of a random area and ratio of its sides, the first one of ten that fits; else the middle.
  ResizedPart randomPart(const DecodedImage &image, const SampleRandom &which) const {
    const double area = static_cast<double>(image.height * image.width), low = std::log(kLeastRatio), high = std::log(kGreatestRatio);
    for (int draw = 0; draw < kCropDraws; ++draw) {
      const PhiloxWords words =
          philoxWords(keyOfPass(which.seed, which.pass), kImageCropStream, static_cast<uint32_t>(which.pass), which.sample * 16 + draw);
      const double taken = area * (leastArea + (1 - leastArea) * uniformOf(words[0]));
      const double ratio = std::exp(low + (high - low) * uniformOf(words[1]));
      const auto columns = static_cast<int64_t>(std::nearbyint(std::sqrt(taken * ratio)));
      const auto rows = static_cast<int64_t>(std::nearbyint(std::sqrt(taken / ratio)));
      if (columns > 0 && columns <= image.width && rows > 0 && rows <= image.height) {
        return wholeOf(numberBelow(words[2], image.height - rows + 1), numberBelow(words[3], image.width - columns + 1), rows, columns,
                       height, width);
      }
    }
    const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
    const int64_t rows = ratio < kLeastRatio ? std::llround(static_cast<double>(image.width) / kLeastRatio) : image.height;
    const int64_t columns = ratio > kGreatestRatio ? std::llround(static_cast<double>(image.height) * kGreatestRatio) : image.width;
    return wholeOf((image.height - rows) / 2, (image.width - columns) / 2, rows, columns, height, width);
  }

  void noteDamage(Status status) {
    std::lock_guard<std::mutex> lock(mutex);
    damage.update(std::move(status));
    isDamaged.store(true, std::memory_order_release);
  }

  int64_t height, width, shortSide;
  double leastArea;
  ImageFolder folder;
  std::vector<Column> allColumns;
  mutable std::mutex mutex;
  Status damage; // the first one
  std::atomic<bool> isDamaged{false};
};

} // namespace

Status openImages(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  ImageFolder folder;
  ASHLAR_RETURN_IF_ERROR(ImageFolder::open(directory, split, folder));
  dataset = std::make_unique<ImageFolders>(description.params, std::move(folder));
  return {};
}

static std::vector<std::string> imageFiles(const ashlar_rt_dataset &) {
  return {"train/", "val/", "eval/"}; // eval is a second name of val
}

const DataFormat ASHLAR_RT_COMPONENT(data_images) = {"images", openImages, /*isGenerated=*/false, imageFiles};

} // namespace ashlar::rt
