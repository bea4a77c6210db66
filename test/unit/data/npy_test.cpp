// SPDX-License-Identifier: Apache-2.0
//
// .npy files: what is written is read back; what is malformed is refused in one readable line.

#include "runtime/data/formats/npy.h"
#include "test/unit/data/temporary_folder.h"

#include <chrono>
#include <cstring>

#include <catch2/catch.hpp>

namespace ashlar::test::npy_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

// Returns a file with the given version and dictionary, padded as numpy does, and then `elements`.
std::string npyBytes(int version, std::string dictionary, const std::string &elements) {
  const size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + dictionary.size()) % 64 != 63) {
    dictionary += ' ';
  }
  dictionary += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (size_t i = 0; i < prefix - 8; ++i) {
    bytes += static_cast<char>(dictionary.size() >> (8 * i) & 255);
  }
  return bytes + dictionary + elements;
}

// Returns the message of opening a file with these bytes, which must fail.
std::string refusal(const std::string &bytes) {
  TemporaryFolder folder;
  NpyFile file;
  const Status status = NpyFile::open(folder.write("x.npy", bytes), file);
  REQUIRE(!status.ok());
  REQUIRE_THAT(status.message(), Contains("x.npy"));
  REQUIRE(status.message().find('\n') == std::string::npos);
  return status.message();
}

} // namespace

TEST_CASE("npy: every type and rank is read back as written", "[data][npy]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.npy");
  const std::vector<int64_t> shapes[] = {{}, {5}, {2, 3}, {2, 1, 4, 3}, {0, 3}};
  const uint32_t elements[] = {ASHLAR_RT_F32, ASHLAR_RT_F64, ASHLAR_RT_I32, ASHLAR_RT_I64, ASHLAR_RT_U8,  ASHLAR_RT_BOOL,
                               ASHLAR_RT_F16, ASHLAR_RT_I8,  ASHLAR_RT_I16, ASHLAR_RT_U16, ASHLAR_RT_U32, ASHLAR_RT_U64};
  std::vector<unsigned char> data(24 * 8);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<unsigned char>(i * 37);
  }
  for (uint32_t element : elements) {
    for (const std::vector<int64_t> &shape : shapes) {
      REQUIRE(writeNpy(path, element, shape, data.data()).ok());
      REQUIRE(std::filesystem::file_size(path) % 64 == numElements(shape) * dtypeBytes(element) % 64);
      NpyFile file;
      const Status status = NpyFile::open(path, file);
      INFO(status.message());
      REQUIRE(status.ok());
      REQUIRE(file.element() == element);
      REQUIRE(file.shape() == shape);
      REQUIRE(std::memcmp(file.data(), data.data(), numElements(shape) * dtypeBytes(element)) == 0);
    }
  }
}

TEST_CASE("npy: versions 1 and 2 and keys in any order are read", "[data][npy]") {
  TemporaryFolder folder;
  for (int version : {1, 2}) {
    const std::string path =
        folder.write("v.npy", npyBytes(version, "{\"shape\": (2,), 'descr': '<i4', 'fortran_order': False}", std::string(8, '\1')));
    NpyFile file;
    const Status status = NpyFile::open(path, file);
    INFO(status.message());
    REQUIRE(status.ok());
    REQUIRE(static_cast<const int32_t *>(file.data())[1] == 0x01010101);
  }
}

