// SPDX-License-Identifier: Apache-2.0
//
// The order of runs and messages on devices where a message occupies both sides: run by the poorest device that there could be, which has
// one queue and does what stands first in it.

#include "runtime/execute/message_order.h"
#include "test/unit/runtime/toy_pipeline.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>

namespace ashlar::test::message_order_test {

using namespace ashlar::rt;
using ashlar::test::ToyPipeline;

namespace {

// What stands in the queue of a stage: a run or an end of a message, of a micro-batch since the start.
struct Entry {
  bool isRun;
  uint32_t program;
  uint64_t microBatch;
  bool isSend = false;
  uint32_t transfer = 0;
  bool isAside = false;
  uint64_t number = 0;
};
using Queues = std::vector<std::vector<Entry>>;

using Runs = std::vector<std::vector<ashlar_rt_run>>;

// The queues of all stages for so many steps of `microBatches`.
Queues issue(const Stages &stages, const Runs &runs, uint64_t microBatches, uint64_t steps) {
  Queues queues(stages.size());
  for (uint32_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<IssuedRun> order;
    Status status = orderMessages(stages, runs, stage, order);
    INFO(status.message());
    REQUIRE(status.ok());
    for (uint64_t step = 0; step < steps; ++step) {
      const uint64_t first = step * microBatches;
      auto add = [&](const std::vector<MessageEnd> &ends) {
        for (const MessageEnd &end : ends) {
          queues[stage].push_back({false, end.program, first + end.microBatch, end.isSend, end.transfer, end.isAside, end.number});
        }
      };
      for (const IssuedRun &run : order) {
        add(run.before);
        queues[stage].push_back({true, run.program, first + run.microBatch});
        add(run.after);
      }
    }
  }
  return queues;
}

// What somebody who thinks of one stage at a time would issue: what a run receives right before it, what it sends right behind it.
Queues issueNaively(const Stages &stages, const Runs &runs) {
  Queues queues(stages.size());
  for (uint32_t stage = 0; stage < stages.size(); ++stage) {
    for (const ashlar_rt_run &run : runs[stage]) {
      const ashlar_rt_program &program = stages[stage].programs[run.program];
      for (uint32_t i = 0; i < program.num_receives; ++i) {
        queues[stage].push_back({false, run.program, run.micro_batch, false, i});
      }
      queues[stage].push_back({true, run.program, run.micro_batch});
      for (uint32_t i = 0; i < program.num_sends; ++i) {
        queues[stage].push_back({false, run.program, run.micro_batch, true, i});
      }
    }
  }
  return queues;
}

// Runs the queues. A message passes when both of its ends stand first. What lies in the bytes of each tensor that is sent or received is
// known by its micro-batch: whoever finds another one there tells. Returns "" when all queues end.
class Machine {
public:
  Machine(const Stages &stages, const Queues &queues) : stages(stages), queues(queues), at(queues.size(), 0) {}

  std::string run() {
    for (bool moves = true; moves && fault.empty();) {
      moves = false;
      for (uint32_t stage = 0; stage < stages.size(); ++stage) {
        moves |= step(stage);
      }
    }
    for (uint32_t stage = 0; stage < stages.size() && fault.empty(); ++stage) {
      fault = at[stage] < queues[stage].size() ? "stage " + std::to_string(stage) + " hangs" : "";
    }
    return fault;
  }

private:
  const Entry *head(uint32_t stage) const { return at[stage] < queues[stage].size() ? &queues[stage][at[stage]] : nullptr; }

  const ashlar_rt_transfer &transferOf(uint32_t stage, const Entry &entry) const {
    const ashlar_rt_program &program = stages[stage].programs[entry.program];
    return (entry.isSend ? program.sends : program.receives)[entry.transfer];
  }

  int64_t &content(uint32_t stage, uint32_t tensor, uint64_t microBatch) {
    return contents.try_emplace({stage, tensor, microBatch % slotsOf(stages[stage])}, -1).first->second;
  }

