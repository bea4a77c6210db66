// SPDX-License-Identifier: Apache-2.0
//
// The passes that make and change the update of a training step, on random models: parameters and states after a step against the loops of
// optimizer_reference.h.

#include "compiler/job/job.h"
#include "compiler/pipelines/pipelines.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/nonfinite_steps.h"
#include "dialects/nn/scratch_state.h"
#include "passes/train/passes.h"
#include "test/fuzz/optimizer_reference.h"
#include "test/fuzz/random_training.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <set>

namespace ashlar::fuzz::update_passes_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

std::vector<double> numbersOf(const Tensor &tensor) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    numbers.push_back(tensor.getFloat(i));
  }
  return numbers;
}

// What a parameter and its states are at some time.
struct ParameterValues {
  std::vector<double> parameter;
  OptimizerState state;
};

ParameterValues valuesOf(const std::string &name, const Values &values) {
  auto find = [&](const std::string &state) {
    auto found = values.find(name + state);
    return found == values.end() ? std::vector<double>() : numbersOf(found->second);
  };
  bool hasMoments = values.count(name + ".moment1") == 1;
  return {find(""), {find(hasMoments ? ".moment1" : ".momentum"), find(".moment2")}};
}

// Checks a parameter and its states after a step with this gradient; without one, that they kept their values.
void checkUpdate(const job::Job &job, const std::string &name, const Values &before, const Values &after,
                 const std::optional<std::vector<double>> &gradient) {
  ParameterValues expected = valuesOf(name, before), found = valuesOf(name, after);
  bool isWide = before.at(name).getType().getElementType().isF64();
  if (gradient) {
    double decay = ownDecay(job, name).value_or(weightDecayOf(job.optimizer()));
    auto updates = before.find("ashlar.updates");
    updateParameter(job.optimizer(), before.at("ashlar.step").getInt(0), updates == before.end() ? 0 : updates->second.getInt(0), decay,
                    *gradient, expected.parameter, expected.state, [](double x) { return x; });
  }
  // An update rounds at most twenty times: in f64 by 1e-16 each, in f32 by 6e-8; what was not updated has the very numbers.
  double tolerance = !gradient ? 0 : isWide ? 1e-14 : 2e-6;
  auto check = [&](const std::vector<double> &x, const std::vector<double> &y) {
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      CHECK(std::abs(x[i] - y[i]) <= tolerance * (1 + std::abs(x[i])));
    }
  };
  CHECK(expected.parameter.size() == found.parameter.size());
  check(expected.parameter, found.parameter);
  check(expected.state.first, found.state.first);
  check(expected.state.second, found.state.second);
}

// Returns the gradients of a run of returnGradients, each divided by `scale`, and clipped as the job says.
std::vector<std::vector<double>> gradientsOf(const job::Optimizer &optimizer, ArrayRef<Tensor> results, double scale) {
  std::vector<std::vector<double>> gradients;
  std::vector<const std::vector<double> *> all;
  for (const Tensor &gradient : results.drop_front()) {
    gradients.push_back(numbersOf(gradient));
    for (double &value : gradients.back()) {
      value /= scale;
    }
  }
  for (const std::vector<double> &gradient : gradients) {
    all.push_back(&gradient);
  }
  double factor = clipFactor(optimizer, all);
  for (std::vector<double> &gradient : gradients) {
    for (double &value : gradient) {
      value *= factor;
    }
  }
  return gradients;
}

// Adds the counts of steps that are not finite, none as yet, and the norm of the gradients.
void addCounts(ModuleOp module, Values &values) {
  for (StringRef name : {nn::kSkippedStepsVariable, nn::kBadNormsVariable, nn::kGradientNormVariable}) {
    if (auto variable = module.lookupSymbol<nn::VariableOp>(name)) {
      values.insert_or_assign(name.str(), Tensor(variable.getTensorType()));
    }
  }
}

} // namespace

