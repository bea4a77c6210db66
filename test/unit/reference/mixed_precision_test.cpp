// SPDX-License-Identifier: Apache-2.0
//
// bf16 and f16: how ops round, and training steps in mixed precision.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "passes/train/passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::mixed_precision_test {

using namespace mlir;
using ashlar::reference::Interpreter;
using ashlar::reference::Tensor;

namespace {

// Rounds to `digits` bits, to nearest even. Assumes that the result is neither subnormal nor infinite.
double roundedTo(int digits, double value) {
  int exponent = 0;
  double size = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(size, digits)), exponent - digits);
}

struct Half {
  const char *name;
  int digits;
};
constexpr Half kHalves[] = {{"bf16", 8}, {"f16", 11}};

// Runs `%r = <op>` on operands of these types.
Tensor runOp(const std::string &op, const std::string &result, ArrayRef<Tensor> inputs) {
  std::string text = "func.func @f(";
  llvm::raw_string_ostream os(text);
  for (auto [i, input] : llvm::enumerate(inputs)) {
    os << (i ? ", %" : "%") << static_cast<char>('a' + i) << ": " << input.getType();
  }
  os << ") -> " << result << " { %r = " << op << "\n return %r : " << result << " }";
  return run(*parse(text), "f", inputs).front();
}

RankedTensorType typeOf(const std::string &text) {
  return tensor("dense<0.0> : " + text).getType();
}

// A classifier of two layers on f32 parameters.
constexpr const char *kModel = R"(
nn.variable @w1 trainable : tensor<16x4xf32> = #nn.uniform<-1.0 : f64, 1.0 : f64>
nn.variable @b1 trainable : tensor<16xf32> = #nn.uniform<-1.0 : f64, 1.0 : f64>
nn.variable @w2 trainable : tensor<16x3xf32> = #nn.uniform<-1.0 : f64, 1.0 : f64>
func.func @forward(%x: tensor<6x4xf32> {nn.name = "input"}) -> (tensor<6x3xf32> {nn.name = "logits"}) attributes {nn.program = #nn.program<run>} {
  %w1 = nn.read @w1 : tensor<16x4xf32>
  %b1 = nn.read @b1 : tensor<16xf32>
  %0 = nn.matmul %x, %w1 transpose_b : tensor<6x4xf32>, tensor<16x4xf32> -> tensor<6x16xf32>
  %1 = nn.broadcast %b1 dims = [1] : tensor<16xf32> -> tensor<6x16xf32>
  %2 = nn.add %0, %1 : tensor<6x16xf32>
  %3 = nn.gelu %2 : tensor<6x16xf32>
  %w2 = nn.read @w2 : tensor<16x3xf32>
  %4 = nn.matmul %3, %w2 : tensor<6x16xf32>, tensor<16x3xf32> -> tensor<6x3xf32>
  return %4 : tensor<6x3xf32>
}
)";

struct Precision {
  std::optional<train::NarrowType> type;
  double lossScale = 0;
  int64_t growthSteps = 2000;
};

// Returns the training programs of kModel.
OwningOpRef<ModuleOp> trainingPrograms(const Precision &precision) {
  OwningOpRef<ModuleOp> module = parse(kModel);
  PassManager passes(&context());
  if (precision.type) {
    train::MixedPrecisionPassOptions mixed;
    mixed.narrowType = *precision.type;
    passes.addPass(train::createMixedPrecisionPass(mixed));
  }
  passes.addPass(train::createLossPass());
  train::AutodiffPassOptions autodiff;
  autodiff.lossScale = precision.lossScale;
  passes.addPass(train::createAutodiffPass(autodiff));
  train::OptimizerPassOptions optimizer;
  optimizer.kind = train::OptimizerKind::Momentum;
  optimizer.learningRate = 0.05;
  passes.addPass(train::createOptimizerPass(optimizer));
  if (precision.lossScale != 0) {
    train::LossScalePassOptions scale;
    scale.growthSteps = precision.growthSteps;
    passes.addPass(train::createLossScalePass(scale));
  }
  passes.addPass(train::createInitPass());
  passes.addPass(train::createVerifyTrainPass());
  REQUIRE(succeeded(passes.run(*module)));
  return module;
}

// One training run on one fixed batch.
class Training {
public:
  explicit Training(const Precision &precision) : module(trainingPrograms(precision)), interpreter(*module) {
    interpreter.setSeed(7);
    REQUIRE(succeeded(interpreter.run("init", {})));
    std::mt19937_64 generator(7);
    inputs = {reference::randomTensor(typeOf("tensor<6x4xf32>"), generator, /*intLimit=*/1),
              reference::randomTensor(RankedTensorType::get({6}, IntegerType::get(&context(), 32)), generator, /*intLimit=*/3)};
  }

