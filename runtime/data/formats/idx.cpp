// SPDX-License-Identifier: Apache-2.0
//
// The idx files of MNIST, plain or gzip: big-endian header {magic, sizes}, then one byte an element. Read whole at the start, and checked.

#include "runtime/abi/regular_file.h"
#include "runtime/base/output_file.h"
#include "runtime/data/dataset.h"

#include <array>
#include <cstring>

#include <unistd.h>
#include <zlib.h>

namespace ashlar::rt {

namespace {

constexpr uint32_t kImageMagic = 0x00000803; // unsigned bytes, three dims
constexpr uint32_t kLabelMagic = 0x00000801; // unsigned bytes, one dim

class IdxDataset final : public Dataset {
public:
  IdxDataset(std::vector<Column> columns, std::vector<uint8_t> images, std::vector<uint8_t> labels, std::array<KeptFile, 2> files)
      : allColumns(std::move(columns)), images(std::move(images)), labels(std::move(labels)), imageBytes(numElements(allColumns[0].shape)),
        files(std::move(files)) {}

  uint64_t samples() const override { return labels.size(); }
  const std::vector<Column> &columns() const override { return allColumns; }
  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    return column == 0 ? images.data() + which.sample * imageBytes : labels.data() + which.sample;
  }

private:
  std::vector<Column> allColumns;
  std::vector<uint8_t> images, labels;
  size_t imageBytes;
  std::array<KeptFile, 2> files;
};

// Returns the path of the idx file in `directory`: the usual name, also with a dot before idx, also with .gz behind.
Status findFile(const std::string &directory, const std::string &stem, const std::string &suffix, std::string &path) {
  for (const char *separator : {"-", "."}) {
    for (const char *ending : {"", ".gz"}) {
      path = fmt::format("{}/{}{}{}{}", directory, stem, separator, suffix, ending);
      if (access(path.c_str(), F_OK) == 0) {
        return {};
      }
    }
  }
  return unavailable("no {}-{}[.gz] in \"{}\"; --data names the folder with the idx files", stem, suffix, directory);
}

// Closes the file at the end of the scope.
struct GzCloser {
  void operator()(gzFile_s *file) const { gzclose(file); }
};

// Reads exactly `bytes` bytes; `what` says of what.
Status readBytes(gzFile_s *file, const std::string &path, const char *what, void *to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const unsigned chunk = static_cast<unsigned>(std::min<size_t>(bytes - done, 1 << 24));
    const int count = gzread(file, static_cast<char *>(to) + done, chunk);
    if (count <= 0) {
      int code = Z_OK;
      const char *reason = gzerror(file, &code);
      const bool damaged = code != Z_OK && code != Z_BUF_ERROR;
      return invalid("\"{}\" is {}: {} of {} bytes of {} could be read{}{}", path, damaged ? "damaged" : "truncated", done, bytes, what,
                     damaged ? ": " : "", damaged ? reason : "");
    }
    done += count;
  }
  return {};
}

// Reads one number of the header.
Status readWord(gzFile_s *file, const std::string &path, uint32_t &word) {
  uint8_t bytes[4] = {};
  ASHLAR_RETURN_IF_ERROR(readBytes(file, path, "the header", bytes, sizeof(bytes)));
  word = uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  return {};
}

// Reads an idx file of the given magic number, and with it its dims.
template <size_t Rank>
Status readIdx(const std::string &path, uint32_t magic, std::array<int64_t, Rank> &dims, std::vector<uint8_t> &data) {
  const OpenedFile opened = openRegularFile(path, INT64_MAX);
  if (opened.descriptor < 0) {
    return unavailable("cannot open \"{}\": {}", path, opened.fault);
  }
  std::unique_ptr<gzFile_s, GzCloser> file(gzdopen(opened.descriptor, "rb")); // closes it
  if (!file) {
    close(opened.descriptor);
    return unavailable("cannot open \"{}\": out of memory", path);
  }
  gzbuffer(file.get(), 1 << 18);
  uint32_t found = 0;
  ASHLAR_RETURN_IF_ERROR(readWord(file.get(), path, found));
  if (found != magic) {
    return invalid("\"{}\" begins with 0x{:08x} but an idx file of {} begins with 0x{:08x}", path, found, Rank == 1 ? "labels" : "images",
                   magic);
  }
  size_t bytes = 1;
  for (size_t i = 0; i < Rank; ++i) {
    ASHLAR_RETURN_IF_ERROR(readWord(file.get(), path, found));
    dims[i] = found;
    if (dims[i] == 0 || bytes > (size_t{1} << 40) / dims[i]) {
      return invalid("\"{}\" announces dim {} of size {}; no such idx file can be read", path, i, dims[i]);
    }
    bytes *= dims[i];
  }
  // Grows as it is read, so that a forged size ends in "truncated" and not in an allocation that fails.
  for (size_t done = 0; done < bytes;) {
    const size_t chunk = std::min<size_t>(bytes - done, 1 << 26);
    data.resize(done + chunk);
    Status status = readBytes(file.get(), path, "the data", data.data() + done, chunk);
    if (!status.ok()) {
      return status;
    }
    done += chunk;
  }
  char extra = 0;
  if (gzread(file.get(), &extra, 1) > 0) {
    return invalid("\"{}\" holds more than the {} bytes of data that its header announces", path, bytes);
  }
  return {};
}

} // namespace

Status openIdx(const ashlar_rt_dataset &description, const std::string &directory, Split split, std::unique_ptr<Dataset> &dataset) {
  const std::string stem = split == Split::kTrain ? "train" : "t10k";
  std::string imagePath, labelPath;
  ASHLAR_RETURN_IF_ERROR(findFile(directory, stem + "-images", "idx3-ubyte", imagePath));
  ASHLAR_RETURN_IF_ERROR(findFile(directory, stem + "-labels", "idx1-ubyte", labelPath));
  std::array<int64_t, 3> imageDims = {};
  std::array<int64_t, 1> labelDims = {};
  std::vector<uint8_t> images, labels;
  ASHLAR_RETURN_IF_ERROR(readIdx(labelPath, kLabelMagic, labelDims, labels));
  ASHLAR_RETURN_IF_ERROR(readIdx(imagePath, kImageMagic, imageDims, images));
  if (imageDims[0] != labelDims[0]) {
    return invalid("\"{}\" holds {} images but \"{}\" holds {} labels", imagePath, imageDims[0], labelPath, labelDims[0]);
  }
  std::vector<Column> columns = {{"image", ASHLAR_RT_U8, {imageDims[1], imageDims[2]}}, {"label", ASHLAR_RT_U8, {}}};
  std::array<KeptFile, 2> files = {keepFile(imagePath), keepFile(labelPath)};
  dataset = std::make_unique<IdxDataset>(std::move(columns), std::move(images), std::move(labels), std::move(files));
  return {};
}

const DataFormat ASHLAR_RT_COMPONENT(data_idx) = {"idx", openIdx, /*isGenerated=*/false};

} // namespace ashlar::rt
