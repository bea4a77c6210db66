// SPDX-License-Identifier: Apache-2.0
//
// Status and random numbers.

#include "runtime/base/philox.h"
#include "runtime/base/status.h"

#include <catch2/catch.hpp>

namespace ashlar::test::base_test {

using namespace ashlar::rt;

TEST_CASE("status: the first failure wins", "[runtime][status]") {
  Status status;
  CHECK(status.ok());
  status.update(Status());
  CHECK(status.ok());
  status.update(invalid("batch {} does not divide by {} ranks", 7, 4));
  status.update(unavailable("second"));
  CHECK(status.code() == StatusCode::kInvalid);
  CHECK(status.message() == "batch 7 does not divide by 4 ranks");
}

TEST_CASE("philox: the known answers of Random123", "[runtime][philox]") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: seed, stream, counter and index go to the documented words", "[runtime][philox]") {
  CHECK(philoxWords(0x299f31d0a4093822, 0x03707344, 0x13198a2e, 0x85a308d3243f6a88) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: uniforms are exact fractions below one", "[runtime][philox]") {
  CHECK(uniformFloat({0xffffffff, 0, 0, 0}) == 1 - 0x1p-24f);
  CHECK(uniformFloat({0x800000ff, 0, 0, 0}) == 0.5f);
  CHECK(uniformDouble({0xffffffff, 0xffffffff, 0, 0}) == 1 - 0x1p-53);
  CHECK(uniformDouble({0, 64, 0, 0}) == 0x1p-53);
}

} // namespace ashlar::test::base_test
