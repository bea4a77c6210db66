// SPDX-License-Identifier: Apache-2.0
//
// Thread pool, shards, options, and the executor on hand-written images.

#include "runtime/base/host.h"
#include "runtime/comm/local/local.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/run/checkpoint/shard.h"
#include "runtime/run/cpu_check.h"
#include "runtime/run/log/training_log.h"
#include "runtime/run/options.h"
#include "runtime/run/target_runtime.h"
#include "test/unit/data/allocations.h"
#include "test/unit/runtime/toy_image.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

namespace ashlar::test::launch_test {

using namespace ashlar::rt;
using ashlar::test::makeToyForward;
using ashlar::test::makeToyTraining;

namespace {

Status parse(const ashlar_rt_image &image, std::vector<const char *> arguments, Options &options) {
  arguments.insert(arguments.begin(), "toy");
  std::string help;
  return parseOptions(image, *findTargetRuntime(image), static_cast<int>(arguments.size()), arguments.data(), options, help);
}

} // namespace

TEST_CASE("launch: an image of another target is not run", "[runtime][launch]") {
  ashlar_rt_image image = {};
  for (const char *target : {"cpu", "cuda"}) {
    image.target = target;
    REQUIRE(findTargetRuntime(image) != nullptr);
    CHECK(findTargetRuntime(image)->name == std::string(target));
  }
  image.target = "tpu";
  CHECK(findTargetRuntime(image) == nullptr);
}

TEST_CASE("thread pool: every unit runs once, whatever the grain", "[runtime][pool]") {
  ThreadPool pool(3);
  for (int64_t extent : {0, 1, 2, 3, 100}) {
    for (int64_t grain : {1, 7, 1000}) {
      std::vector<std::atomic<int>> seen(100);
      auto count = [](void *context, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          ++(*static_cast<std::vector<std::atomic<int>> *>(context))[static_cast<size_t>(i)];
        }
      };
      pool.parallelFor(extent, grain, count, &seen);
      for (int64_t i = 0; i < 100; ++i) {
        REQUIRE(seen[static_cast<size_t>(i)] == (i < extent ? 1 : 0));
      }
    }
  }
}

TEST_CASE("thread pool: sleeping threads wake for the next loop", "[runtime][pool]") {
  ThreadPool pool(2);
  std::atomic<int> units{0};
  auto count = [](void *context, int64_t begin, int64_t end) {
    *static_cast<std::atomic<int> *>(context) += static_cast<int>(end - begin);
  };
  for (int loop = 0; loop < 5; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.parallelFor(10, 1, count, &units);
  }
  CHECK(units == 50);
}

TEST_CASE("shard: pieces of all devices make up the global tensor", "[runtime][shard]") {
  ashlar_rt_axis axes[] = {{"a", 2}, {"b", 3}, {"c", 2}};
  ashlar_rt_variant variant = {};
  variant.num_axes = 3;
  variant.axes = axes;
  const uint32_t split0[] = {1};
  const uint32_t split2[] = {0};
  ashlar_rt_dim_split splits[] = {{1, split0}, {0, nullptr}, {1, split2}};
  int64_t local[] = {2, 5, 3};
  int64_t global[] = {6, 5, 6};
  ashlar_rt_tensor tensor = {"t", 0, 3, local, global, splits, {ASHLAR_RT_ARENA, ASHLAR_RT_I32, 0, 120}};
  std::vector<int32_t> source(180);
  std::iota(source.begin(), source.end(), 1);
  std::vector<int32_t> target(180);
  REQUIRE(globalBytes(tensor) == 720);
  Mesh mesh(variant);
  int firsts = 0;
  for (int device = 0; device < mesh.devices(); ++device) {
    std::vector<int64_t> at = mesh.coordinates(device);
    std::vector<int32_t> piece(30);
    copyShard(ShardCopy::kGlobalToLocal, tensor, variant, device, reinterpret_cast<char *>(source.data()),
              reinterpret_cast<char *>(piece.data()));
    CHECK(piece[0] == 1 + at[1] * 60 + at[0] * 3);
    if (holdsFirstCopy(tensor, device, at)) {
      ++firsts;
      copyShard(ShardCopy::kLocalToGlobal, tensor, variant, device, reinterpret_cast<char *>(target.data()),
                reinterpret_cast<char *>(piece.data()));
    }
  }
  CHECK(firsts == 6);
  CHECK(target == source);
}

