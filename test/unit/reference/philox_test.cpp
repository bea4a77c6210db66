// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10 against the known answers that its authors publish with Random123, and the runtime's version against it.

#include "dialects/nn/ops/philox.h"

#include "runtime/base/philox.h"

#include <catch2/catch.hpp>

#include <random>

namespace ashlar::test::philox_test {

TEST_CASE("philox gives the known answers", "[reference][philox]") {
  CHECK(nn::philox({0, 0, 0, 0}, {0, 0}) == nn::PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(nn::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        nn::PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(nn::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        nn::PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the words of an element use all of index and seed", "[reference][philox]") {
  nn::PhiloxWords words = nn::philoxOfElement(/*index=*/0x100000002, /*seed=*/0x300000004, /*counter=*/5, /*stream=*/6);
  CHECK(words == nn::philox({2, 1, 5, 6}, {4, 3}));
}

TEST_CASE("the runtime draws the same words", "[reference][philox]") {
  std::mt19937_64 generator(/*seed=*/1);
  for (int repeat = 0; repeat < 1000; ++repeat) {
    uint64_t index = generator(), seed = generator();
    auto counter = static_cast<uint32_t>(generator()), stream = static_cast<uint32_t>(generator());
    CHECK(rt::philoxWords(seed, stream, counter, index) == nn::philoxOfElement(index, seed, counter, stream));
  }
}

} // namespace ashlar::test::philox_test
