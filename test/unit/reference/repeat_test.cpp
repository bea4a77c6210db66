// SPDX-License-Identifier: Apache-2.0
//
// nn.repeat: the interpreter by hand numbers; gradients against differences of the loss, and the passes on repeats before against after, on
// random programs of repeats in repeats.

#include "test/unit/reference/parsed_module.h"
#include "test/unit/reference/random_repeats.h"

#include "compiler/reference/interpreter.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat.h"
#include "passes/train/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <catch2/catch.hpp>

namespace ashlar::test::repeat_test {

using namespace mlir;
using reference::Tensor;

namespace {

// sum' = factor * sum + x; the rows are the sums before.
std::string running(const std::string &direction, const std::string &count) {
  return "func.func @f(%s: tensor<2xf64>, %xs: tensor<" + count + "x2xf64>, %k: tensor<2xf64>) -> (tensor<2xf64>, tensor<" + count +
         "x2xf64>) {\n  %last, %rows = nn.repeat " + count + " " + direction +
         " carried(%a = %s) sliced(%x = %xs) captured(%f = %k) : (tensor<2xf64>, tensor<" + count +
         "x2xf64>, tensor<2xf64>) -> (tensor<2xf64>, tensor<" + count + R"(x2xf64>) {
    %m = nn.mul %a, %f : tensor<2xf64>
    %next = nn.add %m, %x : tensor<2xf64>
    nn.yield %next, %a : tensor<2xf64>, tensor<2xf64>
  }
  return %last, %rows : tensor<2xf64>, tensor<)" +
         count + "x2xf64>\n}";
}

Tensor f64(std::vector<int64_t> shape, const std::vector<double> &values) {
  Tensor made(RankedTensorType::get(shape, Float64Type::get(&context())));
  for (size_t i = 0; i < values.size(); ++i) {
    made.setFloat(static_cast<int64_t>(i), values[i]);
  }
  return made;
}

// Has a training step return its gradients behind the loss.
void returnGradients(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>("train_step");
  SmallVector<Value> results(step.front().getTerminator()->getOperands());
  step.walk([&](nn::GradientOp gradient) { results.push_back(gradient); });
  step.front().getTerminator()->setOperands(results);
  step.setType(FunctionType::get(module.getContext(), step.getArgumentTypes(), ValueRange(results).getTypes()));
}

void apply(ModuleOp module, llvm::function_ref<void(PassManager &)> add) {
  PassManager passes(module.getContext());
  add(passes);
  REQUIRE(succeeded(passes.run(module)));
}

// Runs a step with these variables. Returns the loss and the gradients.
std::vector<Tensor> runStep(ModuleOp module, const std::map<std::string, Tensor> &variables, const std::vector<Tensor> &inputs) {
  reference::Interpreter interpreter(module);
  for (const auto &[name, value] : variables) {
    interpreter.setVariable(name, {value});
  }
  std::vector<reference::RankTensors> ranks;
  for (const Tensor &input : inputs) {
    ranks.push_back({input});
  }
  auto results = interpreter.run("train_step", ranks);
  REQUIRE(succeeded(results));
  std::vector<Tensor> tensors;
  for (reference::RankTensors &result : *results) {
    tensors.push_back(result.front());
  }
  return tensors;
}

int64_t countRepeats(ModuleOp module) {
  int64_t repeats = 0;
  module.walk([&](nn::RepeatOp) { ++repeats; });
  return repeats;
}

// Returns the loss of a program on the numbers of a seed, and the gradient of each variable.
std::map<std::string, Tensor> differentiate(ModuleOp module, uint64_t seed) {
  ScopedDiagnosticHandler untrained(&context(), [](Diagnostic &) { return success(); });
  apply(module, [](PassManager &passes) {
    passes.addPass(train::createAutodiffPass());
    passes.addNestedPass<func::FuncOp>(train::createSumBehindRepeatsPass());
  });
  std::vector<std::string> names = {"loss"};
  module.walk([&](nn::GradientOp gradient) { names.push_back(gradient.getVariable().str()); });
  returnGradients(module);
  std::mt19937_64 generator(seed);
  std::map<std::string, Tensor> variables;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    variables[variable.getSymName().str()] = reference::randomTensor(variable.getTensorType(), generator, 1);
  }
  std::vector<Tensor> inputs;
  for (Type type : module.lookupSymbol<func::FuncOp>("train_step").getArgumentTypes()) {
    inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), generator, 1));
  }
  std::vector<Tensor> results = runStep(module, variables, inputs);
  std::map<std::string, Tensor> found;
  for (auto [name, result] : llvm::zip_equal(names, results)) {
    found.emplace(name, result);
  }
  return found;
}

