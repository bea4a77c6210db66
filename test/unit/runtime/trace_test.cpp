// SPDX-License-Identifier: Apache-2.0
//
// --trace: what is kept when there is no room, clocks, windows of steps, the plan's timeline, and the file.

#include "runtime/base/json.h"
#include "runtime/execute/order.h"
#include "runtime/run/tracer.h"
#include "test/unit/data/allocations.h"
#include "test/unit/data/temporary_folder.h"
#include "test/unit/runtime/toy_pipeline.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

namespace ashlar::test::trace_test {

using namespace ashlar::rt;

namespace {

// The runs of a step of all stages.
StepRuns runsOf(const ashlar_rt_image &image, uint64_t microBatches) {
  StepRuns all;
  for (const ashlar_rt_variant &stage : Stages(image.variants[0])) {
    StepOrder order;
    REQUIRE(order.set(stage, microBatches).ok());
    all.emplace_back();
    for (ashlar_rt_run run; order.next(run);) {
      all.back().push_back(run);
    }
  }
  return all;
}

ashlar_rt_program &program(const ashlar_rt_image &image, uint32_t stage, const char *name) {
  return ashlar::test::programNamed(image.variants[stage], name);
}

// Has a program take so long.
void predict(ashlar_rt_program &program, uint64_t ns) {
  program.predicted_ns = ns;
  program.other_ps = 1000 * ns;
}

// Every program takes no time.
void predictNothing(const ashlar_rt_image &image) {
  for (const ashlar_rt_variant &stage : Stages(image.variants[0])) {
    for (uint32_t i = 0; i < stage.num_programs; ++i) {
      predict(const_cast<ashlar_rt_program &>(stage.programs[i]), 0);
    }
  }
}

} // namespace

TEST_CASE("trace: names become JSON strings, whatever bytes they have", "[runtime][trace]") {
  CHECK(jsonString("") == "\"\"");
  CHECK(jsonString("layer3/fc.weight") == "\"layer3/fc.weight\"");
  CHECK(jsonString("a \"b\" \\ c/") == "\"a \\\"b\\\" \\\\ c/\"");
  CHECK(jsonString(std::string("\0\n\t\x1f\x7f", 5)) == "\"\\u0000\\u000a\\u0009\\u001f\x7f\"");
  CHECK(jsonString("\xc3\xa9 \xe2\x82\xac \xf0\x9f\xaa\xa8") == "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\xaa\xa8\"");
  // Cut off, alone, overlong (2, 3 and 4 bytes), a surrogate, above U+10FFFF: each byte is replaced.
  CHECK(jsonString("\xc3") == "\"\\ufffd\"");
  CHECK(jsonString("\xe2\x82z") == "\"\\ufffd\\ufffdz\"");
  CHECK(jsonString("\x80z\xff") == "\"\\ufffdz\\ufffd\"");
  for (const char *bad : {"\xc0\x80", "\xc1\xbf"}) {
    CHECK(jsonString(bad) == "\"\\ufffd\\ufffd\"");
  }
  for (const char *bad : {"\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf"}) {
    CHECK(jsonString(bad) == "\"\\ufffd\\ufffd\\ufffd\"");
  }
  for (const char *bad : {"\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    CHECK(jsonString(bad) == "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
  }
  CHECK(jsonString("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf") == "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"");
}

TEST_CASE("trace: a full recorder counts what it leaves out, and instructions take no room from the rest", "[runtime][trace]") {
  Recorder recorder;
  recorder.reserve({/*spans=*/2, /*instructions=*/3, /*beside=*/1});
  CHECK(recorder.bytes() == 6 * sizeof(Span));
  recorder.open();
  const uint64_t before = ashlar::test::allocations();
  for (uint32_t i = 0; i < 5; ++i) {
    recorder.add(SpanKind::kInstruction, 0, i, 10 * i, 10 * i + 5);
    recorder.add(SpanKind::kBeside, 0, i, 10 * i, 10 * i + 5);
    recorder.add(SpanKind::kProgram, 1, 0, 10 * i, 10 * i + 5);
  }
  CHECK(ashlar::test::allocations() == before);
  CHECK(recorder.spans().size() == 6);
  CHECK(recorder.lostInstructions() == 2 + 4);
  CHECK(recorder.lostOthers() == 3);
  CHECK(recorder.spans()[1].begin == 10); // the first ones are kept
}

TEST_CASE("trace: a stopwatch adds up for the profile and keeps each time of the window", "[runtime][trace]") {
  Recorder recorder;
  recorder.reserve({8, 8, 8});
  double sum = 0;
  const Stopwatch both{&sum, &recorder, SpanKind::kReceive, 3, 7}, neither, traced{nullptr, &recorder};
  auto three = [] { return 3; };
  CHECK(neither.time(three) == 3);
  CHECK_FALSE(neither.isOn());
  CHECK_FALSE(traced.isOn()); // outside of the window
  both.note(100, 600);
  CHECK(sum == Approx(5e-7));
  CHECK(recorder.spans().empty());
  recorder.open();
  recorder.setStep(2, /*firstMicroBatch=*/40);
  recorder.setMicroBatch(45);
  both.note(700, 800);
  CHECK(traced.time(three) == 3);
  recorder.close();
  both.note(900, 1000);
  CHECK(sum == Approx(7e-7));
  REQUIRE(recorder.spans().size() == 2);
  const Span span = recorder.spans()[0];
  CHECK((span.begin == 700 && span.end == 800 && span.program == 3 && span.index == 7 && span.step == 2 && span.microBatch == 5));
  CHECK(span.kind == static_cast<uint16_t>(SpanKind::kReceive));
}

TEST_CASE("trace: clocks are compared by meetings that nobody leaves before all have come", "[runtime][trace]") {
  const ClockMeeting mine = {100, 130}, other = {10, 20};
  ClockOffset found = compareClocks(&mine, &other, 1);
  CHECK((found.offset == 100 && found.error == 20));
  std::mt19937 dice(7);
  auto random = [&] { return static_cast<int64_t>(dice()); };
  for (int64_t ahead : {int64_t{-5000000000000}, int64_t{-3}, int64_t{0}, int64_t{12345678}}) {
    std::vector<ClockMeeting> mines, others;
    int64_t now = 1000;
    for (int i = 0; i < 20; ++i) { // both leave after the last has entered
      const int64_t first = now + random() % 500, second = now + random() % 500, all = std::max(first, second);
      mines.push_back({ahead + first, ahead + all + random() % 300});
      others.push_back({second, all + random() % 300});
      now = all + 300;
      found = compareClocks(mines.data(), others.data(), mines.size());
      CHECK(std::abs(found.offset - ahead) <= found.error);
    }
    CHECK(found.error < 300); // more meetings, less error
  }
}

TEST_CASE("trace: the window is what --trace-steps says, else steps 3 to 5, else the last three", "[runtime][trace]") {
  auto window = [](TraceWindow asked, uint64_t steps, uint64_t done = 0) {
    TraceWindow found;
    Status status = chooseWindow(asked, done, steps, found);
    return status.ok() ? fmt::format("{}-{}", found.first, found.last) : status.message();
  };
  CHECK(window({}, 100) == "3-5");
  CHECK(window({}, 5) == "3-5");
  CHECK(window({}, 4) == "2-4");
  CHECK(window({}, 2) == "1-2");
  CHECK(window({}, 1) == "1-1");
  CHECK(window({}, 0) == "--trace: the run has 0 steps, so there is nothing to trace");
  CHECK(window({1, 1}, 1) == "1-1");
  CHECK(window({7, 9}, 9) == "7-9");
  CHECK(window({7, 9}, 8) == "--trace-steps 7-9: the run has 8 steps; name steps from 1 to 8");
  // A run that goes on behind step 100.
  CHECK(window({}, 200, 100) == "103-105");
  CHECK(window({}, 102, 100) == "101-102");
  CHECK(window({101, 101}, 200, 100) == "101-101");
  CHECK(window({100, 101}, 200, 100) == "--trace-steps 100-101: the run goes on after step 100; name steps from 101 to 200");
  CHECK(window({}, 100, 100) == "--trace: the run has 0 steps, so there is nothing to trace");
}

TEST_CASE("trace: there is room for all spans of the window, or for the ones that tell most", "[runtime][trace]") {
  auto toy = ashlar::test::makeToyPipeline({/*stages=*/3, /*devices=*/1, /*microBatches=*/4});
  const StepRuns runs = runsOf(toy->image(), 4);
  // The stage in the middle, a step: itself, 10 runs, 4 x 1 + 4 x 2 + 2 receives, 4 x 2 + 4 + 1 sends that are waited for and offered.
  SpanRoom room = roomFor(toy->image().variants[1], runs[1], /*steps=*/2, /*ranks=*/3);
  CHECK((room.spans == 2 * (1 + 10 + 14 + 2 * 13) && room.beside == 0));
  CHECK(room.instructions == 2 * (4 * 1 + 4 * 4 + 1 + 1));
  room = roomFor(toy->image().variants[1], runs[1], 1000, /*ranks=*/1 << 20);
  CHECK((room.spans == kLeastSpans && room.instructions == 0));
  room = roomFor(toy->image().variants[1], runs[1], 70, /*ranks=*/1 << 20);
  CHECK((room.spans == 70 * 51 && room.instructions == kLeastSpans - 70 * 51));
  room = roomFor(toy->image().variants[1], runs[1], UINT64_MAX, /*ranks=*/2);
  CHECK(room.spans + room.instructions == kMostSpans / 2);
}

TEST_CASE("trace: the plan plays the order on a clock", "[runtime][trace]") {
  auto toy = ashlar::test::makeToyPipeline({/*stages=*/2, /*devices=*/1, /*microBatches=*/3});
  const ashlar_rt_image &image = toy->image();
  const Stages stages(image.variants[0]);
  const StepRuns runs = runsOf(image, 3);
  std::vector<StagePlan> plans;
  predictNothing(image);
  REQUIRE(planSteps(stages, runs, 1, 3, plans).ok());
  CHECK(plans.empty());
  for (uint32_t stage : {0u, 1u}) {
    predict(program(image, stage, "forward"), 10);
    predict(program(image, stage, "backward"), 20);
    predict(program(image, stage, "update"), 5);
  }
  REQUIRE(planSteps(stages, runs, 2, 3, plans).ok());
  auto text = [&](uint32_t stage, uint32_t step) {
    std::string found;
    for (const PlannedRun &run : plans[stage]) {
      const char *name = image.variants[stage].programs[run.program].name;
      found += run.step == step ? fmt::format("{}{}{}-{}", found.empty() ? "" : " ", name[0], run.microBatch, run.begin) : "";
    }
    return found;
  };
  // One forward ahead on stage 0. The norm goes there and back before the update; the last backward of stage 0 ends at 120.
  CHECK(text(1, 0) == "f0-10 b0-20 f1-40 b1-50 f2-70 b2-80 n0-120 u0-120");
  CHECK(text(0, 0) == "f0-0 f1-10 b0-40 f2-60 b1-70 b2-100 n0-120 u0-120");
  CHECK(plans[0].back().program == plans[1].back().program);
  CHECK(text(0, 1).substr(0, 11) == "f0-125 f1-1");
}

TEST_CASE("trace: a planned send waits for its slot", "[runtime][trace]") {
  // Stage 1 takes its time: stage 0, which has two slots, may be two micro-batches ahead of what was received.
  auto toy = ashlar::test::makeToyPipeline({/*stages=*/2, /*devices=*/1, /*microBatches=*/4, /*allForwardFirst=*/true});
  const ashlar_rt_image &image = toy->image();
  auto *variants = const_cast<ashlar_rt_variant *>(image.variants);
  const StepRuns runs = runsOf(image, 4);
  predictNothing(image);
  predict(program(image, 0, "forward"), 10);
  predict(program(image, 1, "forward"), 100);
  std::vector<StagePlan> plans;
  // With slots for two only, forward 2 of stage 0 waits until forward 0 of stage 1 has begun, and its messages for backward, which the toy
  // receives there, keep it waiting for ever: the order stands still.
  variants[0].num_slots = 2;
  CHECK_THAT(planSteps(Stages(variants[0]), runs, 1, 4, plans).message(),
             Catch::StartsWith("the order of stage 0 stands still at run 2 of 10"));
  program(image, 0, "forward").num_sends = 1;
  program(image, 1, "backward").num_receives = 0;
  REQUIRE(planSteps(Stages(variants[0]), runs, 1, 4, plans).ok());
  CHECK(plans[0][1].begin == 10);
  CHECK(plans[0][2].begin == 20);  // forward 0 was received at 10
  CHECK(plans[0][3].begin == 110); // forward 1 is received at 110
}

namespace {

std::string written(const Trace &trace) {
  ashlar::test::TemporaryFolder folder;
  OutputFile file;
  REQUIRE(file.create(folder.file("trace.json")).ok());
  REQUIRE(writeTrace(trace, file).ok());
  REQUIRE(file.commit().ok());
  std::stringstream text;
  text << std::ifstream(folder.file("trace.json")).rdbuf();
  return text.str();
}

Span spanOf(SpanKind kind, uint16_t program, uint32_t index, int64_t begin, int64_t end) {
  return {begin, end, static_cast<uint16_t>(kind), program, index, /*step=*/1, /*microBatch=*/2};
}

} // namespace

TEST_CASE("trace: the file tells of both ends of a message on one clock", "[runtime][trace]") {
  auto toy = ashlar::test::makeToyPipeline({/*stages=*/2, /*devices=*/1, /*microBatches=*/4});
  const ashlar_rt_image &image = toy->image();
  auto *tensors = const_cast<ashlar_rt_tensor *>(image.variants[0].tensors);
  const uint32_t h0 = program(image, 0, "forward").sends[0].tensor;
  tensors[h0].name = "h\"0\n";
  Trace trace;
  trace.image = &image;
  trace.variant = image.variants;
  trace.firstStep = 7;
  trace.steps = 2;
  trace.microBatches = 4;
  trace.ranks.resize(2);
  trace.ranks[1].clock = {1000000, 20}; // the clock of rank 1 is a millisecond ahead
  trace.ranks[1].lostInstructions = 3;
  trace.ranks[0].spans = {spanOf(SpanKind::kProgram, 1, 0, 5000, 9500), spanOf(SpanKind::kSend, 1, 0, 9001, 9002),
                          spanOf(SpanKind::kReclaim, 1, 0, 4000, 4999)};
  trace.ranks[1].spans = {spanOf(SpanKind::kReceive, 1, 0, 1005000, 1012345), spanOf(SpanKind::kInstruction, 1, 0, 1013000, 1014000)};
  const std::string text = written(trace);
  // The trace begins with the earliest span, at 4000. Micro-batch 2 of step 8 is number 30: slot 0 of two, slot 0 of one.
  CHECK_THAT(text,
             Catch::Contains(R"("ts":1.000,"dur":4.500,"cat":"program","name":"forward","args":{"step":8,"micro_batch":2,"slot":0}})"));
  CHECK_THAT(
      text, Catch::Contains(R"("ts":5.001,"dur":3.344,"cat":"send","name":"send h\"0\u000a","args":{"to_rank":1,"channel":0,"bytes":32,)"));
  CHECK_THAT(
      text, Catch::Contains(R"("ts":1.000,"dur":7.345,"cat":"receive","name":"receive h0","args":{"from_rank":0,"channel":0,"bytes":32,)"));
  CHECK_THAT(text, Catch::Contains(R"("ts":1.000,"dur":4.001,"cat":"wait","name":"wait for h0 of stage 0")"));
  CHECK_THAT(text, Catch::Contains(R"("ts":9.000,"dur":1.000,"cat":"kernel","name":"scale")"));
  CHECK_THAT(text, Catch::Contains(R"({"ph":"s","pid":1,)") && Catch::Contains(R"({"ph":"f","pid":3,)"));
  CHECK_THAT(text, !Catch::Contains("wait until")); // shorter than a microsecond
  CHECK_THAT(text, Catch::Contains(R"("name":"process_name","args":{"name":"rank 1"})") && !Catch::Contains("planned"));
  CHECK_THAT(text, Catch::Contains(R"("clock_offset_us":1000.000,"clock_error_us":0.020,"lost_instructions":3,"lost_others":0)"));
  CHECK_THAT(text, Catch::Contains(R"("plan":"a toy pipeline\u000a",)"));
  CHECK(text.find('\n' + std::string("\"")) != std::string::npos);
}

TEST_CASE("trace: messages that are on their way together have a track each", "[runtime][trace]") {
  auto toy = ashlar::test::makeToyPipeline({/*stages=*/2, /*devices=*/1, /*microBatches=*/4, /*allForwardFirst=*/true});
  Trace trace;
  trace.image = &toy->image();
  trace.variant = toy->image().variants;
  trace.microBatches = 4;
  trace.ranks.resize(2);
  auto message = [&](uint32_t microBatch, int64_t offered, int64_t received) {
    Span send = spanOf(SpanKind::kSend, 1, 0, offered, offered), receive = spanOf(SpanKind::kReceive, 1, 0, received - 1, received);
    send.microBatch = receive.microBatch = microBatch;
    trace.ranks[0].spans.push_back(send);
    trace.ranks[1].spans.push_back(receive);
  };
  message(0, 0, 5000);
  message(1, 1000, 6000); // beside the first
  message(2, 5000, 7000); // the first is there
  message(3, 5500, 8000); // beside two others
  const std::string text = written(trace);
  CHECK_THAT(text, Catch::Contains(R"("tid":100007,"ts":0.000,"dur":5.000)") && Catch::Contains(R"("tid":100007,"ts":5.000,"dur":2.000)"));
  CHECK_THAT(text, Catch::Contains(R"("tid":100008,"ts":1.000,"dur":5.000)") && Catch::Contains(R"("tid":100009,"ts":5.500,"dur":2.500)"));
  CHECK_THAT(text, Catch::Contains(R"("name":"sends 2")") && Catch::Contains(R"("name":"sends 3")") && !Catch::Contains("sends 4"));
}

} // namespace ashlar::test::trace_test
