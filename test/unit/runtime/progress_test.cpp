// SPDX-License-Identifier: Apache-2.0
//
// The progress thread: collectives get on while the threads that started them do other things, in order, and a failure is told once and for
// all.

#include "runtime/base/clock.h"
#include "runtime/comm/progress_thread.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <functional>

namespace ashlar::test::progress_test {

using namespace ashlar::rt;

namespace {

const Stopwatch kUnwatched;

// A collective that does what it is told.
struct Scripted final : Collective {
  explicit Scripted(std::function<Status()> script) : script(std::move(script)) {}
  Status run() override { return script(); }
  const void *channel() const override { return nullptr; }

  std::function<Status()> script;
};

// Two ranks of a collective that meet: neither ends before both have begun.
struct Barrier {
  std::atomic<int> here{0};
  Status come() {
    ++here;
    while (here.load() < 2) {
    }
    return Status();
  }
};

} // namespace

TEST_CASE("progress: a collective is done while its ranks compute and nobody waits for it", "[runtime][progress]") {
  Barrier barrier;
  std::atomic<int> results{0};
  Scripted collective([&] {
    Status status = barrier.come();
    ++results;
    return status;
  });
  ProgressThread ranks[2];
  for (ProgressThread &rank : ranks) {
    REQUIRE(rank.begin(1).ok());
    rank.start(collective, kUnwatched);
  }
  // The "kernels" of this thread: it ends only when the others got on meanwhile.
  for (double begin = seconds(); results.load() < 2;) {
    REQUIRE(seconds() - begin < 60);
  }
  for (ProgressThread &rank : ranks) {
    CHECK(rank.drain().ok());
  }
}

TEST_CASE("progress: collectives run in the order in which they are started, more of them than fit into the ring", "[runtime][progress]") {
  std::vector<int> order; // read when all are done
  std::atomic<size_t> count{0};
  std::vector<std::unique_ptr<Scripted>> collectives;
  std::vector<double> times(100, 0);
  std::vector<Stopwatch> watches(100);
  ProgressThread progress;
  REQUIRE(progress.begin(3).ok());
  for (int i = 0; i < 100; ++i) {
    collectives.push_back(std::make_unique<Scripted>([&order, &count, i] {
      order.push_back(i);
      ++count;
      return Status();
    }));
    watches[static_cast<size_t>(i)].sum = &times[static_cast<size_t>(i)];
    uint64_t number = progress.start(*collectives.back(), watches[static_cast<size_t>(i)]);
    CHECK(number == static_cast<uint64_t>(i) + 1);
    if (i >= 2) {
      CHECK(progress.wait(number - 2).ok());
      CHECK(count >= static_cast<size_t>(i) - 1);
    }
  }
  CHECK(progress.drain().ok());
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) {
    CHECK(order[static_cast<size_t>(i)] == i);
    CHECK(times[static_cast<size_t>(i)] > 0);
  }
}

TEST_CASE("progress: what comes behind a failure is left out, and every wait tells it", "[runtime][progress]") {
  int runs = 0;
  Scripted good([&] {
    ++runs;
    return Status();
  });
  Scripted bad([] { return unavailable("the cable is cut"); });
  ProgressThread progress;
  REQUIRE(progress.begin(4).ok());
  CHECK(progress.wait(progress.start(good, kUnwatched)).ok());
  progress.start(bad, kUnwatched);
  uint64_t last = progress.start(good, kUnwatched);
  CHECK(progress.wait(last).message() == "the cable is cut");
  CHECK(progress.drain().message() == "the cable is cut");
  CHECK(runs == 1);
}

TEST_CASE("progress: a thread that was never started, or has work left, ends", "[runtime][progress]") {
  ProgressThread idle;
  CHECK(idle.drain().ok());
  std::atomic<bool> begun{false};
  Scripted slow([&] {
    begun = true;
    return Status();
  });
  {
    ProgressThread progress;
    REQUIRE(progress.begin(2).ok());
    progress.start(slow, kUnwatched);
    while (!begun) {
    }
    progress.start(slow, kUnwatched);
  }
}

} // namespace ashlar::test::progress_test
