// SPDX-License-Identifier: Apache-2.0
//
// Random jobs: the reference against numbers made by hand, and the check against jobs that say something else than what is run.

#include "test/fuzz/job_check.h"
#include "test/fuzz/job_reference.h"
#include "test/fuzz/optimizer_reference.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace ashlar::fuzz::job_test {

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
  job.optimizer.mutable_sgd();
  job.optimizer.set_learning_rate(0.25);
  job.logEvery = 1;
  job.sampleShape = {1, 1, 1};
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
  job.optimizer.mutable_sgd()->set_weight_decay(0.5); // 1 - 0.25 * 2.5 = 0.375, then 0.375 - 0.25 * (3 + 0.1875)
  CHECK(lossesOf(job)[2] == Approx(std::pow((0.375 - 0.25 * 3.1875) * 3, 2)));
  job.decays["fc.weight"] = 0;
  CHECK(lossesOf(job) == std::vector<double>{1, 1, 2.25});
  job.optimizer.mutable_momentum()->set_momentum(0.5); // v = 2, w = 0.5; v = 1 + 4, w = -0.75
  CHECK(lossesOf(job) == std::vector<double>{1, 1, 5.0625});
  job.optimizer.mutable_momentum()->set_nesterov(true); // v = 2, w = 1 - 0.25 * 3 = 0.25; v = 1 + 2, w = 0.25 - 0.25 * 3.5
  CHECK(lossesOf(job) == std::vector<double>{1, 0.25, 3.515625});
}

TEST_CASE("job reference: learning rates, moments, norms by hand", "[fuzz][job]") {
  TrainingJob job = byHand();
  job.optimizer.mutable_schedule()->mutable_step()->set_size(1);
  job.optimizer.mutable_schedule()->mutable_step()->set_gamma(0.5); // w = 0.5, then 0.5 - 0.125 * 4 = 0
  CHECK(lossesOf(job) == std::vector<double>{1, 1, 0});
  job.optimizer.mutable_schedule()->set_warmup_steps(2); // 0.125, then 0.25: w = 0.75, then 0.75 - 0.25 * 6 = -0.75
  CHECK(lossesOf(job) == std::vector<double>{1, 2.25, 5.0625});
  job.optimizer.clear_schedule();
  job.optimizer.set_clip_global_norm(1 + 0.5e-6); // gradients 2, then 2 * 0.75 * 4 = 6: w = 1 - 0.25 * 1, then 0.75 - 0.25
  CHECK(lossesOf(job)[1] == Approx(2.25));
  CHECK(lossesOf(job)[2] == Approx(2.25));
  job.optimizer.clear_clip_global_norm();
  job.optimizer.mutable_adam()->set_epsilon(1e-30); // the first step is the learning rate, in the direction of the sign
  CHECK(lossesOf(job)[1] == Approx(2.25));
  job.optimizer.mutable_adamw()->set_epsilon(1e-30); // with the default decay of 0.01
  CHECK(lossesOf(job)[1] == Approx(std::pow((1 - 0.25 - 0.25 * 0.01) * 2, 2)));
  job.optimizer.mutable_lamb()->set_epsilon(1e-30); // |w| times the learning rate
  CHECK(lossesOf(job)[1] == Approx(2.25));
  CHECK(lossesOf(job)[2] == Approx(std::pow(0.75 * 0.75 * 3, 2)).epsilon(0.2)); // the second gradient is three times the first
}

TEST_CASE("job reference: batches, passes, epochs and the evaluation by hand", "[fuzz][job]") {
  TrainingJob job = byHand();
  job.optimizer.set_learning_rate(1e-30);
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
  job.transforms = {{SampleTransform::Scale, {2}, {1}}, {SampleTransform::Scale, {1}, {-1}}}; // 2 x
  CHECK(trainReference(job, {}).evaluationLoss == 20);
}

// An image of 1 x 3 with two channels.
TEST_CASE("job reference: images by hand", "[fuzz][job]") {
  TrainingJob job = byHand();
  job.optimizer.set_learning_rate(1e-30);
  job.sampleShape = {1, 3, 2};
  job.train = {1, {1, 10, 2, 20, 3, 30}, {0, 0, 0, 0, 0, 0}, {}};
  job.evaluation = job.train;
  auto inputsOf = [&](std::vector<SampleTransform> transforms, int64_t count, bool isTraining) {
    job.transforms = std::move(transforms);
    Layer &layer = job.layers[0];
    layer.inputs = count;
    layer.outputs = 1;
    std::vector<double> inputs;
    for (int64_t i = 0; i < count; ++i) { // one of them at a time
      layer.weight.assign(count, 0);
      layer.weight[i] = 1;
      inputs.push_back(std::sqrt(isTraining ? lossesOf(job)[0] : trainReference(job, {}).evaluationLoss));
    }
    return inputs;
  };
  using T = SampleTransform;
  CHECK(inputsOf({{T::ChannelsFirst}}, 6, true) == std::vector<double>{1, 2, 3, 10, 20, 30});
  CHECK(inputsOf({{T::Flip, {}, {}, 0, 0, 0, 1}}, 6, true) == std::vector<double>{3, 30, 2, 20, 1, 10});
  CHECK(inputsOf({{T::Flip, {}, {}, 0, 0, 0, 1}}, 6, false) == std::vector<double>{1, 10, 2, 20, 3, 30});
  CHECK(inputsOf({{T::Crop, {}, {}, 1, 1, 0}}, 2, false) == std::vector<double>{2, 20});
  CHECK(inputsOf({{T::Crop, {}, {}, 1, 5, 1}}, 10, false) == std::vector<double>{0, 0, 1, 10, 2, 20, 3, 30, 0, 0});
  // At -0.25, 0.25, ..., 2.25.
  CHECK(inputsOf({{T::Resize, {}, {}, 1, 6}, {T::Crop, {}, {}, 1, 4}}, 8, false) ==
        std::vector<double>{1.25, 12.5, 1.75, 17.5, 2.25, 22.5, 2.75, 27.5});
  CHECK(inputsOf({{T::Scale, {2, 1}, {0, 5}}, {T::ChannelsFirst}}, 6, true) == std::vector<double>{2, 4, 6, 15, 25, 35});
}