  // Returns the loss of a step.
  double step() { return reference::runGlobal(interpreter, "train_step", inputs)->front().getFloat(0); }

  Tensor variable(StringRef name) { return interpreter.getVariable(name)->front(); }

private:
  OwningOpRef<ModuleOp> module;
  Interpreter interpreter;
  std::vector<Tensor> inputs;
};

} // namespace

TEST_CASE("narrow: each element-wise op rounds its result once", "[reference][narrow]") {
  using Function = double (*)(double, double);
  const std::pair<const char *, Function> ops[] = {
      {"add %a, %b", [](double x, double y) { return x + y; }}, {"sub %a, %b", [](double x, double y) { return x - y; }},
      {"mul %a, %b", [](double x, double y) { return x * y; }}, {"div %a, %b", [](double x, double y) { return x / y; }},
      {"exp %a", [](double x, double) { return std::exp(x); }}, {"tanh %a", [](double x, double) { return std::tanh(x); }},
      {"neg %a", [](double x, double) { return -x; }},          {"max %a, %b", [](double x, double y) { return std::max(x, y); }},
  };
  std::mt19937_64 generator(testSeed());
  for (const Half &half : kHalves) {
    std::string type = "tensor<64x" + std::string(half.name) + ">";
    Tensor a = reference::randomTensor(typeOf(type), generator, 1), b = reference::randomTensor(typeOf(type), generator, 1);
    for (const auto &[op, function] : ops) {
      INFO(half.name << " " << op);
      Tensor result = runOp("nn." + std::string(op) + " : " + type, type, {a, b});
      for (int64_t i = 0; i < 64; ++i) {
        CHECK(a.getFloat(i) == roundedTo(half.digits, a.getFloat(i)));
        // Below 2^-14 f16 has fewer digits: half its last place is 2^-25.
        CHECK(result.getFloat(i) == Approx(roundedTo(half.digits, function(a.getFloat(i), b.getFloat(i)))).epsilon(0).margin(0x1p-25));
      }
    }
  }
}

TEST_CASE("narrow: sums are rounded at the end, and products may come in f32", "[reference][narrow]") {
  // A running sum of ones in bf16 would stay at 256, where the next number is 258.
  Tensor ones = tensor("dense<1.0> : tensor<300xbf16>"), row = tensor("dense<1.0> : tensor<1x257xbf16>");
  CHECK(runOp("nn.reduce sum %a dims = [0] : tensor<300xbf16> -> tensor<bf16>", "tensor<bf16>", {ones}).getFloat(0) == 300);
  const std::string product = "nn.matmul %a, %a transpose_b : tensor<1x257xbf16>, tensor<1x257xbf16> -> ";
  CHECK(runOp(product + "tensor<1x1xbf16>", "tensor<1x1xbf16>", {row}).getFloat(0) == 256); // a tie
  CHECK(runOp(product + "tensor<1x1xf32>", "tensor<1x1xf32>", {row}).getFloat(0) == 257);
  Tensor zeros = tensor("dense<0> : tensor<300xi64>");
  CHECK(runOp("nn.scatter_add %a, %b : tensor<300xi64>, tensor<300xbf16> -> tensor<1xbf16>", "tensor<1xbf16>", {zeros, ones}).getFloat(0) ==
        300);
}

TEST_CASE("narrow: conversions round to nearest even, overflow and keep NaN", "[reference][narrow]") {
  auto convert = [](const std::string &from, const std::string &to, const std::string &value) {
    return runOp("nn.cast %a : tensor<" + from + "> -> tensor<" + to + ">", "tensor<" + to + ">",
                 {tensor("dense<" + value + "> : tensor<" + from + ">")})
        .getFloat(0);
  };
  CHECK(convert("f32", "bf16", "257.0") == 256);
  CHECK(convert("f32", "bf16", "259.0") == 260);
  CHECK(convert("f32", "f16", "2049.0") == 2048);
  CHECK(convert("f32", "f16", "65519.0") == 65504);
  CHECK(std::isinf(convert("f32", "f16", "65520.0")));
  CHECK(std::isinf(convert("bf16", "f16", "1.0e5")));
  CHECK(convert("f32", "f16", "8.9406967e-08") == 0x1p-23); // 1.5 * 2^-24, a tie between subnormal numbers
  CHECK(convert("f16", "f32", "6.103515625e-05") == 0x1p-14);
  CHECK(convert("i64", "bf16", "257") == 256);
  for (const Half &half : kHalves) {
    CHECK(std::isnan(convert("f32", half.name, "0x7F800001")));
    CHECK(convert("i1", half.name, "true") == 1);
  }
}

