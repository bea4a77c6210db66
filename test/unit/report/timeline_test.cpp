// SPDX-License-Identifier: Apache-2.0
//
// Steps of pipelines that were played on paper, and what is said and drawn of them.

#include "compiler/report/timeline.h"
#include "compiler/report/timeline_svg.h"
#include "compiler/report/timeline_text.h"
#include "passes/stage/execution.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <tuple>

namespace ashlar::test::timeline_test {

using Catch::Matchers::Contains;
using report::Timeline;

namespace {

// One end of a channel between two stages.
struct ChannelEnd {
  int64_t stage;      // the other side
  int64_t channel;    // among those from the one stage to the other
  int64_t timePs = 0; // of a receiving end: time to copy a message
};

struct TimedProgram {
  std::string name;
  int64_t timePs;
  std::vector<ChannelEnd> receives = {}, sends = {};
};

struct OrderedRun {
  unsigned program; // index into the stage's programs
  int64_t microBatch;
};

struct StageWork {
  std::vector<TimedProgram> programs;
  std::vector<OrderedRun> order;
  int64_t slots = 1;
};

// Plays a step of stages.
Timeline play(const std::vector<StageWork> &work) {
  rt::TimedStep step;
  std::vector<rt::StageMessages> channels;
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> numbers; // by {from, to, channel}
  auto number = [&](int64_t from, int64_t to, int64_t channel) {
    auto [found, isNew] = numbers.try_emplace({from, to, channel}, static_cast<uint32_t>(channels.size()));
    if (isNew) {
      channels.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(to), 0});
    }
    return found->second;
  };
  for (const auto &[index, stage] : llvm::enumerate(work)) {
    const auto self = static_cast<int64_t>(index);
    for (const TimedProgram &each : stage.programs) {
      rt::TimedProgram &program = rt::addTimedProgram(step, static_cast<uint32_t>(self), static_cast<uint64_t>(each.timePs));
      for (const ChannelEnd &end : each.receives) {
        program.receives.push_back({number(end.stage, self, end.channel), 0});
        channels[program.receives.back().channel].ps = static_cast<uint64_t>(end.timePs);
      }
      for (const ChannelEnd &end : each.sends) {
        program.sends.push_back({number(self, end.stage, end.channel), 0});
      }
    }
    step.slots.push_back(static_cast<uint64_t>(stage.slots));
    step.runs.emplace_back();
    for (const OrderedRun &run : stage.order) {
      step.runs.back().push_back({run.program, static_cast<uint32_t>(run.microBatch), 0});
    }
  }
  return report::makeTimeline(step, channels);
}

constexpr int64_t kForwardDown = 0, kBackwardUp = 0; // channels; each direction has its own numbers

// Returns stages that run their orders under a schedule: forward results go on, gradients back, a message takes `messagePs`. `timesPs`: of
// a forward, a backward and, where the schedule has it, a weights program. `slots`: of each stage.
std::vector<StageWork> chain(const char *schedule, int64_t stages, int64_t microBatches, std::vector<int64_t> timesPs,
                             int64_t messagePs = 0, int64_t slots = 1000) {
  const stage::SchedulePolicy policy = stage::SchedulePolicy::get(*stage::symbolizeSchedule(schedule));
  std::vector<StageWork> work;
  for (const auto &[number, order] : llvm::enumerate(stage::buildOrders(policy, {stages}, microBatches))) {
    const auto self = static_cast<int64_t>(number);
    TimedProgram forward{"forward", timesPs[0]}, backward{"backward", timesPs[1]};
    if (self > 0) {
      forward.receives.push_back({self - 1, kForwardDown, messagePs});
      backward.sends.push_back({self - 1, kBackwardUp});
    }
    if (self + 1 < stages) {
      forward.sends.push_back({self + 1, kForwardDown});
      backward.receives.push_back({self + 1, kBackwardUp, messagePs});
    }
    StageWork &each = work.emplace_back();
    each.slots = slots;
    each.programs = {forward, backward};
    if (policy.splitsBackward()) {
      each.programs.push_back({"weights", timesPs[2]});
    }
    for (const stage::Action &action : order) {
      each.order.push_back({static_cast<unsigned>(action.phase), action.microBatch});
    }
  }
  return work;
}

