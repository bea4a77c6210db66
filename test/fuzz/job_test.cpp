// SPDX-License-Identifier: Apache-2.0
//
// Random jobs: the reference against numbers made by hand, and the check against jobs that say something else than what is run.

#include "test/fuzz/job_check.h"
#include "test/fuzz/job_reference.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <set>

using namespace ashlar;
using namespace ashlar::fuzz;

namespace {

// One weight of 1, samples 1, 2, 3 (and 4), targets 0: the loss of a sample is (w x)^2, its gradient 2 w x^2.
TrainingJob byHand() {
  TrainingJob job;
  Layer layer;
  layer.name = "fc";
  layer.inputs = layer.outputs = 1;
  layer.weight = {1};
  job.layers = {layer};
  job.loss = LossKind::SquaredError;
  job.rate = 0.25;
  job.logEvery = 1;
  job.train = {3, {1, 2, 3}, {0, 0, 0}, {}};
  job.evaluation = {2, {1, 3}, {0, 0}, {}};
  return job;
}

std::vector<double> lossesOf(const TrainingJob &job) {
  std::vector<double> losses;
  for (const LogLine &line : trainReference(job, {}).lines) {
    losses.push_back(line.loss);
  }
  return losses;
}

} // namespace

TEST_CASE("job reference: steps of gradient descent by hand", "[fuzz][job]") {
  TrainingJob job = byHand();
  // w = 1, then 1 - 0.25 * 2 = 0.5, then 0.5 - 0.25 * 2 * 0.5 * 4 = -0.5.
  CHECK(lossesOf(job) == std::vector<double>{1, 1, 2.25});
  job.decay = 0.5; // 1 - 0.25 * 2.5 = 0.375, then 0.375 - 0.25 * (3 + 0.1875)
  CHECK(lossesOf(job)[2] == Approx(std::pow((0.375 - 0.25 * 3.1875) * 3, 2)));
  job.decay = 0;
  job.hasMomentum = true;
  job.momentum = 0.5; // v = 2, w = 0.5; v = 1 + 4, w = -0.75
  CHECK(lossesOf(job) == std::vector<double>{1, 1, 5.0625});
  job.isNesterov = true; // v = 2, w = 1 - 0.25 * 3 = 0.25; v = 1 + 2, w = 0.25 - 0.25 * 3.5
  CHECK(lossesOf(job) == std::vector<double>{1, 0.25, 3.515625});
}

TEST_CASE("job reference: batches, passes, epochs and the evaluation by hand", "[fuzz][job]") {
  TrainingJob job = byHand();
  job.rate = 1e-30;
  job.batch = 2; // the third sample is left over
  job.epochs = 2;
  job.repeat = 2;
  CHECK(lossesOf(job) == std::vector<double>(4, 2.5));
  std::vector<LogLine> lines = trainReference(job, {}).lines;
  CHECK(lines[2].epoch == 2);
  CHECK(lines[2].step == 1);
  job.logEvery = 0;
  CHECK(lossesOf(job).size() == 2);
  CHECK(trainReference(job, {}).evaluationLoss == 5);
  job.transforms = {{2, 1}, {1, -1}}; // 2 x
  CHECK(trainReference(job, {}).evaluationLoss == 20);
}

TEST_CASE("job reference: classes by hand", "[fuzz][job]") {
  TrainingJob job = byHand();
  job.layers[0].outputs = 2;
  job.layers[0].weight = {1, 0};
  job.rate = 1e-30;
  for (LossKind kind : {LossKind::CrossEntropy, LossKind::LogLikelihood}) {
    job.loss = kind;
    job.train = {2, {1, 2}, {}, {0, 1}};
    job.evaluation = job.train;
    double first = std::log(std::exp(1) + 1) - 1, second = std::log(std::exp(2) + 1);
    CHECK(lossesOf(job)[0] == Approx(first));
    CHECK(lossesOf(job)[1] == Approx(second));
    CHECK(trainReference(job, {}).correct == 1);
  }
}

TEST_CASE("job reference: the order of a pass is a permutation, of the seed and the pass", "[fuzz][job]") {
  std::vector<int64_t> order = orderOfPass(7, 0, 20), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 20; ++i) {
    CHECK(sorted[i] == i);
  }
  CHECK(orderOfPass(7, 1, 20) != order);
  CHECK(orderOfPass(8, 0, 20) != order);
  CHECK(orderOfPass(7 + (uint64_t(1) << 32), 0, 20) != order);
}

TEST_CASE("jobs: executables come to what the reference comes to", "[fuzz][job]") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    Verdict verdict = checkJob(test::context(), randomJob(seed));
    CHECK(verdict.message == "");
    CHECK(verdict.elements > 0);
  }
}

TEST_CASE("jobs: a job of which one thing is not done as it says is found", "[fuzz][job]") {
  // In f32, on any ranks, with momentum and shuffled samples that can have more than one order.
  uint64_t seed = 1;
  auto fits = [](const RandomJob &job) {
    return !job.isNarrow && job.training.hasMomentum && job.training.momentum > 0 && job.training.shuffles &&
           job.training.train.count > 4 && job.training.decay > 0 && job.training.batch < job.training.train.count;
  };
  while (!fits(randomJob(seed))) {
    ++seed;
  }
  CAPTURE(seed);
  RandomJob job = randomJob(seed), other = job;
  SECTION("nesterov") {
    other.training.isNesterov = !job.training.isNesterov;
  }
  SECTION("weight decay") {
    other.training.decay *= 1.01;
  }
  SECTION("learning rate") {
    other.training.rate *= 1.001;
  }
  SECTION("momentum") {
    other.training.momentum *= 1.01;
  }
  SECTION("order") {
    ++other.training.seed;
  }
  SECTION("transform") {
    other.training.transforms.emplace_back(1.001, 0);
  }
  SECTION("log") {
    ++other.training.logEvery;
  }
  SECTION("evaluation") {
    other.training.evaluation.inputs.front() += 1;
  }
  SECTION("frozen") {
    other.training.layers.front().weightIsFrozen = true;
  }
  Verdict verdict = checkJob(test::context(), other);
  INFO(verdict.message);
  CHECK(verdict.kind == FailureKind::Executable);
  CHECK(verdict.message.find("compile") == std::string::npos);
}
