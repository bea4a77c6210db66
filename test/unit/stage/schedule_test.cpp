// SPDX-License-Identifier: Apache-2.0
//
// Orders of pipelines: those of the papers by hand, and what holds for all: each action once, nothing before what it takes, memory, idle
// time.

#include "passes/stage/schedule.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace ashlar::stage;

namespace {

// "F0 F1 B0": an order.
std::string text(llvm::ArrayRef<Action> order) {
  std::string result;
  for (const Action &action : order) {
    result += (result.empty() ? "" : " ") + std::string(1, "FBW"[static_cast<int>(action.phase)]) + std::to_string(action.microBatch);
  }
  return result;
}

// What stages take of each other: forward results go on, gradients back.
std::vector<Dependence> chain(int64_t stages) {
  std::vector<Dependence> dependences;
  for (int64_t stage = 0; stage + 1 < stages; ++stage) {
    dependences.push_back({stage, StepPhase::Forward, stage + 1, StepPhase::Forward});
    dependences.push_back({stage + 1, StepPhase::Backward, stage, StepPhase::Backward});
  }
  return dependences;
}

// The time that the stages take when a forward phase takes 1 and a backward phase `backward`, and so do weights where they are apart.
int64_t timeOf(const StageOrders &orders, int64_t backward) {
  std::vector<std::map<std::pair<StepPhase, int64_t>, int64_t>> ends(orders.size());
  std::vector<size_t> at(orders.size(), 0);
  std::vector<int64_t> now(orders.size(), 0);
  bool moves = true;
  while (moves) {
    moves = false;
    for (size_t stage = 0; stage < orders.size(); ++stage) {
      if (at[stage] == orders[stage].size()) {
        continue;
      }
      const Action &action = orders[stage][at[stage]];
      int64_t begin = now[stage];
      bool isReady = true;
      for (const Dependence &needed : chain(static_cast<int64_t>(orders.size()))) {
        if (needed.stage == static_cast<int64_t>(stage) && needed.phase == action.phase) {
          auto made = ends[static_cast<size_t>(needed.from)].find({needed.producer, action.microBatch});
          isReady &= made != ends[static_cast<size_t>(needed.from)].end();
          begin = isReady ? std::max(begin, made->second) : begin;
        }
      }
      if (isReady) {
        now[stage] = begin + (action.phase == StepPhase::Forward ? 1 : backward);
        ends[stage][{action.phase, action.microBatch}] = now[stage];
        ++at[stage];
        moves = true;
      }
    }
  }
  return *std::max_element(now.begin(), now.end());
}

StageOrders orders(const char *schedule, int64_t stages, int64_t microBatches) {
  return buildOrders(*SchedulePolicy::find(schedule), stages, microBatches);
}

} // namespace