// "forward 0 at 0-1, backward 0 at 3-5": what a stage runs, with what it receives ahead of it as "(1)".
std::string text(const Timeline &timeline, const std::vector<StageWork> &work, size_t stage) {
  std::string result;
  for (const report::TimelineRun &run : timeline.stages[stage].runs) {
    result += (result.empty() ? "" : ", ") + work[stage].programs[run.program].name.substr(0, 1) + std::to_string(run.microBatch) + " " +
              (run.receivePs > 0 ? "(" + std::to_string(run.receivePs) + ") " : "") + std::to_string(run.beginPs) + "-" +
              std::to_string(run.endPs);
  }
  return result;
}

// Returns a pipeline with random times, slots as a plan has them, and messages that skip a stage.
std::vector<StageWork> randomPipeline(std::mt19937 &random) {
  auto draw = [&](int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); };
  const char *const kSchedules[] = {"GPIPE", "ONE_F_ONE_B", "ZERO_BUBBLE"};
  const int64_t stages = draw(2, 5), microBatches = draw(stages, 12);
  const char *schedule = kSchedules[draw(0, 2)];
  std::vector<stage::Dependence> dependences;
  std::vector<StageWork> work = chain(schedule, stages, microBatches, {1, 1, 1});
  for (int64_t number = 0; number < stages; ++number) {
    for (TimedProgram &program : work[number].programs) {
      program.timePs = draw(0, 20);
      llvm::for_each(program.receives, [&](ChannelEnd &end) { end.timePs = draw(0, 5); });
    }
    if (number + 2 < stages && draw(0, 1) == 1) { // beside what goes to the next stage
      work[number].programs[0].sends.push_back({number + 2, /*channel=*/7});
      work[number + 2].programs[0].receives.push_back({number, /*channel=*/7, draw(0, 5)});
      dependences.push_back({number, {stage::StepPhase::Forward}, number + 2, {stage::StepPhase::Forward}});
    }
    if (number + 1 < stages) {
      dependences.push_back({number, {stage::StepPhase::Forward}, number + 1, {stage::StepPhase::Forward}});
      dependences.push_back({number + 1, {stage::StepPhase::Backward}, number, {stage::StepPhase::Backward}});
    }
  }
  std::string deadlock;
  std::vector<int64_t> slots = stage::chooseSlots(
      stage::buildOrders(stage::SchedulePolicy::get(*stage::symbolizeSchedule(schedule)), {stages}, microBatches), dependences, deadlock);
  for (int64_t number = 0; number < stages; ++number) {
    work[number].slots = slots[number];
  }
  return work;
}

// Finds when runs end by raising all times until nothing changes: the least ones that keep what a step promises. By {stage, program,
// micro-batch}.
std::map<std::tuple<int64_t, unsigned, int64_t>, int64_t> relax(const std::vector<StageWork> &work) {
  std::map<std::tuple<int64_t, unsigned, int64_t>, int64_t> ends;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int64_t> taken; // by {from, to, channel, micro-batch}
  auto senderOf = [&](int64_t from, int64_t to, int64_t channel) {
    for (unsigned program = 0; program < work[from].programs.size(); ++program) {
      for (const ChannelEnd &end : work[from].programs[program].sends) {
        if (end.stage == to && end.channel == channel) {
          return program;
        }
      }
    }
    FAIL("nobody sends");
    return 0u;
  };
  for (bool changes = true; changes;) {
    changes = false;
    for (int64_t self = 0; self < static_cast<int64_t>(work.size()); ++self) {
      int64_t time = 0;
      for (const OrderedRun &run : work[self].order) {
        const TimedProgram &program = work[self].programs[run.program];
        for (const ChannelEnd &end : program.sends) {
          time = std::max(time, taken[{self, end.stage, end.channel, run.microBatch - work[self].slots}]);
        }
        for (const ChannelEnd &end : program.receives) {
          time = std::max(time, ends[{end.stage, senderOf(end.stage, self, end.channel), run.microBatch}]) + end.timePs;
          taken[{end.stage, self, end.channel, run.microBatch}] = time;
        }
        time += program.timePs;
        int64_t &last = ends[{self, run.program, run.microBatch}];
        changes |= last != time;
        last = time;
      }
    }
  }
  return ends;
}