  bool step(uint32_t stage) {
    const Entry *first = head(stage);
    if (first == nullptr) {
      return false;
    }
    if (first->isRun) {
      runProgram(stage, *first);
      ++at[stage];
      return true;
    }
    const ashlar_rt_transfer &transfer = transferOf(stage, *first);
    const Entry *other = head(transfer.stage);
    if (!first->isSend || other == nullptr || other->isRun || other->isSend) {
      return false; // a message is passed where its sender stands
    }
    const ashlar_rt_transfer &received = transferOf(transfer.stage, *other);
    if (received.stage != stage || received.channel != transfer.channel) {
      return false;
    }
    const bool alike = first->microBatch == other->microBatch && first->number == other->number;
    if (!alike || content(stage, transfer.tensor, first->microBatch) != static_cast<int64_t>(first->microBatch)) {
      fault = "stage " + std::to_string(stage) + " sends something else";
    }
    if (other->isAside) {
      int64_t &place = aside.try_emplace({transfer.stage, received.tensor}, -1).first->second;
      fault = place == -1 ? fault : "stage " + std::to_string(transfer.stage) + " puts a message aside where one lies";
      place = static_cast<int64_t>(other->microBatch);
    } else {
      content(transfer.stage, received.tensor, other->microBatch) = static_cast<int64_t>(other->microBatch);
    }
    ++at[stage];
    ++at[transfer.stage];
    return true;
  }

  void runProgram(uint32_t stage, const Entry &entry) {
    const ashlar_rt_variant &variant = stages[stage];
    const ashlar_rt_program &program = variant.programs[entry.program];
    for (uint32_t i = 0; i < program.num_receives; ++i) { // what was put aside
      if (auto place = aside.find({stage, program.receives[i].tensor}); place != aside.end()) {
        content(stage, program.receives[i].tensor, entry.microBatch) = place->second;
        place->second = -1;
      }
    }
    for (uint32_t p = 0; p < variant.num_programs; ++p) {
      for (uint32_t i = 0; i < variant.programs[p].num_receives; ++i) {
        const uint32_t tensor = variant.programs[p].receives[i].tensor;
        if (touches(program, variant.tensors[tensor]) &&
            content(stage, tensor, entry.microBatch) != static_cast<int64_t>(entry.microBatch)) {
          fault = std::string(program.name) + " of stage " + std::to_string(stage) + " reads something else";
        }
      }
    }
    for (uint32_t i = 0; i < program.num_sends; ++i) {
      content(stage, program.sends[i].tensor, entry.microBatch) = static_cast<int64_t>(entry.microBatch);
    }
  }

