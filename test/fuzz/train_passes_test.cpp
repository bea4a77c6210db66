// SPDX-License-Identifier: Apache-2.0
//
// The passes that make a training step, on random models: what a pass leaves alone is the same after it, and what it adds is compared with
// formulas written here, for reading, or with differences of the loss.

#include "compiler/pipelines/pipelines.h"
#include "compiler/reference/equivalence.h"
#include "compiler/reference/philox.h"
#include "dialects/nn/nn.h"
#include "test/fuzz/optimizer_reference.h"
#include "test/fuzz/random_layout.h"
#include "test/fuzz/random_program.h"
#include "test/fuzz/rounding.h"
#include "test/fuzz/stages.h"
#include "test/unit/reference/parsed_module.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <set>

using namespace mlir;
using namespace ashlar;
using namespace ashlar::fuzz;
using ashlar::reference::Tensor;

namespace {

using Values = std::map<std::string, Tensor>; // of variables, by name

// A random training model and what becomes of it, pass by pass.
struct Training {
  job::Job job;
  std::vector<Stage> stages;
  std::vector<Tensor> inputs; // of @train_step, and behind them what @eval_step takes more
  int64_t samples = 1;        // that @eval_step sums over
  Values variables;

  // Returns the module after a pass, or ahead of it.
  ModuleOp after(StringRef pass) { return *stages[indexOf(pass)].module; }
  ModuleOp before(StringRef pass) { return *stages[indexOf(pass) - 1].module; }
  bool has(StringRef pass) {
    return llvm::any_of(stages, [&](const Stage &stage) { return stage.pass == pass; });
  }

  size_t indexOf(StringRef pass) {
    for (size_t i = 1; i < stages.size(); ++i) {
      if (stages[i].pass == pass) {
        return i;
      }
    }
    FAIL("no pass " << pass.str());
    return 0;
  }
};

// Returns random values for the variables of a module that have none in `values`; small integers, of which @ashlar.step stays small.
void drawVariables(ModuleOp module, uint64_t seed, Values &values) {
  for (auto variable : module.getOps<nn::VariableOp>()) {
    std::mt19937_64 generator(seed ^ nn::streamOf(variable.getSymName()));
    Tensor value = reference::randomTensor(variable.getTensorType(), generator, /*intLimit=*/4);
    if (variable.getSymName().ends_with(".moment2")) { // a mean of squares; not near 0, where a root has large errors
      for (int64_t i = 0; i < value.getNumElements(); ++i) {
        value.setFloat(i, 0.25 + std::abs(value.getFloat(i)));
      }
    }
    values.emplace(variable.getSymName().str(), value);
  }
}

std::vector<Tensor> drawInputs(ModuleOp module, StringRef function, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<Tensor> inputs;
  for (Type type : module.lookupSymbol<func::FuncOp>(function).getArgumentTypes()) {
    inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), generator, /*intLimit=*/4));
  }
  return inputs;
}

// Runs a function from these values of variables, which then are what it leaves behind. Inputs beyond its arguments are not needed.
std::vector<Tensor> run(ModuleOp module, StringRef function, ArrayRef<Tensor> inputs, Values &variables,
                        const reference::Observer &observer = {}) {
  reference::Interpreter interpreter(module, /*numRanks=*/1, observer);
  for (auto variable : module.getOps<nn::VariableOp>()) {
    interpreter.setVariable(variable.getSymName(), {variables.at(variable.getSymName().str())});
  }
  auto arguments = inputs.take_front(module.lookupSymbol<func::FuncOp>(function).getNumArguments());
  FailureOr<std::vector<Tensor>> results = reference::runGlobal(interpreter, function, arguments);
  REQUIRE(succeeded(results));
  for (auto variable : module.getOps<nn::VariableOp>()) {
    variables[variable.getSymName().str()] = interpreter.getVariable(variable.getSymName())->front();
  }
  return *results;
}

// The same without a trace.
std::vector<Tensor> evaluate(ModuleOp module, StringRef function, ArrayRef<Tensor> inputs, Values variables) {
  return run(module, function, inputs, variables);
}

// Adds rules about the weight decay of a few parameters to a job.
void drawDecays(ModuleOp module, uint64_t seed, job::Job &job) {
  Dice dice(~seed);
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (variable.getTrainable() && dice.oneIn(4)) {
      job::Rule &rule = *job.add_rules();
      rule.set_match(variable.getSymName().str());
      rule.set_weight_decay(dice.roll(4) / 16.0);
    }
  }
}

