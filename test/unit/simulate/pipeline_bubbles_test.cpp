// SPDX-License-Identifier: Apache-2.0
//
// Idle times of pipelines against their closed forms, with the compiler's orders and programs of equal stages.

#include "passes/stage/execution.h"
#include "passes/stage/schedule.h"
#include "runtime/simulate/report.h"
#include "test/unit/simulate/table_job.h"

#include <catch2/catch.hpp>

#include <map>

namespace ashlar::test::pipeline_bubbles_test {

namespace {

constexpr uint64_t kUnit = 1000000; // ps

// The units of the phases of a micro-batch; a backward pass in one piece takes backward + weights.
struct PhaseUnits {
  uint64_t forward = 1, backward = 1, weights = 1;

  uint64_t all() const { return forward + backward + weights; }
  uint64_t of(stage::StepPhase phase, bool splitsBackward) const {
    return phase == stage::StepPhase::Forward    ? forward
           : phase == stage::StepPhase::Backward ? backward + (splitsBackward ? 0 : weights)
                                                 : weights;
  }
};

// A pipeline of equal stages: messages are free, and each stage has as many slots as its order needs.
rt::Simulation simulatePipeline(stage::Schedule schedule, const stage::Cut &cut, int64_t microBatches, const PhaseUnits &units = {}) {
  const stage::SchedulePolicy policy = stage::SchedulePolicy::get(schedule);
  const stage::StageOrders orders = stage::buildOrders(policy, cut, microBatches);
  TableJob job(static_cast<uint32_t>(cut.stages), {1});
  job.microBatches = static_cast<uint64_t>(microBatches);
  std::vector<std::map<stage::Part, uint32_t>> programs(orders.size());
  for (uint32_t stage = 0; stage < orders.size(); ++stage) {
    job.setSlots(stage, static_cast<uint32_t>(stage::slotsOf(orders[stage])));
    for (const stage::Action &action : orders[stage]) {
      if (programs[stage].count(action.part()) == 0) {
        const uint64_t ps = units.of(action.phase, policy.splitsBackward()) * kUnit;
        programs[stage][action.part()] = job.addProgram(stage, "part", {computeFor(ps)});
      }
    }
  }
  for (int64_t part = 0; part + 1 < cut.virtualStages(); ++part) {
    const auto from = static_cast<uint32_t>(cut.stageOf(part)), to = static_cast<uint32_t>(cut.stageOf(part + 1));
    for (auto [phase, sender, senderPart, receiver, receiverPart] : {std::tuple(stage::StepPhase::Forward, from, part, to, part + 1),
                                                                     std::tuple(stage::StepPhase::Backward, to, part + 1, from, part)}) {
      job.addMessage(sender, programs[sender].at({phase, cut.chunkOf(senderPart)}), receiver,
                     programs[receiver].at({phase, cut.chunkOf(receiverPart)}), 1);
    }
  }
  for (uint32_t stage = 0; stage < orders.size(); ++stage) {
    for (const stage::Action &action : orders[stage]) {
      job.addRun(stage, programs[stage].at(action.part()), static_cast<uint32_t>(action.microBatch));
    }
  }
  return job.simulate();
}

} // namespace

TEST_CASE("simulate: bubbles of pipelines are those of the closed forms", "[simulate][bubble]") {
  struct Row {
    stage::Schedule schedule;
    int64_t chunks;
    uint64_t units, idle; // of a step with p = 4 and m = 8
    const char *percent;
  };
  // (p - 1) / (m + p - 1), (p - 1) / (v m + p - 1), (p - 1) / (3 m + p - 1).
  const Row rows[] = {{stage::Schedule::GPipe, 1, 33, 9, "27.3"},
                      {stage::Schedule::OneFOneB, 1, 33, 9, "27.3"},
                      {stage::Schedule::Interleaved, 2, 57, 9, "15.8"},
                      {stage::Schedule::ZeroBubble, 1, 27, 3, "11.1"}};
  for (const Row &row : rows) {
    INFO(stage::stringifySchedule(row.schedule).str());
    const rt::Simulation step = simulatePipeline(row.schedule, {/*stages=*/4, row.chunks}, /*microBatches=*/8);
    CHECK(step.endPs == row.units * kUnit);
    CHECK(fmt::format("{:.1f}", 100 * rt::waitingShare(step)) == row.percent);
    for (const rt::SimulatedClass &each : step.classes) {
      CHECK(step.endPs - each.computePs == row.idle * kUnit);
    }
  }
}

// Literature also counts it in the step of ONE_F_ONE_B, as a third of that bubble: 27.3 % / 3.
TEST_CASE("simulate: ZERO_BUBBLE waits for a third of the time of ONE_F_ONE_B", "[simulate][bubble]") {
  const rt::Simulation whole = simulatePipeline(stage::Schedule::OneFOneB, {/*stages=*/4, /*chunks=*/1}, /*microBatches=*/8);
  const rt::Simulation split = simulatePipeline(stage::Schedule::ZeroBubble, {/*stages=*/4, /*chunks=*/1}, /*microBatches=*/8);
  const double waits = rt::waitingShare(split) * static_cast<double>(split.endPs);
  CHECK(fmt::format("{:.1f}", 100 * waits / static_cast<double>(whole.endPs)) == "9.1");
  CHECK(3 * waits == Approx(rt::waitingShare(whole) * static_cast<double>(whole.endPs)));
}

TEST_CASE("simulate: the bubble of any pipeline of equal stages is that of the closed form", "[simulate][bubble]") {
  for (int64_t stages : {2, 3, 5, 8}) {
    for (int64_t microBatches : {stages, 2 * stages, 4 * stages}) {
      for (auto [schedule, chunks] : {std::pair(stage::Schedule::GPipe, int64_t{1}), std::pair(stage::Schedule::OneFOneB, int64_t{1}),
                                      std::pair(stage::Schedule::Interleaved, int64_t{3})}) {
        INFO(stage::stringifySchedule(schedule).str() << ", " << stages << " stages, " << microBatches << " micro-batches");
        CHECK(simulatePipeline(schedule, {stages, chunks}, microBatches).endPs ==
              static_cast<uint64_t>(3 * (chunks * microBatches + stages - 1)) * kUnit);
      }
    }
  }
}

// (p - 1) (F + B - W) of Qi et al., "Zero Bubble Pipeline Parallelism" (ZB-H1), and p - 1 forward phases where W is longer than B. Those
// are the least that any order can have: the last stage has nothing to do before.
TEST_CASE("simulate: ZERO_BUBBLE waits as the closed form for any phases", "[simulate][bubble]") {
  const PhaseUnits kinds[] = {{1, 1, 1}, {10, 12, 10}, {10, 10, 8}, {10, 14, 9}, {1, 2, 1}, {10, 10, 12}, {1, 1, 2}};
  for (const PhaseUnits &units : kinds) {
    for (int64_t stages : {2, 3, 4, 8}) {
      for (int64_t microBatches : {stages, stages + 1, 2 * stages, 8 * stages}) {
        INFO(units.forward << ", " << units.backward << ", " << units.weights << " units, " << stages << " stages, " << microBatches
                           << " micro-batches");
        const uint64_t count = static_cast<uint64_t>(microBatches), others = static_cast<uint64_t>(stages - 1);
        const uint64_t wait = std::max(units.forward + units.backward, units.forward + units.weights) - units.weights;
        CHECK(simulatePipeline(stage::Schedule::ZeroBubble, {stages, /*chunks=*/1}, microBatches, units).endPs ==
              (count * units.all() + others * wait) * kUnit);
      }
    }
  }
}

} // namespace ashlar::test::pipeline_bubbles_test