  const Stages &stages;
  const Queues &queues;
  std::vector<size_t> at;
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, int64_t> contents; // by stage, tensor and slot
  std::map<std::pair<uint32_t, uint32_t>, int64_t> aside;               // by stage and tensor; -1: nothing lies there
  std::string fault;
};

std::string run(const Stages &stages, const Queues &queues) {
  return Machine(stages, queues).run();
}

Runs stepOf(const Stages &stages, const ToyPipeline &toy) {
  Runs runs;
  REQUIRE(runsOfStep(stages, toy.microBatches, runs).ok());
  return runs;
}

// Lets the backward programs read what their forward programs received.
void readAgain(const Stages &stages) {
  for (const ashlar_rt_variant &variant : stages) {
    const ashlar_rt_program *forward = &ashlar::test::programNamed(variant, "forward"),
                            *backward = &ashlar::test::programNamed(variant, "backward");
    for (uint32_t i = 0; i < backward->num_instrs && forward->num_receives > 0; ++i) {
      if (std::string(backward->instrs[i].name) == "gradient") {
        const_cast<ashlar_rt_buffer &>(backward->instrs[i].buffers[0]) = variant.tensors[forward->receives[0].tensor].buffer;
      }
    }
  }
}

// Whether some stage puts something aside.
bool putsAside(const Queues &queues) {
  return std::any_of(queues.begin(), queues.end(), [](const std::vector<Entry> &queue) {
    return std::any_of(queue.begin(), queue.end(), [](const Entry &entry) { return entry.isAside; });
  });
}

// Draws what stages could have run, one random action that is due after the other; then norm and update.
Runs drawRuns(const Stages &stages, uint32_t microBatches, std::mt19937 &random) {
  Runs runs(stages.size());
  const uint32_t count = stages.size();
  std::vector<uint32_t> forward(count, 0), backward(count, 0); // done so far
  for (uint32_t left = 2 * count * microBatches; left > 0;) {
    const uint32_t stage = static_cast<uint32_t>(random() % count);
    const bool forwards = random() % 2 == 0;
    const uint32_t next = forwards ? forward[stage] : backward[stage];
    const bool isDue = forwards ? next - backward[stage] < stages[stage].num_slots && (stage == 0 || forward[stage - 1] > next)
                                : forward[stage] > next && (stage + 1 == count || backward[stage + 1] > next);
    if (next < microBatches && isDue) {
      runs[stage].push_back({forwards ? 1u : 2u, next, 0});
      ++(forwards ? forward : backward)[stage];
      --left;
    }
  }
  for (std::vector<ashlar_rt_run> &stage : runs) {
    stage.push_back({3, 0, 0});
    stage.push_back({4, 0, 0});
  }
  return runs;
}

} // namespace

TEST_CASE("message order: stages with one queue each end, and find what they look for", "[runtime][stages][messages]") {
  for (uint32_t stages : {2u, 3u, 5u}) {
    for (uint32_t microBatches : {1u, 2u, 7u, 16u}) {
      for (bool allForwardFirst : {false, true}) {
        CAPTURE(stages, microBatches, allForwardFirst);
        ToyPipeline toy{stages, /*devices=*/1, microBatches, allForwardFirst};
        auto image = ashlar::test::makeToyPipeline(toy);
        const Stages all(image->image().variants[0]);
        const Runs runs = stepOf(all, toy);
        CHECK(run(all, issue(all, runs, microBatches, /*steps=*/3)) == "");
        readAgain(all);
        const Queues queues = issue(all, runs, microBatches, /*steps=*/3);
        CHECK(run(all, queues) == "");
        CHECK(putsAside(queues) == (microBatches > 1 && !allForwardFirst)); // then slots are taken again as soon as they are free
        if (microBatches > 2 && !allForwardFirst) {                         // the test sees a deadlock
          CHECK_THAT(run(all, issueNaively(all, runs)), Catch::EndsWith("hangs"));
        }
      }
    }
  }
}

TEST_CASE("message order: random orders of stages, with few slots and many", "[runtime][stages][messages]") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    ToyPipeline toy{2 + static_cast<uint32_t>(random() % 4), /*devices=*/1, 1 + static_cast<uint32_t>(random() % 9),
                    /*allForwardFirst=*/true};
    auto image = ashlar::test::makeToyPipeline(toy);
    auto *variants = const_cast<ashlar_rt_variant *>(image->image().variants);
    for (uint32_t stage = 0; stage < toy.stages; ++stage) {
      variants[stage].num_slots = 1 + static_cast<uint32_t>(random() % toy.microBatches);
    }
    CAPTURE(round, toy.stages, toy.microBatches);
    const Stages all(variants[0]);
    if (round % 2 == 0) {
      readAgain(all);
    }
    const Runs runs = drawRuns(all, toy.microBatches, random);
    CHECK(run(all, issue(all, runs, toy.microBatches, /*steps=*/3)) == "");
  }
}

