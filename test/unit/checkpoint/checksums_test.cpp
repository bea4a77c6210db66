// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/checksums.h"

#include <catch2/catch.hpp>

namespace ashlar::test::checksums_test {

using namespace ashlar::rt;

TEST_CASE("checksums: XXH64 without a seed, as its authors' examples have it", "[checkpoint][checksums]") {
  CHECK(checksumOf("", 0) == 0xef46db3751d8e999);
  CHECK(checksumOf("a", 1) == 0xd24ec4f1a98c6e5b);
  CHECK(checksumOf("abc", 3) == 0x44bc2cf5ad770999);
}

TEST_CASE("checksums: one of each 64 KiB and one of the rest", "[checkpoint][checksums]") {
  for (size_t bytes : {size_t{0}, size_t{1}, kChecksumBytes - 1, kChecksumBytes, kChecksumBytes + 1, 3 * kChecksumBytes}) {
    std::string data(bytes, 'x');
    for (size_t i = 0; i < bytes; ++i) {
      data[i] = static_cast<char>(i * 7 + i / 251);
    }
    const std::vector<uint64_t> checksums = checksumsOf(data.data(), bytes);
    REQUIRE(checksums.size() == (bytes + 65535) / 65536);
    for (size_t part = 0; part < checksums.size(); ++part) {
      const std::string own = data.substr(part * 65536, 65536);
      CHECK(checksums[part] == checksumOf(own.data(), own.size()));
    }
  }
}

TEST_CASE("checksums: digits and back", "[checkpoint][checksums]") {
  const std::vector<uint64_t> checksums = {0, 1, UINT64_MAX, 0x0123456789abcdef};
  const std::string text = checksumText(checksums);
  CHECK(text == "00000000000000000000000000000001ffffffffffffffff0123456789abcdef");
  std::vector<uint64_t> read = {7};
  CHECK((readChecksums(text, read) && read == checksums));
  CHECK((readChecksums("", read) && read.empty()));
  for (const char *wrong :
       {"1", "012345678901234", "01234567890123456", "0123456789abcdeg", "-123456789abcdef", "0x23456789abcdef", " 123456789abcdef"}) {
    INFO(wrong);
    CHECK_FALSE(readChecksums(wrong, read));
  }
}

} // namespace ashlar::test::checksums_test
