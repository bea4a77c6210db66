// SPDX-License-Identifier: Apache-2.0
//
// The list scheduler on programs small enough to follow by hand, and on random ones against a simulator that knows nothing of how it
// decides.

#include "passes/analysis/schedule/overlap_schedule.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>
#include <random>

namespace ashlar::test::overlap_schedule_test {

using analysis::CostedOp;
using analysis::OverlapSchedule;
using analysis::ScheduledEvent;

namespace {

using Kind = ScheduledEvent::Kind;
constexpr uint64_t kMiB = uint64_t{1} << 20;

CostedOp compute(int64_t time, llvm::SmallVector<unsigned> needs = {}) {
  return {time, /*runsBeside=*/false, /*holdsOperand=*/!needs.empty(), /*bytes=*/0, needs};
}

CostedOp collective(int64_t time, uint64_t bytes, llvm::SmallVector<unsigned> needs = {}) {
  return {time, /*runsBeside=*/true, /*holdsOperand=*/!needs.empty(), bytes, needs};
}

// "run 0, start 1, wait 1".
std::string text(const OverlapSchedule &schedule) {
  std::string result;
  for (const ScheduledEvent &event : schedule.events) {
    const char *kind = event.kind == Kind::Run ? "run " : event.kind == Kind::Start ? "start " : "wait ";
    result += (result.empty() ? "" : ", ") + (kind + std::to_string(event.op));
  }
  return result;
}

// Simulates the events on a device and a channel; checks that nothing is used before it is there.
struct ScheduleSimulator {
  explicit ScheduleSimulator(llvm::ArrayRef<CostedOp> ops)
      : ops(ops), isDone(ops.size(), false), arrival(ops.size(), -1), carried(ops.size()) {}

  // How long the device runs ops while the channel carries this one.
  int64_t hidden(unsigned collective) const {
    int64_t sum = 0;
    for (auto [begin, end] : runs) {
      sum += std::max<int64_t>(0, std::min(end, carried[collective].second) - std::max(begin, carried[collective].first));
    }
    return sum;
  }

  void simulate(const ScheduledEvent &event) {
    const CostedOp &op = ops[event.op];
    REQUIRE(!isDone[event.op]);
    REQUIRE(op.runsBeside == (event.kind != Kind::Run));
    if (event.kind == Kind::Wait) {
      REQUIRE(arrival[event.op] >= 0);
      stalled += std::max<int64_t>(0, arrival[event.op] - now);
      now = std::max(now, arrival[event.op]);
      underWay -= op.bytes;
      isDone[event.op] = true;
      return;
    }
    for (unsigned need : op.needs) {
      REQUIRE(isDone[need]);
    }
    if (event.kind == Kind::Start) {
      REQUIRE(arrival[event.op] < 0);
      channel = std::max(channel, now) + op.timePs;
      arrival[event.op] = channel;
      carried[event.op] = {channel - op.timePs, channel};
      underWay += op.bytes;
      mostUnderWay = std::max(mostUnderWay, underWay);
    } else {
      runs.push_back({now, now + op.timePs});
      now += op.timePs;
      isDone[event.op] = true;
    }
  }

