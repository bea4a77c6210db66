// SPDX-License-Identifier: Apache-2.0
//
// Tensors that were cut at random are read back whole and in parts, and damage is found where it is.

#include "runtime/checkpoint/reader.h"
#include "test/unit/checkpoint/written_checkpoint.h"
#include "test/unit/data/temporary_folder.h"

#include <catch2/catch.hpp>

namespace ashlar::test::reader_test {

using namespace ashlar::rt;
using ashlar::test::randomTensor;

namespace {

std::string readRange(CheckpointReader &reader, const CheckpointTensor &tensor, const std::vector<int64_t> &start,
                      const std::vector<int64_t> &size, Status &status) {
  std::string bytes(countElements(size) * dtypeBytes(tensor.dtype), '\x55');
  status = reader.read(tensor, {start.size(), start.data(), size.data(), size.data()}, bytes.data());
  return bytes;
}

// A matrix of 200 KiB in one file.
std::vector<ashlar::test::WholeTensor> oneMatrix() {
  return {randomTensor("w", ASHLAR_RT_U8, {400, 512}, 1)};
}

// Its index where it is one piece.
CheckpointIndex writeWhole(const std::string &folder) {
  for (uint32_t seed = 0;; ++seed) {
    CheckpointIndex index = ashlar::test::writeCheckpoint(folder, oneMatrix(), 1, seed);
    if (index.tensors[0].pieces.size() == 1) {
      return index;
    }
  }
}

} // namespace

TEST_CASE("checkpoint reader: the part of a host has what it has, and names what it lacks", "[checkpoint][reader]") {
  ashlar::test::TemporaryFolder place;
  const ashlar::test::WholeTensor matrix = randomTensor("w", ASHLAR_RT_F32, {8, 6}, 1);
  CheckpointIndex index;
  for (uint32_t seed = 0; index.tensors.empty() || index.tensors[0].pieces.size() < 3; ++seed) {
    index = ashlar::test::writeCheckpoint(place.path(), {matrix}, 1, seed);
  }
  std::vector<CheckpointPiece> &pieces = index.tensors[0].pieces;
  const CheckpointPiece lost = pieces.back();
  pieces.back() = pieces.front(); // twice: that is not what makes up for the lost one
  place.write(kIndexFile, writeIndex(index));
  CheckpointReader reader;
  CHECK_THAT(reader.open(place.path()).message(), Catch::Contains("the pieces of w do not make it up"));
  index.host = 1;
  index.hosts = 3;
  place.write(kIndexFile, writeIndex(index));
  REQUIRE(reader.open(place.path()).message().empty());
  CHECK((reader.index().host == 1 && reader.index().hosts == 3));
  const CheckpointTensor &tensor = reader.index().tensors[0];
  Status status;
  for (const CheckpointPiece &piece : tensor.pieces) {
    CHECK(readRange(reader, tensor, piece.start, piece.size, status) == ashlar::test::bytesOfPiece(matrix, piece.start, piece.size));
    CHECK(status.message().empty());
  }
  readRange(reader, tensor, lost.start, lost.size, status);
  const uint64_t missing = countElements(lost.size);
  CHECK(status.message() ==
        fmt::format("{} has 0 of the {} wanted elements of w: it is the part of host 1 of 3, which --checkpoint-local kept; "
                    "start the same ranks on the hosts that wrote it",
                    place.path(), missing));
  readRange(reader, tensor, {0, 0}, {8, 6}, status);
  CHECK_THAT(status.message(), Catch::Contains(fmt::format("has {} of the 48 wanted elements", 48 - missing)));
}

TEST_CASE("checkpoint reader: any range of tensors that were cut anyhow", "[checkpoint][reader]") {
  std::mt19937 random(4);
  for (uint32_t trial = 0; trial < 60; ++trial) {
    ashlar::test::TemporaryFolder place;
    std::vector<ashlar::test::WholeTensor> tensors;
    const uint32_t dtypes[] = {ASHLAR_RT_F32, ASHLAR_RT_F64, ASHLAR_RT_BF16, ASHLAR_RT_U8};
    for (size_t rank = 0; rank <= 4; ++rank) {
      std::vector<int64_t> shape;
      for (size_t dim = 0; dim < rank; ++dim) {
        shape.push_back(trial % 7 == 0 && dim == 1 ? 0 : 1 + static_cast<int64_t>(random() % 7));
      }
      tensors.push_back(randomTensor("t" + std::to_string(rank), dtypes[random() % 4], shape, static_cast<uint32_t>(random())));
    }
    ashlar::test::writeCheckpoint(place.path(), tensors, 1 + trial % 4, trial);
    CheckpointReader reader;
    REQUIRE(reader.open(place.path() + "//").message().empty());
    CHECK(reader.folder() == place.path());
    for (const ashlar::test::WholeTensor &tensor : tensors) {
      const CheckpointTensor *stored = reader.index().find(tensor.name);
      REQUIRE(stored != nullptr);
      Status status;
      CHECK(readRange(reader, *stored, std::vector<int64_t>(tensor.shape.size()), tensor.shape, status) == tensor.bytes);
      CHECK(status.ok());
      std::vector<int64_t> start, size;
      for (int64_t whole : tensor.shape) {
        start.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(whole + 1)));
        size.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(whole - start.back() + 1)));
      }
      CHECK(readRange(reader, *stored, start, size, status) == ashlar::test::bytesOfPiece(tensor, start, size));
      CHECK(status.ok());
    }
    CHECK(reader.check().ok());
    const uint64_t before = reader.bytesVerified();
    CHECK(before <= reader.bytesCopied());
    CHECK(reader.verify() == std::vector<std::string>());
    uint64_t all = 0;
    for (const ashlar::test::WholeTensor &tensor : tensors) {
      all += tensor.bytes.size();
    }
    CHECK(before == all); // each byte was verified once, however often it was read
    CHECK(reader.bytesVerified() == 2 * all);
  }
}