// Facts as those of a plan, of stages whose ranks hold 1 MB besides slots of 1 KB.
report::PipelineFacts factsOf(std::vector<StageWork> work, int64_t microBatches) {
  report::PipelineFacts facts;
  facts.schedule = "GPIPE";
  facts.microBatches = microBatches;
  facts.timeline = play(work);
  for (const StageWork &stage : work) {
    report::StageFacts &fact = facts.stages.emplace_back();
    for (const auto &[number, program] : llvm::enumerate(stage.programs)) {
      auto isOfIt = [number = number](const OrderedRun &run) { return run.program == number; };
      fact.programs.push_back({program.name, llvm::count_if(stage.order, isOfIt), program.timePs});
    }
    fact.slots = 2;
    fact.slotBytes = 1000;
    fact.memory.parts.push_back({"temporaries", 1002000});
  }
  facts.crossings.push_back({"h", 0, 1, "forward", "forward", /*bytes=*/1000, /*timePs=*/0, microBatches});
  return facts;
}

} // namespace

// Two stages, four micro-batches, forward 1, backward 2.
TEST_CASE("timeline: all forward, then all backward", "[report][timeline]") {
  std::vector<StageWork> work = chain("GPIPE", 2, 4, {1, 2});
  Timeline timeline = play(work);
  CHECK(text(timeline, work, 0) == "f0 0-1, f1 1-2, f2 2-3, f3 3-4, b0 7-9, b1 9-11, b2 11-13, b3 13-15");
  CHECK(text(timeline, work, 1) == "f0 1-2, f1 2-3, f2 3-4, f3 4-5, b0 5-7, b1 7-9, b2 9-11, b3 11-13");
  CHECK(timeline.timePs == 15);
  CHECK((timeline.stages[0].computePs == 12 && timeline.stages[0].receivePs == 0 && timeline.stages[0].waitPs == 3));
  CHECK((timeline.stages[1].computePs == 12 && timeline.stages[1].waitPs == 3));
  CHECK(timeline.bubble(0) == Approx(0.2));
  CHECK(timeline.bubble() == Approx(0.2)); // (p - 1) / (m + p - 1)
}

TEST_CASE("timeline: one forward, one backward takes as long, with fewer in flight", "[report][timeline]") {
  std::vector<StageWork> work = chain("ONE_F_ONE_B", 2, 4, {1, 2});
  Timeline timeline = play(work);
  CHECK(text(timeline, work, 0) == "f0 0-1, f1 1-2, b0 4-6, f2 6-7, b1 7-9, f3 9-10, b2 10-12, b3 13-15");
  CHECK(text(timeline, work, 1) == "f0 1-2, b0 2-4, f1 4-5, b1 5-7, f2 7-8, b2 8-10, f3 10-11, b3 11-13");
  CHECK((timeline.timePs == 15 && timeline.stages[0].waitPs == 3 && timeline.stages[1].waitPs == 3));
}

TEST_CASE("timeline: gradients of weights fill the gaps", "[report][timeline]") {
  std::vector<StageWork> work = chain("ZERO_BUBBLE", 2, 4, {1, 1, 1});
  Timeline timeline = play(work);
  CHECK(text(timeline, work, 0) == "f0 0-1, f1 1-2, b0 3-4, w0 4-5, f2 5-6, b1 6-7, w1 7-8, f3 8-9, b2 9-10, w2 10-11, b3 11-12, w3 12-13");
  CHECK(timeline.timePs == 13);
  CHECK((timeline.stages[0].waitPs == 1 && timeline.stages[1].waitPs == 1)); // a third of what it is with backward passes in one piece
}

TEST_CASE("timeline: the share of waiting is that of the formula", "[report][timeline]") {
  for (const char *schedule : {"GPIPE", "ONE_F_ONE_B"}) {
    for (int64_t stages : {2, 3, 4, 8}) {
      for (int64_t microBatches : {stages, 2 * stages, int64_t{512}}) {
        INFO(schedule << " " << stages << " stages, " << microBatches << " micro-batches");
        Timeline timeline = play(chain(schedule, stages, microBatches, {1000, 2000}));
        CHECK(timeline.bubble() == Approx(static_cast<double>(stages - 1) / static_cast<double>(microBatches + stages - 1)));
        for (const report::StageTimeline &stage : timeline.stages) {
          CHECK(stage.computePs == 3000 * microBatches);
          CHECK(stage.runs.size() == 2 * static_cast<size_t>(microBatches));
        }
      }
    }
  }
}