// Returns the norm of the difference between two tensors, as a share of that of the first.
double errorOf(const Tensor &exact, const Tensor &other) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < exact.getNumElements(); ++i) {
    difference += std::pow(exact.getFloat(i) - other.getFloat(i), 2);
    size += std::pow(exact.getFloat(i), 2);
  }
  return std::sqrt(difference) / (std::sqrt(size) + 1e-3);
}

} // namespace

TEST_CASE("nn.repeat: the interpreter carries, slices and stacks", "[reference][repeat]") {
  const std::vector<Tensor> inputs = {f64({2}, {1, 10}), f64({3, 2}, {1, 2, 3, 4, 5, 6}), f64({2}, {2, 0.5})};
  auto results = run(*parse(running("", "3")), "f", inputs);
  CHECK(maxDifference(results[0], f64({2}, {8 + 4 + 6 + 5, 1.25 + 0.5 + 2 + 6})) == 0);
  CHECK(maxDifference(results[1], f64({3, 2}, {1, 10, 3, 7, 9, 7.5})) == 0);
  results = run(*parse(running("reversed", "3")), "f", inputs);
  CHECK(maxDifference(results[0], f64({2}, {8 + 20 + 6 + 1, 1.25 + 1.5 + 2 + 2})) == 0);
  CHECK(maxDifference(results[1], f64({3, 2}, {17, 9.5, 7, 11, 1, 10})) == 0);
  results = run(*parse(running("", "1")), "f", {inputs[0], f64({1, 2}, {1, 2}), inputs[2]});
  CHECK(maxDifference(results[0], f64({2}, {3, 7})) == 0);
  results = run(*parse(running("reversed", "0")), "f", {inputs[0], f64({0, 2}, {}), inputs[2]});
  CHECK(maxDifference(results[0], inputs[0]) == 0);
  CHECK(results[1].getNumElements() == 0);
}

// A NaN or an infinity of a row reaches the iterations behind it alone, before and after unrolling.
TEST_CASE("nn.repeat: numbers that are not finite stay in their iterations", "[reference][repeat]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Tensor> inputs = {f64({2}, {1, 10}), f64({3, 2}, {1, 2, infinity, std::nan(""), 5, 6}), f64({2}, {2, 0.5})};
  OwningOpRef<ModuleOp> module = parse(running("", "3"));
  auto before = run(*module, "f", inputs);
  apply(*module, [](PassManager &passes) { passes.addNestedPass<func::FuncOp>(train::createUnrollRepeatsPass()); });
  auto after = run(*module, "f", inputs);
  CHECK(maxDifference(before[1], f64({3, 2}, {1, 10, 3, 7, infinity, std::nan("")})) == 0);
  CHECK(maxDifference(before[0], after[0]) == 0);
  CHECK(maxDifference(before[1], after[1]) == 0);
}

