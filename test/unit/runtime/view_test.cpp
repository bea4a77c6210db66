// SPDX-License-Identifier: Apache-2.0
//
// Copies between strided views, byte by byte: from any byte of a view on, since threads share a copy, and whatever the blocks are.

#include "runtime/comm/view.h"

#include <algorithm>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

using namespace ashlar::rt;

namespace {

// Returns where byte `i` of a view lies.
size_t placeOf(const View &view, size_t i) {
  return view.offset + i / view.block * view.stride + i % view.block;
}

// Returns a view of `bytes` bytes in random blocks that divide them.
View randomView(std::mt19937 &random, size_t bytes) {
  std::vector<size_t> divisors;
  for (size_t block = 1; block <= bytes; ++block) {
    if (bytes % block == 0) {
      divisors.push_back(block);
    }
  }
  const size_t block = divisors[random() % divisors.size()];
  return View{random() % 50, block, block + random() % 20, bytes / block};
}

} // namespace

TEST_CASE("view: copies go byte by byte from one view to another, and touch nothing else", "[runtime][view]") {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const size_t bytes = std::vector<size_t>{12, 60, 64, 210, 256}[random() % 5];
    const View source = randomView(random, bytes), target = randomView(random, bytes);
    std::vector<char> from(placeOf(source, bytes - 1) + 1), to(placeOf(target, bytes - 1) + 1, '\0');
    std::generate(from.begin(), from.end(), [&] { return static_cast<char>(1 + random() % 100); });
    const size_t begin = random() % bytes, end = begin + 1 + random() % (bytes - begin);
    std::vector<char> expected = to;
    for (size_t i = begin; i < end; ++i) {
      expected[placeOf(target, i)] = from[placeOf(source, i)];
    }
    copyView(from.data(), source, to.data(), target, begin, end);
    INFO("round " << round << ": bytes " << begin << " to " << end << " of " << bytes << ", blocks of " << source.block << " to blocks of "
                  << target.block);
    REQUIRE(to == expected);
  }
}