TEST_CASE("train passes: ashlar-apply-settings gives parameters what rules say, and changes nothing else", "[fuzz][passes]") {
  int given = 0, kept = 0;
  forEachTraining(40, {}, isAny, [&](Training &training) {
    ModuleOp before = training.before("ashlar-apply-settings");
    OwningOpRef<ModuleOp> after = training.after("ashlar-apply-settings").clone();
    for (auto variable : after->getOps<nn::VariableOp>()) {
      auto decay = variable->getAttrOfType<FloatAttr>(nn::kWeightDecayAttr);
      std::optional<double> expected = ownDecay(training.job, variable.getSymName().str());
      CHECK(static_cast<bool>(decay) == expected.has_value());
      CHECK((decay ? decay.getValueAsDouble() : 0) == expected.value_or(0));
      ++(decay ? given : kept);
      variable->removeAttr(nn::kWeightDecayAttr);
    }
    OwningOpRef<ModuleOp> plain = before.clone();
    (*plain)->removeAttr("dist.settings");
    CHECK(OperationEquivalence::isEquivalentTo(*plain, *after, OperationEquivalence::IgnoreLocations));
  });
  CHECK(given > 10);
  CHECK(kept > 10);
}

TEST_CASE("train passes: ashlar-loss-scale divides gradients and follows their overflows", "[fuzz][passes]") {
  int overflows = 0, good = 0;
  auto isScaled = [](const job::Job &job) { return job.precision() == job::F16_MIXED; };
  forEachTraining(16, varied(), isScaled, [&](Training &training) {
    std::vector<std::string> names;
    OwningOpRef<ModuleOp> before = returnGradients(training.before("ashlar-loss-scale"), names);
    ModuleOp after = training.after("ashlar-loss-scale");
    for (double scale : {16.0, 0x1p90}) {
      for (int64_t goodSteps : {0, 1999}) {
        Values values = training.variables;
        drawVariables(after, /*seed=*/1, values);
        values["ashlar.loss_scale"].setFloat(0, scale);
        values["ashlar.good_steps"].setInt(0, goodSteps);
        const Values start = values;
        std::vector<Tensor> scaled = evaluate(*before, "train_step", training.inputs, values);
        std::vector<Tensor> results = run(after, "train_step", training.inputs, values);
        CHECK(areEqual(ArrayRef(scaled).take_front(1), results));
        bool isFinite = true;
        for (const Tensor &gradient : ArrayRef(scaled).drop_front()) {
          for (int64_t i = 0; i < gradient.getNumElements(); ++i) {
            isFinite &= std::isfinite(gradient.getFloat(i));
          }
        }
        std::vector<std::vector<double>> gradients = gradientsOf(training.job.optimizer(), scaled, scale);
        for (auto [k, name] : llvm::enumerate(names)) {
          INFO("@" << name);
          checkUpdate(training.job, name, start, values, isFinite ? std::optional(gradients[k]) : std::nullopt);
        }
        CHECK(values["ashlar.step"].getInt(0) == start.at("ashlar.step").getInt(0) + 1);
        if (values.count("ashlar.updates") == 1) { // what is left out is no update
          CHECK(values["ashlar.updates"].getInt(0) == start.at("ashlar.updates").getInt(0) + (isFinite ? 1 : 0));
        }
        bool grows = isFinite && goodSteps == 1999;
        CHECK(values["ashlar.loss_scale"].getFloat(0) == (grows ? 2 * scale : isFinite ? scale : scale / 2));
        CHECK(values["ashlar.good_steps"].getInt(0) == (grows || !isFinite ? 0 : goodSteps + 1));
        ++(isFinite ? good : overflows);
      }
    }
  });
  CHECK(overflows > 8);
  CHECK(good > 8);
}