TEST_CASE("narrow: softmax, cross entropy and their gradients lose no more than the rounding of their results", "[reference][narrow]") {
  // exp(x - max) and sums of it in bf16 would be off by several percent.
  std::mt19937_64 generator(testSeed());
  Tensor x = reference::randomTensor(typeOf("tensor<4x50xbf16>"), generator, 1);
  Tensor wide = runOp("nn.cast %a : tensor<4x50xbf16> -> tensor<4x50xf32>", "tensor<4x50xf32>", {x});
  for (const char *op : {"softmax", "log_softmax"}) {
    std::string name = "nn." + std::string(op) + " %a : ";
    Tensor expected = runOp(name + "tensor<4x50xf32>", "tensor<4x50xf32>", {wide});
    // The expansion, as kernels compute it.
    OwningOpRef<ModuleOp> module = parse("func.func @f(%a: tensor<4x50xbf16>) -> tensor<4x50xbf16> { %r = " + name +
                                         "tensor<4x50xbf16>\n return %r : tensor<4x50xbf16> }");
    module->walk([&](ExpandableOpInterface composite) {
      OpBuilder builder(composite);
      composite->getResult(0).replaceAllUsesWith(composite.buildExpansion(builder));
      composite.erase();
    });
    REQUIRE(succeeded(verify(*module)));
    Tensor expanded = run(*module, "f", {x}).front();
    for (int64_t i = 0; i < 200; ++i) {
      CHECK(expanded.getFloat(i) == Approx(expected.getFloat(i)).epsilon(0x1p-8));
    }
  }
}

TEST_CASE("mixed precision: training follows that of f32", "[train][narrow]") {
  Training exact({}), bf16({train::NarrowType::BF16}), f16({train::NarrowType::F16, /*lossScale=*/65536});
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    double loss = exact.step();
    first = step == 0 ? loss : first;
    last = loss;
    // One step moves the logits by their rounding: a few in 2^8 or 2^11 of sizes up to about 2. It does not add up, as training contracts.
    double rounded = bf16.step();
    CHECK(rounded == Approx(loss).margin(0.02));
    CHECK((step > 0 || rounded != loss));
    CHECK(f16.step() == Approx(loss).margin(0.003));
  }
  CHECK(last < 0.2 * first);
  CHECK(bf16.variable("w1").getType().getElementType().isF32());
  CHECK(f16.variable("ashlar.loss_scale").getFloat(0) == 65536);
  CHECK(f16.variable("ashlar.good_steps").getInt(0) == 200);
  CHECK(f16.variable("ashlar.step").getInt(0) == 200);
}

TEST_CASE("loss scale: steps that overflow change nothing but the scale, which then grows again", "[train][narrow]") {
  constexpr double kInitial = 0x1p30;
  Training training({train::NarrowType::F16, kInitial, /*growthSteps=*/5});
  Tensor before = training.variable("w1"), momentum = training.variable("w1.momentum");
  double first = training.step(), scale = kInitial / 2;
  int skipped = 1;
  while (reference::maxDifference(before, training.variable("w1")) == 0) {
    REQUIRE(training.variable("ashlar.loss_scale").getFloat(0) == scale);
    CHECK(reference::maxDifference(momentum, training.variable("w1.momentum")) == 0);
    CHECK(training.variable("ashlar.good_steps").getInt(0) == 0);
    REQUIRE(++skipped < 40);
    CHECK(training.step() == first); // the loss printed is not scaled
    scale /= 2;
  }
  scale *= 2; // the last step was a good one
  CHECK(skipped > 5);
  CHECK(training.variable("ashlar.loss_scale").getFloat(0) == scale);
  CHECK(training.variable("ashlar.good_steps").getInt(0) == 1);
  for (int step = 0; step < 4; ++step) {
    training.step();
  }
  CHECK(training.variable("ashlar.loss_scale").getFloat(0) == 2 * scale);
  CHECK(training.variable("ashlar.good_steps").getInt(0) == 0);
  for (int step = 0; step < 300; ++step) {
    training.step();
  }
  CHECK(training.step() < 0.5 * first);
}

TEST_CASE("loss scale: a power of two changes no gradient", "[train][narrow]") {
  // Without an overflow or underflow all steps have the same bits.
  Training small({train::NarrowType::F16, /*lossScale=*/1024}), large({train::NarrowType::F16, /*lossScale=*/4096});
  for (int step = 0; step < 5; ++step) {
    CHECK(small.step() == Approx(large.step()).epsilon(1e-6));
  }
}

} // namespace ashlar::test::mixed_precision_test