// The loss and its gradients are the same in all forms, and the gradients are what the loss changes by.
TEST_CASE("nn.repeat: gradients and passes on random programs", "[reference][repeat]") {
  const uint64_t base = testSeed();
  int64_t nested = 0;
  for (uint64_t seed = base * 1000; seed < base * 1000 + 60; ++seed) {
    const std::string text = randomRepeats(seed);
    INFO("seed " << seed << "\n" << text);
    OwningOpRef<ModuleOp> forward = parse(text);
    nested += countRepeats(*forward) > 3;
    std::mt19937_64 generator(seed);
    std::map<std::string, Tensor> variables;
    for (auto variable : forward->getOps<nn::VariableOp>()) {
      variables[variable.getSymName().str()] = reference::randomTensor(variable.getTensorType(), generator, 1);
    }
    std::vector<Tensor> inputs;
    for (Type type : forward->lookupSymbol<func::FuncOp>("train_step").getArgumentTypes()) {
      inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), generator, 1));
    }
    const Tensor loss = runStep(*forward, variables, inputs)[0];
    OwningOpRef<ModuleOp> unrolled = forward->clone();
    apply(*unrolled, [](PassManager &passes) { passes.addNestedPass<func::FuncOp>(train::createUnrollRepeatsPass()); });
    CHECK(countRepeats(*unrolled) == 0);
    CHECK(maxDifference(loss, runStep(*unrolled, variables, inputs)[0]) < 1e-12);

    OwningOpRef<ModuleOp> step = forward->clone();
    std::vector<std::string> names;
    {
      ScopedDiagnosticHandler untrained(&context(), [](Diagnostic &) { return success(); });
      apply(*step, [](PassManager &passes) { passes.addPass(train::createAutodiffPass()); });
    }
    step->walk([&](nn::GradientOp gradient) { names.push_back(gradient.getVariable().str()); });
    returnGradients(*step);
    const std::vector<Tensor> gradients = runStep(*step, variables, inputs);
    CHECK(maxDifference(loss, gradients[0]) < 1e-12);
    for (auto create : {train::createSumBehindRepeatsPass, train::createUnrollRepeatsPass}) {
      apply(*step, [&](PassManager &passes) { passes.addNestedPass<func::FuncOp>(create()); });
      const std::vector<Tensor> again = runStep(*step, variables, inputs);
      REQUIRE(again.size() == gradients.size());
      for (size_t i = 0; i < again.size(); ++i) {
        CHECK(maxDifference(gradients[i], again[i]) < 1e-10);
      }
    }
    for (size_t i = 0; i < names.size(); ++i) {
      constexpr double kStep = 1e-5;
      const Tensor direction = reference::randomTensor(gradients[i + 1].getType(), generator, 1);
      double losses[2], slope = 0;
      for (int side : {0, 1}) {
        auto moved = variables;
        Tensor &variable = moved[names[i]];
        for (int64_t at = 0; at < direction.getNumElements(); ++at) {
          variable.setFloat(at, variable.getFloat(at) + (side == 0 ? -kStep : kStep) * direction.getFloat(at));
        }
        losses[side] = runStep(*forward, moved, inputs)[0].getFloat(0);
      }
      for (int64_t at = 0; at < direction.getNumElements(); ++at) {
        slope += gradients[i + 1].getFloat(at) * direction.getFloat(at);
      }
      INFO("@" << names[i] << ": " << slope << ", difference " << (losses[1] - losses[0]) / (2 * kStep));
      CHECK(std::abs((losses[1] - losses[0]) / (2 * kStep) - slope) < 1e-6 * std::max(1.0, std::abs(slope)));
    }
  }
  CHECK(nested > 10);
}

// A recurrent cell with a trained weight, whose states behind each iteration are stacked, with a repeat in its body; the rows are trained,
// too.
static std::string cell(int64_t count, const std::string &direction) {
  const std::string n = std::to_string(count), rows = "tensor<" + n + "x2x3xf64>";
  return "nn.variable @w trainable : tensor<3x3xf64>\nnn.variable @xs trainable : " + rows +
         "\nfunc.func @train_step(%h: tensor<2x3xf64>) -> tensor<f64> attributes {nn.program = #nn.program<train_step>} {\n"
         "  %w = nn.read @w : tensor<3x3xf64>\n  %xs = nn.read @xs : " +
         rows + "\n  %last, %all = nn.repeat " + n + " " + direction +
         " carried(%a = %h) sliced(%x = %xs) captured(%v = %w)\n      : (tensor<2x3xf64>, " + rows +
         ", tensor<3x3xf64>) -> (tensor<2x3xf64>, " + rows + R"() {
    %twice = nn.repeat 2 carried(%b = %a) captured(%u = %v) : (tensor<2x3xf64>, tensor<3x3xf64>) -> (tensor<2x3xf64>) {
      %p = nn.matmul %b, %u : tensor<2x3xf64>, tensor<3x3xf64> -> tensor<2x3xf64>
      %t = nn.tanh %p : tensor<2x3xf64>
      nn.yield %t : tensor<2x3xf64>
    }
    %sum = nn.add %twice, %x : tensor<2x3xf64>
    %next = nn.tanh %sum : tensor<2x3xf64>
    nn.yield %next, %next : tensor<2x3xf64>, tensor<2x3xf64>
  } loc("net/cell")
  %squares = nn.mul %all, %all : )" +
         rows + "\n  %x = nn.reduce sum %squares dims = [0, 1, 2] : " + rows +
         " -> tensor<f64>\n  %y = nn.reduce sum %last dims = [0, 1] : tensor<2x3xf64> -> tensor<f64>\n"
         "  %loss = nn.add %x, %y : tensor<f64>\n  return %loss : tensor<f64>\n}\n";
}