TEST_CASE("shard: what one device owns is taken from it", "[runtime][shard]") {
  ashlar_rt_tensor tensor = {};
  for (uint32_t owner : {0u, 1u, 4u}) {
    tensor.owner = owner;
    std::vector<int> holders;
    for (int device = 0; device < 4; ++device) {
      if (holdsFirstCopy(tensor, device, {device / 2, device % 2})) {
        holders.push_back(device);
      }
    }
    CHECK(holders == std::vector<int>{owner == 0 ? 0 : static_cast<int>(owner) - 1});
  }
}

TEST_CASE("shard: padding stays as it is and is not copied back", "[runtime][shard]") {
  ashlar_rt_variant variant = {};
  ashlar_rt_axis axes[] = {{"a", 2}, {"b", 3}};
  variant.num_axes = 2;
  variant.axes = axes;
  const uint32_t both[] = {0, 1}, one[] = {0};
  // Size 4 over axes of 2 and 3: each half of 2 is cut into 1, 1 and nothing.
  ashlar_rt_dim_split rows[] = {{2, both}, {0, nullptr}}, columns[] = {{0, nullptr}, {1, one}};
  int64_t global[] = {4, 5}, localRows[] = {1, 5}, localColumns[] = {4, 3};
  std::vector<int32_t> source(20), target(20);
  std::iota(source.begin(), source.end(), 1);
  auto copy = [&](const ashlar_rt_tensor &tensor, uint32_t device) {
    std::vector<int32_t> piece(12, -1);
    copyShard(ShardCopy::kGlobalToLocal, tensor, variant, device, reinterpret_cast<char *>(source.data()),
              reinterpret_cast<char *>(piece.data()));
    copyShard(ShardCopy::kLocalToGlobal, tensor, variant, device, reinterpret_cast<char *>(target.data()),
              reinterpret_cast<char *>(piece.data()));
    return piece;
  };
  ashlar_rt_tensor tensor = {"t", 0, 2, localRows, global, rows, {ASHLAR_RT_ARENA, ASHLAR_RT_I32, 0, 20}};
  const int32_t expected[] = {1, 6, -1, 11, 16, -1};
  for (uint32_t device = 0; device < 6; ++device) {
    CHECK(copy(tensor, device)[0] == expected[device]);
  }
  CHECK(target == source);
  std::fill(target.begin(), target.end(), 0);
  ashlar_rt_tensor other = {"t", 0, 2, localColumns, global, columns, {ASHLAR_RT_ARENA, ASHLAR_RT_I32, 0, 48}};
  CHECK(copy(other, 0) == std::vector<int32_t>{1, 2, 3, 6, 7, 8, 11, 12, 13, 16, 17, 18});
  CHECK(copy(other, 3) == std::vector<int32_t>{4, 5, -1, 9, 10, -1, 14, 15, -1, 19, 20, -1});
  CHECK(target == source);
}

TEST_CASE("options: defaults come from the image, --steps alone lifts the limit on epochs", "[runtime][options]") {
  auto toy = makeToyTraining(1);
  Options options;
  REQUIRE(parse(toy->image(), {}, options).ok());
  CHECK(options.epochs == 2);
  CHECK(options.logEvery == 50);
  CHECK(options.seed == 1);
  CHECK_FALSE(options.steps.has_value());
  Options steps;
  REQUIRE(parse(toy->image(), {"--steps", "7", "--seed", "3", "--threads", "2"}, steps).ok());
  CHECK(steps.steps == 7);
  CHECK(steps.epochs == UINT64_MAX);
  CHECK(steps.threads == 2);
}