TEST_CASE("schedule: orders of small pipelines", "[stage][schedule]") {
  StageOrders gpipe = orders("GPIPE", 2, 3);
  CHECK(text(gpipe[0]) == "F0 F1 F2 B0 B1 B2");
  CHECK(text(gpipe[1]) == "F0 F1 F2 B0 B1 B2");
  StageOrders steady = orders("ONE_F_ONE_B", 3, 5);
  CHECK(text(steady[0]) == "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  CHECK(text(steady[1]) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  CHECK(text(steady[2]) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  CHECK(text(orders("ZERO_BUBBLE", 2, 3)[1]) == "F0 B0 F1 B1 F2 B2 W0 W1 W2");
  CHECK(!SchedulePolicy::find("FIFO"));
}

TEST_CASE("schedule: every order is complete, in turn, ends, and folds to a table that does not grow", "[stage][schedule]") {
  for (const char *name : {"GPIPE", "ONE_F_ONE_B", "ZERO_BUBBLE"}) {
    for (int64_t stages = 2; stages <= 8; ++stages) {
      size_t folded = 0;
      for (int64_t microBatches : {stages, stages + 1, 2 * stages + 3, 64L, 128L}) {
        INFO(name << " " << stages << " stages, " << microBatches << " micro-batches");
        StageOrders made = orders(name, stages, microBatches);
        const size_t phases = SchedulePolicy::find(name)->preference.size();
        size_t most = 0;
        for (const std::vector<Action> &order : made) {
          CHECK(order.size() == phases * static_cast<size_t>(microBatches));
          std::map<StepPhase, int64_t> next;
          for (const Action &action : order) {
            CHECK(next[action.phase]++ == action.microBatch);
          }
          FoldedOrder table = fold(order);
          CHECK(unfold(table) == order);
          most = std::max(most, table.actions.size() + table.blocks.size());
        }
        std::string deadlock;
        std::vector<int64_t> slots = chooseSlots(made, chain(stages), deadlock);
        CHECK(deadlock.empty());
        for (size_t stage = 0; stage < made.size(); ++stage) {
          CHECK(slots[stage] == slotsOf(made[stage]));
        }
        if (microBatches == 64) {
          folded = most;
        }
        if (microBatches == 128) {
          CHECK(most == folded);
        }
      }
    }
  }
}

TEST_CASE("schedule: how many micro-batches are in flight", "[stage][schedule]") {
  for (int64_t stage = 0; stage < 4; ++stage) {
    CHECK(slotsOf(orders("GPIPE", 4, 12)[static_cast<size_t>(stage)]) == 12);
    CHECK(slotsOf(orders("ONE_F_ONE_B", 4, 12)[static_cast<size_t>(stage)]) == 4 - stage);
    CHECK(slotsOf(orders("ZERO_BUBBLE", 4, 12)[static_cast<size_t>(stage)]) <= 5);
  }
  CHECK(slotsOf({}) == 1);
}

// Of m micro-batches on p stages: GPIPE and ONE_F_ONE_B stand still for p - 1 forward and backward phases. ZERO_BUBBLE does for a third of
// that, where the backward pass takes twice a forward one, and a little longer where many stages bound it.
TEST_CASE("schedule: how long stages stand still", "[stage][schedule]") {
  for (int64_t stages : {2, 4, 8}) {
    for (int64_t microBatches : {8, 24, 64}) {
      INFO(stages << " stages, " << microBatches << " micro-batches");
      CHECK(timeOf(orders("GPIPE", stages, microBatches), 2) - 3 * microBatches == 3 * (stages - 1));
      CHECK(timeOf(orders("ONE_F_ONE_B", stages, microBatches), 2) - 3 * microBatches == 3 * (stages - 1));
      int64_t idle = timeOf(orders("ZERO_BUBBLE", stages, microBatches), 1) - 3 * microBatches;
      CHECK(idle >= stages - 1);
      CHECK(idle <= stages - 1 + (stages > 4 ? 2 : 0));
    }
  }
}

TEST_CASE("schedule: an order that deadlocks is told with the cycle", "[stage][schedule]") {
  using P = StepPhase;
  StageOrders crosswise = {{{P::Forward, 0}, {P::Backward, 0}, {P::Forward, 1}, {P::Backward, 1}},
                           {{P::Forward, 0}, {P::Forward, 1}, {P::Backward, 0}, {P::Backward, 1}}};
  CHECK(findDeadlock(crosswise, chain(2), {2, 2}) == "stage 0 at backward of micro-batch 0 waits for stage 1 at backward of micro-batch 0, "
                                                     "which is at forward of micro-batch 1 and waits for "
                                                     "stage 0 at forward of micro-batch 1");
  std::string deadlock;
  chooseSlots(crosswise, chain(2), deadlock);
  CHECK_FALSE(deadlock.empty()); // with any number of slots
  // The first stage sends to the last one, too, which takes it late: with one slot it waits for ever, as the middle one waits for it.
  std::vector<Dependence> skip = {{0, P::Forward, 1, P::Forward}, {0, P::Forward, 2, P::Forward}, {1, P::Forward, 2, P::Forward}};
  std::vector<Action> once = {{P::Forward, 0}, {P::Forward, 1}};
  StageOrders late = {once, once, {{P::Forward, 1}, {P::Forward, 0}}};
  CHECK(findDeadlock(late, skip, {1, 1, 1}) == "stage 0 at forward of micro-batch 1 waits for stage 2 at forward of micro-batch 0, which "
                                               "is at forward of micro-batch 1 and waits for "
                                               "stage 0 at forward of micro-batch 1");
  CHECK(chooseSlots(late, skip, deadlock) == std::vector<int64_t>{2, 2, 2});
  CHECK(deadlock.empty());
}