TEST_CASE("train passes: ashlar-optimizer makes the update that the job asks for", "[fuzz][passes]") {
  std::map<std::string, int> rules;
  std::map<int, int> schedules;
  int logged = 0;
  forEachTraining(120, varied(), isAny, [&](Training &training) {
    job::Job plain = training.job; // clipping is another pass
    plain.mutable_optimizer()->clear_clip_global_norm();
    const job::Optimizer &optimizer = plain.optimizer();
    std::vector<std::string> names;
    OwningOpRef<ModuleOp> before = returnGradients(training.before("ashlar-optimizer"), names);
    Values values = training.variables, start = values;
    int64_t step = schedules.size() + rules.size(); // any small number
    values["ashlar.step"].setInt(0, step);
    start = values;
    std::vector<Tensor> gradients = evaluate(*before, "train_step", training.inputs, values);
    std::vector<Tensor> results = run(training.after("ashlar-optimizer"), "train_step", training.inputs, values);
    CHECK(areEqual(ArrayRef(gradients).take_front(1), results));
    CHECK(values["ashlar.step"].getInt(0) == step + 1);
    std::vector<std::vector<double>> taken = gradientsOf(optimizer, gradients, /*scale=*/1);
    std::set<std::string> written = {"ashlar.step", "ashlar.updates", nn::kLearningRateVariable.str()};
    if (auto rate = values.find(nn::kLearningRateVariable.str()); rate != values.end()) { // of the step that was made
      CHECK(rate->second.getFloat(0) == Approx(learningRateOf(optimizer, step)).epsilon(1e-12));
      ++logged;
    }
    for (auto [k, name] : llvm::enumerate(names)) {
      INFO("@" << name);
      bool hasMoments = !optimizer.has_sgd() && !optimizer.has_momentum();
      CHECK(values.count(name + ".momentum") == (optimizer.has_momentum() ? 1 : 0));
      CHECK(values.count(name + ".moment1") == (hasMoments ? 1 : 0));
      CHECK(values.count(name + ".moment2") == (hasMoments ? 1 : 0));
      checkUpdate(plain, name, start, values, taken[k]);
      for (const char *state : {"", ".momentum", ".moment1", ".moment2"}) {
        written.insert(name + state);
      }
    }
    for (auto &[name, value] : start) {
      CHECK((written.count(name) == 1 || reference::maxDifference(value, values[name]) == 0));
    }
    const google::protobuf::OneofDescriptor *kind = optimizer.GetDescriptor()->FindOneofByName("kind");
    ++rules[optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, kind)->name() + (weightDecayOf(optimizer) != 0 ? " decay" : "") +
            (optimizer.momentum().nesterov() ? " nesterov" : "")];
    ++schedules[optimizer.schedule().kind_case()];
  });
  CHECK(rules.size() == 12); // five kinds and nesterov, each with and without weight decay
  CHECK(schedules.size() == 6);
  CHECK(logged > 30);
}

TEST_CASE("train passes: ashlar-clip-gradients bounds what the update takes", "[fuzz][passes]") {
  int clipped = 0, whole = 0;
  auto clips = [](const job::Job &job) { return job.optimizer().has_clip_global_norm() && job.precision() != job::F16_MIXED; };
  forEachTraining(100, varied(), clips, [&](Training &training) {
    std::vector<std::string> names;
    OwningOpRef<ModuleOp> before = returnGradients(training.before("ashlar-clip-gradients"), names);
    Values values = training.variables, start = values;
    addCounts(training.after("ashlar-clip-gradients"), values);
    std::vector<Tensor> gradients = evaluate(*before, "train_step", training.inputs, values);
    CHECK(areEqual(ArrayRef(gradients).take_front(1), run(training.after("ashlar-clip-gradients"), "train_step", training.inputs, values)));
    std::vector<std::vector<double>> taken = gradientsOf(training.job.optimizer(), gradients, /*scale=*/1);
    double squares = 0;
    for (const Tensor &gradient : ArrayRef(gradients).drop_front()) {
      for (double number : numbersOf(gradient)) {
        squares += number * number;
      }
    }
    CHECK(values.at(nn::kGradientNormVariable.str()).getFloat(0) == Approx(std::sqrt(squares)).epsilon(1e-4));
    for (auto [k, name] : llvm::enumerate(names)) {
      INFO("@" << name);
      checkUpdate(training.job, name, start, values, taken[k]);
    }
    ++(taken == gradientsOf({}, gradients, /*scale=*/1) ? whole : clipped);
  });
  CHECK(clipped > 5);
  CHECK(whole > 5);
}

TEST_CASE("train passes: ashlar-watch-nonfinite leaves steps of finite gradients as they are", "[fuzz][passes]") {
  int counts = 0;
  forEachTraining(30, varied(), isAny, [&](Training &training) {
    ModuleOp before = training.before("ashlar-watch-nonfinite");
    for (bool skips : {false, true}) {
      OwningOpRef<ModuleOp> after(before.clone());
      train::WatchNonfinitePassOptions options;
      options.skips = skips;
      PassManager passes(after->getContext());
      passes.addPass(train::createWatchNonfinitePass(options));
      REQUIRE(succeeded(passes.run(*after)));
      Values once = training.variables, watched = training.variables;
      addCounts(before, once);
      addCounts(*after, watched);
      std::vector<Tensor> loss = run(before, "train_step", training.inputs, once);
      CHECK(areEqual(loss, run(*after, "train_step", training.inputs, watched)));
      for (auto &[name, value] : once) {
        CHECK(reference::maxDifference(value, watched[name]) == 0);
      }
      for (StringRef name : {nn::kSkippedStepsVariable, nn::kBadNormsVariable}) {
        if (auto count = watched.find(name.str()); count != watched.end()) {
          CHECK(count->second.getInt(0) == 0);
          ++counts;
        }
      }
    }
  });
  CHECK(counts > 30);
}