TEST_CASE("options: what the program does not know is refused", "[runtime][options]") {
  auto training = makeToyTraining(1);
  auto forward = makeToyForward(1);
  Options options;
  CHECK(parse(training->image(), {"--input", "x=a.npy"}, options).message().find("--input") != std::string::npos);
  CHECK(parse(forward->image(), {"--epochs", "2"}, options).message().find("--epochs") != std::string::npos);
  CHECK(parse(forward->image(), {"--input", "x"}, options).message() == "--input x: expected NAME=FILE.npy");
  CHECK_THAT(parse(training->image(), {"--steps", "-1"}, options).message(),
             Catch::StartsWith("--steps: -1 is not a whole number from 0 to 18446744073709551615"));
  CHECK_FALSE(parse(training->image(), {"--seed", "1x"}, options).ok());
  CHECK_FALSE(parse(training->image(), {"--epochs", "18446744073709551616"}, options).ok()); // one more than fits
  CHECK_FALSE(parse(training->image(), {"--threads", "0"}, options).ok());
}

TEST_CASE("log: a loss prints as the shortest decimal that reads back", "[runtime][log]") {
  CHECK(lossText(2.0084016f, ASHLAR_RT_F32) == "2.0084016");
  CHECK(lossText(0.1, ASHLAR_RT_F64) == "0.1");
}

TEST_CASE("executor: a forward program on two threads-as-ranks", "[runtime][executor]") {
  auto toy = makeToyForward(2);
  const ashlar_rt_variant &variant = toy->image().variants[0];
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(variant, communicators).ok());
  std::vector<float> products[2];
  auto rankBody = [&](Communicator &communicator) {
    ThreadPool pool(2);
    CpuExecutor executor;
    if (!executor.create(toy->image(), variant, communicator, pool, ExecutorOptions{/*profile=*/true}).ok()) {
      return;
    }
    auto *x = reinterpret_cast<float *>(executor.address(*executor.tensor("x"), 0));
    std::iota(x, x + 12, static_cast<float>(12 * communicator.rank()));
    int64_t coordinate = 0;
    std::memcpy(&coordinate, communicator.arena(0) + variant.coordinates_offset, sizeof(coordinate));
    if (coordinate == communicator.rank() && executor.run(*executor.find(ASHLAR_RT_RUN)).ok()) {
      auto *product = reinterpret_cast<float *>(executor.address(*executor.tensor("product"), 0));
      products[communicator.rank()].assign(product, product + 16);
      products[communicator.rank()].push_back(reinterpret_cast<float *>(executor.address(*executor.tensor("net/twice"), 0))[11]);
    }
  };
  std::thread other([&] { rankBody(*communicators[1]); });
  rankBody(*communicators[0]);
  other.join();
  REQUIRE(products[0].size() == 17);
  REQUIRE(products[1].size() == 17);
  for (int row = 0; row < 8; ++row) {
    float a = 3.0f * row;
    CHECK(products[0][2 * row] == a * 1 + (a + 1) * 3 + (a + 2) * 5 + 100);
    CHECK(products[1][2 * row + 1] == a * 2 + (a + 1) * 4 + (a + 2) * 6 + 200);
  }
  CHECK(products[0][16] == 22);
  CHECK(products[1][16] == 46);
}

TEST_CASE("executor: a buffer outside its arena is refused", "[runtime][executor]") {
  auto toy = makeToyForward(1);
  ashlar_rt_variant variant = toy->image().variants[0];
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(variant, communicators).ok());
  variant.coordinates_offset = 0;
  variant.arena_bytes = 400;
  ThreadPool pool(1);
  CpuExecutor executor;
  CHECK(executor.create(toy->image(), variant, *communicators[0], pool, {}).message() ==
        "product: buffer 3 at 384 + 64 leaves the arena of 400 bytes");
}