// Returns the weight decay of a parameter that a rule sets; none when no rule does.
std::optional<double> ownDecay(const job::Job &job, const std::string &name) {
  for (const job::Rule &rule : job.rules()) {
    if (rule.match() == name) {
      return rule.weight_decay();
    }
  }
  return std::nullopt;
}

// Returns the training of a seed through all its passes; none when the seed does not train.
std::optional<Training> trainingOf(uint64_t seed, const ProgramOptions &options) {
  RandomModel model = randomModel(test::context(), seed, options);
  if (!model.job.has_loss()) {
    return std::nullopt;
  }
  Training training;
  drawDecays(*model.module, seed, model.job);
  pipelines::attachSettings(*model.module, model.job);
  training.job = model.job;
  training.stages = runStages(*model.module, [&](OpPassManager &passes) { pipelines::addTrainPasses(passes, model.job); });
  ModuleOp programs = training.after("ashlar-loss");
  training.inputs = drawInputs(programs, "train_step", seed);
  if (auto evaluated = programs.lookupSymbol<func::FuncOp>("eval_step"); evaluated.getNumArguments() > training.inputs.size()) {
    training.samples = training.inputs.back().getType().getDimSize(0);
    training.inputs.emplace_back(cast<RankedTensorType>(evaluated.getArgumentTypes().back()));
    training.inputs.back().setInt(0, training.samples);
  }
  drawVariables(training.after("ashlar-optimizer"), seed, training.variables);
  return training;
}

// Calls `check` with the trainings of the first seeds that `isWanted`.
void forEachTraining(int count, const ProgramOptions &options, llvm::function_ref<bool(const job::Job &)> isWanted,
                     llvm::function_ref<void(Training &)> check) {
  for (uint64_t seed = 1; count > 0; ++seed) {
    INFO("seed " << seed);
    REQUIRE(seed < 2000);
    if (std::optional<Training> training = trainingOf(seed, options); training && isWanted(training->job)) {
      --count;
      check(*training);
    }
  }
}

bool isAny(const job::Job &) {
  return true;
}

ProgramOptions varied() {
  ProgramOptions options;
  options.varied = true;
  return options;
}

bool areEqual(ArrayRef<Tensor> x, ArrayRef<Tensor> y) {
  return x.size() == y.size() &&
         llvm::all_of(llvm::zip_equal(x, y), [](auto pair) { return reference::maxDifference(std::get<0>(pair), std::get<1>(pair)) == 0; });
}

//===-- Loss --------------------------------------------------------------------------------------------------------------------------===//

// Returns -log of the share of class `label` among the numbers at `begin`; 0 for what is no class.
double crossEntropy(const Tensor &logits, int64_t begin, int64_t classes, int64_t label) {
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    sum += std::exp(logits.getFloat(begin + c));
  }
  return label >= 0 && label < classes ? std::log(sum) - logits.getFloat(begin + label) : 0;
}

double expectedLoss(const job::Loss &loss, const Tensor &output, const Tensor &labels) {
  if (loss.has_model_output()) { // a scalar
    return output.getFloat(0);
  }
  int64_t classes = output.getShape().back(), count = output.getNumElements(), rows = count / classes;
  double sum = 0;
  if (loss.has_mean_squared_error()) {
    for (int64_t i = 0; i < count; ++i) {
      sum += std::pow(output.getFloat(i) - labels.getFloat(i), 2);
    }
    return sum / count;
  }
  for (int64_t row = 0; row < rows; ++row) {
    int64_t label = labels.getInt(row);
    if (loss.has_softmax_cross_entropy()) {
      sum += crossEntropy(output, row * classes, classes, label);
    } else if (label >= 0 && label < classes) {
      sum -= output.getFloat(row * classes + label);
    }
  }
  return sum / rows;
}

int64_t expectedCorrect(const Tensor &output, const Tensor &labels) {
  int64_t classes = output.getShape().back(), correct = 0;
  for (int64_t row = 0; row < output.getNumElements() / classes; ++row) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      best = output.getFloat(row * classes + c) > output.getFloat(row * classes + best) ? c : best;
    }
    correct += labels.getInt(row) == best;
  }
  return correct;
}

//===-- Gradients ---------------------------------------------------------------------------------------------------------------------===//