TEST_CASE("job reference: classes by hand", "[fuzz][job]") {
  TrainingJob job = byHand();
  job.layers[0].outputs = 2;
  job.layers[0].weight = {1, 0};
  job.optimizer.set_learning_rate(1e-30);
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
  int pipelines = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    RandomJob job = randomJob(seed);
    pipelines += job.job.find("pipeline {") != std::string::npos;
    Verdict verdict = checkJob(test::context(), job);
    CHECK(verdict.message == "");
    CHECK(verdict.elements > 0);
  }
  CHECK(pipelines > 1);
}

TEST_CASE("jobs: every schedule and each number of stages is drawn", "[fuzz][job]") {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    RandomJob job = randomJob(seed);
    for (const char *text :
         {"stages: 2", "stages: 3", "stages: 4", "GPIPE", "ONE_F_ONE_B", "chunks: 2", "ZERO_BUBBLE", "threshold_kb: 0"}) {
      if (job.job.find(text) != std::string::npos) {
        found.insert(text);
        CHECK(job.ranks > 1);
        CHECK(job.ranks <= 8);
      }
    }
  }
  CHECK(found.size() == 8);
}

TEST_CASE("jobs: a job of which one thing is not done as it says is found", "[fuzz][job]") {
  // In f32, on any ranks, with momentum and shuffled samples that can have more than one order.
  uint64_t seed = 1;
  auto fits = [](const RandomJob &job) {
    const job::Optimizer &optimizer = job.training.optimizer;
    return !job.isNarrow && optimizer.momentum().momentum() > 0 && optimizer.momentum().weight_decay() > 0 && optimizer.has_momentum() &&
           learningRateOf(optimizer, 1) != optimizer.learning_rate() && !optimizer.has_clip_global_norm() && job.training.decays.empty() &&
           job.training.shuffles && job.training.train.count > 4 && job.training.batch < job.training.train.count;
  };
  while (!fits(randomJob(seed))) {
    ++seed;
  }
  CAPTURE(seed);
  RandomJob job = randomJob(seed), other = job;
  job::Optimizer::Momentum &kind = *other.training.optimizer.mutable_momentum();
  SECTION("nesterov") {
    other.training.optimizer.mutable_momentum()->set_nesterov(!job.training.optimizer.momentum().nesterov());
  }
  SECTION("weight decay") {
    kind.set_weight_decay(kind.weight_decay() * 1.01);
  }
  SECTION("weight decay of one parameter") {
    other.training.decays[job.training.layers.back().name + ".weight"] = 0;
    other.training.decays[job.training.layers.front().name + ".weight"] = 0;
  }
  SECTION("schedule") {
    other.training.optimizer.clear_schedule();
  }
  SECTION("clipping") {
    other.training.optimizer.set_clip_global_norm(1e-3);
  }
  SECTION("learning rate") {
    other.training.optimizer.set_learning_rate(job.training.optimizer.learning_rate() * 1.001);
  }
  SECTION("momentum") {
    kind.set_momentum(kind.momentum() * 1.01);
  }
  SECTION("order") {
    ++other.training.seed;
  }
  SECTION("transform") {
    other.training.transforms.push_back({SampleTransform::Scale, {1.001}, {0}});
  }
  SECTION("log") {
    ++other.training.logEvery;
  }
  SECTION("evaluation") {
    for (double &input : other.training.evaluation.inputs) { // a crop may leave some of them out
      input += 1;
    }
  }
  SECTION("frozen") {
    other.training.layers.front().weightIsFrozen = true;
  }
  Verdict verdict = checkJob(test::context(), other);
  INFO(verdict.message);
  CHECK(verdict.kind == FailureKind::Executable);
  CHECK(verdict.message.find("compile") == std::string::npos);
}

TEST_CASE("jobs: random numbers of another transform are found", "[fuzz][job]") {
  auto isRandom = [](const SampleTransform &transform) {
    return (transform.kind == SampleTransform::Crop && transform.padding > 0) ||
           (transform.kind == SampleTransform::Flip && transform.probability == 0.5);
  };
  uint64_t seed = 1;
  auto fits = [&](const RandomJob &job) {
    const std::vector<SampleTransform> &transforms = job.training.transforms;
    return !job.isNarrow && job.training.train.count > 4 && std::count_if(transforms.begin(), transforms.end(), isRandom) > 1;
  };
  while (!fits(randomJob(seed))) {
    ++seed;
  }
  CAPTURE(seed);
  RandomJob job = randomJob(seed);
  Verdict verdict = checkJob(test::context(), job);
  INFO(verdict.message);
  CHECK(verdict.kind == FailureKind::None);
  job.training.transforms.insert(job.training.transforms.begin(), SampleTransform());
  CHECK(checkJob(test::context(), job).kind == FailureKind::Executable);
}

} // namespace ashlar::fuzz::job_test