TEST_CASE("executor: a training step allocates nothing", "[runtime][executor]") {
  // Two ranks, the deterministic variant of four devices each: kernels, the collective through slots, copies.
  auto toy = makeToyTraining(2);
  const ashlar_rt_variant &variant = toy->image().variants[1];
  std::vector<std::unique_ptr<Communicator>> communicators;
  REQUIRE(createLocalCommunicators(variant, communicators).ok());
  std::atomic<uint64_t> counted{~uint64_t{0}};
  std::atomic<int> steps{0};
  auto rankBody = [&](Communicator &communicator) {
    ThreadPool pool(2);
    CpuExecutor executor;
    if (!executor.create(toy->image(), variant, communicator, pool, {}).ok()) {
      communicator.abort();
      return;
    }
    Program &init = *executor.find(ASHLAR_RT_INIT);
    Program &step = *executor.find(ASHLAR_RT_TRAIN_STEP);
    bool good = executor.run(init).ok() && executor.run(step).ok() && communicator.barrier().ok();
    uint64_t before = ashlar::test::allocations();
    for (int i = 0; good && i < 100; ++i) {
      good = executor.run(step).ok();
      steps += good;
    }
    // Nobody goes on, and allocates, before both have run their steps: the last step is a collective, so wait on plain counters.
    while (good && steps < 200) {
      std::this_thread::yield();
    }
    if (communicator.rank() == 0) {
      counted = ashlar::test::allocations() - before;
    }
  };
  std::thread other([&] { rankBody(*communicators[1]); });
  rankBody(*communicators[0]);
  other.join();
  CHECK(steps == 200);
  CHECK(counted == 0);
}

TEST_CASE("main: a long run allocates no more than a short one", "[runtime][main]") {
  // The whole program: data pipeline with its thread, two chunks in lockstep, executor. 900 more steps cross several epochs.
  auto toy = makeToyTraining(1);
  auto allocationsOf = [&](const char *steps) {
    const char *arguments[] = {"toy", "--deterministic", "--threads", "2", "--log-every", "0", "--steps", steps};
    uint64_t before = ashlar::test::allocations();
    REQUIRE(ashlar_rt_main(&toy->image(), 8, const_cast<char **>(arguments)) == 0);
    return ashlar::test::allocations() - before;
  };
  allocationsOf("150"); // what the process does once
  uint64_t shortRun = allocationsOf("150");
  uint64_t longRun = allocationsOf("950");
  CHECK(shortRun > 0);
  CHECK(longRun == shortRun);
}

TEST_CASE("main: an image of another version of the ABI is refused", "[runtime][main]") {
  auto toy = makeToyTraining(1);
  ashlar_rt_image other = toy->image();
  other.abi_version = ASHLAR_RT_ABI_VERSION + 1;
  const char *arguments[] = {"toy"};
  CHECK(ashlar_rt_main(&other, 1, const_cast<char **>(arguments)) == 1);
}

TEST_CASE("main: a CPU that lacks what the program needs is named", "[runtime][main]") {
  CHECK(checkCpu(nullptr).ok());
#if defined(__x86_64__)
  const std::string base = "popcnt"; // every machine that runs the tests has it
#else
  const std::string base;
#endif
  CHECK(checkCpu(base.c_str()).ok());
  CHECK(checkCpu((base + (base.empty() ? "warp9" : ",warp9," + base)).c_str()).message() ==
        "this program was compiled for a CPU with warp9, which this machine lacks; compile it on a machine like this one");
  auto toy = makeToyTraining(1);
  ashlar_rt_image other = toy->image();
  other.cpu_features = "warp9";
  const char *arguments[] = {"toy", "--plan"};
  CHECK(ashlar_rt_main(&other, 2, const_cast<char **>(arguments)) == 1);
  other.cpu_features = base.c_str();
  CHECK(ashlar_rt_main(&other, 2, const_cast<char **>(arguments)) == 0);
}

TEST_CASE("host: the cores of the process are counted whatever the thread is bound to", "[runtime][host]") {
  CoreSet before = currentCores();
  int granted = grantedCores();
  CHECK(granted >= before.count());
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
    CHECK(grantedCores() == granted);
    CHECK(usableCores() == 1); // still bound
  }).join();
}

} // namespace ashlar::test::launch_test