TEST_CASE("checkpoint reader: padding is left alone", "[checkpoint][reader]") {
  ashlar::test::TemporaryFolder place;
  const ashlar::test::WholeTensor tensor = randomTensor("w", ASHLAR_RT_U8, {3, 2}, 1);
  ashlar::test::writeCheckpoint(place.path(), {tensor}, 2, 1);
  CheckpointReader reader;
  REQUIRE(reader.open(place.path()).ok());
  const std::vector<int64_t> start = {1, 0}, size = {2, 2}, shape = {3, 3};
  std::string array(9, '-');
  REQUIRE(reader.read(reader.index().tensors[0], {2, start.data(), size.data(), shape.data()}, array.data()).ok());
  CHECK(array == tensor.bytes.substr(2, 2) + "-" + tensor.bytes.substr(4, 2) + "----");
  CHECK(reader.bytesCopied() == 4);
}

TEST_CASE("checkpoint reader: a part verifies the 64 KiB that it is in, and no more", "[checkpoint][reader]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointIndex index = writeWhole(place.path());
  const uint64_t offset = index.tensors[0].pieces[0].offset;
  const std::string path = place.file("rank-00000.safetensors");
  ashlar::test::flipByte(path, offset + 2 * kChecksumBytes + 5); // in row 256
  CheckpointReader reader;
  REQUIRE(reader.open(place.path()).ok());
  const CheckpointTensor &tensor = reader.index().tensors[0];
  Status status;
  CHECK(readRange(reader, tensor, {0, 0}, {2, 3}, status) == ashlar::test::bytesOfPiece(oneMatrix()[0], {0, 0}, {2, 3}));
  CHECK(status.ok());
  CHECK(reader.bytesVerified() == kChecksumBytes);
  readRange(reader, tensor, {127, 0}, {2, 512}, status);
  CHECK(status.ok());
  CHECK(reader.bytesVerified() == 2 * kChecksumBytes);
  readRange(reader, tensor, {383, 0}, {1, 1}, status);
  const std::string text = status.message();
  CHECK(text.find(fmt::format("{} is damaged: bytes {} to {}, of w, have the checksum ", path, offset + 2 * kChecksumBytes,
                              offset + 3 * kChecksumBytes - 1)) == 0);
  CHECK(text.find(fmt::format(", not {:016x}; take another checkpoint", index.tensors[0].pieces[0].checksums[2])) != std::string::npos);
  readRange(reader, tensor, {399, 0}, {1, 512}, status);
  CHECK(status.ok());
}

