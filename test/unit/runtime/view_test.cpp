// SPDX-License-Identifier: Apache-2.0
//
// Copies between strided views, byte by byte: from any byte of a view on, since threads share a copy, and whatever the blocks are.

#include "runtime/comm/view.h"

#include <algorithm>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

namespace ashlar::test::view_test {

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

TEST_CASE("view: a halo moves what a device lacks, each element once, and zeros the rest", "[runtime][view]") {
  // Two rows of 11 elements over 2 devices: 0 .. 5 | 6 .. 10 -. Windows of 3 with stride 2 and one element of padding in front need
  // -1 .. 5 | 5 .. 11.
  const uint32_t axis = 0, size = 2;
  const int64_t shape[] = {2, 6};
  const ashlar_rt_halo halo = {11, {11, 1, 0, 1}, {6, 2, -1, 2}, &size};
  ashlar_rt_collective_tensor tensor = {2, shape, /*split_dim=*/1, 0};
  ashlar_rt_collective_desc desc = {};
  desc.kind = ASHLAR_RT_HALO;
  desc.dtype = ASHLAR_RT_F32;
  desc.num_axes = 1;
  desc.axes = &axis;
  desc.num_tensors = 1;
  desc.tensors = &tensor;
  desc.halo = &halo;
  CollectiveShape collective;
  REQUIRE(CollectiveShape::create(desc, tensor, /*members=*/2, 2 * 6 * 4, 2 * 7 * 4, collective).ok());
  auto isView = [](const View &view, size_t offset, size_t block, size_t stride) {
    return view.offset == offset && view.block == block && view.stride == stride && view.count == 2;
  };
  Movement movement;
  REQUIRE(collective.movement(0, 0, movement)); // 0 .. 5, behind one of padding
  CHECK((isView(movement.from, 0, 24, 24) || movement.from.dense()));
  CHECK(isView(movement.to, 4, 24, 28));
  CHECK(!collective.movement(1, 0, movement));
  REQUIRE(collective.movement(0, 1, movement)); // 5
  CHECK((isView(movement.from, 20, 4, 24) && isView(movement.to, 0, 4, 28)));
  REQUIRE(collective.movement(1, 1, movement)); // 6 .. 10
  CHECK((isView(movement.from, 0, 20, 24) && isView(movement.to, 4, 20, 28)));
  REQUIRE((collective.zeroed(0).size() == 1 && collective.zeroed(1).size() == 1));
  CHECK((isView(collective.zeroed(0)[0], 0, 4, 28) && isView(collective.zeroed(1)[0], 24, 4, 28)));

  // Runs that are no halo of the buffers are refused.
  const Status wrong = CollectiveShape::create(desc, tensor, /*members=*/3, 2 * 6 * 4, 2 * 7 * 4, collective);
  CHECK((!wrong.ok() && wrong.message().find("make groups of 2") != std::string::npos));
  tensor.split_dim = 0;
  CHECK(!CollectiveShape::create(desc, tensor, /*members=*/2, 2 * 6 * 4, 2 * 7 * 4, collective).ok());
}

} // namespace ashlar::test::view_test