// What a stage receives, it copies itself, once it was sent and the stage has nothing else to do. Two micro-batches, forward 2, backward 4,
// messages 1.
TEST_CASE("timeline: receiving takes the receiver's time", "[report][timeline]") {
  std::vector<StageWork> work = chain("GPIPE", 2, 2, {2, 4}, /*messagePs=*/1);
  Timeline timeline = play(work);
  CHECK(text(timeline, work, 0) == "f0 0-2, f1 2-4, b0 (1) 13-17, b1 (1) 18-22");
  CHECK(text(timeline, work, 1) == "f0 (1) 3-5, f1 (1) 6-8, b0 8-12, b1 12-16");
  CHECK(timeline.timePs == 22);
  CHECK((timeline.stages[0].computePs == 12 && timeline.stages[0].receivePs == 2 && timeline.stages[0].waitPs == 8));
  CHECK((timeline.stages[1].computePs == 12 && timeline.stages[1].receivePs == 2 && timeline.stages[1].waitPs == 8));
  REQUIRE(timeline.messages.size() == 4);
  const report::TimelineMessage &last = timeline.messages[3];
  CHECK((last.from == 1 && last.fromRun == 3 && last.to == 0 && last.toRun == 3));
}

// With one slot the first stage may send the second micro-batch only when the other one has received the first: it is slow, at 10 a run.
TEST_CASE("timeline: a sender waits for its slot", "[report][timeline]") {
  TimedProgram send{"send", 1, {}, {{1, 0}}}, take{"take", 10, {{0, 0}}, {}};
  std::vector<OrderedRun> order = {{0, 0}, {0, 1}, {0, 2}};
  auto sendsOf = [&](int64_t slots) {
    std::vector<StageWork> work = {{{send}, order, slots}, {{take}, order, 3}};
    return text(play(work), work, 0);
  };
  CHECK(sendsOf(3) == "s0 0-1, s1 1-2, s2 2-3");
  CHECK(sendsOf(2) == "s0 0-1, s1 1-2, s2 2-3");
  CHECK(sendsOf(1) == "s0 0-1, s1 1-2, s2 11-12");
}

// Two messages of one program come in turn, each when it was sent: the second one, from a slower stage, at 5.
TEST_CASE("timeline: messages of several stages", "[report][timeline]") {
  std::vector<StageWork> work = {{{{"a", 2, {}, {{2, 0}}}}, {{0, 0}}},
                                 {{{"b", 5, {}, {{2, 0}}}}, {{0, 0}}},
                                 {{{"c", 1, {{0, 0, 1}, {1, 0, 2}}, {}}, {"once", 4}}, {{0, 0}, {1, 0}}}};
  Timeline timeline = play(work);
  CHECK(text(timeline, work, 2) == "c0 (3) 7-8, o0 8-12");
  CHECK((timeline.timePs == 12 && timeline.stages[2].waitPs == 4 && timeline.stages[0].waitPs == 10));
  CHECK(timeline.bubble() == Approx((10.0 + 7.0 + 4.0) / 36));
}

TEST_CASE("timeline: random pipelines begin everything as early as they may", "[report][timeline]") {
  std::mt19937 random(20);
  for (int round = 0; round < 200; ++round) {
    std::vector<StageWork> work = randomPipeline(random);
    Timeline timeline = play(work);
    auto expected = relax(work);
    INFO("round " << round);
    size_t received = 0;
    for (size_t number = 0; number < work.size(); ++number) {
      REQUIRE(timeline.stages[number].runs.size() == work[number].order.size());
      for (const report::TimelineRun &run : timeline.stages[number].runs) {
        REQUIRE(run.endPs == expected[{static_cast<int64_t>(number), run.program, run.microBatch}]);
        REQUIRE(run.endPs - run.beginPs == work[number].programs[run.program].timePs);
        received += work[number].programs[run.program].receives.size();
      }
    }
    CHECK(timeline.messages.size() == received);
  }
}

TEST_CASE("timeline: nothing takes no time", "[report][timeline]") {
  CHECK(play({}).bubble() == 0);
  Timeline timeline = play(chain("GPIPE", 2, 2, {0, 0}));
  CHECK((timeline.timePs == 0 && timeline.bubble() == 0 && timeline.bubble(1) == 0));
}