TEST_CASE("train passes: ashlar-accumulate makes one update of the sum of the gradients", "[fuzz][passes]") {
  auto accumulates = [](const job::Job &job) { return job.accumulate() > 1 && job.precision() == job::F32; };
  forEachTraining(30, varied(), accumulates, [&](Training &training) {
    // The step on one micro-batch, whose loss is all of the loss and not a share.
    OwningOpRef<ModuleOp> plain = training.snapshots.front().module->clone();
    job::Job job = training.job;
    job.set_global_batch(job::programBatch(job));
    job.clear_accumulate();
    PassManager passes(plain->getContext());
    pipelines::addTrainPasses(passes, job);
    REQUIRE(succeeded(passes.run(*plain)));
    ModuleOp before = *plain, after = training.after("ashlar-accumulate");
    Values values = training.variables, once = values;
    drawVariables(after, /*seed=*/1, values); // sums of an earlier step, which nothing may read
    values["ashlar.micro_batch"].setInt(0, 0);
    addCounts(before, once);
    addCounts(after, values);
    std::vector<Tensor> loss = run(before, "train_step", training.inputs, once);
    // Equal micro-batches: the mean of their gradients is the gradient of one, and so for the loss. Where random numbers are drawn, by the
    // number of the micro-batch, they are not equal.
    bool draws = false;
    after.lookupSymbol<func::FuncOp>("train_step").walk([&](nn::RandomOp) { draws = true; });
    for (int64_t i = 0; i < training.job.accumulate(); ++i) {
      CHECK(values["ashlar.micro_batch"].getInt(0) == i);
      run(after, "train_step", training.inputs, values);
    }
    for (auto &[name, value] : training.variables) {
      CHECK((StringRef(name).starts_with("ashlar.") || StringRef(name).ends_with(".gradient") ||
             reference::maxDifference(value, values[name]) == 0)); // only sums were written
    }
    std::vector<Tensor> last = run(after, "update", {}, values);
    CHECK(values["ashlar.micro_batch"].getInt(0) == 0);
    CHECK(values["ashlar.step"].getInt(0) == once["ashlar.step"].getInt(0));
    if (draws) {
      return;
    }
    CHECK(last[0].getFloat(0) == Approx(loss[0].getFloat(0)).epsilon(1e-5).margin(1e-7));
    for (auto &[name, value] : once) {
      INFO("@" << name);
      for (int64_t i = 0; i < value.getNumElements(); ++i) {
        CHECK(values[name].getNumber(i) == Approx(value.getNumber(i)).epsilon(1e-5).margin(1e-7));
      }
    }
  });
}

TEST_CASE("train passes: ashlar-prepare-step changes no bit of two steps", "[fuzz][passes]") {
  int prepared = 0;
  auto isMixed = [](const job::Job &job) { return job.accumulate() > 1 && job.precision() != job::F32; };
  forEachTraining(20, varied(), isMixed, [&](Training &training) {
    ModuleOp before = training.before("ashlar-prepare-step"), after = training.after("ashlar-prepare-step");
    Values each = training.variables;
    drawVariables(before, /*seed=*/1, each);
    each["ashlar.micro_batch"].setInt(0, 0);
    addCounts(before, each);
    Values once = each;
    drawVariables(after, /*seed=*/2, once); // what an earlier step prepared, which nothing may read
    const bool prepares = static_cast<bool>(after.lookupSymbol("prepare"));
    prepared += prepares;
    for (int step = 0; step < 2; ++step) {
      if (prepares) {
        run(after, "prepare", {}, once);
      }
      for (int64_t i = 0; i < training.job.accumulate(); ++i) {
        run(before, "train_step", training.inputs, each);
        run(after, "train_step", training.inputs, once);
      }
      std::vector<Tensor> expected = run(before, "update", {}, each), found = run(after, "update", {}, once);
      CHECK(reference::maxDifference(expected[0], found[0]) == 0);
      for (auto &[name, value] : each) {
        INFO("@" << name);
        CHECK(reference::maxDifference(value, once[name]) == 0);
      }
    }
  });
  CHECK(prepared > 5);
}

} // namespace ashlar::fuzz::update_passes_test
