// SPDX-License-Identifier: Apache-2.0
//
// Sizes with units, and what is none.

#include "compiler/command/byte_count.h"

#include <catch2/catch.hpp>

namespace ashlar::test::byte_count_test {

using ashlar::command::parseByteCount;

TEST_CASE("byte count: powers of 1000 and of 1024", "[driver]") {
  CHECK(llvm::cantFail(parseByteCount("512B")) == 512);
  CHECK(llvm::cantFail(parseByteCount("1 kB")) == 1000);
  CHECK(llvm::cantFail(parseByteCount("2KiB")) == 2048);
  CHECK(llvm::cantFail(parseByteCount("3MB")) == 3'000'000);
  CHECK(llvm::cantFail(parseByteCount("3MiB")) == 3 << 20);
  CHECK(llvm::cantFail(parseByteCount("80GB")) == 80'000'000'000);
  CHECK(llvm::cantFail(parseByteCount("1.5 GiB")) == (int64_t(3) << 29));
  CHECK(llvm::cantFail(parseByteCount("80gb")) == 80'000'000'000);
  CHECK(llvm::cantFail(parseByteCount("1TiB")) == int64_t(1) << 40);
}

TEST_CASE("byte count: a number without a unit, a unit without a number, nothing at all", "[driver]") {
  for (const char *text : {"", "80", "GB", "80G", "0GB", "0.1B", "-1GB", "1.2.3GB", "80GBs", "9999999TB", "1e3MB"}) {
    INFO(text);
    llvm::Expected<int64_t> bytes = parseByteCount(text);
    REQUIRE_FALSE(static_cast<bool>(bytes));
    CHECK(llvm::toString(bytes.takeError()).find("is no size; write a number and a unit") != std::string::npos);
  }
}

} // namespace ashlar::test::byte_count_test
