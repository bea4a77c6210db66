// SPDX-License-Identifier: Apache-2.0
//
// The files of a folder of images, a folder a class, as torchvision's ImageFolder finds them.

#ifndef ASHLAR_RUNTIME_DATA_FORMATS_IMAGE_FOLDER_H
#define ASHLAR_RUNTIME_DATA_FORMATS_IMAGE_FOLDER_H

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/formats/image_decoder.h"

#include <new>
#include <string>
#include <vector>

namespace ashlar::rt {

// A file and its class.
struct ImageFile {
  std::string name; // in the folder of its class
  int32_t label;
};

// The images of a split. `directory` is --data.
class ImageFolder {
public:
  // Returns the folder of a split: train, val, or eval where there is no val.
  static std::string pathOf(const std::string &directory, Split split);

  // Finds the images of a split, and the classes of the train split. Subfolders of a class are walked. Files of formats that cannot be read
  // are refused; those of no image format are left out.
  static Status open(const std::string &directory, Split split, ImageFolder &folder);

  const std::vector<std::string> &classes() const { return allClasses; }
  const std::vector<ImageFile> &files() const { return allFiles; }

  // Decodes a file and passes the image to `use`. The error names the file, also where memory is too small for either.
  template <typename Use> Status read(size_t file, Use use) const {
    thread_local DecodedImage image;
    image.height = image.width = 0;
    try {
      const std::string fault = decode(path(file), image);
      if (fault.empty()) {
        use(image);
        return {};
      }
      return invalid("cannot read the image \"{}\": {}; remove it or copy it again", path(file), fault);
    } catch (const std::bad_alloc &) {
      const std::string size = image.height == 0 ? "it does" : fmt::format("its {} x {} pixels do", image.height, image.width);
      return unavailable(
          "cannot read the image \"{}\": {} not fit into memory; scale it down, or raise the limit of the process (ulimit -v)", path(file),
          size);
    }
  }

private:
  std::string path(size_t file) const { return folder + "/" + allClasses[allFiles[file].label] + "/" + allFiles[file].name; }
  static std::string decode(const std::string &path, DecodedImage &image);

  std::string folder;
  std::vector<std::string> allClasses;
  std::vector<ImageFile> allFiles; // by class, then subfolder, then name
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FORMATS_IMAGE_FOLDER_H
