// SPDX-License-Identifier: Apache-2.0
//
// Orders of pipelines: those of the papers by hand, and what holds for all: each action once, nothing before what it takes, memory, idle
// time.

#include "passes/stage/execution.h"
#include "passes/stage/folded_order.h"
#include "passes/stage/order_file.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <map>
#include <set>

namespace ashlar::test::schedule_test {

using namespace ashlar::stage;

namespace {

// "F0 F1 B0", or "F0.0 F0.1": an order.
std::string text(const std::vector<Action> &order, int64_t chunks = 1) {
  return llvm::StringRef(printOrders({order}, Cut{1, chunks})).drop_front(strlen("stage 0: ")).rtrim().str();
}

// What stages take of each other: forward results go on, gradients back.
std::vector<Dependence> chain(const Cut &cut) {
  std::vector<Dependence> dependences;
  for (int64_t at = 0; at + 1 < cut.virtualStages(); ++at) {
    const int64_t stage = cut.stageOf(at), next = cut.stageOf(at + 1), chunk = cut.chunkOf(at), nextChunk = cut.chunkOf(at + 1);
    dependences.push_back({stage, {StepPhase::Forward, chunk}, next, {StepPhase::Forward, nextChunk}});
    dependences.push_back({next, {StepPhase::Backward, nextChunk}, stage, {StepPhase::Backward, chunk}});
  }
  return dependences;
}

std::vector<Dependence> chain(int64_t stages) {
  return chain(Cut{stages, 1});
}

// The time that the stages take when a forward phase takes 1 and a backward phase `backward`, and so do weights where they are apart.
int64_t timeOf(const StageOrders &orders, int64_t backward, int64_t chunks = 1) {
  const std::vector<Dependence> dependences = chain(Cut{static_cast<int64_t>(orders.size()), chunks});
  std::vector<std::map<std::pair<Part, int64_t>, int64_t>> ends(orders.size());
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
      for (const Dependence &needed : dependences) {
        if (needed.stage == static_cast<int64_t>(stage) && needed.part == action.part()) {
          auto made = ends[static_cast<size_t>(needed.from)].find({needed.producer, action.microBatch});
          isReady &= made != ends[static_cast<size_t>(needed.from)].end();
          begin = isReady ? std::max(begin, made->second) : begin;
        }
      }
      if (isReady) {
        now[stage] = begin + (action.phase == StepPhase::Forward ? 1 : backward);
        ends[stage][{action.part(), action.microBatch}] = now[stage];
        ++at[stage];
        moves = true;
      }
    }
  }
  return *std::max_element(now.begin(), now.end());
}

StageOrders orders(const char *schedule, int64_t stages, int64_t microBatches, int64_t chunks = 1) {
  return buildOrders(SchedulePolicy::get(*symbolizeSchedule(schedule)), Cut{stages, chunks}, microBatches);
}

// What the stages stand still for with INTERLEAVED, where a forward phase of a chunk takes 1 and its backward phase 2.
int64_t idleTime(int64_t stages, int64_t microBatches, int64_t chunks) {
  return timeOf(orders("INTERLEAVED", stages, microBatches, chunks), 2, chunks) - 3 * chunks * microBatches;
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
  CHECK(text(orders("ZERO_BUBBLE", 2, 3)[1]) == "F0 B0 F1 B1 W0 F2 B2 W1 W2");
  CHECK(!symbolizeSchedule("FIFO"));
}

