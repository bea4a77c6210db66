// SPDX-License-Identifier: Apache-2.0
//
// Where a model is cut into stages: by hand, and the best of all ways on random ones.

#include "passes/stage/stage_balance.h"

#include <catch2/catch.hpp>

#include <functional>
#include <limits>
#include <random>

namespace ashlar::test::balance_test {

using namespace ashlar::stage;

namespace {

CutProblem problemOf(std::vector<int64_t> times, int64_t stages) {
  CutProblem problem;
  problem.crossingPs.assign(times.size(), 0);
  problem.isForbidden.assign(times.size(), false);
  problem.stages = stages;
  problem.least.assign(static_cast<size_t>(stages - 1), 1);
  problem.most.assign(static_cast<size_t>(stages - 1), static_cast<int64_t>(times.size()) - 1);
  problem.timePs = std::move(times);
  return problem;
}

double costOf(const CutProblem &problem, const std::vector<int64_t> &cuts) {
  double cost = 0, all = 0;
  for (int64_t time : problem.timePs) {
    all += static_cast<double>(time);
  }
  std::vector<int64_t> ends = cuts;
  ends.push_back(static_cast<int64_t>(problem.timePs.size()));
  int64_t begin = 0;
  for (int64_t end : ends) {
    double time = 0;
    for (int64_t op = begin; op < end; ++op) {
      time += static_cast<double>(problem.timePs[static_cast<size_t>(op)]);
    }
    cost += time * time / (all / static_cast<double>(problem.stages));
    begin = end;
  }
  for (int64_t cut : cuts) {
    cost += static_cast<double>(problem.crossingPs[static_cast<size_t>(cut)]);
  }
  return cost;
}

} // namespace

TEST_CASE("stages: equal times, least traffic, places that are left", "[stage][balance]") {
  CutProblem problem = problemOf({1, 1, 4, 2}, 2);
  CHECK(balanceStages(problem) == std::vector<int64_t>{2});
  problem.crossingPs[2] = 100;
  CHECK(balanceStages(problem) == std::vector<int64_t>{3});
  problem.isForbidden[3] = true;
  CHECK(balanceStages(problem) == std::vector<int64_t>{1});
  problem.least[0] = 2;
  CHECK(balanceStages(problem) == std::vector<int64_t>{2});
  problem.isForbidden[2] = true;
  CHECK(balanceStages(problem).empty());
  CHECK(balanceStages(problemOf({3, 3, 3}, 3)) == std::vector<int64_t>{1, 2});
  CHECK(balanceStages(problemOf({3, 3}, 3)).empty());
  CHECK(balanceStages(problemOf({0, 0, 0}, 2)).size() == 1);
}

TEST_CASE("stages: no cuts are better on random models", "[stage][balance]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t ops = 3 + static_cast<int64_t>(random() % 8), stages = 2 + static_cast<int64_t>(random() % 3);
    std::vector<int64_t> times;
    for (int64_t op = 0; op < ops; ++op) {
      times.push_back(static_cast<int64_t>(random() % 10));
    }
    times.front() += 1;
    CutProblem problem = problemOf(times, stages);
    for (size_t place = 1; place < times.size(); ++place) {
      problem.crossingPs[place] = static_cast<int64_t>(random() % 10);
      problem.isForbidden[place] = random() % 5 == 0;
    }
    double best = std::numeric_limits<double>::infinity();
    std::function<void(std::vector<int64_t> &)> tryAll = [&](std::vector<int64_t> &cuts) {
      if (static_cast<int64_t>(cuts.size()) == stages - 1) {
        best = std::min(best, costOf(problem, cuts));
        return;
      }
      for (int64_t place = cuts.empty() ? 1 : cuts.back() + 1; place < ops; ++place) {
        if (!problem.isForbidden[static_cast<size_t>(place)]) {
          cuts.push_back(place);
          tryAll(cuts);
          cuts.pop_back();
        }
      }
    };
    std::vector<int64_t> none;
    tryAll(none);
    std::vector<int64_t> found = balanceStages(problem);
    INFO("trial " << trial);
    REQUIRE(found.empty() == (best == std::numeric_limits<double>::infinity()));
    if (!found.empty()) {
      CHECK(costOf(problem, found) == Approx(best));
    }
  }
}

} // namespace ashlar::test::balance_test
