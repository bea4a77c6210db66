// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 and HMAC against published vectors (FIPS 180-4, RFC 4231).

#include "runtime/comm/tcp/hmac.h"

#include <catch2/catch.hpp>

#include <string>

namespace ashlar::test::hmac_test {

using namespace ashlar::rt;

namespace {

std::string hex(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

std::string hashOf(const std::string &text) {
  return hex(sha256(text.data(), text.size()));
}

std::string macOf(const std::string &key, const std::string &text) {
  return hex(hmac(key.data(), key.size(), text.data(), text.size()));
}

} // namespace

TEST_CASE("sha256: published vectors", "[runtime][comm][tcp]") {
  CHECK(hashOf("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hashOf("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") == // 56 bytes: the length needs a block of its own
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hashOf(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("hmac: published vectors", "[runtime][comm][tcp]") {
  CHECK(macOf(std::string(20, '\x0b'), "Hi There") == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(macOf("Jefe", "what do ya want for nothing?") == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(macOf(std::string(20, '\xaa'), std::string(50, '\xdd')) == "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  CHECK(macOf(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("hmac: digests that differ in one bit are not equal", "[runtime][comm][tcp]") {
  const Digest digest = sha256("", 0);
  CHECK(areEqual(digest, digest));
  for (size_t byte : {size_t{0}, size_t{17}, size_t{31}}) {
    Digest other = digest;
    other[byte] ^= 0x80;
    CHECK(!areEqual(digest, other));
  }
}

} // namespace ashlar::test::hmac_test