// Twice through two stages, and through four as Megatron-LM has it: 2 (p - s - 1) + (v - 1) p forward phases, then one of each.
TEST_CASE("schedule: orders of stages with chunks", "[stage][schedule]") {
  StageOrders two = orders("INTERLEAVED", 2, 4, 2);
  CHECK(text(two[0], 2) == "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  CHECK(text(two[1], 2) == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  StageOrders four = orders("INTERLEAVED", 4, 8, 2);
  CHECK(text(four[3], 2) == "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 F4.1 B4.1 "
                            "F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0");
  for (int64_t stage = 0; stage < 4; ++stage) { // forward phases ahead of the first backward one
    const std::vector<Action> &order = four[static_cast<size_t>(stage)];
    auto first = std::find_if(order.begin(), order.end(), [](const Action &action) { return action.phase == StepPhase::Backward; });
    CHECK(first - order.begin() == 2 * (3 - stage) + 4 + 1);
  }
  // A group that is not full goes through the chunks like the others.
  CHECK(text(orders("INTERLEAVED", 2, 3, 2)[1], 2) == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F2.1 B1.0 B2.1 B2.0");
}

TEST_CASE("schedule: every order is complete, in turn, ends, and folds to a table that does not grow", "[stage][schedule]") {
  for (const char *name : {"GPIPE", "ONE_F_ONE_B", "ZERO_BUBBLE"}) {
    for (int64_t stages = 2; stages <= 8; ++stages) {
      size_t folded = 0;
      for (int64_t microBatches : {stages, stages + 1, 2 * stages + 3, 64L, 128L}) {
        INFO(name << " " << stages << " stages, " << microBatches << " micro-batches");
        StageOrders made = orders(name, stages, microBatches);
        const size_t phases = SchedulePolicy::get(*symbolizeSchedule(name)).preference.size();
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

TEST_CASE("schedule: the same with chunks", "[stage][schedule]") {
  for (int64_t chunks = 1; chunks <= 4; ++chunks) {
    for (int64_t stages = 2; stages <= 8; stages += (stages > 3 ? 2 : 1)) {
      const Cut cut{stages, chunks};
      size_t folded = 0;
      for (int64_t microBatches : {stages, stages + 1, 2 * stages - 1, 3 * stages, 256L, 512L}) {
        INFO(stages << " stages, " << chunks << " chunks, " << microBatches << " micro-batches");
        StageOrders made = orders("INTERLEAVED", stages, microBatches, chunks);
        size_t most = 0;
        for (const std::vector<Action> &order : made) {
          REQUIRE(order.size() == 2 * static_cast<size_t>(microBatches * chunks));
          std::map<Part, int64_t> next;
          for (const Action &action : order) {
            CHECK(next[action.part()]++ == action.microBatch);
          }
          FoldedOrder table = fold(order);
          CHECK(unfold(table) == order);
          most = std::max(most, table.actions.size() + table.blocks.size());
        }
        std::string deadlock;
        std::vector<int64_t> slots = chooseSlots(made, chain(cut), deadlock);
        CHECK(deadlock.empty());
        for (size_t stage = 0; stage < made.size(); ++stage) {
          CHECK(slots[stage] == slotsOf(made[stage]));
          CHECK(slots[stage] <= 2 * stages + 1);
        }
        folded = microBatches == 256 ? most : folded;
        CHECK((microBatches != 512 || 256 % stages != 0 || most == folded));
        // Always less idle than without chunks, and as little as chunks allow where groups are full: (p - 1) / (v m + p - 1).
        const int64_t idle = idleTime(stages, microBatches, chunks);
        CHECK((idle < 3 * (stages - 1) * chunks || chunks == 1));
        CHECK((microBatches % stages != 0 || idle == 3 * (stages - 1)));
      }
    }
  }
}

TEST_CASE("schedule: how many micro-batches are in flight", "[stage][schedule]") {
  for (int64_t stage = 0; stage < 4; ++stage) {
    CHECK(slotsOf(orders("GPIPE", 4, 12)[static_cast<size_t>(stage)]) == 12);
    CHECK(slotsOf(orders("ONE_F_ONE_B", 4, 12)[static_cast<size_t>(stage)]) == 4 - stage);
    CHECK(slotsOf(orders("ZERO_BUBBLE", 4, 12)[static_cast<size_t>(stage)]) == 4);
  }
  CHECK(slotsOf({}) == 1);
  // Micro-batches 0 and 2 are open at once, and so are 0 and 1: they may not share a slot, whatever the turn.
  using P = StepPhase;
  CHECK(slotsOf({{P::Forward, 0}, {P::Forward, 2}, {P::Backward, 2}, {P::Backward, 0}, {P::Forward, 1}, {P::Backward, 1}}) == 3);
  CHECK(slotsOf({{P::Forward, 1}, {P::Forward, 0}, {P::Backward, 0}, {P::Backward, 1}}) == 2);
  const std::vector<int64_t> interleaved = {8, 8, 7, 5};
  for (size_t stage = 0; stage < 4; ++stage) {
    CHECK(slotsOf(orders("INTERLEAVED", 4, 12, 2)[stage]) == interleaved[stage]);
  }
}

// Of m micro-batches on p stages: GPIPE and ONE_F_ONE_B stand still for p - 1 forward and backward phases, ZERO_BUBBLE for a third of that,
// where the backward pass takes twice a forward one.
TEST_CASE("schedule: how long stages stand still", "[stage][schedule]") {
  for (int64_t stages : {2, 4, 8}) {
    for (int64_t microBatches : {8, 24, 64}) {
      INFO(stages << " stages, " << microBatches << " micro-batches");
      CHECK(timeOf(orders("GPIPE", stages, microBatches), 2) - 3 * microBatches == 3 * (stages - 1));
      CHECK(timeOf(orders("ONE_F_ONE_B", stages, microBatches), 2) - 3 * microBatches == 3 * (stages - 1));
      CHECK(timeOf(orders("ZERO_BUBBLE", stages, microBatches), 1) - 3 * microBatches == stages - 1);
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
  // Programs of chunks are called by their numbers, and one of the stage itself counts, too.
  StageOrders chunks = {{{P::Forward, 0, 1}, {P::Forward, 0, 0}}, {{P::Forward, 0, 0}, {P::Forward, 0, 1}}};
  CHECK(findDeadlock(chunks, {{0, {P::Forward, 0}, 0, {P::Forward, 1}}}, {1, 1}) ==
        "stage 0 at forward_1 of micro-batch 0 waits for stage 0 at forward_0 of micro-batch 0");
  std::string deadlock;
  chooseSlots(crosswise, chain(2), deadlock);
  CHECK_FALSE(deadlock.empty()); // with any number of slots
  // The first stage sends to the last one, too, which takes it late: with one slot it waits for ever, as the middle one waits for it.
  std::vector<Dependence> skip = {
      {0, {P::Forward}, 1, {P::Forward}}, {0, {P::Forward}, 2, {P::Forward}}, {1, {P::Forward}, 2, {P::Forward}}};
  std::vector<Action> once = {{P::Forward, 0}, {P::Forward, 1}};
  StageOrders late = {once, once, {{P::Forward, 1}, {P::Forward, 0}}};
  CHECK(findDeadlock(late, skip, {1, 1, 1}) == "stage 0 at forward of micro-batch 1 waits for stage 2 at forward of micro-batch 0, which "
                                               "is at forward of micro-batch 1 and waits for "
                                               "stage 0 at forward of micro-batch 1");
  CHECK(chooseSlots(late, skip, deadlock) == std::vector<int64_t>{2, 2, 2});
  CHECK(deadlock.empty());
}

} // namespace ashlar::test::schedule_test
