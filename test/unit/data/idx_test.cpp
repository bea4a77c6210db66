// SPDX-License-Identifier: Apache-2.0
//
// idx files: good ones, plain and gzip, and each way in which they can be wrong. All files are made here.

#include "runtime/base/output_file.h"
#include "runtime/data/dataset.h"
#include "test/unit/data/read_sample.h"
#include "test/unit/data/temporary_folder.h"

#include <zlib.h>

#include <catch2/catch.hpp>

namespace ashlar::test::idx_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

std::string bigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8), static_cast<char>(value)};
}

// `count` images of 3 x 2; pixel p of image i is 7 i + p.
std::string images(uint32_t count) {
  std::string bytes = bigEndian(0x803) + bigEndian(count) + bigEndian(3) + bigEndian(2);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t p = 0; p < 6; ++p) {
      bytes += static_cast<char>(7 * i + p);
    }
  }
  return bytes;
}

std::string labels(const std::string &values) {
  return bigEndian(0x801) + bigEndian(static_cast<uint32_t>(values.size())) + values;
}

void writeGzip(const std::string &path, const std::string &bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

// Returns the message of opening the train split of these two files, which must fail.
std::string refusal(const std::string &imageBytes, const std::string &labelBytes) {
  TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", imageBytes);
  folder.write("train-labels-idx1-ubyte", labelBytes);
  std::unique_ptr<Dataset> dataset;
  const Status status = openIdx({}, folder.path(), Split::kTrain, dataset);
  REQUIRE(!status.ok());
  REQUIRE_THAT(status.message(), Contains("idx"));
  return status.message();
}

void checkContents(Dataset &dataset) {
  REQUIRE(dataset.samples() == 3);
  REQUIRE(dataset.columns().size() == 2);
  REQUIRE(dataset.columns()[0].name == "image");
  REQUIRE(dataset.columns()[0].shape == std::vector<int64_t>{3, 2});
  REQUIRE(dataset.columns()[1].name == "label");
  for (uint64_t i = 0; i < 3; ++i) {
    const uint8_t *image = static_cast<const uint8_t *>(readSample(dataset, 0, i));
    REQUIRE(image[5] == 7 * i + 5);
    REQUIRE(*static_cast<const uint8_t *>(readSample(dataset, 1, i)) == "\1\0\11"[i]);
  }
}

} // namespace

TEST_CASE("idx: plain and gzip files are read, train and eval by their names", "[data][idx]") {
  TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", images(3));
  folder.write("train-labels.idx1-ubyte", labels(std::string("\1\0\11", 3)));
  writeGzip(folder.file("t10k-images-idx3-ubyte.gz"), images(3));
  writeGzip(folder.file("t10k-labels-idx1-ubyte.gz"), labels(std::string("\1\0\11", 3)));
  for (Split split : {Split::kTrain, Split::kEval}) {
    std::unique_ptr<Dataset> dataset;
    const Status status = openIdx({}, folder.path(), split, dataset);
    INFO(status.message());
    REQUIRE(status.ok());
    checkContents(*dataset);
  }
}

TEST_CASE("idx: wrong files are refused with both values", "[data][idx]") {
  const std::string good = labels(std::string("\1\2\3", 3));
  CHECK_THAT(refusal(images(4), good), Contains("holds 4 images") && Contains("holds 3 labels"));
  CHECK_THAT(refusal(good, good), Contains("begins with 0x00000801 but an idx file of images begins with 0x00000803"));
  CHECK_THAT(refusal(images(3), images(3)), Contains("begins with 0x00000803 but an idx file of labels begins with 0x00000801"));
  CHECK_THAT(refusal(images(3).substr(0, 20), good), Contains("truncated: 4 of 18 bytes of the data"));
  CHECK_THAT(refusal(images(3), good.substr(0, 3)), Contains("truncated: 3 of 4 bytes of the header"));
  CHECK_THAT(refusal(images(3) + "x", good), Contains("more than the 18 bytes"));
  CHECK_THAT(refusal(images(0), good), Contains("announces dim 0 of size 0"));
  // A forged size: 2^32 - 1 images of 2^31 pixels each.
  const std::string forged = bigEndian(0x803) + bigEndian(0xffffffff) + bigEndian(0x10000) + bigEndian(0x8000);
  CHECK_THAT(refusal(forged, good), Contains("announces dim"));
}

TEST_CASE("idx: a missing file and a cut gzip file are refused by name", "[data][idx]") {
  TemporaryFolder folder;
  std::unique_ptr<Dataset> dataset;
  CHECK_THAT(openIdx({}, folder.path(), Split::kEval, dataset).message(),
             Contains("no t10k-images-idx3-ubyte[.gz] in") && Contains(folder.path()));
  writeGzip(folder.file("full.gz"), labels(std::string(5000, '\1')));
  std::string bytes;
  {
    std::ifstream stream(folder.file("full.gz"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  folder.write("train-images-idx3-ubyte", images(3));
  folder.write("train-labels-idx1-ubyte.gz", bytes.substr(0, bytes.size() / 2));
  CHECK_THAT(openIdx({}, folder.path(), Split::kTrain, dataset).message(), Contains("truncated"));
  // Without all of its trailer, with junk behind it, with a wrong checksum, and a stream that is damaged: Python's gzip refuses each.
  const auto refused = [&](const std::string &changed) {
    folder.write("train-labels-idx1-ubyte.gz", changed);
    const std::string message = openIdx({}, folder.path(), Split::kTrain, dataset).message();
    CHECK_THAT(message, Contains("train-labels-idx1-ubyte.gz\" is ") && !Contains("<fd"));
    return message;
  };
  for (const size_t missing : {1, 4, 8, 9}) {
    CHECK_THAT(refused(bytes.substr(0, bytes.size() - missing)), Contains("truncated"));
  }
  CHECK_THAT(refused(bytes + "junk"), Contains("damaged behind its data: incorrect header check"));
  CHECK_THAT(refused(bytes + bytes[0]), Contains("truncated behind its data"));
  for (const size_t at : {bytes.size() - 6, bytes.size() - 1, bytes.size() / 2}) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(~changed[at]);
    CHECK_THAT(refused(changed), Contains("damaged"));
  }
}

TEST_CASE("idx: a gzip file may have several members", "[data][idx]") {
  TemporaryFolder folder;
  const std::string all = images(3);
  std::string bytes;
  for (const std::string &part : {all.substr(0, 10), all.substr(10)}) {
    writeGzip(folder.file("part.gz"), part);
    std::ifstream stream(folder.file("part.gz"), std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(stream), {});
  }
  folder.write("train-images-idx3-ubyte.gz", bytes);
  folder.write("train-labels-idx1-ubyte", labels(std::string("\1\0\11", 3)));
  std::unique_ptr<Dataset> dataset;
  REQUIRE(openIdx({}, folder.path(), Split::kTrain, dataset).ok());
  checkContents(*dataset);
}

} // namespace ashlar::test::idx_test