// Returns the elements of the tensors that repeats outside of others stack.
static int64_t stackedElements(ModuleOp module) {
  int64_t elements = 0;
  for (auto repeat : module.lookupSymbol<func::FuncOp>("train_step").front().getOps<nn::RepeatOp>()) {
    for (Type type : repeat.getStackedResults().getTypes()) {
      elements += cast<RankedTensorType>(type).getNumElements();
    }
  }
  return elements;
}

// Of counts with a divisor near their root, without one, and too small for segments.
TEST_CASE("nn.repeat: segments that are computed again have the same gradients", "[reference][repeat]") {
  for (int64_t count : {3, 4, 5, 7, 9, 12, 13, 16, 23, 40}) {
    for (const char *direction : {"", "reversed"}) {
      INFO(count << " iterations " << direction);
      OwningOpRef<ModuleOp> whole = parse(cell(count, direction)), segments = whole->clone();
      Builder b(&context());
      const auto rule = dist::SettingAttr::get(&context(), b.getStringAttr("net/*"),
                                               b.getDictionaryAttr(b.getNamedAttr(dist::kRecomputeAttr, b.getBoolAttr(true))), 0, {});
      (*segments)->setAttr(dist::kRecomputeRulesAttr, b.getArrayAttr(rule));
      apply(*segments, [](PassManager &passes) { passes.addPass(train::createSegmentRepeatsPass()); });
      CHECK(countRepeats(*segments) == (count < 4 ? 2 : count % 4 == 0 || count == 9 ? 3 : 5));
      const auto expected = differentiate(*whole, 7), found = differentiate(*segments, 7);
      REQUIRE(found.size() == 3);
      for (const auto &[name, gradient] : expected) {
        INFO(name);
        CHECK(maxDifference(gradient, found.at(name)) < 1e-12);
      }
      // Beside the states behind all iterations and the gradients of all rows: one state for each segment.
      const int64_t state = 6, kept = 2 * count * state;
      CHECK((count < 12 || count % 4 != 0 ||
             stackedElements(*segments) - kept <= 3 * static_cast<int64_t>(std::ceil(std::sqrt(count))) * state));
      CHECK((count < 4 || stackedElements(*segments) < stackedElements(*whole)));
    }
  }
}

// The loss and gradients of a step in bf16 are about as exact as those of written-out iterations, and repeats stay: conversions fit into
// bodies of all forms.
TEST_CASE("nn.repeat: mixed precision on random programs", "[reference][repeat]") {
  const uint64_t base = testSeed();
  double ofRepeats = 0, ofIterations = 0;
  int64_t kept = 0;
  for (uint64_t seed = base * 1000; seed < base * 1000 + 60; ++seed) {
    std::string text = randomRepeats(seed), narrow = text;
    INFO("seed " << seed << "\n" << text);
    for (size_t at = narrow.find("f64"); at != std::string::npos; at = narrow.find("f64", at)) {
      narrow.replace(at, 3, "f32");
    }
    narrow.replace(narrow.find("<train_step>"), 12, "<run>");
    const std::map<std::string, Tensor> exact = differentiate(*parse(text), seed);
    for (bool unrolls : {false, true}) {
      OwningOpRef<ModuleOp> mixed = parse(narrow);
      apply(*mixed, [&](PassManager &passes) {
        if (unrolls) {
          passes.addNestedPass<func::FuncOp>(train::createUnrollRepeatsPass());
        }
        passes.addPass(train::createMixedPrecisionPass());
      });
      kept += !unrolls && countRepeats(*mixed) > 0;
      nn::setProgram(nn::findProgram(*mixed, nn::ProgramRole::Run), nn::ProgramRole::TrainStep);
      const std::map<std::string, Tensor> found = differentiate(*mixed, seed);
      REQUIRE(found.size() == exact.size());
      for (const auto &[name, result] : found) {
        (unrolls ? ofIterations : ofRepeats) += std::min(errorOf(exact.at(name), result), 1.0);
      }
    }
  }
  INFO("sums of relative errors " << ofRepeats << " and " << ofIterations);
  CHECK(ofRepeats <= 1.1 * ofIterations);
  CHECK(ofRepeats > 0);
  CHECK(kept > 50);
}

} // namespace ashlar::test::repeat_test
