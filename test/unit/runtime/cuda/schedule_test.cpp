// SPDX-License-Identifier: Apache-2.0
//
// Which instruction waits for which when collectives have a stream of their own.

#include "runtime/execute/schedule.h"

#include <catch2/catch.hpp>

#include <deque>

namespace ashlar::test::schedule_test {
namespace {

using namespace ashlar::rt;

// A program of instructions on byte ranges [begin, end).
struct Builder {
  using Range = std::pair<uint64_t, uint64_t>;

  void add(uint32_t kind, const std::vector<Range> &reads, const std::vector<Range> &writes, uint32_t space = ASHLAR_RT_ARENA) {
    buffers.emplace_back();
    accesses.emplace_back();
    for (uint32_t access : {ASHLAR_RT_READ, ASHLAR_RT_WRITE}) {
      for (Range range : access == ASHLAR_RT_READ ? reads : writes) {
        buffers.back().push_back({space, ASHLAR_RT_F32, range.first, range.second - range.first});
        accesses.back().push_back(access);
      }
    }
    instrs.push_back({kind, "instr", static_cast<uint32_t>(buffers.back().size()), buffers.back().data(), accesses.back().data(), nullptr});
    communicates.push_back(kind == ASHLAR_RT_COLLECTIVE);
  }

  // "2>1 ..." for instruction 2 waiting for 1, in order.
  std::string waits() {
    ashlar_rt_program program = {"step", {ASHLAR_RT_TRAIN_STEP}, static_cast<uint32_t>(instrs.size()), instrs.data(), 0, nullptr, 0,
                                 nullptr};
    placements = schedule(program, communicates);
    std::string text;
    for (size_t i = 0; i < placements.size(); ++i) {
      if (placements[i].waitsFor >= 0) {
        text += (text.empty() ? "" : " ") + std::to_string(i) + ">" + std::to_string(placements[i].waitsFor);
      }
    }
    return text;
  }

  std::deque<std::vector<ashlar_rt_buffer>> buffers;
  std::deque<std::vector<uint32_t>> accesses;
  std::vector<ashlar_rt_instr> instrs;
  std::vector<bool> communicates;
  std::vector<Placement> placements;
};

TEST_CASE("schedule: a collective waits for its input, and who reads its result for it", "[cuda][schedule]") {
  Builder b;
  b.add(ASHLAR_RT_KERNEL, {}, {{0, 64}});
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{64, 128}});
  b.add(ASHLAR_RT_KERNEL, {}, {{128, 192}}); // runs beside it
  b.add(ASHLAR_RT_KERNEL, {{100, 104}}, {{192, 256}});
  CHECK(b.waits() == "1>0 3>1");
  CHECK(b.placements[0].signals);
  CHECK(b.placements[1].signals);
  CHECK_FALSE(b.placements[2].signals);
}

TEST_CASE("schedule: a collective's input is not overwritten before it is read", "[cuda][schedule]") {
  Builder b;
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{64, 128}});
  b.add(ASHLAR_RT_COPY, {{128, 160}}, {{32, 64}});
  CHECK(b.waits() == "1>0");
}

TEST_CASE("schedule: two that only read need no order", "[cuda][schedule]") {
  Builder b;
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{64, 128}});
  b.add(ASHLAR_RT_COPY, {{0, 64}}, {{128, 192}});
  b.add(ASHLAR_RT_GEMM, {{0, 64}, {256, 320}}, {{192, 256}});
  CHECK(b.waits() == "");
  b.add(ASHLAR_RT_GEMM, {{256, 320}, {320, 384}}, {{0, 64}}); // writes what the collective reads
  CHECK(b.waits() == "3>0");
}

TEST_CASE("schedule: a kernel and a collective may read one buffer at the same time", "[cuda][schedule]") {
  Builder b;
  b.add(ASHLAR_RT_KERNEL, {}, {{0, 64}});
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{64, 128}});
  b.add(ASHLAR_RT_KERNEL, {{0, 64}}, {{128, 192}});
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{192, 256}}); // not after 2, and as early as 1
  CHECK(b.waits() == "1>0");
  CHECK(b.placements[3].signals);                // for the end alone
  b.add(ASHLAR_RT_KERNEL, {{0, 64}}, {{0, 64}}); // updates it: after both
  CHECK(b.waits() == "1>0 4>3");
}

TEST_CASE("schedule: what was waited for once is not waited for again", "[cuda][schedule]") {
  Builder b;
  b.add(ASHLAR_RT_KERNEL, {}, {{0, 64}});
  b.add(ASHLAR_RT_KERNEL, {}, {{64, 128}});
  b.add(ASHLAR_RT_COLLECTIVE, {{64, 128}}, {{128, 192}});
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{192, 256}}); // the kernel before 1 is done when 1 is
  b.add(ASHLAR_RT_KERNEL, {}, {{192, 256}});
  b.add(ASHLAR_RT_KERNEL, {}, {{128, 192}}); // as is the collective before 3
  CHECK(b.waits() == "2>1 4>3");
}

TEST_CASE("schedule: the end waits for the last collective; constants order nothing", "[cuda][schedule]") {
  Builder b;
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{64, 128}});
  b.add(ASHLAR_RT_COLLECTIVE, {{128, 192}}, {{192, 256}});
  b.add(ASHLAR_RT_KERNEL, {{0, 256}}, {}, ASHLAR_RT_CONSTANT);
  CHECK(b.waits() == "");
  CHECK_FALSE(b.placements[0].signals);
  CHECK(b.placements[1].signals);
}

TEST_CASE("schedule: collectives that follow each other join when neither waits", "[cuda][schedule]") {
  Builder b;
  b.add(ASHLAR_RT_KERNEL, {}, {{0, 128}, {512, 576}});
  b.add(ASHLAR_RT_COLLECTIVE, {{0, 64}}, {{128, 192}});
  b.add(ASHLAR_RT_COLLECTIVE, {{64, 128}}, {{192, 256}});
  b.add(ASHLAR_RT_COLLECTIVE, {{128, 192}}, {{256, 320}}); // reads what the first writes
  b.add(ASHLAR_RT_COLLECTIVE, {{512, 576}}, {{320, 384}});
  b.add(ASHLAR_RT_KERNEL, {}, {{576, 640}});
  b.add(ASHLAR_RT_COLLECTIVE, {{64, 128}}, {{384, 448}}); // a kernel stands between
  b.add(ASHLAR_RT_KERNEL, {}, {{640, 704}});
  b.add(ASHLAR_RT_KERNEL, {}, {{704, 768}});
  b.add(ASHLAR_RT_COLLECTIVE, {{640, 704}}, {{768, 832}});
  b.add(ASHLAR_RT_COLLECTIVE, {{704, 768}}, {{832, 896}}); // has to wait for more than the one before
  CHECK(b.waits() == "1>0 9>7 10>8");
  std::string joins;
  for (const Placement &placement : b.placements) {
    joins += placement.joins ? "j" : ".";
  }
  CHECK(joins == "..j.j......");
}

} // namespace

} // namespace ashlar::test::schedule_test
