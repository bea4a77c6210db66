// SPDX-License-Identifier: Apache-2.0
//
// Idle times of pipelines against their closed forms, with the compiler's orders and programs of one unit each.

#include "passes/stage/execution.h"
#include "passes/stage/schedule.h"
#include "runtime/simulate/report.h"
#include "test/unit/simulate/table_job.h"

#include <catch2/catch.hpp>

#include <map>

namespace ashlar::test::pipeline_bubbles_test {

namespace {

constexpr uint64_t kUnit = 1000000; // ps

// A pipeline of equal stages: each part of a micro-batch takes a unit, messages are free, all micro-batches have a slot.
rt::Simulation simulatePipeline(stage::Schedule schedule, const stage::Cut &cut, int64_t microBatches) {
  const stage::SchedulePolicy policy = stage::SchedulePolicy::get(schedule);
  const stage::StageOrders orders = stage::buildOrders(policy, cut, microBatches);
  TableJob job(static_cast<uint32_t>(cut.stages), {1});
  job.microBatches = static_cast<uint64_t>(microBatches);
  std::vector<std::map<stage::Part, uint32_t>> programs(orders.size());
  for (uint32_t stage = 0; stage < orders.size(); ++stage) {
    job.setSlots(stage, static_cast<uint32_t>(microBatches));
    for (const stage::Action &action : orders[stage]) {
      if (programs[stage].count(action.part()) == 0) {
        // A backward pass that is not split is two units.
        const uint64_t units = action.phase == stage::StepPhase::Backward && !policy.splitsBackward() ? 2 : 1;
        programs[stage][action.part()] = job.addProgram(stage, "part", {computeFor(units * kUnit)});
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
  // (p - 1) / (m + p - 1), (p - 1) / (v m + p - 1). Of the split backward pass p - 1 forward units are left: a third of the 9 units that
  // stages of ONE_F_ONE_B wait, 9.1 % of its step of 33 units and 11.1 % of the own one of 27.
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
  CHECK(fmt::format("{:.1f}", 100.0 * 3 / 33) == "9.1");
}

TEST_CASE("simulate: the bubble of any pipeline of equal stages is that of the closed form", "[simulate][bubble]") {
  for (int64_t stages : {2, 3, 5}) {
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

} // namespace ashlar::test::pipeline_bubbles_test
