// SPDX-License-Identifier: Apache-2.0
//
// Folders of images, a folder a class. A file is read, decoded and resized when a batch needs it. In training a random part is taken, as
// torchvision's RandomResizedCrop does it; in evaluation the middle, as its Resize and CenterCrop.

#include "runtime/abi/regular_file.h"
#include "runtime/base/philox.h"
#include "runtime/data/dataset.h"
#include "runtime/data/formats/file_pattern.h"
#include "runtime/data/formats/image_decoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {

namespace {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;
constexpr int kCropDraws = 10; // of torchvision
constexpr double kLeastRatio = 3.0 / 4, kGreatestRatio = 4.0 / 3;

// A file and its class.
struct ImageFile {
  std::string name; // in the folder of its class
  int32_t label;
};

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
  ImageFolders(const double *params, std::string directory, std::vector<std::string> classNames, std::vector<ImageFile> imageFiles)
      : height(static_cast<int64_t>(params[ASHLAR_RT_IMAGE_HEIGHT])), width(static_cast<int64_t>(params[ASHLAR_RT_IMAGE_WIDTH])),
        shortSide(static_cast<int64_t>(params[ASHLAR_RT_IMAGE_SHORT_SIDE])), leastArea(params[ASHLAR_RT_IMAGE_LEAST_AREA]),
        directory(std::move(directory)), classNames(std::move(classNames)), files(std::move(imageFiles)),
        allColumns({{"image", ASHLAR_RT_U8, {height, width, 3}}, {"label", ASHLAR_RT_I32, {}}}) {}

  uint64_t samples() const override { return files.size(); }
  const std::vector<Column> &columns() const override { return allColumns; }
  size_t scratchBytes(size_t column) const override { return column == 0 ? 3 * height * width : 0; }

  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    const ImageFile &file = files[which.sample];
    if (column == 1) {
      return &file.label;
    }
    thread_local DecodedImage image;
    const std::string path = directory + "/" + classNames[file.label] + "/" + file.name;
    if (std::string fault = decode(path, image); !fault.empty()) {
      std::fill_n(static_cast<uint8_t *>(scratch), 3 * height * width, uint8_t{0});
      noteDamage(invalid("cannot read the image \"{}\": {}; remove it or copy it again", path, fault));
      return scratch;
    }
    resizePart(image, which.isTraining && leastArea > 0 ? randomPart(image, which) : middlePart(image), static_cast<uint8_t *>(scratch));
    return scratch;
  }

  std::optional<ElementRange> range(size_t column) override {
    return column == 1 ? std::optional<ElementRange>({0, static_cast<double>(classNames.size() - 1)}) : std::nullopt;
  }

  Status check() const override {
    if (!isDamaged.load(std::memory_order_acquire)) {
      return {};
    }
    std::lock_guard<std::mutex> lock(mutex);
    return damage;
  }

private:
  static std::string decode(const std::string &path, DecodedImage &image) {
    thread_local std::vector<uint8_t> bytes;
    const OpenedFile opened = openRegularFile(path, kMostFileBytes);
    if (opened.descriptor < 0) {
      return opened.fault;
    }
    bytes.resize(opened.bytes);
    size_t done = 0;
    ssize_t got = 1;
    while (done < bytes.size() && got > 0) {
      got = ::read(opened.descriptor, bytes.data() + done, bytes.size() - done);
      done += got > 0 ? got : 0;
    }
    close(opened.descriptor);
    return done < bytes.size() ? "it could not be read to its end" : decodeImage(bytes.data(), bytes.size(), image);
  }

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
  std::string directory;
  std::vector<std::string> classNames;
  std::vector<ImageFile> files;
  std::vector<Column> allColumns;
  mutable std::mutex mutex;
  Status damage; // the first one
  std::atomic<bool> isDamaged{false};
};

bool isFolder(const std::string &path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool isImageName(const std::string &name) {
  std::string ending = name.substr(std::min(name.rfind('.'), name.size()));
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// Lists the folders in a directory, in the order of their bytes, as Python sorts them.
Status listClasses(const std::string &directory, std::vector<std::string> &classes) {
  std::vector<std::string> names;
  ASHLAR_RETURN_IF_ERROR(listDirectory(directory, names));
  for (const std::string &name : names) {
    if (isFolder(directory + "/" + name)) {
      classes.push_back(name);
    }
  }
  std::sort(classes.begin(), classes.end());
  return classes.empty()
             ? unavailable("no folder of a class is in \"{}\"; put the images of each class into a folder of its own", directory)
             : Status();
}

} // namespace

Status openImages(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  std::string folder = directory + "/train";
  std::vector<std::string> classes, present;
  ASHLAR_RETURN_IF_ERROR(listClasses(folder, classes)); // of both splits
  if (split == Split::kEval) {
    folder = isFolder(directory + "/val") ? directory + "/val" : directory + "/eval";
    ASHLAR_RETURN_IF_ERROR(listClasses(folder, present));
  } else {
    present = classes;
  }
  std::vector<ImageFile> files;
  for (const std::string &name : present) {
    const auto found = std::lower_bound(classes.begin(), classes.end(), name);
    if (found == classes.end() || *found != name) {
      return invalid("\"{}/{}\" is a class that \"{}/train\" does not have; remove it, or add its images for training", folder, name,
                     directory);
    }
    std::vector<std::string> names;
    ASHLAR_RETURN_IF_ERROR(listDirectory(folder + "/" + name, names));
    std::sort(names.begin(), names.end());
    const size_t before = files.size();
    for (std::string &file : names) {
      if (isImageName(file)) {
        files.push_back({std::move(file), static_cast<int32_t>(found - classes.begin())});
      }
    }
    if (files.size() == before) {
      return invalid("no .jpg, .jpeg or .png file is in the class's folder \"{}/{}\"; add images or remove it", folder, name);
    }
  }
  dataset = std::make_unique<ImageFolders>(description.params, std::move(folder), std::move(classes), std::move(files));
  return {};
}

const DataFormat ASHLAR_RT_COMPONENT(data_images) = {"images", openImages, /*isGenerated=*/false};

} // namespace ashlar::rt
