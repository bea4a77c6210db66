// SPDX-License-Identifier: Apache-2.0
//
// The idx files of MNIST, plain or gzip: big-endian header {magic, sizes}, then one byte an element. Read whole at the start, and checked.

#include "runtime/base/mapped_file.h"
#include "runtime/data/dataset.h"

#include <algorithm>
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
  IdxDataset(std::vector<Column> columns, std::vector<uint8_t> images, std::vector<uint8_t> labels)
      : allColumns(std::move(columns)), images(std::move(images)), labels(std::move(labels)), imageBytes(numElements(allColumns[0].shape)) {
  }

  uint64_t samples() const override { return labels.size(); }
  const std::vector<Column> &columns() const override { return allColumns; }
  const void *read(size_t column, const SampleRandom &which, void *scratch) override {
    return column == 0 ? images.data() + which.sample * imageBytes : labels.data() + which.sample;
  }

private:
  std::vector<Column> allColumns;
  std::vector<uint8_t> images, labels;
  size_t imageBytes;
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

// The bytes of a file, inflated where it is gzip.
class IdxFile {
public:
  IdxFile() = default;
  IdxFile(const IdxFile &) = delete;
  IdxFile &operator=(const IdxFile &) = delete;
  ~IdxFile() { inflateEnd(&stream); }

  Status open(const std::string &path) {
    this->path = path;
    ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, mapping));
    isGzip = mapping.size() >= 2 && std::memcmp(mapping.data(), "\x1f\x8b", 2) == 0;
    if (isGzip && inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) { // 16: gzip's header and trailer
      return unavailable("cannot open \"{}\": out of memory", path);
    }
    return {};
  }

  // Reads exactly `bytes` bytes; `what` says of what.
  Status read(const char *what, void *to, size_t bytes) {
    const size_t done = take(to, bytes);
    if (done < bytes) {
      ASHLAR_RETURN_IF_ERROR(mapping.check()); // rather that it was cut
      return invalid("\"{}\" is {}: {} of {} bytes of {} could be read{}{}; copy it again", path, fault ? "damaged" : "truncated", done,
                     bytes, what, fault ? ": " : "", fault ? fault : "");
    }
    return {};
  }

  // Fails unless all of the file was read, gzip's checksum included.
  Status finish(size_t bytes) {
    char extra = 0;
    if (take(&extra, 1) > 0) {
      return invalid("\"{}\" holds more than the {} bytes of data that its header announces", path, bytes);
    }
    if (fault || !isAtEnd) {
      return invalid("\"{}\" is {} behind its data{}{}; copy it again", path, fault ? "damaged" : "truncated", fault ? ": " : "",
                     fault ? fault : "");
    }
    return mapping.check();
  }

private:
  // Takes at most `bytes` bytes, fewer only at the end of the file or at a fault.
  size_t take(void *to, size_t bytes) {
    if (!isGzip) {
      const size_t given = std::min(bytes, mapping.size() - taken);
      std::memcpy(to, mapping.data() + taken, given);
      taken += given;
      isAtEnd = taken == mapping.size();
      return given;
    }
    size_t done = 0;
    while (done < bytes && !isAtEnd && !fault) {
      const size_t room = std::min<size_t>(bytes - done, kMostPart), given = std::min<size_t>(mapping.size() - taken, kMostPart);
      stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(mapping.data() + taken));
      stream.avail_in = static_cast<uInt>(given);
      stream.next_out = static_cast<Bytef *>(to) + done;
      stream.avail_out = static_cast<uInt>(room);
      const int result = inflate(&stream, Z_NO_FLUSH);
      taken += given - stream.avail_in;
      done += room - stream.avail_out;
      if (result == Z_BUF_ERROR) { // the file ends too early
        break;
      }
      isAtEnd = result == Z_STREAM_END && taken == mapping.size();
      if (result == Z_STREAM_END && !isAtEnd) { // another member, or bytes that are none
        inflateReset(&stream);
      } else if (result != Z_OK && !isAtEnd) {
        fault = stream.msg != nullptr ? stream.msg : "out of memory";
      }
    }
    return done;
  }

  static constexpr size_t kMostPart = size_t{1} << 30; // zlib counts in 32 bits

  std::string path;
  MappedFile mapping;
  z_stream stream = {};
  size_t taken = 0; // of the mapping
  bool isGzip = false, isAtEnd = false;
  const char *fault = nullptr; // of zlib
};

// Reads one number of the header.
Status readWord(IdxFile &file, uint32_t &word) {
  uint8_t bytes[4] = {};
  ASHLAR_RETURN_IF_ERROR(file.read("the header", bytes, sizeof(bytes)));
  word = uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  return {};
}

// Reads an idx file of the given magic number, and with it its dims.
template <size_t Rank>
Status readIdx(const std::string &path, uint32_t magic, std::array<int64_t, Rank> &dims, std::vector<uint8_t> &data) {
  IdxFile file;
  ASHLAR_RETURN_IF_ERROR(file.open(path));
  uint32_t found = 0;
  ASHLAR_RETURN_IF_ERROR(readWord(file, found));
  if (found != magic) {
    return invalid("\"{}\" begins with 0x{:08x} but an idx file of {} begins with 0x{:08x}", path, found, Rank == 1 ? "labels" : "images",
                   magic);
  }
  size_t bytes = 1;
  for (size_t i = 0; i < Rank; ++i) {
    ASHLAR_RETURN_IF_ERROR(readWord(file, found));
    dims[i] = found;
    if (dims[i] == 0 || bytes > (size_t{1} << 40) / dims[i]) {
      return invalid("\"{}\" announces dim {} of size {}; no such idx file can be read", path, i, dims[i]);
    }
    bytes *= dims[i];
  }
  // Grows as it is read, so that a forged size ends in "truncated" and not in an allocation that fails.
  for (size_t done = 0; done < bytes; done = data.size()) {
    data.resize(done + std::min<size_t>(bytes - done, 1 << 26));
    ASHLAR_RETURN_IF_ERROR(file.read("the data", data.data() + done, data.size() - done));
  }
  return file.finish(bytes);
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
  dataset = std::make_unique<IdxDataset>(std::move(columns), std::move(images), std::move(labels));
  return {};
}

static std::vector<std::string> idxFiles(const ashlar_rt_dataset &) {
  return {"train-images?idx3-ubyte*", "train-labels?idx1-ubyte*", "t10k-images?idx3-ubyte*", "t10k-labels?idx1-ubyte*"};
}

const DataFormat ASHLAR_RT_COMPONENT(data_idx) = {"idx", openIdx, /*isGenerated=*/false, idxFiles};

} // namespace ashlar::rt