namespace {

// Two stages by hand: forward sends h on, backward of stage 1 reads it again and sends d back. Programs: 0 forward, 1 backward.
struct TwoStages {
  TwoStages() {
    for (uint32_t stage = 0; stage < 2; ++stage) {
      for (uint32_t program = 0; program < 2; ++program) {
        instrs[stage][program].num_buffers = 2 - (stage == 0 ? 1 : program == 0 ? 1 : 0);
        instrs[stage][program].buffers = &buffers[stage == 0 ? program : 0]; // on stage 0 h or d, on stage 1 h, or both
        programs[stage][program].name = program == 0 ? "forward" : "backward";
        programs[stage][program].num_instrs = 1;
        programs[stage][program].instrs = &instrs[stage][program];
        // Forward of stage 0 and backward of stage 1 send.
        auto &list = stage == program ? programs[stage][program].sends : programs[stage][program].receives;
        (stage == program ? programs[stage][program].num_sends : programs[stage][program].num_receives) = 1;
        transfers[stage][program] = {/*tensor=*/program, /*stage=*/1 - stage, /*channel=*/0};
        list = &transfers[stage][program];
      }
      variants[stage].num_tensors = 2;
      variants[stage].tensors = tensors;
      variants[stage].num_programs = 2;
      variants[stage].programs = programs[stage];
      variants[stage].stage = stage;
      variants[stage].num_stages = 2;
      variants[stage].num_slots = 2 - stage;
    }
    tensors[0].buffer = buffers[0];
    tensors[1].buffer = buffers[1];
  }
  TwoStages(const TwoStages &) = delete;

  ashlar_rt_buffer buffers[2] = {{ASHLAR_RT_SLOT, ASHLAR_RT_F32, 0, 64}, {ASHLAR_RT_SLOT, ASHLAR_RT_F32, 64, 64}};
  ashlar_rt_tensor tensors[2] = {};
  ashlar_rt_transfer transfers[2][2] = {};
  ashlar_rt_instr instrs[2][2] = {};
  ashlar_rt_program programs[2][2] = {};
  ashlar_rt_variant variants[2] = {};
};

// "F0 h0> <d0 B0".
std::string queueText(const std::vector<IssuedRun> &order) {
  std::string text;
  auto add = [&](const std::string &word) { text += (text.empty() ? "" : " ") + word; };
  auto addEnds = [&](const std::vector<MessageEnd> &ends) {
    for (const MessageEnd &end : ends) {
      const std::string name = (end.program == 0 ? "h" : "d") + std::to_string(end.microBatch);
      add(end.isSend ? name + ">" : "<" + name);
    }
  };
  for (const IssuedRun &run : order) {
    addEnds(run.before);
    add((run.program == 0 ? "F" : "B") + std::to_string(run.microBatch));
    addEnds(run.after);
  }
  return text;
}

} // namespace

TEST_CASE("message order: the example of docs/pipeline.md", "[runtime][stages][messages]") {
  const TwoStages two;
  const Stages all(two.variants[0]);
  const Runs runs = {{{0, 0, 1}, {0, 1, 1}, {1, 0, 0}, {0, 2, 1}, {1, 1, 0}, {1, 2, 0}},
                     {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {0, 2, 0}, {1, 2, 0}}};
  std::vector<IssuedRun> order;
  REQUIRE(orderMessages(all, runs, /*stage=*/0, order).ok());
  CHECK(queueText(order) == "F0 h0> F1 h1> <d0 B0 F2 h2> <d1 B1 <d2 B2");
  REQUIRE(orderMessages(all, runs, /*stage=*/1, order).ok());
  CHECK(queueText(order) == "<h0 F0 <h1 B0 d0> F1 B1 <h2 d1> F2 B2 d2>");
}

