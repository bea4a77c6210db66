// SPDX-License-Identifier: Apache-2.0
//
// Programs with repeats as lists of everything that runs.

#include "runtime/execute/schedule.h"
#include "runtime/execute/unrolled_program.h"

#include <catch2/catch.hpp>

#include <deque>

namespace ashlar::test::unrolled_program_test {

using namespace ashlar::rt;

namespace {

// A program of copies and repeats.
struct Builder {
  struct Place {
    uint64_t offset;
    std::vector<int64_t> strides = {};
  };

  void add(uint32_t kind, const std::vector<Place> &places) {
    buffers.emplace_back();
    for (const Place &place : places) {
      strides.push_back(place.strides);
      buffers.back().push_back(
          {ASHLAR_RT_ARENA, ASHLAR_RT_F32, place.offset, 64, static_cast<uint32_t>(place.strides.size()), strides.back().data()});
    }
    instrs.push_back({kind, "instr", static_cast<uint32_t>(places.size()), buffers.back().data(), kAccesses, nullptr, 0});
  }

  void repeat(uint64_t count, uint32_t numInstrs) {
    repeats.push_back({count, numInstrs});
    instrs.push_back({ASHLAR_RT_REPEAT, "repeat", 0, nullptr, nullptr, &repeats.back(), 0});
  }

  const ashlar_rt_program &get() {
    program.name = "step";
    program.num_instrs = static_cast<uint32_t>(instrs.size());
    program.instrs = instrs.data();
    return program;
  }

  static constexpr uint32_t kAccesses[2] = {ASHLAR_RT_READ, ASHLAR_RT_WRITE};
  std::deque<std::vector<int64_t>> strides;
  std::deque<std::vector<ashlar_rt_buffer>> buffers;
  std::deque<ashlar_rt_repeat_desc> repeats;
  std::vector<ashlar_rt_instr> instrs;
  ashlar_rt_program program = {};
};

// Returns "SOURCE:OFFSET,OFFSET ..." of all instructions.
std::string textOf(const UnrolledProgram &unrolled) {
  std::string text;
  for (uint32_t i = 0; i < unrolled.get().num_instrs; ++i) {
    const ashlar_rt_instr &instr = unrolled.get().instrs[i];
    text += (i == 0 ? "" : " ") + std::to_string(unrolled.sourceOf(i));
    for (uint32_t b = 0; b < instr.num_buffers; ++b) {
      CHECK(instr.buffers[b].num_strides == 0);
      CHECK(instr.buffers[b].bytes == 64);
      text += (b == 0 ? ":" : ",") + std::to_string(instr.buffers[b].offset);
    }
  }
  return text;
}

} // namespace

TEST_CASE("unrolled: a program without repeats is itself", "[runtime][repeats]") {
  Builder b;
  b.add(ASHLAR_RT_COPY, {{0}, {64}});
  b.add(ASHLAR_RT_KERNEL, {{128}});
  b.program.num_outputs = 7;
  UnrolledProgram unrolled;
  REQUIRE(unrolled.unroll(b.get()).ok());
  CHECK(textOf(unrolled) == "0:0,64 1:128");
  CHECK(unrolled.get().num_outputs == 7);
  CHECK(unrolled.get().instrs[1].kind == ASHLAR_RT_KERNEL);
  CHECK(unrolled.get().instrs[1].buffers == b.get().instrs[1].buffers);
}

TEST_CASE("unrolled: each iteration has the places of its rows", "[runtime][repeats]") {
  Builder b;
  b.repeat(3, 2);
  b.add(ASHLAR_RT_COPY, {{1000, {-64}}, {64}}); // a reversed loop begins with the last row
  b.add(ASHLAR_RT_KERNEL, {{64}});
  b.add(ASHLAR_RT_KERNEL, {{0}});
  UnrolledProgram unrolled;
  REQUIRE(unrolled.unroll(b.get()).ok());
  CHECK(textOf(unrolled) == "1:1000,64 2:64 1:936,64 2:64 1:872,64 2:64 3:0");
  CHECK(unrolled.get().instrs[1].buffers == b.get().instrs[2].buffers); // shared, since it stays
}

TEST_CASE("unrolled: rows of nested loops move in both", "[runtime][repeats]") {
  Builder b;
  b.repeat(2, 4);
  b.add(ASHLAR_RT_KERNEL, {{0, {640}}});
  b.repeat(2, 1);
  b.add(ASHLAR_RT_KERNEL, {{0, {640, 64}}});
  b.add(ASHLAR_RT_KERNEL, {{4096, {0}}});
  b.repeat(0, 1);
  b.add(ASHLAR_RT_KERNEL, {{0, {64}}});
  UnrolledProgram unrolled;
  REQUIRE(unrolled.unroll(b.get()).ok());
  CHECK(textOf(unrolled) == "1:0 3:0 3:64 4:4096 1:640 3:640 3:704 4:4096");
}

TEST_CASE("unrolled: a program of too many instructions is refused", "[runtime][repeats]") {
  Builder b;
  b.repeat(uint64_t{1} << 40, 1);
  b.add(ASHLAR_RT_KERNEL, {{0, {64}}});
  UnrolledProgram refused, larger, whole;
  CHECK(refused.unroll(b.get(), /*most=*/5).message() ==
        "program step runs more than 5 instructions, those of loops counted in each iteration, which are more than this target takes; "
        "make its loops shorter, or compile it for the cpu");
  b.repeats.front().count = 6;
  CHECK_FALSE(larger.unroll(b.get(), /*most=*/5).ok());
  b.repeats.front().count = 5;
  REQUIRE(whole.unroll(b.get(), /*most=*/5).ok());
  CHECK(whole.get().num_instrs == 5);
}

TEST_CASE("unrolled: an iteration waits for the collective of the one before", "[runtime][repeats][schedule]") {
  Builder b; // the state is gathered, and the kernel makes the next one
  b.repeat(3, 2);
  b.add(ASHLAR_RT_COLLECTIVE, {{0}, {64}});
  b.add(ASHLAR_RT_KERNEL, {{64}, {0}});
  UnrolledProgram unrolled;
  REQUIRE(unrolled.unroll(b.get()).ok());
  std::vector<bool> communicates;
  for (uint32_t i = 0; i < unrolled.get().num_instrs; ++i) {
    communicates.push_back(unrolled.get().instrs[i].kind == ASHLAR_RT_COLLECTIVE);
  }
  std::vector<int> waits;
  for (const Placement &placement : schedule(unrolled.get(), communicates)) {
    waits.push_back(placement.waitsFor);
  }
  CHECK(waits == std::vector<int>{-1, 0, 1, 2, 3, 4});
}

} // namespace ashlar::test::unrolled_program_test