// Returns the module with each nn.gradient of @train_step as a further result; their variables in `names`.
OwningOpRef<ModuleOp> returnGradients(ModuleOp module, std::vector<std::string> &names) {
  OwningOpRef<ModuleOp> copy = module.clone();
  auto function = copy->lookupSymbol<func::FuncOp>("train_step");
  Operation *end = function.front().getTerminator();
  for (auto gradient : function.front().getOps<nn::GradientOp>()) {
    names.push_back(gradient.getVariable().str());
    end->insertOperands(end->getNumOperands(), gradient.getResult());
  }
  function.setType(FunctionType::get(module.getContext(), function.getArgumentTypes(), end->getOperandTypes()));
  return copy;
}

// Returns whether the gradient of a variable, along a random direction, is what the loss changes by.
bool agreesWithDifference(ModuleOp module, Training &training, const std::string &name, const Tensor &gradient, uint64_t seed,
                          double step) {
  std::mt19937_64 generator(seed);
  Tensor direction = reference::randomTensor(gradient.getType(), generator, 1);
  double losses[2], slope = 0;
  for (int side : {0, 1}) {
    Values moved = training.variables;
    for (int64_t i = 0; i < direction.getNumElements(); ++i) {
      moved[name].setFloat(i, moved[name].getFloat(i) + (side == 0 ? -step : step) * direction.getFloat(i));
    }
    losses[side] = evaluate(module, "train_step", training.inputs, moved)[0].getFloat(0);
  }
  for (int64_t i = 0; i < direction.getNumElements(); ++i) {
    slope += gradient.getFloat(i) * direction.getFloat(i);
  }
  return std::abs((losses[1] - losses[0]) / (2 * step) - slope) <= 1e-5 * std::max(1.0, std::abs(slope));
}

//===-- Optimizer ---------------------------------------------------------------------------------------------------------------------===//

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

} // namespace

TEST_CASE("train passes: ashlar-mixed-precision moves results by its roundings only", "[fuzz][passes]") {
  int narrow = 0;
  for (uint64_t seed = 1; narrow < 20; ++seed) {
    REQUIRE(seed < 1000);
    RandomModel model = randomModel(test::context(), seed, varied());
    if (model.job.has_loss() || model.job.precision() == job::F32) {
      continue;
    }
    INFO("seed " << seed);
    std::vector<Stage> stages = runStages(*model.module, [&](OpPassManager &passes) { pipelines::addTrainPasses(passes, model.job); });
    REQUIRE(stages[1].pass == "ashlar-mixed-precision");
    ModuleOp before = *stages[0].module, after = *stages[1].module;
    Values variables;
    drawVariables(before, seed, variables);
    std::vector<Tensor> inputs = drawInputs(before, "forward", seed), exact = evaluate(before, "forward", inputs, variables),
                        rounded = evaluate(after, "forward", inputs, variables);
    narrow += precisionOf(after) == fuzz::Precision::Narrow; // a model without a product stays as it is
    std::vector<ComparedTensor> tensors;
    REQUIRE(exact.size() == rounded.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      tensors.push_back({"result " + std::to_string(i), &rounded[i], &exact[i]});
    }
    Comparison comparison = compareRounded(tensors, tolerancesOf(fuzz::Precision::Narrow), [&](const reference::Observer &observer) {
      Values copy = variables;
      return FailureOr<std::vector<Tensor>>(run(after, "forward", inputs, copy, observer));
    });
    CHECK(comparison.fault == "");
    CHECK(comparison.undecided <= 0.1 * comparison.elements);
  }
}

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

TEST_CASE("train passes: ashlar-loss computes the loss of the model's output, and counts correct rows", "[fuzz][passes]") {
  std::map<int, int> kinds;
  forEachTraining(40, {}, isAny, [&](Training &training) {
    ++kinds[training.job.loss().kind_case()];
    ModuleOp before = training.before("ashlar-loss"), after = training.after("ashlar-loss");
    Tensor output = evaluate(before, "forward", training.inputs, training.variables).front();
    size_t given = before.lookupSymbol<func::FuncOp>("forward").getNumArguments();
    Tensor labels = training.inputs.size() > given ? training.inputs[given] : Tensor();
    double expected = expectedLoss(training.job.loss(), output, labels);
    std::vector<Tensor> step = evaluate(after, "train_step", training.inputs, training.variables),
                        evaluation = evaluate(after, "eval_step", training.inputs, training.variables);
    CHECK(step.size() == 1);
    CHECK(step[0].getFloat(0) == Approx(expected).epsilon(1e-12).margin(1e-12));
    CHECK(evaluation[0].getFloat(0) == Approx(expected * training.samples).epsilon(1e-12).margin(1e-12));
    bool hasClasses = training.job.loss().has_softmax_cross_entropy() || training.job.loss().has_negative_log_likelihood();
    CHECK(evaluation.size() == (hasClasses ? 2 : 1));
    if (hasClasses) {
      CHECK(evaluation[1].getInt(0) == expectedCorrect(output, labels));
    }
  });
  CHECK(kinds.size() == 4);
}