TEST_CASE("checkpoint reader: one line for each damaged range", "[checkpoint][reader]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointIndex index = writeWhole(place.path());
  const uint64_t offset = index.tensors[0].pieces[0].offset, bytes = oneMatrix()[0].bytes.size();
  const std::string path = place.file("rank-00000.safetensors");
  CheckpointReader reader;
  auto expect = [&](std::vector<std::string> lines, uint64_t verified) {
    REQUIRE(reader.open(place.path()).ok());
    CHECK(reader.verify() == lines);
    CHECK(reader.bytesVerified() == verified);
  };
  auto line = [&](uint64_t first, uint64_t last) {
    return fmt::format("{} is damaged: bytes {} to {}, of w, have other checksums than in index.json", path, offset + first, offset + last);
  };
  expect({}, bytes);
  ashlar::test::flipByte(path, offset);
  expect({line(0, kChecksumBytes - 1)}, bytes - kChecksumBytes);
  ashlar::test::flipByte(path, offset + kChecksumBytes);
  expect({line(0, 2 * kChecksumBytes - 1)}, bytes - 2 * kChecksumBytes);
  ashlar::test::flipByte(path, offset + bytes - 1);
  expect({line(0, 2 * kChecksumBytes - 1), line(3 * kChecksumBytes, bytes - 1)}, kChecksumBytes);
  ashlar::test::flipByte(path, offset + kChecksumBytes);
  expect({line(0, kChecksumBytes - 1), line(3 * kChecksumBytes, bytes - 1)}, 2 * kChecksumBytes);
}

TEST_CASE("checkpoint reader: a header that says something else is damage", "[checkpoint][reader]") {
  ashlar::test::TemporaryFolder place;
  writeWhole(place.path());
  const std::string path = place.file("rank-00000.safetensors");
  CheckpointReader reader;
  REQUIRE(reader.open(place.path()).ok());
  ashlar::test::flipByte(path, 8);
  REQUIRE(reader.verify().size() == 1);
  CHECK(reader.verify()[0].find(path + " is no safetensors file: ") == 0);
  auto rewrite = [&](const std::vector<StoredTensor> &tensors) {
    const std::string header = writeSafetensorsHeader(tensors, {});
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file << header << std::flush;
    REQUIRE(reader.open(place.path()).ok()); // again: an open file that is written to is none to read from
    REQUIRE(header.size() == reader.index().tensors[0].pieces[0].offset);
  };
  const uint64_t offset = reader.index().tensors[0].pieces[0].offset;
  const std::string end = ", which differs from index.json";
  rewrite({{"v", ASHLAR_RT_U8, {400, 512}, 0, 204800}});
  CHECK(reader.verify() == std::vector<std::string>{fmt::format("{} is damaged: its header has v at byte {} where w at byte {} is to be{}",
                                                                path, offset, offset, end)});
  rewrite({{"w", ASHLAR_RT_I8, {400, 512}, 0, 204800}});
  CHECK(reader.verify().size() == 1);
  rewrite({{"w", ASHLAR_RT_U8, {512, 400}, 0, 204800}});
  CHECK(reader.verify().size() == 1);
  rewrite({{"w", ASHLAR_RT_U8, {400, 512}, 0, 204800}});
  CHECK(reader.verify().empty());
}

TEST_CASE("checkpoint reader: a file that is cut or gone while it is read", "[checkpoint][reader]") {
  ashlar::test::TemporaryFolder place;
  const CheckpointIndex index = writeWhole(place.path());
  const std::string path = place.file("rank-00000.safetensors");
  CheckpointReader reader;
  Status status;
  REQUIRE(reader.open(place.path()).ok());
  readRange(reader, reader.index().tensors[0], {0, 0}, {1, 1}, status);
  REQUIRE(status.ok());
  std::filesystem::resize_file(path, 70000);
  CHECK(reader.check().message().find("was changed since or cannot be read any more") != std::string::npos);
  readRange(reader, reader.index().tensors[0], {200, 0}, {100, 512}, status);
  CHECK(status.message().find("was changed since or cannot be read any more") != std::string::npos);
  reader.close();
  CHECK(reader.check().ok());
  writeWhole(place.path());
  REQUIRE(reader.open(place.path()).ok());
  std::filesystem::remove(path);
  readRange(reader, reader.index().tensors[0], {0, 0}, {1, 1}, status);
  CHECK(status.message() == "cannot open \"" + path + "\": No such file or directory");
  CHECK(reader.verify() == std::vector<std::string>{status.message()});
}

TEST_CASE("checkpoint reader: lists the files that it reads", "[checkpoint][reader]") {
  ashlar::test::TemporaryFolder place;
  writeWhole(place.path());
  CheckpointReader reader;
  REQUIRE(reader.open(place.path()).ok());
  const std::vector<std::string> paths = reader.paths();
  for (const auto &entry : std::filesystem::directory_iterator(place.path())) {
    CHECK(std::count(paths.begin(), paths.end(), entry.path().string()) == 1);
  }
}

} // namespace ashlar::test::reader_test
