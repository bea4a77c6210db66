// SPDX-License-Identifier: Apache-2.0
//
// The texts of the log, the bytes of TensorBoard's events, and the work of a step.

#include "runtime/execute/operations.h"
#include "runtime/run/log/training_log.h"
#include "test/unit/data/temporary_folder.h"
#include "test/unit/runtime/toy_image.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>

namespace ashlar::test::training_log_test {

using namespace ashlar::rt;

namespace {

std::string bytesOf(std::initializer_list<int> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

// A step of 8 samples of 16 tokens in 4 ms, with 2 GFLOP that take 1 ms at the peak.
LoggedStep stepOf(double seconds) {
  LoggedStep step;
  step.epoch = 2;
  step.step = 10;
  step.number = 30;
  step.loss = 2.0726047;
  step.dtype = ASHLAR_RT_F32;
  step.learningRate = 0.0003;
  step.elapsed = 1.5;
  step.stepSeconds = seconds;
  return step;
}
constexpr StepWork kWork = {/*samples=*/8, /*tokens=*/128, /*operations=*/2e9, /*peakSeconds=*/1e-3};

} // namespace

TEST_CASE("log: the line of a step", "[runtime][log]") {
  LoggedStep step = stepOf(4e-3);
  CHECK(stepText(step, kWork) ==
        "epoch: 2 step: 10, loss is 2.0726047, lr 0.0003; 4 ms a step, 2000 samples/s, 32000 tokens/s, 25 % of peak");
  step.gradientNorm = 1.0234567;
  StepWork unknown = kWork;
  unknown.tokens = unknown.peakSeconds = 0;
  CHECK(stepText(step, unknown) ==
        "epoch: 2 step: 10, loss is 2.0726047, lr 0.0003, gradient norm 1.023; 4 ms a step, 2000 samples/s, 500 GFLOP/s");
  unknown.operations = 0;
  step.loss = NAN;
  step.stepSeconds = 12.345;
  CHECK(stepText(step, unknown) == "epoch: 2 step: 10, loss is nan, lr 0.0003, gradient norm 1.023; 12.3 s a step, 0.648 samples/s");
  CHECK(stepText(stepOf(45.67e-6), unknown).find("; 45.7 us a step, 175170 samples/s") != std::string::npos);
}

TEST_CASE("log: a step as JSON", "[runtime][log]") {
  LoggedStep step = stepOf(4e-3);
  step.gradientNorm = INFINITY;
  CHECK(
      stepJson(step, kWork) ==
      R"({"epoch": 2, "step": 10, "loss": 2.0726047, "seconds": 1.500000, "global_step": 30, "learning_rate": 0.0003, "gradient_norm": null, )"
      R"("step_seconds": 0.004, "samples_per_second": 2000, "tokens_per_second": 32000, "gflop_per_second": 500, )"
      R"("share_of_peak": 0.25})");
  step.gradientNorm.reset();
  step.loss = NAN;
  CHECK(stepJson(step, StepWork{8, 0, 0, 0}) ==
        R"({"epoch": 2, "step": 10, "loss": null, "seconds": 1.500000, "global_step": 30, "learning_rate": 0.0003, )"
        R"("step_seconds": 0.004, "samples_per_second": 2000})");
}

TEST_CASE("log: a run that resumes keeps the lines up to its first step", "[runtime][log]") {
  ashlar::test::TemporaryFolder folder;
  auto lineOf = [](uint64_t number) {
    LoggedStep step = stepOf(4e-3);
    step.number = number;
    return stepJson(step, kWork) + "\n";
  };
  const std::string first = lineOf(9), eval = "{\"global_step\": 10, \"eval_loss\": 1.5}\n", rest = lineOf(11) + lineOf(100);
  Options options;
  options.metricsFile = folder.file("metrics");
  options.logDirectory = options.eventDirectory = folder.path();
  for (bool resumes : {true, false}) {
    folder.write("metrics", first + eval + rest + first.substr(0, 30));
    folder.write("worker_0.log", "earlier\n");
    TrainingLog log;
    LogFacts facts;
    facts.resumes = resumes;
    facts.firstStep = 10;
    REQUIRE(log.open(options, facts).ok());
    LoggedStep step = stepOf(4e-3);
    step.number = 11;
    log.step(step);
    REQUIRE(log.close().ok());
    CHECK(folder.read("metrics") == (resumes ? first + eval : "") + stepJson(step, {}) + "\n");
    CHECK(folder.read("worker_0.log") == (resumes ? "earlier\n" : "") + stepText(step, {}) + "\n");
    std::string events; // of this run
    for (const auto &entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename().string();
      events += name.find("tfevents") != std::string::npos ? folder.read(name) : "";
      name.find("tfevents") != std::string::npos ? std::filesystem::remove(entry.path()) : false;
    }
    // The fields behind the time: step: 11; session_log {status: START}.
    CHECK((events.find(bytesOf({0x10, 11, 0x3a, 0x02, 0x08, 0x01})) != std::string::npos) == resumes);
  }
}

TEST_CASE("log: a run that only evaluates again replaces the line of the evaluation", "[runtime][log]") {
  ashlar::test::TemporaryFolder folder;
  const std::string step = "{\"step\": 2, \"global_step\": 10, \"loss\": 2}\n", eval = "{\"global_step\": 10, \"eval_loss\": 1.5}\n";
  Options options;
  options.metricsFile = folder.file("metrics");
  for (bool evaluates : {true, false}) {
    folder.write("metrics", step + eval);
    options.evaluate = evaluates;
    TrainingLog log;
    LogFacts facts;
    facts.resumes = true;
    facts.firstStep = facts.totalSteps = 10;
    REQUIRE(log.open(options, facts).ok());
    REQUIRE(log.close().ok());
    CHECK(folder.read("metrics") == step + (evaluates ? "" : eval));
  }
}

TEST_CASE("log: durations", "[runtime][log]") {
  CHECK(durationText(0) == "0:00");
  CHECK(durationText(59.6) == "1:00");
  CHECK(durationText(125) == "2:05");
  CHECK(durationText(3723) == "1:02:03");
  CHECK(durationText(-1) == "0:00");
}

// RFC 3720, B.4, and the check value of CRC-32C.
TEST_CASE("events: CRC-32C", "[runtime][log]") {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  auto crcOf = [](const std::string &bytes) { return crc32c(bytes.data(), bytes.size()); };
  CHECK(crcOf(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crcOf(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crcOf(rising) == 0x46dd794e);
  CHECK(crcOf("123456789") == 0xe3069283);
}

TEST_CASE("events: bytes of an event and of its record", "[runtime][log]") {
  // wall_time: 1.5; step: 300; summary {value {tag: "loss"; simple_value: 0.5}}.
  const std::string event = summaryEvent(1.5, 300, {{"loss", 0.5}});
  CHECK(event == bytesOf({0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 0x0d, 0x0a, 0x0b, 0x0a, 0x04}) + "loss" +
                     bytesOf({0x15, 0, 0, 0, 0x3f}));
  CHECK(versionEvent(0) == bytesOf({0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a, 0x0d}) + "brain.Event:2");
  // wall_time: 1.5; step: 300; session_log {status: START}.
  CHECK(restartEvent(1.5, 300) == bytesOf({0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x3a, 0x02, 0x08, 0x01}));
  // The CRC-32C of eight bytes, "123456789" and its length, by the formula of TFRecord: ((crc >> 15) | (crc << 17)) + 0xa282ead8.
  const std::string record = eventRecord("123456789");
  REQUIRE(record.size() == 8 + 4 + 9 + 4);
  CHECK(record.substr(0, 8) == bytesOf({9, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(record.substr(12, 9) == "123456789");
  // 0xe3069283: >> 15 is 0x1c60d, << 17 is 0x25060000; 0x2507c60d + 0xa282ead8 = 0xc78ab0e5.
  CHECK(record.substr(21) == bytesOf({0xe5, 0xb0, 0x8a, 0xc7}));
}

TEST_CASE("log: the work of a step", "[runtime][log]") {
  const auto image = ashlar::test::makeToyTraining(2);
  const ashlar_rt_variant &variant = image->image().variants[0];
  ashlar_rt_training training = *image->image().training;
  StepWork work;
  REQUIRE(findStepWork(training, variant, /*threads=*/1, work).ok());
  CHECK(work.samples == static_cast<double>(training.global_batch));
  CHECK(work.tokens == 0);
  CHECK(work.operations == 0);
  CHECK(work.peakSeconds == 0);
}

namespace {

// One program with a product of f32 and one of bf16, twice, on each of two devices; labels of 16 tokens a sample.
struct Model {
  Model() {
    wide.batch = 1;
    wide.m = 10;
    wide.n = 20;
    wide.k = 30;
    narrow = wide;
    narrow.narrow = ASHLAR_RT_BF16;
    instrs[0] = {};
    instrs[0].kind = ASHLAR_RT_GEMM;
    instrs[0].desc = &wide;
    instrs[1] = instrs[0];
    instrs[1].desc = &narrow;
    instrs[2] = instrs[1];
    instrs[2].owner = 1; // on one device alone
    program.name = "train_step";
    program.num_instrs = 3;
    program.instrs = instrs;
    labels.name = "labels";
    labels.rank = 2;
    labels.global_shape = shape;
    feature.tensor = "labels";
    feature.classes = 5;
    training.global_batch = 4;
    training.accumulate = 2;
    training.dataset.num_features = 1;
    training.dataset.features = &feature;
    training.peak_flops_per_us = 24000;        // a product in 0.5 us
    training.narrow_peak_flops_per_us = 48000; // in 0.25 us
    variant.num_axes = 1;
    variant.axes = &axis;
    variant.devices_per_process = 1;
    variant.num_programs = 1;
    variant.programs = &program;
    variant.num_tensors = 1;
    variant.tensors = &labels;
    variant.num_stages = 1;
    run.takes_batch = 1;
    repeat.begin = 0;
    repeat.end = 1;
    repeat.count = 2;
    repeat.stride = 1;
    variant.order.num_runs = 1;
    variant.order.runs = &run;
    variant.order.num_repeats = 1;
    variant.order.repeats = &repeat;
  }

  const int64_t shape[2] = {4, 16};
  ashlar_rt_gemm_desc wide = {}, narrow = {};
  ashlar_rt_instr instrs[3];
  ashlar_rt_program program = {};
  ashlar_rt_tensor labels = {};
  ashlar_rt_feature feature = {};
  ashlar_rt_training training = {};
  ashlar_rt_axis axis = {"dp", 2};
  ashlar_rt_run run = {};
  ashlar_rt_repeat repeat = {};
  ashlar_rt_variant variant = {};
};

} // namespace

TEST_CASE("log: operations and peak of products", "[runtime][log]") {
  Model model;
  const double product = 2.0 * 10 * 20 * 30;
  CHECK(operationsOf(model.instrs[0]) == product);
  CHECK(!isNarrow(model.instrs[0]));
  CHECK(isNarrow(model.instrs[1]));
  StepWork work;
  REQUIRE(findStepWork(model.training, model.variant, /*threads=*/1, work).ok());
  CHECK(work.samples == 8);
  CHECK(work.tokens == 8 * 16);
  CHECK(work.operations == 2 * (2 * product + 2 * product + product));
  // Of two devices in two runs: (2 * 0.5 us + 3 * 0.25 us) * 2 runs / 2 devices.
  CHECK(work.peakSeconds == Approx(1.75e-6));
  StepWork threads;
  REQUIRE(findStepWork(model.training, model.variant, /*threads=*/2, threads).ok());
  CHECK(threads.peakSeconds == Approx(1.75e-6 / 2));
  model.training.narrow_peak_flops_per_us = 0;
  StepWork unknown;
  REQUIRE(findStepWork(model.training, model.variant, /*threads=*/1, unknown).ok());
  CHECK(unknown.peakSeconds == 0);
  model.labels.rank = 1;
  StepWork noTokens;
  REQUIRE(findStepWork(model.training, model.variant, /*threads=*/1, noTokens).ok());
  CHECK(noTokens.tokens == 0);
}

} // namespace ashlar::test::training_log_test