TEST_CASE("train passes: ashlar-autodiff leaves the loss alone, and its gradients are its differences", "[fuzz][passes]") {
  int variables = 0;
  forEachTraining(40, {}, isAny, [&](Training &training) {
    ModuleOp before = training.before("ashlar-autodiff");
    std::vector<std::string> names;
    OwningOpRef<ModuleOp> after = returnGradients(training.after("ashlar-autodiff"), names);
    std::vector<Tensor> loss = evaluate(before, "train_step", training.inputs, training.variables),
                        results = evaluate(*after, "train_step", training.inputs, training.variables);
    CHECK(areEqual(loss, ArrayRef(results).take_front(1)));
    CHECK(areEqual(evaluate(before, "eval_step", training.inputs, training.variables),
                   evaluate(*after, "eval_step", training.inputs, training.variables)));
    for (auto [i, name] : llvm::enumerate(names)) {
      INFO("gradient of @" << name);
      // A step may cross a kink; another direction and a shorter step do not.
      bool agrees = false;
      for (uint64_t attempt = 1; attempt <= 4 && !agrees; ++attempt) {
        agrees = agreesWithDifference(before, training, name, results[i + 1], attempt, attempt <= 2 ? 1e-5 : 1e-7);
      }
      CHECK(agrees);
      ++variables;
    }
  });
  CHECK(variables > 80);
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
  forEachTraining(120, {}, isAny, [&](Training &training) {
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
    std::set<std::string> written = {"ashlar.step", "ashlar.updates"};
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
}

TEST_CASE("train passes: ashlar-clip-gradients bounds what the update takes", "[fuzz][passes]") {
  int clipped = 0, whole = 0;
  auto clips = [](const job::Job &job) { return job.optimizer().has_clip_global_norm() && job.precision() != job::F16_MIXED; };
  forEachTraining(100, varied(), clips, [&](Training &training) {
    std::vector<std::string> names;
    OwningOpRef<ModuleOp> before = returnGradients(training.before("ashlar-clip-gradients"), names);
    Values values = training.variables, start = values;
    std::vector<Tensor> gradients = evaluate(*before, "train_step", training.inputs, values);
    CHECK(areEqual(ArrayRef(gradients).take_front(1), run(training.after("ashlar-clip-gradients"), "train_step", training.inputs, values)));
    std::vector<std::vector<double>> taken = gradientsOf(training.job.optimizer(), gradients, /*scale=*/1);
    for (auto [k, name] : llvm::enumerate(names)) {
      INFO("@" << name);
      checkUpdate(training.job, name, start, values, taken[k]);
    }
    ++(taken == gradientsOf({}, gradients, /*scale=*/1) ? whole : clipped);
  });
  CHECK(clipped > 5);
  CHECK(whole > 5);
}

TEST_CASE("train passes: ashlar-accumulate makes one update of the mean of the gradients", "[fuzz][passes]") {
  auto accumulates = [](const job::Job &job) { return job.accumulate() > 1 && job.precision() == job::F32; };
  forEachTraining(30, {}, accumulates, [&](Training &training) {
    ModuleOp before = training.before("ashlar-accumulate"), after = training.after("ashlar-accumulate");
    Values values = training.variables, once = values;
    drawVariables(after, /*seed=*/1, values); // sums of an earlier step, which nothing may read
    values["ashlar.micro_batch"].setInt(0, 0);
    std::vector<Tensor> loss = run(before, "train_step", training.inputs, once), last;
    // Equal micro-batches: the mean of their gradients is the gradient of one, and so for the loss. Where random numbers are drawn, by the
    // number of the micro-batch, they are not equal.
    bool draws = false;
    after.lookupSymbol<func::FuncOp>("train_step").walk([&](nn::RandomOp) { draws = true; });
    for (int64_t i = 0; i < training.job.accumulate(); ++i) {
      CHECK(values["ashlar.micro_batch"].getInt(0) == i);
      last = run(after, "train_step", training.inputs, values);
    }
    for (auto &[name, value] : training.variables) {
      CHECK((StringRef(name).starts_with("ashlar.") || StringRef(name).ends_with(".gradient") ||
             reference::maxDifference(value, values[name]) == 0)); // only sums were written
    }
    run(after, "update", {}, values);
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

TEST_CASE("train passes: ashlar-init draws what each variable asks for, from the seed and its name", "[fuzz][passes]") {
  int uniform = 0, normal = 0, filled = 0;
  forEachTraining(40, varied(), isAny, [&](Training &training) {
    constexpr int64_t kSeed = 77;
    ModuleOp before = training.before("ashlar-init"), after = training.after("ashlar-init");
    Values values = training.variables;
    drawVariables(after, /*seed=*/1, values);
    values["ashlar.seed"].setInt(0, kSeed);
    Values start = values;
    run(after, "init", {}, values);
    CHECK(areEqual(evaluate(before, "train_step", training.inputs, start), evaluate(after, "train_step", training.inputs, start)));
    for (auto variable : before.getOps<nn::VariableOp>()) {
      INFO("@" << variable.getSymName().str());
      const Tensor &value = values[variable.getSymName().str()];
      auto words = [&](int64_t i) { return reference::philoxOfElement(i, kSeed, /*counter=*/0, nn::streamOf(variable.getSymName())); };
      bool isWide = value.getType().getElementType().isF64();
      double unit = isWide ? 1e-15 : 1e-6;
      // A number in [0, 1) of one word, or of two in f64.
      auto share = [&](uint32_t high, uint32_t low) {
        return isWide ? ((high >> 5) * 0x1p26 + (low >> 6)) * 0x1p-53 : (high >> 8) * 0x1p-24;
      };
      for (int64_t i = 0; i < value.getNumElements(); ++i) {
        if (auto rule = dyn_cast_or_null<nn::UniformAttr>(variable.getInitAttr())) {
          double low = rule.getLow().getValueAsDouble(), high = rule.getHigh().getValueAsDouble();
          CHECK(value.getFloat(i) == Approx(low + (high - low) * share(words(i)[0], words(i)[1])).epsilon(unit).margin(unit));
          ++uniform;
        } else if (auto rule = dyn_cast_or_null<nn::NormalAttr>(variable.getInitAttr())) {
          double first = share(words(i)[0], words(i)[1]), second = isWide ? share(words(i)[2], words(i)[3]) : share(words(i)[1], 0);
          double number = std::sqrt(-2 * std::log(1 - first)) * std::cos(2 * M_PI * second); // Box and Muller
          CHECK(value.getFloat(i) ==
                Approx(rule.getMean().getValueAsDouble() + rule.getStd().getValueAsDouble() * number).epsilon(unit).margin(4 * unit));
          ++normal;
        } else if (auto rule = dyn_cast_or_null<nn::FillAttr>(variable.getInitAttr())) {
          CHECK(value.getFloat(i) == Approx(rule.getValue().getValueAsDouble()).epsilon(unit));
          ++filled;
        } else if (auto rule = dyn_cast_or_null<ElementsAttr>(variable.getInitAttr())) {
          CHECK(value.getNumber(i) == reference::Tensor::fromAttribute(rule)->getNumber(i));
        }
      }
    }
  });
  CHECK(uniform > 100);
  CHECK(normal > 100);
  CHECK(filled > 100);
}

TEST_CASE("train passes: simplifying the training step changes no bit of it, and ashlar-verify-train nothing", "[fuzz][passes]") {
  forEachTraining(40, varied(), isAny, [&](Training &training) {
    ModuleOp before = training.after("ashlar-init");
    for (size_t i = training.indexOf("ashlar-init") + 1; i < training.stages.size(); ++i) {
      INFO(training.stages[i].pass);
      for (const char *function : {"train_step", "update", "eval_step"}) {
        if (!before.lookupSymbol<func::FuncOp>(function)) {
          continue;
        }
        Values first = training.variables, second;
        drawVariables(before, /*seed=*/1, first);
        second = first;
        CHECK(areEqual(run(before, function, training.inputs, first), run(*training.stages[i].module, function, training.inputs, second)));
        for (auto &[name, value] : first) {
          CHECK(reference::maxDifference(value, second[name]) == 0);
        }
      }
    }
    CHECK(training.stages.back().pass == "ashlar-verify-train");
  });
}