TEST_CASE("timeline: in sentences", "[report][timeline]") {
  report::PipelineFacts facts = factsOf(chain("GPIPE", 2, 4, {1000000, 2000000}, /*messagePs=*/0), 4);
  CHECK(report::stepText(facts) == "2 stages, 4 micro-batches, GPIPE; a step takes 15.0 us predicted; a stage waits 20.0 % on average");
  CHECK(report::sharesText(facts, 0) ==
        "computes 12.0 us (80.0 %), receives 0 ns (0.0 %), waits 3.0 us (20.0 %); sends 4.0 KB a step; at most 1.0 MB a rank");
  CHECK(report::slotsText(facts.stages[0]) == "2 slots of 1.0 KB and 1.0 MB besides");
  CHECK(facts.stages[0].fixedBytes() == 1000000);
  facts.crossings.push_back({"mask", 0, 1, "forward", "forward", /*bytes=*/500, /*timePs=*/3000, 4});
  facts.crossings.push_back({"norm", 0, 1, "update", "update_1", /*bytes=*/4, /*timePs=*/1000, 1});
  CHECK(report::crossingLines(facts) ==
        std::vector<std::string>{"4 times a step from stage 0 (forward) to stage 1 (forward): 1.5 KB in 3 ns: h, mask",
                                 "once a step from stage 0 (update) to stage 1 (update_1): 4 B in 1 ns: norm"});
}

// 96 columns for a step of 10 + 5 + 38 + 5 + 38 us: a column is a microsecond.
TEST_CASE("timeline: drawn with letters", "[report][timeline]") {
  std::vector<StageWork> work = {{{{"go", 10000000, {}, {{1, 0}}}, {"end", 6000000}}, {{0, 0}, {0, 1}, {1, 0}}, /*slots=*/2},
                                 {{{"take", 38000000, {{0, 0, 5000000}}, {}}, {"short", 0}}, {{0, 0}, {0, 1}, {1, 0}}}};
  report::PipelineFacts facts = factsOf(work, 2);
  std::vector<std::string> lines = report::timelineLines(facts);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "a column is 1.0 us: a micro-batch by its number or letter, * once a step, < receiving");
  CHECK(lines[1] == "stage 0   go    00000000001111111111");
  CHECK(lines[2] == "          end                       ******");
  CHECK(lines[3] == "stage 1   take            <<<<<" + std::string(38, '0') + "<<<<<" + std::string(38, '1'));
  CHECK(lines[4] == "          short " + std::string(95, ' ') + "*"); // no run is lost
  CHECK(report::timelineLines(factsOf(chain("GPIPE", 2, 36, {1, 2}), 36)).back().find('z') != std::string::npos);
  CHECK(report::timelineLines(factsOf(chain("GPIPE", 2, 37, {1, 2}), 37)).empty());
  CHECK(report::timelineLines(factsOf(chain("GPIPE", 12, 12, {1, 2}), 12)).size() == 25);
  CHECK(report::timelineLines(factsOf(chain("GPIPE", 13, 13, {1, 2}), 13)).empty());
}

TEST_CASE("timeline: as a picture", "[report][timeline]") {
  report::PipelineFacts facts = factsOf(chain("GPIPE", 2, 4, {1000000, 2000000}, /*messagePs=*/0), 4);
  std::string svg = report::timelineSvg(facts, "a <b> & \x01 \xff");
  auto count = [&](const std::string &what) {
    size_t found = 0;
    for (size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  CHECK_THAT(svg, Contains("a &lt;b&gt; &amp; \xef\xbf\xbd \xef\xbf\xbd"));
  CHECK(count("class=\"stage\"") == 2);
  CHECK(count("class=\"run\"") == 16);
  CHECK(count("class=\"receive\"") == 0);
  CHECK(count("class=\"message\"") == 8);
  CHECK(count(">3</text>") == 4); // both programs of both stages
  CHECK(count("waits 20.0 %") == 3);
  // From 84 on, 60 pixels a microsecond: the second stage's first backward program from 5 to 7 us.
  CHECK_THAT(svg, Contains("<rect class=\"run\" x=\"384.00\" y=\"108.0\" width=\"120.00\""));
  CHECK_THAT(svg, Contains("<title>stage 1, backward of micro-batch 0: 5.0 us to 7.0 us</title>"));
  // Of very many messages no lines; runs that are too narrow have no number.
  std::string large = report::timelineSvg(factsOf(chain("GPIPE", 4, 100, {1, 1000}), 100), "large");
  CHECK(large.find("class=\"message\"") == std::string::npos);
}

} // namespace ashlar::test::timeline_test
