// SPDX-License-Identifier: Apache-2.0
//
// The order of a step: its loop, and what it must not say.

#include "runtime/execute/order.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace ashlar::test::order_test {

using namespace ashlar::rt;

namespace {

// Two programs "f" and "b", of which "f" takes batches.
struct Fixture {
  Fixture(std::vector<ashlar_rt_run> list, std::vector<ashlar_rt_repeat> order) : runs(std::move(list)), repeats(std::move(order)) {
    programs[0].name = "f";
    programs[1].name = "b";
    variant.num_programs = 2;
    variant.programs = programs;
    variant.order.num_runs = static_cast<uint32_t>(runs.size());
    variant.order.runs = runs.data();
    variant.order.num_repeats = static_cast<uint32_t>(repeats.size());
    variant.order.repeats = repeats.data();
  }

  // "f0 f1 b0": the runs of a step; or what is wrong.
  std::string walk(uint64_t microBatches) {
    StepOrder order;
    if (Status status = order.set(variant, microBatches); !status.ok()) {
      return status.message();
    }
    batches = order.batches();
    std::string text;
    ashlar_rt_run run;
    for (int step = 0; step < 2; ++step) { // a step leaves nothing behind
      text.clear();
      for (order.restart(); order.next(run);) {
        text += (text.empty() ? "" : " ") + std::string(programs[run.program].name) + std::to_string(run.micro_batch);
      }
    }
    return text;
  }

  std::vector<ashlar_rt_run> runs;
  std::vector<ashlar_rt_repeat> repeats;
  ashlar_rt_program programs[2] = {};
  ashlar_rt_variant variant = {};
  uint64_t batches = 0;
};

} // namespace

TEST_CASE("order: first runs, a loop, the rest", "[runtime][order]") {
  // One forward, one backward, two stages before the last, five micro-batches.
  Fixture fixture({{0, 0, 1}, {0, 1, 1}, {1, 0, 0}, {1, 4, 0}}, {{0, 1, 1, 0}, {1, 3, 4, 1}, {3, 4, 1, 0}});
  CHECK(fixture.walk(5) == "f0 f1 b0 f2 b1 f3 b2 f4 b3 b4");
  CHECK(fixture.batches == 5);
}

TEST_CASE("order: repetitions of one run, of several, once, of larger stride", "[runtime][order]") {
  CHECK(Fixture({{0, 0, 1}}, {{0, 1, 3, 1}}).walk(3) == "f0 f1 f2");
  CHECK(Fixture({{0, 0, 1}, {1, 0, 0}}, {{0, 2, 1, 7}}).walk(1) == "f0 b0");
  CHECK(Fixture({{0, 0, 1}, {0, 1, 1}, {1, 0, 0}}, {{0, 2, 2, 2}, {2, 3, 1, 0}}).walk(4) == "f0 f1 f2 f3 b0");
}

TEST_CASE("order: a stage without data takes no batches", "[runtime][order]") {
  Fixture fixture({{1, 0, 0}}, {{0, 1, 2, 1}});
  CHECK(fixture.walk(2) == "b0 b1");
  CHECK(fixture.batches == 0);
}

TEST_CASE("order: what cannot be run is refused", "[runtime][order]") {
  CHECK(Fixture({}, {}).walk(1) == "a step runs nothing");
  const std::vector<ashlar_rt_run> runs = {{0, 0, 1}, {1, 0, 0}};
  CHECK(Fixture(runs, {{1, 3, 1, 1}}).walk(1) == "repetition 0 of a step has runs [1, 3) of 2, 1 times");
  CHECK(Fixture(runs, {{0, 2, 1, 1}, {1, 1, 1, 1}}).walk(1) == "repetition 1 of a step has runs [1, 1) of 2, 1 times");
  CHECK(Fixture(runs, {{0, 2, 0, 1}}).walk(1) == "repetition 0 of a step has runs [0, 2) of 2, 0 times");
  CHECK(Fixture(runs, {{0, 2, 3, 1}}).walk(2) == "a step runs f for micro-batch 2 of 2");
  CHECK(Fixture({{2, 0, 0}}, {{0, 1, 1, 0}}).walk(1) == "run 0 of a step has program 2 of 2");
  CHECK(Fixture({{0, 1, 1}, {0, 0, 1}}, {{0, 2, 1, 0}}).walk(2) == "f takes batch 0 of a step for micro-batch 1");
  CHECK(Fixture({{0, 0, 1}, {1, 1, 0}}, {{0, 2, 1, 0}}).walk(2) == "a step takes 1 batches but has 2 micro-batches");
}

} // namespace ashlar::test::order_test