// What forward of stage 0 sends is received at once, also what stage 1 needs in its backward program only.
TEST_CASE("message order: a receive is put on the device before its run is due", "[runtime][stages][messages]") {
  const ToyPipeline toy{/*stages=*/2, /*devices=*/1, /*microBatches=*/4, /*allForwardFirst=*/true};
  auto image = ashlar::test::makeToyPipeline(toy);
  const Stages all(image->image().variants[0]);
  std::vector<IssuedRun> order;
  REQUIRE(orderMessages(all, stepOf(all, toy), /*stage=*/1, order).ok());
  auto isAhead = [&](size_t run, uint32_t program, uint64_t microBatch) {
    return std::any_of(order[run].before.begin(), order[run].before.end(), [&](const MessageEnd &end) {
      return !end.isSend && end.program == program && end.transfer == 0 && end.microBatch == microBatch;
    });
  };
  REQUIRE(order.size() == 10);
  for (uint64_t microBatch = 0; microBatch < 4; ++microBatch) {
    CHECK(isAhead(microBatch, 1, microBatch));
    CHECK(isAhead(microBatch, 2, microBatch));
  }
}

TEST_CASE("message order: the evaluation is a step of one run", "[runtime][stages][messages]") {
  const ToyPipeline toy{/*stages=*/3, /*devices=*/1};
  auto image = ashlar::test::makeToyPipeline(toy);
  const Stages all(image->image().variants[0]);
  Runs runs(3);
  for (const ashlar_rt_variant &stage : all) {
    runs[stage.stage] = {{static_cast<uint32_t>(&ashlar::test::programNamed(stage, "eval_step") - stage.programs), 0, 0}};
  }
  CHECK(run(all, issue(all, runs, /*microBatches=*/1, /*steps=*/9)) == "");
  std::vector<IssuedRun> order;
  REQUIRE(orderMessages(all, runs, /*stage=*/1, order).ok());
  REQUIRE(order.size() == 1);
  CHECK(order[0].before.size() == 1);
  CHECK(order[0].after.size() == 1);
}

TEST_CASE("message order: a sender with one slot waits for a slow receiver", "[runtime][stages][messages]") {
  const ToyPipeline toy{/*stages=*/2, /*devices=*/1};
  auto image = ashlar::test::makeToyPipeline(toy);
  auto *variants = const_cast<ashlar_rt_variant *>(image->image().variants);
  variants[0].num_slots = variants[1].num_slots = 1;
  const Stages all(variants[0]);
  Runs runs(2);
  runs[1].assign(5, {/*program=*/0, 0, 0}); // init takes nothing from others
  for (const ashlar_rt_variant &stage : all) {
    for (uint32_t microBatch = 0; microBatch < 4; ++microBatch) {
      runs[stage.stage].push_back({static_cast<uint32_t>(&ashlar::test::programNamed(stage, "eval_step") - stage.programs), microBatch, 0});
    }
  }
  CHECK(run(all, issue(all, runs, /*microBatches=*/4, /*steps=*/2)) == "");
}

TEST_CASE("message order: what cannot be done is refused", "[runtime][stages][messages]") {
  const ToyPipeline toy{/*stages=*/2, /*devices=*/1};
  auto image = ashlar::test::makeToyPipeline(toy);
  const Stages all(image->image().variants[0]);
  std::vector<IssuedRun> order;
  Runs runs = stepOf(all, toy);
  runs[1].erase(runs[1].begin()); // forward of micro-batch 0
  CHECK(orderMessages(all, runs, 0, order).message() == "channel 0 from stage 0 to 1 is sent on more often in a step");
  runs = stepOf(all, toy);
  runs[0].erase(runs[0].begin());
  CHECK(orderMessages(all, runs, 1, order).message() == "channel 0 from stage 0 to 1 is received on more often in a step");
  runs = stepOf(all, toy);
  std::rotate(runs[0].begin(), runs[0].begin() + 2, runs[0].begin() + 3); // backward of micro-batch 0 first
  CHECK(orderMessages(all, runs, 0, order).message() ==
        "the stages wait for each other: backward of micro-batch 0 on stage 0 is never due");
}

} // namespace ashlar::test::message_order_test