  llvm::ArrayRef<CostedOp> ops;
  std::vector<bool> isDone;
  std::vector<int64_t> arrival;
  std::vector<std::pair<int64_t, int64_t>> carried, runs; // begin and end: of collectives by op, and of what the device ran
  int64_t now = 0, channel = 0, stalled = 0;
  uint64_t underWay = 0, mostUnderWay = 0;
};

} // namespace

TEST_CASE("overlap: an update waits for its sum, and what needs no sum goes ahead of it", "[plan][overlap]") {
  OverlapSchedule schedule = analysis::scheduleOverlap({compute(10), collective(6, 1, {0}), compute(1, {1}), compute(10), compute(2, {3})});
  CHECK(text(schedule) == "run 0, start 1, run 3, wait 1, run 2, run 4");
  CHECK(schedule.timePs == 23);
  CHECK(schedule.hiddenPs[1] == 6);
}

TEST_CASE("overlap: what else there is to run goes ahead of a sum that may be late", "[plan][overlap]") {
  // Half as late as it is long, the sum would be there at 22; product 3 ends at 20, product 4 at 30.
  OverlapSchedule schedule = analysis::scheduleOverlap({compute(10), collective(8, 1, {0}), compute(1, {1}), compute(10), compute(10)});
  CHECK(text(schedule) == "run 0, start 1, run 3, run 4, wait 1, run 2");
  CHECK(schedule.timePs == 31);
  // A collective of what a collective brings starts as soon as it can.
  schedule = analysis::scheduleOverlap({compute(10), collective(8, 1, {0}), collective(3, 1, {1}), compute(10), compute(10)});
  CHECK(text(schedule) == "run 0, start 1, run 3, wait 1, start 2, run 4, wait 2");
}

TEST_CASE("overlap: only what the device does meanwhile is hidden", "[plan][overlap]") {
  OverlapSchedule schedule = analysis::scheduleOverlap({compute(10), collective(25, 1, {0}), compute(1, {1}), compute(10)});
  CHECK(text(schedule) == "run 0, start 1, run 3, wait 1, run 2");
  CHECK(schedule.timePs == 36);
  CHECK(schedule.hiddenPs[1] == 10);
}

TEST_CASE("overlap: what is carried while the device waits for the next one is not hidden", "[plan][overlap]") {
  OverlapSchedule schedule =
      analysis::scheduleOverlap({compute(10), collective(30, 1, {0}), compute(1), collective(5, 1, {2}), compute(1, {3})});
  CHECK(text(schedule) == "run 0, start 1, run 2, start 3, wait 3, run 4, wait 1");
  CHECK(schedule.timePs == 46);
  CHECK(schedule.hiddenPs[1] == 1);
  CHECK(schedule.hiddenPs[3] == 0);
}

TEST_CASE("overlap: gathers are one group ahead of their use", "[plan][overlap]") {
  // Three layers: gather, product. A gather starts when the one before it is there.
  OverlapSchedule schedule = analysis::scheduleOverlap({collective(5, 2 * kMiB), compute(10, {0}), collective(5, 2 * kMiB),
                                                        compute(10, {1, 2}), collective(5, 2 * kMiB), compute(10, {3, 4})});
  CHECK(text(schedule) == "start 0, wait 0, start 2, run 1, wait 2, start 4, run 3, wait 4, run 5");
  CHECK(schedule.timePs == 35);
  CHECK(schedule.hiddenPs[0] == 0);
  CHECK(schedule.hiddenPs[2] == 5);
  CHECK(schedule.hiddenPs[4] == 5);
}

TEST_CASE("overlap: a gather that the next layer waits for goes before a sum that only an update does", "[plan][overlap]") {
  // Product 0 makes a gradient; its sum 1 is for update 2, gather 3 for a long product 4.
  OverlapSchedule schedule = analysis::scheduleOverlap(
      {compute(10), collective(8, 1, {0}), compute(1, {1}), collective(8, 1, {0}), compute(20, {3}), compute(20, {4})});
  CHECK(text(schedule) == "run 0, start 3, start 1, wait 3, run 4, wait 1, run 2, run 5");
  CHECK(schedule.timePs == 59);
}

TEST_CASE("overlap: gradients do not pile up while the channel is slow", "[plan][overlap]") {
  std::vector<CostedOp> ops;
  for (unsigned layer = 0; layer < 5; ++layer) {
    ops.push_back(compute(1));
    ops.push_back(collective(10, 4 * kMiB, {3 * layer}));
    ops.push_back(compute(1, {3 * layer + 1}));
  }
  OverlapSchedule schedule = analysis::scheduleOverlap(ops);
  ScheduleSimulator simulator(ops);
  llvm::for_each(schedule.events, [&](const ScheduledEvent &event) { simulator.simulate(event); });
  CHECK(simulator.mostUnderWay == 8 * kMiB);
  CHECK(schedule.timePs == 1 + 5 * 10 + 1); // the channel is never idle
}

TEST_CASE("overlap: small collectives are all under way at once", "[plan][overlap]") {
  OverlapSchedule schedule = analysis::scheduleOverlap(
      {compute(9), collective(5, 4, {0}), collective(5, 4, {0}), collective(5, 4, {0}), compute(20), compute(1, {1, 2, 3})});
  CHECK(text(schedule) == "run 0, start 1, start 2, start 3, run 4, wait 1, wait 2, wait 3, run 5");
}

TEST_CASE("overlap: what keeps the device busy is run, not started", "[plan][overlap]") {
  CostedOp busy = collective(8, 1, {0});
  busy.runsBeside = false;
  OverlapSchedule schedule = analysis::scheduleOverlap({compute(10), busy, compute(1, {1}), compute(10)});
  CHECK(text(schedule) == "run 0, run 1, run 2, run 3");
  CHECK(schedule.timePs == 29);
}

TEST_CASE("overlap: random programs play as predicted", "[plan][overlap]") {
  std::mt19937_64 random(7);
  auto roll = [&](uint64_t sides) { return random() % sides; };
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    std::vector<CostedOp> ops;
    for (unsigned i = 0, count = 1 + roll(40); i < count; ++i) {
      llvm::SmallVector<unsigned> needs;
      for (unsigned need = i > 6 ? i - 6 : 0; need < i; ++need) {
        if (roll(4) == 0) {
          needs.push_back(need);
        }
      }
      ops.push_back(roll(3) == 0 ? collective(roll(50), roll(3) * kMiB, needs) : compute(roll(30), needs));
    }
    OverlapSchedule schedule = analysis::scheduleOverlap(ops);
    CHECK(text(schedule) == text(analysis::scheduleOverlap(ops)));
    ScheduleSimulator simulator(ops);
    int64_t busy = 0, sent = 0, hidden = 0;
    llvm::for_each(schedule.events, [&](const ScheduledEvent &event) { simulator.simulate(event); });
    CHECK(llvm::all_of(simulator.isDone, [](bool done) { return done; }));
    for (unsigned op = 0; op < ops.size(); ++op) {
      (ops[op].runsBeside ? sent : busy) += ops[op].timePs;
      hidden += schedule.hiddenPs[op];
      CHECK(schedule.hiddenPs[op] == (ops[op].runsBeside ? simulator.hidden(op) : 0));
    }
    CHECK(std::max(simulator.now, simulator.channel) == schedule.timePs);
    CHECK(schedule.timePs <= busy + sent);
    CHECK(schedule.timePs >= std::max(busy, sent));
    CHECK(simulator.now == busy + simulator.stalled);
    CHECK(hidden <= busy);
  }
}

TEST_CASE("overlap: what only a longer collective waits for goes before other ops", "[overlap]") {
  // A gradient and its padding, with more of the backward pass between them.
  std::vector<CostedOp> ops = {compute(10), compute(10), compute(10), compute(2, {0}), collective(20, kMiB, {3}), compute(1, {4})};
  CHECK(text(analysis::scheduleOverlap(ops)) == "run 0, run 3, start 4, run 1, run 2, wait 4, run 5");
  // Not what takes longer than the collective, and not what is ready from the start: the conversions of all parameters.
  ops[3].timePs = 21;
  CHECK(text(analysis::scheduleOverlap(ops)) == "run 0, run 1, run 2, run 3, start 4, wait 4, run 5");
  ops = {compute(10), compute(10), compute(2), collective(20, kMiB, {2})};
  CHECK(text(analysis::scheduleOverlap(ops)) == "run 0, run 1, run 2, start 3, wait 3");
}

} // namespace ashlar::test::overlap_schedule_test
