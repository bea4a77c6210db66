// SPDX-License-Identifier: Apache-2.0
//
// Pipelines of stages on threads-as-ranks: the numbers, the slots, and what an image must not say.

#include "runtime/comm/local/local.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/execute/order.h"
#include "test/unit/data/allocations.h"
#include "test/unit/runtime/toy_pipeline.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

namespace ashlar::test::pipeline_test {

using namespace ashlar::rt;
using ashlar::test::kToyRows;
using ashlar::test::ToyPipeline;

namespace {

constexpr uint64_t kSteps = 5;

// Samples whose numbers are easily said again.
float sampleX(uint64_t batch, uint32_t row) {
  return 0.1f * static_cast<float>((7 * batch + 3 * row) % 11) - 0.5f;
}
float sampleZ(uint64_t batch, uint32_t row) {
  return 2 * sampleX(batch, row) + 0.01f * static_cast<float>(batch % 3);
}

// Puts this rank's rows of a batch into the slots of x and z, where it has them.
void writeBatch(CpuExecutor &executor, const Communicator &seat, const ToyPipeline &toy, uint64_t microBatch) {
  const uint32_t rows = kToyRows / toy.devices, first = static_cast<uint32_t>(seat.firstDevice()) * rows;
  const ashlar_rt_tensor *x = executor.tensor("x"), *z = executor.tensor("z");
  for (uint32_t i = 0; i < rows; ++i) {
    if (x != nullptr) {
      reinterpret_cast<float *>(executor.address(*x, 0, microBatch))[2 * i] = sampleX(microBatch, first + i);
    }
    if (z != nullptr) {
      reinterpret_cast<float *>(executor.address(*z, 0, microBatch))[i] = sampleZ(microBatch, first + i);
    }
  }
}

// What the ranks found, by stage.
struct Found {
  std::mutex mutex;
  std::vector<float> factors, losses;
  std::vector<std::string> profiles;
  Status status;
};

Status trainRank(const ashlar_rt_image &image, const ToyPipeline &toy, Communicator &seat, const ExecutorOptions &options, Found &found) {
  const uint32_t stage = static_cast<uint32_t>(seat.rank()) / toy.devices;
  const ashlar_rt_variant &variant = image.variants[stage];
  ThreadPool pool(1);
  CpuExecutor executor;
  ASHLAR_RETURN_IF_ERROR(seat.agree(executor.create(image, variant, seat, pool, options)));
  StepOrder order;
  ASHLAR_RETURN_IF_ERROR(order.set(variant, toy.microBatches));
  ASHLAR_RETURN_IF_ERROR(executor.run(*executor.find(ASHLAR_RT_INIT)));
  ashlar_rt_run run;
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (order.restart(); order.next(run);) {
      const uint64_t microBatch = step * toy.microBatches + run.micro_batch;
      if (run.takes_batch != 0) {
        writeBatch(executor, seat, toy, microBatch);
      }
      ASHLAR_RETURN_IF_ERROR(executor.run(executor.at(run.program), microBatch));
    }
    if (const ashlar_rt_tensor *loss = executor.tensor("loss"); loss != nullptr && seat.firstDevice() == 0) {
      std::lock_guard<std::mutex> lock(found.mutex);
      found.losses.push_back(*reinterpret_cast<float *>(executor.address(*loss, 0)));
    }
  }
  ASHLAR_RETURN_IF_ERROR(executor.close());
  std::lock_guard<std::mutex> lock(found.mutex);
  found.factors[stage] = *reinterpret_cast<float *>(executor.address(*executor.tensor("w" + std::to_string(stage)), 0));
  found.profiles[stage] = options.profile ? executor.profile(/*all=*/true) : "";
  return Status();
}

// Trains on all ranks.
void train(const ToyPipeline &toy, const ExecutorOptions &options, Found &found) {
  auto image = ashlar::test::makeToyPipeline(toy);
  std::vector<std::unique_ptr<Communicator>> seats;
  REQUIRE(createLocalCommunicators(image->image().variants[0], seats).ok());
  REQUIRE(seats.size() == toy.stages * toy.devices);
  found.factors.resize(toy.stages);
  found.profiles.resize(toy.stages);
  std::vector<std::thread> threads;
  for (auto &seat : seats) {
    threads.emplace_back([&] {
      Status status = trainRank(image->image(), toy, *seat, options, found);
      if (!status.ok()) {
        seat->abort();
      }
      std::lock_guard<std::mutex> lock(found.mutex);
      found.status.update(status);
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

} // namespace

TEST_CASE("pipeline: stages train as one does, whatever the order and whoever is slow", "[runtime][stages]") {
  for (uint32_t stages : {2u, 3u}) {
    for (uint32_t devices : {1u, 2u}) {
      for (bool allForwardFirst : {false, true}) {
        for (uint32_t slowStage : {~0u, 0u, stages - 1}) {
          ToyPipeline toy{stages, devices, /*microBatches=*/4, allForwardFirst, slowStage};
          CAPTURE(stages, devices, allForwardFirst, slowStage);
          std::vector<float> losses;
          const std::vector<float> factors = trainByHand(toy, kSteps, sampleX, sampleZ, losses);
          Found found;
          train(toy, {}, found);
          REQUIRE(found.status.message() == "");
          CHECK(found.factors == factors);
          REQUIRE(found.losses.size() == kSteps);
          for (uint64_t step = 0; step < kSteps; ++step) { // devices add up micro-batches before each other
            CHECK(found.losses[step] == (devices == 1 ? Approx(losses[step]).epsilon(0) : Approx(losses[step]).epsilon(1e-6)));
          }
        }
      }
    }
  }
}

TEST_CASE("pipeline: the numbers of a first step", "[runtime][stages]") {
  // One factor of 0.5, one of 0.75; x = 1 and z = 0 everywhere: y = 0.375, loss 0.140625, error 2 y; the gradients are 0.5625 and 0.375.
  std::vector<float> losses;
  auto one = [](uint64_t, uint32_t) { return 1.0f; };
  auto zero = [](uint64_t, uint32_t) { return 0.0f; };
  const ToyPipeline toy{/*stages=*/2, /*devices=*/1, /*microBatches=*/1};
  const std::vector<float> factors = trainByHand(toy, /*steps=*/1, one, zero, losses);
  CHECK(losses[0] == 0.140625f);
  const float norm = 0.5625f * 0.5625f + 0.375f * 0.375f;
  CHECK(factors[0] == Approx(0.5f - 0.05f * 0.5625f / (1 + norm)));
  CHECK(factors[1] == Approx(0.75f - 0.05f * 0.375f / (1 + norm)));
}

TEST_CASE("pipeline: more micro-batches than slots, by far", "[runtime][stages]") {
  ToyPipeline toy{/*stages=*/3, /*devices=*/1, /*microBatches=*/16};
  std::vector<float> losses;
  const std::vector<float> factors = trainByHand(toy, kSteps, sampleX, sampleZ, losses);
  Found found;
  train(toy, {}, found);
  REQUIRE(found.status.message() == "");
  CHECK(found.factors == factors);
}

TEST_CASE("pipeline: the profile tells of waits for other stages", "[runtime][stages]") {
  Found found;
  ExecutorOptions options;
  options.profile = true;
  options.checkNumerics = true;
  train({/*stages=*/3, /*devices=*/1}, options, found);
  REQUIRE(found.status.message() == "");
  CHECK_THAT(found.profiles[0], Catch::Contains("wait until stage 1 has h0") && Catch::Contains("receive d0 from stage 1"));
  CHECK_THAT(found.profiles[1], Catch::Contains("receive h0 from stage 0") && Catch::Contains("40 calls  wait until stage 2 has h1"));
  CHECK_THAT(found.profiles[2], Catch::Contains("wait until stage 0 has total") && Catch::Contains("receive h1 from stage 1"));
  CHECK_THAT(found.profiles[2], Catch::Contains("profile of forward: 20 runs") && !Catch::Contains("receive d"));
}

TEST_CASE("pipeline: each rank holds the arena of its stage, no more", "[runtime][stages]") {
  const ToyPipeline toy{/*stages=*/3, /*devices=*/2};
  auto image = ashlar::test::makeToyPipeline(toy);
  const ashlar_rt_variant *variants = image->image().variants;
  std::vector<std::unique_ptr<Communicator>> seats;
  REQUIRE(createLocalCommunicators(variants[1], seats).ok());
  for (size_t rank = 0; rank + 1 < seats.size(); ++rank) {
    const uint64_t bytes = variants[rank / 2].arena_bytes;
    CHECK(seats[rank + 1]->arena(0) - seats[rank]->arena(0) == static_cast<std::ptrdiff_t>(roundUp(bytes, kPageBytes)));
    CHECK(seats[rank]->firstDevice() == static_cast<int>(rank % 2));
  }
  // Two ranks a stage; the first sends h twice, norm and e, the second d as well, the last d and two totals.
  CHECK(seats[0]->controlBytes() == (controlBytes(6, /*sets=*/2, /*channels=*/2 * (4 + 5 + 3)) + 5) / 6);
}

namespace {

// What setting up an executor of stage `stage` says after the variants were changed.
template <typename Change> std::string refusal(uint32_t stage, Change &&change) {
  auto image = ashlar::test::makeToyPipeline({/*stages=*/2, /*devices=*/1});
  auto *variants = const_cast<ashlar_rt_variant *>(image->image().variants);
  std::vector<std::unique_ptr<Communicator>> seats;
  REQUIRE(createLocalCommunicators(variants[0], seats).ok());
  change(variants);
  ThreadPool pool(1);
  CpuExecutor executor;
  return executor.create(image->image(), variants[stage], *seats[stage], pool, {}).message();
}

ashlar_rt_tensor &tensor(ashlar_rt_variant &variant, const char *name) {
  return *const_cast<ashlar_rt_tensor *>(findTensor(variant, name));
}

} // namespace

TEST_CASE("pipeline: slots and tensors outside of their space are refused", "[runtime][stages]") {
  CHECK(refusal(0, [](ashlar_rt_variant *) {}) == "");
  CHECK_THAT(refusal(0, [](ashlar_rt_variant *v) { ++v[0].num_slots; }),
             Catch::StartsWith("3 slots of 448 bytes at ") && Catch::Contains("leave the arena"));
  CHECK_THAT(refusal(0, [](ashlar_rt_variant *v) { v[0].slots_offset = v[0].arena_bytes + 64; }), Catch::Contains("leave the arena"));
  CHECK_THAT(refusal(0, [](ashlar_rt_variant *v) { tensor(v[0], "h0").buffer.offset = 448 - 16; }),
             Catch::Equals("tensor h0 at 432 + 32 leaves the slot of 448 bytes"));
  CHECK_THAT(refusal(0, [](ashlar_rt_variant *v) { tensor(v[0], "w0").buffer.space = ASHLAR_RT_SLOT; }),
             Catch::Equals("tensor w0 lasts from step to step but lies in a slot"));
  CHECK_THAT(refusal(0,
                     [](ashlar_rt_variant *v) {
                       auto *instr = const_cast<ashlar_rt_instr *>(ashlar::test::programNamed(v[0], "forward").instrs);
                       const_cast<ashlar_rt_buffer *>(instr->buffers)[2].offset = 448;
                     }),
             Catch::Equals("scale: buffer 2 at 448 + 32 leaves the slot of 448 bytes"));
}

TEST_CASE("pipeline: transfers that do not fit together are refused", "[runtime][stages]") {
  auto sends = [](ashlar_rt_variant &v, const char *name) {
    return const_cast<ashlar_rt_transfer *>(ashlar::test::programNamed(v, name).sends);
  };
  auto receives = [](ashlar_rt_variant &v, const char *name) {
    return const_cast<ashlar_rt_transfer *>(ashlar::test::programNamed(v, name).receives);
  };
  CHECK(refusal(1, [&](ashlar_rt_variant *v) { sends(v[0], "forward")->stage = 2; }) ==
        "forward of stage 0 sends tensor 4 of 8, other side stage 2 of 2");
  CHECK(refusal(1, [&](ashlar_rt_variant *v) { sends(v[0], "forward")->stage = 0; }) ==
        "forward of stage 0 sends tensor 4 of 8, other side stage 0 of 2");
  CHECK(refusal(1, [&](ashlar_rt_variant *v) { sends(v[0], "forward")->tensor = 8; }) ==
        "forward of stage 0 sends tensor 8 of 8, other side stage 1 of 2");
  CHECK(refusal(1, [&](ashlar_rt_variant *v) { sends(v[0], "forward")->tensor = 0; }) ==
        "forward of stage 0 sends w0, which does not lie in a slot");
  CHECK(refusal(0, [&](ashlar_rt_variant *v) { receives(v[1], "forward")->channel = 9; }) ==
        "channel 0 from stage 0 to 1: h0 is sent but not received");
  CHECK(refusal(0, [&](ashlar_rt_variant *v) { receives(v[1], "norm")->channel = 0; }) ==
        "norm of stage 1 receives norm0 on channel 0 from stage 0 to 1, which has h0 already");
  CHECK(refusal(0, [&](ashlar_rt_variant *v) { tensor(v[1], "h0").buffer.bytes = 16; }) ==
        "channel 0 from stage 0 to 1: h0 has 32 bytes where it is sent and 16 where it is received");
  CHECK(refusal(0, [&](ashlar_rt_variant *v) { sends(v[0], "eval_step")->tensor = sends(v[0], "forward")->tensor; }) ==
        "h0 of stage 0 is sent or received by two programs, forward and eval_step");
}

TEST_CASE("pipeline: stages that are no row of one name and mesh are refused", "[runtime][stages]") {
  auto image = ashlar::test::makeToyPipeline({/*stages=*/2, /*devices=*/1});
  auto *variants = const_cast<ashlar_rt_variant *>(image->image().variants);
  CHECK(Stages(variants[0]).check(2).ok());
  CHECK(Stages(variants[1]).check(2).ok());
  CHECK(Stages(variants[0]).check(1).message() == "variant default has 2 stages but the image holds 1 from its first on");
  variants[1].name = "other";
  CHECK(Stages(variants[0]).check(2).message() ==
        "variant default of 2 stages: in place of stage 1 stands stage 1 of 2 of other, or another mesh");
  variants[1].name = variants[0].name;
  const ashlar_rt_axis other = {"dp", 2};
  variants[1].axes = &other;
  CHECK_THAT(Stages(variants[0]).check(2).message(), Catch::EndsWith("or another mesh"));
  variants[1].axes = variants[0].axes;
  variants[1].devices_per_process = 2;
  CHECK(Stages(variants[0]).check(2).message() == "variant default: 2 devices a process without device_ids in a pipeline of 2 stages");
}

TEST_CASE("pipeline: a step of a stage allocates nothing", "[runtime][stages]") {
  const ToyPipeline toy{/*stages=*/2, /*devices=*/1};
  auto image = ashlar::test::makeToyPipeline(toy);
  std::vector<std::unique_ptr<Communicator>> seats;
  REQUIRE(createLocalCommunicators(image->image().variants[0], seats).ok());
  std::atomic<uint64_t> counted{~uint64_t{0}};
  std::atomic<int> here{0};
  auto rankBody = [&](Communicator &seat) {
    const ashlar_rt_variant &variant = image->image().variants[seat.rank()];
    ThreadPool pool(1);
    CpuExecutor executor;
    StepOrder order;
    Recorder recorder;
    recorder.reserve({/*spans=*/2000, /*instructions=*/100, /*beside=*/0}); // too little for some
    ExecutorOptions options;
    options.recorder = &recorder;
    bool good = executor.create(image->image(), variant, seat, pool, options).ok() && order.set(variant, toy.microBatches).ok();
    auto step = [&](uint64_t number) {
      ashlar_rt_run run;
      for (order.restart(); good && order.next(run);) {
        good = executor.run(executor.at(run.program), number * toy.microBatches + run.micro_batch).ok();
      }
    };
    step(0);
    for (++here; good && here < 2;) {
      std::this_thread::yield();
    }
    const uint64_t before = ashlar::test::allocations();
    for (uint64_t number = 1; number < 50; ++number) {
      if (number == 25) { // traced from here on
        recorder.open();
      }
      step(number);
    }
    good = good && recorder.lostInstructions() > 0 && recorder.lostOthers() == 0;
    for (++here; good && here < 4;) {
      std::this_thread::yield();
    }
    if (good && seat.rank() == 0) {
      counted = ashlar::test::allocations() - before;
    }
  };
  std::thread other([&] { rankBody(*seats[1]); });
  rankBody(*seats[0]);
  other.join();
  CHECK(counted == 0);
}

} // namespace ashlar::test::pipeline_test
