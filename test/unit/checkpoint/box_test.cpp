// SPDX-License-Identifier: Apache-2.0
//
// Ranges of tensors against plain loops over all elements.

#include "runtime/checkpoint/box.h"

#include <random>

#include <catch2/catch.hpp>

namespace ashlar::test::box_test {

using namespace ashlar::rt;

namespace {

using Dims = std::vector<int64_t>;

// A random box of a tensor, and its array.
struct RandomBox {
  Dims start, size, shape;

  RandomBox(const Dims &global, bool isPadded, std::mt19937 &random) {
    for (int64_t whole : global) {
      const int64_t a = static_cast<int64_t>(random() % static_cast<uint64_t>(whole + 1));
      const int64_t b = static_cast<int64_t>(random() % static_cast<uint64_t>(whole + 1));
      const bool isWhole = random() % 2 == 0; // so that runs span several dims
      start.push_back(isWhole ? 0 : std::min(a, b));
      size.push_back(isWhole ? whole : std::max(a, b) - start.back());
      shape.push_back(size.back() + (isPadded ? static_cast<int64_t>(random() % 2) : 0));
    }
  }

  Box box() const { return {start.size(), start.data(), size.data(), shape.data()}; }

  // Where an element of the tensor lies in the array; -1 when it does not.
  int64_t find(const Dims &at) const {
    int64_t place = 0;
    for (size_t dim = 0; dim < at.size(); ++dim) {
      if (at[dim] < start[dim] || at[dim] >= start[dim] + size[dim]) {
        return -1;
      }
      place = place * shape[dim] + at[dim] - start[dim];
    }
    return place;
  }
};

// The index of each element of a tensor, row by row.
std::vector<Dims> indicesOf(const Dims &shape) {
  std::vector<Dims> all = {{}};
  for (int64_t size : shape) {
    std::vector<Dims> longer;
    for (const Dims &at : all) {
      for (int64_t i = 0; i < size; ++i) {
        longer.push_back(at);
        longer.back().push_back(i);
      }
    }
    all = longer;
  }
  return all;
}

Dims randomShape(std::mt19937 &random, int64_t smallest) {
  Dims shape;
  for (size_t rank = random() % 5; rank > 0; --rank) {
    shape.push_back(smallest + static_cast<int64_t>(random() % 6));
  }
  return shape;
}

} // namespace

TEST_CASE("box: what two boxes have in common, against a loop over all elements", "[checkpoint][box]") {
  std::mt19937 random(1);
  size_t runs = 0, elements = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const Dims global = randomShape(random, 0);
    const RandomBox from(global, /*isPadded=*/false, random), to(global, /*isPadded=*/true, random);
    std::vector<std::pair<int64_t, int64_t>> expected, found;
    for (const Dims &at : indicesOf(global)) {
      if (from.find(at) >= 0 && to.find(at) >= 0) {
        expected.emplace_back(from.find(at), to.find(at));
      }
    }
    REQUIRE(forEachCommonRun(from.box(), to.box(), [&](int64_t inFrom, int64_t inTo, int64_t count) {
              ++runs;
              for (int64_t i = 0; i < count; ++i) {
                found.emplace_back(inFrom + i, inTo + i);
              }
              return Status();
            }).ok());
    REQUIRE(found == expected);
    elements += found.size();
  }
  CHECK(elements > 2000);
  CHECK(runs < elements / 2); // elements that follow each other are one run
}

TEST_CASE("box: one run where both arrays have whole rows, and where there are no dims", "[checkpoint][box]") {
  const Dims first = {0, 0}, second = {2, 0}, size = {4, 5};
  std::vector<Dims> runs;
  auto note = [&](int64_t from, int64_t to, int64_t count) {
    runs.push_back({from, to, count});
    return Status();
  };
  CHECK(forEachCommonRun({2, first.data(), size.data(), size.data()}, {2, second.data(), size.data(), size.data()}, note).ok());
  CHECK(runs == std::vector<Dims>{{10, 0, 10}});
  runs.clear();
  CHECK(forEachCommonRun(Box(), Box(), note).ok());
  CHECK(runs == std::vector<Dims>{{0, 0, 1}});
}

TEST_CASE("box: the first failure ends it", "[checkpoint][box]") {
  const Dims start = {0, 0}, size = {3, 2}, padded = {3, 4};
  int calls = 0;
  auto fail = [&](auto...) { return ++calls == 2 ? invalid("the second") : Status(); };
  CHECK(forEachCommonRun({2, start.data(), size.data(), size.data()}, {2, start.data(), size.data(), padded.data()}, fail).message() ==
        "the second");
  CHECK(calls == 2);
  calls = 0;
  CHECK(forEachPart({3, 2}, 2, fail).message() == "the second");
  CHECK(calls == 2);
}

TEST_CASE("box: the parts of a tensor are all of it, row by row, and none is too large", "[checkpoint][box]") {
  std::mt19937 random(2);
  size_t parts = 0, trials = 0;
  for (; trials < 2000; ++trials) {
    const Dims shape = randomShape(random, trials % 10 == 0 ? 0 : 1);
    const int64_t limit = 1 + static_cast<int64_t>(random() % 60);
    const std::vector<Dims> expected = indicesOf(shape);
    std::vector<Dims> found;
    REQUIRE(forEachPart(shape, limit, [&](const Dims &start, const Dims &size) {
              ++parts;
              const std::vector<Dims> inside = indicesOf(size);
              REQUIRE(static_cast<int64_t>(inside.size()) <= limit);
              for (Dims at : inside) {
                for (size_t dim = 0; dim < at.size(); ++dim) {
                  at[dim] += start[dim];
                }
                found.push_back(at);
              }
              return Status();
            }).ok());
    REQUIRE(found == expected);
  }
  CHECK(parts > trials);
}

} // namespace ashlar::test::box_test
