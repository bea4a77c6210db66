// SPDX-License-Identifier: Apache-2.0
//
// Headers of safetensors files: there and back, and each refusal.

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/safetensors.h"

#include <cstring>

#include <catch2/catch.hpp>

namespace ashlar::test::safetensors_test {

using namespace ashlar::rt;

namespace {

// A header with its length, as other writers make it.
std::string headerOf(const std::string &json) {
  const uint64_t length = json.size();
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + json;
}

// Reads a file of that header and so many bytes of data.
Status readHeader(const std::string &header, uint64_t bytes, SafetensorsHeader &read) {
  return readSafetensorsHeader(header + std::string(bytes, 'x'), header.size() + bytes, "f", read);
}

std::string refusal(const std::string &json, uint64_t bytes) {
  SafetensorsHeader read;
  const Status status = readHeader(headerOf(json), bytes, read);
  CHECK(status.code() == StatusCode::kInvalid);
  return status.message();
}

} // namespace

TEST_CASE("safetensors: a header is read as it was written", "[checkpoint][safetensors]") {
  std::vector<StoredTensor> tensors;
  uint64_t begin = 0;
  for (uint32_t dtype = ASHLAR_RT_F32; dtype <= ASHLAR_RT_U64; ++dtype) {
    const uint64_t bytes = 6 * dtypeBytes(dtype);
    tensors.push_back({std::string("t\"\n[") + dtypeName(dtype), dtype, {2, 3}, begin, bytes});
    begin += bytes;
  }
  tensors.push_back({"scalar", ASHLAR_RT_F64, {}, begin, 8});
  tensors.push_back({"empty", ASHLAR_RT_F32, {0, 4}, begin + 8, 0});
  const std::string header = writeSafetensorsHeader(tensors, {{"key", "a value"}});
  CHECK(header.size() % 64 == 0);
  SafetensorsHeader read;
  const Status status = readHeader(header, begin + 8, read);
  REQUIRE(status.message().empty());
  CHECK(read.bytes == header.size());
  CHECK(read.metadata == std::map<std::string, std::string>{{"key", "a value"}});
  REQUIRE(read.tensors.size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(read.tensors[i].name == tensors[i].name);
    CHECK(read.tensors[i].dtype == tensors[i].dtype);
    CHECK(read.tensors[i].shape == tensors[i].shape);
    CHECK((read.tensors[i].begin == tensors[i].begin && read.tensors[i].bytes == tensors[i].bytes));
  }
}

TEST_CASE("safetensors: the header of the format's description", "[checkpoint][safetensors]") {
  const std::string header = writeSafetensorsHeader({{"a", ASHLAR_RT_BF16, {2}, 0, 4}}, {});
  CHECK(header.substr(8, 54) == R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]})");
  CHECK(header.substr(8) == R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})" + std::string(header.size() - 8 - 55, ' '));
  SafetensorsHeader read;
  // Of another writer: in any order, without spaces behind it, with metadata.
  CHECK(readHeader(headerOf(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]},"__metadata__":{"k":"v"},"a":)"
                            R"({"data_offsets":[0,4],"shape":[],"dtype":"F32"}})"),
                   5, read)
            .ok());
  REQUIRE(read.tensors.size() == 2);
  CHECK((read.tensors[0].name == "a" && read.tensors[1].name == "b"));
  // A name within an entry may be one of a tensor.
  CHECK(readHeader(headerOf(R"({"__metadata__":{"a":"v"},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})"), 1, read).ok());
  CHECK(readHeader(headerOf("{}"), 0, read).ok());
  CHECK((read.tensors.empty() && read.metadata.empty()));
  CHECK(readHeader(writeSafetensorsHeader({}, {}), 0, read).message().empty()); // of a rank that writes nothing
  CHECK((read.tensors.empty() && read.metadata.empty()));
}

TEST_CASE("safetensors: refused headers", "[checkpoint][safetensors]") {
  SafetensorsHeader read;
  CHECK(readSafetensorsHeader("", 0, "f", read).message() == "f is no safetensors file: a header of 0 bytes in a file of 0");
  CHECK(readSafetensorsHeader("1234567", 7, "f", read).message() == "f is no safetensors file: a header of 0 bytes in a file of 7");
  CHECK(readSafetensorsHeader(headerOf("{}").substr(0, 9), 9, "f", read).message() ==
        "f is no safetensors file: a header of 2 bytes in a file of 9");
  CHECK(readSafetensorsHeader(std::string(16, '\xff'), 16, "f", read).message() ==
        "f is no safetensors file: a header of 18446744073709551615 bytes in a file of 16");
  CHECK(refusal("[]", 0) == "f is no safetensors file: its header of 2 bytes is no JSON object");
  CHECK(refusal("{", 0) == "f is no safetensors file: its header of 1 bytes is no JSON object");
  for (const char *entry :
       {"1", "{}", R"({"dtype":"F32","shape":[1]})", R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})", R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})",
        R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})"}) {
    INFO(entry);
    CHECK(refusal(std::string("{\"a\":") + entry + "}", 4) == "f: the header's entry of a has no dtype, shape and data_offsets");
  }
  CHECK(refusal(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1) ==
        "f: a has type \"F8_E4M3\", which Ashlar does not have");
  CHECK(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4) == "f: a has 4 bytes, which its shape and type do not");
  CHECK(refusal(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0) ==
        "f: a has 0 bytes, which its shape and type do not");
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})", 9) ==
        "f: b begins at byte 5, the tensor before it ends at 4");
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})", 7) ==
        "f: b begins at byte 3, the tensor before it ends at 4");
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1) ==
        "f: its header has two entries a");
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}})", 0) ==
        "f: a begins at byte 18446744073709551615, the tensor before it ends at 0");
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]},"b":{"dtype":"U8",)"
                R"("shape":[9223372036854775807],"data_offsets":[9223372036854775807,18446744073709551614]}})",
                0)
            .find("it was cut or is damaged") != std::string::npos);
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3) ==
        "f has 64 bytes, 65 by its header; it was cut or is damaged");
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5) ==
        "f has 66 bytes, 65 by its header; it was cut or is damaged");
}

TEST_CASE("safetensors: names of types, there and back", "[checkpoint][safetensors]") {
  for (uint32_t dtype = ASHLAR_RT_F32; dtype <= ASHLAR_RT_U64; ++dtype) {
    CHECK(std::string(safetensorsType(dtype)) != "");
    CHECK(dtypeOfSafetensors(safetensorsType(dtype)) == dtype);
  }
  CHECK(dtypeOfSafetensors("F8_E5M2") == 0);
  CHECK(dtypeOfSafetensors("") == 0);
}

} // namespace ashlar::test::safetensors_test
