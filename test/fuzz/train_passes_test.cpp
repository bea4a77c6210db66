// SPDX-License-Identifier: Apache-2.0
//
// The passes that make a training step, on random models: what a pass leaves alone is the same after it, and what it adds is compared with
// formulas written here, for reading, or with differences of the loss.

#include "compiler/pipelines/pipelines.h"
#include "compiler/reference/equivalence.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/ops/philox.h"
#include "passes/train/passes.h"
#include "test/fuzz/random_training.h"
#include "test/fuzz/rounding.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>

namespace ashlar::fuzz::train_passes_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

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

//===-- Batch normalization -----------------------------------------------------------------------------------------------------------===//

// A model whose one layer is a batch normalization of random sizes, in f64.
struct BatchNormModel {
  explicit BatchNormModel(uint64_t seed) {
    std::mt19937_64 generator(seed);
    auto size = [&] { return static_cast<int64_t>(1 + generator() % 5); };
    replicas = size();
    rows = 2 + size();
    channels = size();
    width = size();
    unbiased = generator() % 2;
    epsilon = 0.25;
    momentum = 0.125 * static_cast<double>(generator() % 8);
    std::string x = llvm::formatv("tensor<{0}x{1}x{2}xf64>", replicas * rows, channels, width);
    std::string c = llvm::formatv("tensor<{0}xf64>", channels);
    text = "nn.variable @scale trainable : " + c + "\nnn.variable @shift trainable : " + c + "\nnn.variable @mean : " + c +
           "\nnn.variable @variance : " + c + "\nfunc.func @train_step(%x: " + x + ") -> " + x +
           " attributes {nn.program = #nn.program<train_step>} {\n";
    for (const char *name : {"scale", "shift", "mean", "variance"}) {
      text += std::string("%") + name + " = nn.read @" + name + " : " + c + "\n";
    }
    text += "%y = nn.normalize %x, %scale, %shift, %mean, %variance dims = [1] epsilon = " + std::to_string(epsilon) +
            " {momentum = " + std::to_string(momentum) + " : f64" + (unbiased ? ", unbiased" : "") + "} : " + x + ", " + c +
            "\nreturn %y : " + x + "\n}";
  }

  // Calls `body` with the place of each element of replica r and channel c.
  void forEach(int64_t r, int64_t c, llvm::function_ref<void(int64_t)> body) const {
    for (int64_t row = r * rows; row < (r + 1) * rows; ++row) {
      for (int64_t k = 0; k < width; ++k) {
        body((row * channels + c) * width + k);
      }
    }
  }

  int64_t replicas, rows, channels, width;
  bool unbiased;
  double epsilon, momentum;
  std::string text;
};

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
    std::vector<PassSnapshot> snapshots =
        snapshotPasses(*model.module, [&](OpPassManager &passes) { pipelines::addTrainPasses(passes, model.job); });
    auto narrowed = llvm::find_if(snapshots, [](const PassSnapshot &each) { return each.pass == "ashlar-mixed-precision"; });
    REQUIRE(narrowed != snapshots.end());
    ModuleOp before = *std::prev(narrowed)->module, after = *narrowed->module;
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
    const bool isOwn = training.job.loss().has_model_output();
    bool hasClasses = training.job.loss().has_softmax_cross_entropy() || training.job.loss().has_negative_log_likelihood();
    REQUIRE(evaluation.size() == (hasClasses ? 3 : isOwn ? 1 : 2));
    if (!isOwn) {
      CHECK(evaluation[1].getFloat(0) == training.samples);
    }
    if (hasClasses) {
      CHECK(evaluation[2].getInt(0) == expectedCorrect(output, labels));
    }
  });
  CHECK(kinds.size() == 4);
}

TEST_CASE("train passes: ashlar-batch-norm takes the statistics of each replica's samples, and moves the running ones", "[fuzz][passes]") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    BatchNormModel model(seed);
    OwningOpRef<ModuleOp> module = test::parse(model.text);
    Values variables;
    drawVariables(*module, seed, variables);
    Values before = variables;
    std::vector<Tensor> inputs = drawInputs(*module, "train_step", seed);
    PassManager passes(module->getContext());
    train::BatchNormPassOptions options;
    options.replicas = model.replicas;
    passes.addPass(train::createBatchNormPass(options));
    REQUIRE(succeeded(passes.run(*module)));
    Tensor y = run(*module, "train_step", inputs, variables).front();
    double count = static_cast<double>(model.rows * model.width);
    for (int64_t c = 0; c < model.channels; ++c) {
      double means = 0, variances = 0;
      for (int64_t r = 0; r < model.replicas; ++r) {
        double sum = 0, squares = 0;
        model.forEach(r, c, [&](int64_t i) { sum += inputs[0].getFloat(i); });
        model.forEach(r, c, [&](int64_t i) { squares += std::pow(inputs[0].getFloat(i) - sum / count, 2); });
        means += sum / count / static_cast<double>(model.replicas);
        variances += squares / (model.unbiased ? count - 1 : count) / static_cast<double>(model.replicas);
        model.forEach(r, c, [&](int64_t i) {
          double normalized = (inputs[0].getFloat(i) - sum / count) / std::sqrt(squares / count + model.epsilon);
          CHECK(y.getFloat(i) ==
                Approx(normalized * before["scale"].getFloat(c) + before["shift"].getFloat(c)).epsilon(1e-12).margin(1e-12));
        });
      }
      auto moved = [&](const char *name, double toward) {
        return Approx(model.momentum * before[name].getFloat(c) + (1 - model.momentum) * toward).epsilon(1e-12).margin(1e-12);
      };
      CHECK(variables["mean"].getFloat(c) == moved("mean", means));
      CHECK(variables["variance"].getFloat(c) == moved("variance", variances));
    }
  }
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
      auto words = [&](int64_t i) { return nn::philoxOfElement(i, kSeed, /*counter=*/0, nn::streamOf(variable.getSymName())); };
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
    for (size_t i = training.indexOf("ashlar-init") + 1; i < training.snapshots.size(); ++i) {
      INFO(training.snapshots[i].pass);
      for (const char *function : {"train_step", "update", "eval_step"}) {
        if (!before.lookupSymbol<func::FuncOp>(function)) {
          continue;
        }
        Values first = training.variables, second;
        drawVariables(before, /*seed=*/1, first);
        second = first;
        CHECK(
            areEqual(run(before, function, training.inputs, first), run(*training.snapshots[i].module, function, training.inputs, second)));
        for (auto &[name, value] : first) {
          CHECK(reference::maxDifference(value, second[name]) == 0);
        }
      }
    }
    CHECK(training.snapshots.back().pass == "ashlar-verify-train");
  });
}

} // namespace ashlar::fuzz::train_passes_test
