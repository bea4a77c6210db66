// SPDX-License-Identifier: Apache-2.0
//
// Live bytes of random instructions against one flag for each byte.

#include "compiler/report/page/live_bytes.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>

namespace ashlar::test::live_bytes_test {

using report::ByteRange;
using report::ByteSet;
using report::InstructionRanges;

namespace {

constexpr uint64_t kBytes = 96;

ByteRange randomRange(std::mt19937 &random) {
  const uint64_t begin = random() % kBytes, end = std::min<uint64_t>(begin + random() % 24, kBytes);
  return {begin, end};
}

InstructionRanges randomInstruction(std::mt19937 &random) {
  InstructionRanges instruction;
  for (unsigned i = 0; i < 2; ++i) {
    instruction.reads.push_back(randomRange(random));
  }
  instruction.writes.push_back(random() % 3 == 0 ? instruction.reads.front() : randomRange(random)); // in place, or not
  instruction.touches = instruction.reads;
  instruction.touches.push_back(instruction.writes.front());
  return instruction;
}

bool covers(const std::vector<ByteRange> &ranges, uint64_t byte) {
  return std::any_of(ranges.begin(), ranges.end(), [&](ByteRange range) { return range.begin <= byte && byte < range.end; });
}

// Whether a byte is alive while an instruction runs: it uses the byte, or the next one that does reads it.
bool isAlive(const std::vector<InstructionRanges> &list, size_t at, uint64_t byte) {
  if (covers(list[at].touches, byte)) {
    return true;
  }
  for (size_t later = at + 1; later < list.size(); ++later) {
    if (covers(list[later].touches, byte)) {
      return covers(list[later].reads, byte);
    }
  }
  return false;
}

} // namespace

TEST_CASE("live bytes: of random instructions, byte by byte", "[report][page]") {
  std::mt19937 random(20261130);
  for (unsigned round = 0; round < 300; ++round) {
    std::vector<InstructionRanges> list(1 + random() % 12);
    std::generate(list.begin(), list.end(), [&] { return randomInstruction(random); });
    const report::LiveBytes found = report::findLiveBytes(list);
    REQUIRE(found.bytes.size() == list.size());
    for (size_t at = 0; at < list.size(); ++at) {
      uint64_t alive = 0;
      for (uint64_t byte = 0; byte < kBytes; ++byte) {
        alive += isAlive(list, at, byte);
      }
      REQUIRE(found.bytes[at] == alive);
    }
    REQUIRE(found.peak == static_cast<size_t>(std::max_element(found.bytes.begin(), found.bytes.end()) - found.bytes.begin()));
    std::map<size_t, uint64_t> writers; // of the bytes at the peak
    for (uint64_t byte = 0; byte < kBytes; ++byte) {
      for (size_t at = found.peak + 1; at-- > 0 && isAlive(list, found.peak, byte);) {
        if (covers(list[at].writes, byte)) {
          ++writers[at];
          break;
        }
      }
    }
    std::map<size_t, uint64_t> values;
    for (const report::LiveValue &value : found.values) {
      values[value.writer] = value.bytes;
    }
    REQUIRE(values == writers);
    REQUIRE(std::is_sorted(found.values.begin(), found.values.end(), [](const auto &a, const auto &b) { return a.bytes > b.bytes; }));
  }
}

TEST_CASE("live bytes: the example of the header, and nothing", "[report][page]") {
  std::vector<InstructionRanges> list(3);
  list[0].writes = list[0].touches = {{0, 8}};
  list[1].reads = {{0, 8}};
  list[1].writes = {{8, 12}};
  list[1].touches = {{0, 8}, {8, 12}};
  list[2].reads = list[2].touches = {{8, 12}};
  const report::LiveBytes found = report::findLiveBytes(list);
  CHECK(found.bytes == std::vector<uint64_t>{8, 12, 4});
  REQUIRE((found.peak == 1 && found.values.size() == 2));
  CHECK((found.values[0].writer == 0 && found.values[0].bytes == 8 && found.values[1].writer == 1 && found.values[1].bytes == 4));
  CHECK(report::findLiveBytes({}).values.empty());
}

TEST_CASE("byte set: ranges join, split and hold", "[report][page]") {
  ByteSet set;
  set.add({0, 4});
  set.add({8, 12});
  set.add({4, 8});
  CHECK((set.ranges().size() == 1 && set.bytes() == 12 && set.holds({0, 12}) && !set.holds({11, 13})));
  set.remove({3, 5});
  CHECK((set.ranges().size() == 2 && set.bytes() == 10 && !set.holds({2, 4}) && set.holds({5, 12}) && set.holds({4, 4})));
  set.remove({0, 100});
  CHECK((set.ranges().empty() && set.bytes() == 0));
}

} // namespace ashlar::test::live_bytes_test