TEST_CASE("npy: malformed files are refused by name", "[data][npy]") {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  CHECK_THAT(refusal(""), Contains("\": it is empty"));
  CHECK_THAT(refusal("PK\x03\x04 surely a zip"), Contains("is not a .npy file"));
  CHECK_THAT(refusal(npyBytes(3, good, "12345678")), Contains("version 3"));
  CHECK_THAT(refusal(npyBytes(1, good, "1234567")), Contains("announces (2,) elements of f32 (8 bytes) but holds 7 bytes"));
  CHECK_THAT(refusal(npyBytes(1, good, "123456789")), Contains("but holds 9 bytes"));
  CHECK_THAT(refusal(npyBytes(1, good, "").substr(0, 40)), Contains("truncated"));
  CHECK_THAT(refusal(npyBytes(2, good, "").substr(0, 11)), Contains("truncated"));
  CHECK_THAT(refusal(npyBytes(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "12345678")),
             Contains("elements of type '>f4'"));
  CHECK_THAT(refusal(npyBytes(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", std::string(16, '1'))),
             Contains("elements of type '<c8'; little-endian f2, f4,"));
  CHECK_THAT(refusal(npyBytes(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", "12345678")), Contains("Fortran order"));
  CHECK_THAT(refusal(npyBytes(1, "{'descr': '<f4', 'fortran_order': False, }", "")), Contains("malformed .npy header"));
  CHECK_THAT(refusal(npyBytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "")), Contains("malformed .npy header"));
  CHECK_THAT(refusal(npyBytes(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "")),
             Contains("malformed .npy header"));
  // A forged shape whose product overflows must not wrap around to a small file.
  CHECK_THAT(refusal(npyBytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "")),
             Contains("but holds 0 bytes"));
  NpyFile file;
  CHECK_THAT(NpyFile::open("/nowhere/x.npy", file).message(), Contains("cannot open \"/nowhere/x.npy\": No such file"));
}

TEST_CASE("npy: expect() names both types and both shapes", "[data][npy]") {
  TemporaryFolder folder;
  NpyFile file;
  REQUIRE(NpyFile::open(folder.write("x.npy", npyBytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678")), file)
              .ok());
  CHECK(file.expect(ASHLAR_RT_F32, {2}).ok());
  CHECK_THAT(file.expect(ASHLAR_RT_I64, {2}).message(), Contains("holds f32 but i64 is expected"));
  CHECK_THAT(file.expect(ASHLAR_RT_F32, {2, 1}).message(), Contains("has shape (2,) but (2, 1) is expected"));
}

TEST_CASE("npy: a file that is cut while it is read gives zeros, and an error that names it", "[data][npy]") {
  TemporaryFolder folder;
  std::vector<float> ones(50000, 1.0f);
  const std::string path = folder.file("x.npy");
  for (const size_t bytes : {size_t{100000}, size_t{4096}, size_t{1}, size_t{0}, 128 + 4 * ones.size() - 1}) { // the last within a page
    REQUIRE(writeNpy(path, ASHLAR_RT_F32, {50000}, ones.data()).ok());
    NpyFile file, other;
    REQUIRE(NpyFile::open(path, file).ok());
    REQUIRE(
        NpyFile::open(folder.write("other.npy", npyBytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234")), other)
            .ok());
    CHECK(file.check().ok());
    std::filesystem::resize_file(path, bytes);
    const auto *elements = static_cast<const float *>(file.data());
    double sum = 0;
    for (size_t i = 0; i < ones.size(); ++i) {
      sum += elements[i];
    }
    CHECK(sum < 50000);
    CHECK_THAT(file.check().message(), Contains("x.npy\" had 200128 bytes when it was opened"));
    CHECK(other.check().ok());
  }
}

TEST_CASE("npy: a file that is rewritten in place while it is read gives an error that names it", "[data][npy]") {
  TemporaryFolder folder;
  const float values[2] = {1, 2};
  const std::string path = folder.file("x.npy");
  REQUIRE(writeNpy(path, ASHLAR_RT_F32, {2}, values).ok());
  std::filesystem::last_write_time(path,
                                   std::filesystem::last_write_time(path) - std::chrono::milliseconds(20)); // clocks of files are coarse
  NpyFile file;
  REQUIRE(NpyFile::open(path, file).ok());
  CHECK(file.check().ok());
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(5)); // as touch does
  CHECK(file.check().ok());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(128).write("\0\0\x40\x40", 4);
  CHECK(static_cast<const float *>(file.data())[0] == 3);
  CHECK_THAT(file.check().message(), Contains("x.npy\" had 136 bytes when it was opened, and was changed since"));
}

TEST_CASE("npy: a file is rewritten in its last bytes", "[data][npy]") {
  TemporaryFolder folder;
  for (int64_t bytes : {3 * 4096 + 17, 100 * 4096 + 63, 1000 * 4096 + 50}) { // fewer than 64 blocks, and more
    const std::vector<char> values(bytes);
    const std::string path = folder.file("x.npy");
    REQUIRE(writeNpy(path, ASHLAR_RT_I8, {bytes}, values.data()).ok());
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - std::chrono::seconds(5));
    NpyFile file;
    REQUIRE(NpyFile::open(path, file).ok());
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).write("x", 1);
    INFO(bytes);
    CHECK_FALSE(file.check().ok());
  }
}

TEST_CASE("npy: a file that cannot be written leaves nothing behind", "[data][npy]") {
  const float value = 1;
  CHECK_THAT(writeNpy("/nowhere/y.npy", ASHLAR_RT_F32, {}, &value).message(), Contains("cannot write /nowhere/y.npy: No such file"));
}

} // namespace ashlar::test::npy_test
