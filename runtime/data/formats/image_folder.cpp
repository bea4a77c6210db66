// SPDX-License-Identifier: Apache-2.0
//
// Walks folders in the order of torchvision: by the path of the folder, then by the name of the file, each in the order of their bytes.

#include "runtime/data/formats/image_folder.h"

#include "runtime/abi/regular_file.h"
#include "runtime/data/formats/file_pattern.h"

#include <algorithm>
#include <array>

#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {

namespace {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;
constexpr size_t kMostFolders = 32; // one in the other

// Names of image files that are read, and of others, which torchvision reads.
constexpr std::array kEndings = {".jpg", ".jpeg", ".png"};
constexpr std::array kOtherEndings = {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};

bool isFolder(const std::string &path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

template <size_t Count> bool endsWith(const std::string &name, const std::array<const char *, Count> &endings) {
  std::string ending = name.substr(std::min(name.rfind('.'), name.size()));
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

// Lists the folders in a directory, in the order of their bytes, as Python sorts them.
Status listClasses(const std::string &directory, std::vector<std::string> &classes) {
  std::vector<std::string> names;
  ASHLAR_RETURN_IF_ERROR(listDirectory(directory, names));
  std::copy_if(names.begin(), names.end(), std::back_inserter(classes),
               [&](const std::string &name) { return isFolder(directory + "/" + name); });
  std::sort(classes.begin(), classes.end());
  return classes.empty()
             ? unavailable("no folder of a class is in \"{}\"; put the images of each class into a folder of its own", directory)
             : Status();
}

// A file, by the path of its folder in that of its class, "" or "sub/folder", and its name.
using FoundFile = std::pair<std::string, std::string>;

std::string joined(const std::string &folder, const std::string &name) {
  return folder.empty() ? name : folder + "/" + name;
}

// Finds the images in a folder of a class and in its subfolders.
Status findImages(const std::string &ofClass, const std::string &inside, size_t depth, std::vector<FoundFile> &found) {
  const std::string folder = inside.empty() ? ofClass : ofClass + "/" + inside;
  if (depth > kMostFolders) {
    return invalid("\"{}\" is more than {} folders deep; remove the link that leads back", folder, kMostFolders);
  }
  std::vector<std::string> names;
  ASHLAR_RETURN_IF_ERROR(listDirectory(folder, names));
  for (const std::string &name : names) {
    if (endsWith(name, kEndings)) { // asking the file system about each image takes minutes where it is far away
      found.emplace_back(inside, name);
    } else if (endsWith(name, kOtherEndings)) {
      return invalid("the image \"{}/{}\" is neither .jpg, .jpeg nor .png, the formats that are read; convert it or remove it", folder,
                     name);
    } else if (isFolder(folder + "/" + name)) {
      ASHLAR_RETURN_IF_ERROR(findImages(ofClass, joined(inside, name), depth + 1, found));
    }
  }
  return {};
}

} // namespace

std::string ImageFolder::pathOf(const std::string &directory, Split split) {
  const bool hasEval = isFolder(directory + "/eval") && !isFolder(directory + "/val");
  return directory + (split == Split::kTrain ? "/train" : hasEval ? "/eval" : "/val");
}

Status ImageFolder::open(const std::string &directory, Split split, ImageFolder &folder) {
  folder = {};
  folder.folder = pathOf(directory, split);
  std::vector<std::string> &classes = folder.allClasses, present;
  ASHLAR_RETURN_IF_ERROR(listClasses(pathOf(directory, Split::kTrain), classes)); // of both splits
  ASHLAR_RETURN_IF_ERROR(listClasses(folder.folder, present));
  for (const std::string &name : present) {
    const auto place = std::lower_bound(classes.begin(), classes.end(), name);
    if (place == classes.end() || *place != name) {
      return invalid("\"{}/{}\" is a class that \"{}/train\" does not have; remove it, or add its images for training", folder.folder, name,
                     directory);
    }
    std::vector<FoundFile> found;
    ASHLAR_RETURN_IF_ERROR(findImages(folder.folder + "/" + name, "", /*depth=*/1, found));
    if (found.empty()) {
      return invalid("no .jpg, .jpeg or .png file is in the class's folder \"{}/{}\"; add images or remove it", folder.folder, name);
    }
    std::sort(found.begin(), found.end());
    for (const auto &[inside, file] : found) {
      folder.allFiles.push_back({joined(inside, file), static_cast<int32_t>(place - classes.begin())});
    }
  }
  return {};
}

std::string ImageFolder::decode(const std::string &path, DecodedImage &image) {
  thread_local std::vector<uint8_t> bytes;
  const OpenedFile opened = openRegularFile(path, kMostFileBytes);
  if (opened.descriptor < 0) {
    return opened.fault;
  }
  struct Closer {
    int descriptor;
    ~Closer() { close(descriptor); }
  } closer{opened.descriptor};
  bytes.resize(opened.bytes);
  size_t done = 0;
  ssize_t got = 1;
  while (done < bytes.size() && got > 0) {
    got = ::read(opened.descriptor, bytes.data() + done, bytes.size() - done);
    done += got > 0 ? got : 0;
  }
  return done < bytes.size() ? "it could not be read to its end" : decodeImage(bytes.data(), bytes.size(), image);
}

} // namespace ashlar::rt
