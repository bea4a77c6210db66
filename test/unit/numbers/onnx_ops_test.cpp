// SPDX-License-Identifier: Apache-2.0
//
// Every element-wise ONNX op of f32 through frontend and kernels, on both targets, and in the interpreter, against ONNX's formula in f64
// with the special values of IEEE 754; and the slopes that training uses. An op that is registered without a case fails.

#include "test/unit/frontend/onnx_gradient.h"
#include "test/unit/numbers/f32_checks.h"

#include "compiler/frontend/registry.h"
#include "dialects/nn/nn.h"

#include "mlir/IR/SymbolTable.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

namespace ashlar::test::onnx_ops_test {

using namespace mlir;
using onnx::TensorProto;
using test::Bound;
using test::Exact;
using test::OnnxModel;

namespace {

// `build` adds nodes that compute "y" from "a", "b", "c". `slope` is dy / da.
struct Case {
  std::string op;
  std::function<void(OnnxModel &)> build;
  int operands;
  Exact exact;
  Bound bound;
  Exact slope = nullptr;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
constexpr double kAlpha = 1.67326319217681884765625, kGamma = 1.05070102214813232421875; // of Selu

double larger(double x, double y) {
  return std::isnan(x) || std::isnan(y) ? kNan : std::max(x, y);
}
double smaller(double x, double y) {
  return -larger(-x, -y);
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double softplus(double x) { // log(e^x + 1), whose exponential would overflow
  return larger(x, 0) + std::log1p(std::exp(-std::abs(x)));
}
double hardSigmoid(double x, double alpha, double beta) {
  return larger(0, smaller(1, alpha * x + beta));
}
double tanhSlope(double x) {
  return 1 / (std::cosh(x) * std::cosh(x));
}
double gelu(double x) {
  return 0.5 * x * (1 + std::erf(x / M_SQRT2));
}
double geluSlope(double x) {
  return std::isinf(x) ? x > 0 : 0.5 * std::erfc(-x / M_SQRT2) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}
double tanhGeluArgument(double x) {
  return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}
double tanhGelu(double x) {
  return 0.5 * x * (1 + std::tanh(tanhGeluArgument(x)));
}
double tanhGeluSlope(double x) {
  double u = tanhGeluArgument(x), slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return std::abs(x) > 100 ? x > 0 : 0.5 * (1 + std::tanh(u)) + 0.5 * x * tanhSlope(u) * slope;
}
double mishSlope(double x) { // that of a product: at infinity infinity * 0
  return std::isinf(x) ? kNan : std::abs(x) > 1e4 ? x > 0 : std::tanh(softplus(x)) + x * tanhSlope(softplus(x)) * sigmoid(x);
}
double swishSlope(double x) {
  return std::isinf(x) ? kNan : std::abs(x) > 1e4 ? x > 0 : sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}

// One node of one input.
Case unary(const std::string &op, Exact exact, Bound bound, Exact slope = nullptr, std::vector<test::Attribute> attributes = {}) {
  return {op, [=](OnnxModel &model) { model.node(op, {"a"}, {"y"}, attributes); }, 1, std::move(exact), bound, std::move(slope)};
}

// One node of `operands` inputs.
Case simple(const std::string &op, int operands, Exact exact, Bound bound) {
  std::vector<std::string> inputs = std::vector<std::string>{"a", "b", "c"};
  inputs.resize(operands);
  return {op, [=](OnnxModel &model) { model.node(op, inputs, {"y"}); }, operands, std::move(exact), bound};
}

// Several nodes.
Case several(const std::string &name, std::function<void(OnnxModel &)> build, int operands, Exact exact, Bound bound,
             Exact slope = nullptr) {
  return {name, std::move(build), operands, std::move(exact), bound, std::move(slope)};
}

// a ^ p for a constant p.
Case power(double p, Bound bound) {
  return several(
      "Pow", [=](OnnxModel &model) { model.initializer("p", TensorProto::FLOAT, {}, {p}).node("Pow", {"a", "p"}, {"y"}); }, 1,
      [p](double a, double, double) { return std::pow(a, p); }, bound,
      [p](double a, double, double) { return p == 0 ? 0 : p * std::pow(a, p - 1); });
}

#define EXACT(...)                                                                                                                         \
  [](double a, double b, double c) -> double {                                                                                             \
    (void)a, (void)b, (void)c;                                                                                                             \
    return __VA_ARGS__;                                                                                                                    \
  }

void addFunctions(std::vector<Case> &cases) {
  constexpr Bound kExact{}, kRounded{0.5};
  std::vector<Case> rows = {
      unary("Abs", EXACT(std::abs(a)), kExact,
            EXACT(a > 0   ? 1
                  : a < 0 ? -1
                          : 0)),
      unary("Acos", EXACT(std::acos(a)), {2}, EXACT(-1 / std::sqrt((1 - a) * (1 + a)))),
      unary("Acosh", EXACT(std::acosh(a)), {4}, EXACT(1 / std::sqrt((a - 1) * (a + 1)))),
      unary("Asin", EXACT(std::asin(a)), {2}, EXACT(1 / std::sqrt((1 - a) * (1 + a)))),
      unary("Asinh", EXACT(std::asinh(a)), {3}, EXACT(1 / std::sqrt(1 + a * a))),
      unary("Atan", EXACT(std::atan(a)), {2}, EXACT(1 / (1 + a * a))),
      unary("Atanh", EXACT(std::atanh(a)), {3}, EXACT(1 / ((1 - a) * (1 + a)))),
      unary("Cosh", EXACT(std::cosh(a)), {2}, EXACT(std::sinh(a))),
      unary("Sinh", EXACT(std::sinh(a)), {3}, EXACT(std::cosh(a))),
      unary("Tan", EXACT(std::tan(a)), {4}, EXACT(1 / (std::cos(a) * std::cos(a)))),
      unary("Ceil", EXACT(std::ceil(a)), kExact, EXACT(0)),
      unary("Cos", EXACT(std::cos(a)), {1}, EXACT(-std::sin(a))),
      unary("Erf", EXACT(std::erf(a)), {4.5}, EXACT(2 / std::sqrt(M_PI) * std::exp(-a * a))),
      unary("Exp", EXACT(std::exp(a)), {2}, EXACT(std::exp(a))),
      unary("Floor", EXACT(std::floor(a)), kExact, EXACT(0)),
      unary("Gelu", EXACT(gelu(a)), {5, 1e-6}, EXACT(geluSlope(a))),
      unary("Gelu", EXACT(tanhGelu(a)), {5, 1e-6}, EXACT(tanhGeluSlope(a)), {{"approximate", std::string("tanh")}}),
      unary("Log", EXACT(std::log(a)), {2}, EXACT(1 / a)),
      unary("Neg", EXACT(-a), kExact, EXACT(-1)),
      unary("Reciprocal", EXACT(1 / a), kRounded, EXACT(-1 / (a * a))),
      unary("Relu", EXACT(a <= 0 ? 0 : a), kExact, EXACT(a > 0)),
      unary("Round", EXACT(std::nearbyint(a)), kExact, EXACT(0)),
      unary("Sigmoid", EXACT(sigmoid(a)), {3}, EXACT(sigmoid(a) * sigmoid(-a))),
      unary("Sign",
            EXACT(a > 0   ? 1
                  : a < 0 ? -1
                          : a),
            kExact, EXACT(0)),
      unary("Sin", EXACT(std::sin(a)), {1}, EXACT(std::cos(a))),
      unary("Sqrt", EXACT(std::sqrt(a)), kRounded, EXACT(0.5 / std::sqrt(a))),
      unary("Tanh", EXACT(std::tanh(a)), {4.5}, EXACT(tanhSlope(a))),
      simple("Add", 2, EXACT(a + b), kRounded),
      simple("Div", 2, EXACT(a / b), kRounded),
      simple("Max", 3, EXACT(larger(larger(a, b), c)), kExact),
      simple("Min", 3, EXACT(smaller(smaller(a, b), c)), kExact),
      several(
          "Mod", [](OnnxModel &model) { model.node("Mod", {"a", "b"}, {"y"}, {{"fmod", int64_t(1)}}); }, 2, EXACT(std::fmod(a, b)), kExact),
      simple("Mul", 2, EXACT(a * b), kRounded),
      simple("Pow", 2, EXACT(std::pow(a, b)), {4}),
      simple("Sub", 2, EXACT(a - b), kRounded),
      simple("Sum", 2, EXACT(a + b), kRounded),
      simple("Equal", 2, EXACT(a == b), kExact),
      simple("Greater", 2, EXACT(a > b), kExact),
      simple("GreaterOrEqual", 2, EXACT(a >= b), kExact),
      simple("Less", 2, EXACT(a < b), kExact),
      simple("LessOrEqual", 2, EXACT(a <= b), kExact),
      unary("IsInf", EXACT(std::isinf(a)), kExact),
      unary("IsInf", EXACT(std::isinf(a) && a > 0), kExact, nullptr, {{"detect_negative", int64_t(0)}}),
      unary("IsInf", EXACT(std::isinf(a) && a < 0), kExact, nullptr, {{"detect_positive", int64_t(0)}}),
      unary("IsNaN", EXACT(std::isnan(a)), kExact),
      unary("Cast", EXACT(std::isnan(a) ? 0 : std::clamp(std::trunc(a), -0x1p31, 0x1p31 - 1)), kExact, nullptr,
            {{"to", int64_t(TensorProto::INT32)}}),
      several(
          "BitCast",
          [](OnnxModel &model) {
            model.node("BitCast", {"a"}, {"i"}, {{"to", int64_t(TensorProto::INT32)}});
            model.node("BitCast", {"i"}, {"y"}, {{"to", int64_t(TensorProto::FLOAT)}});
          },
          1, EXACT(a), kExact),
      several(
          "CastLike", [](OnnxModel &model) { model.initializer("t", TensorProto::INT32, {}, {0}).node("CastLike", {"a", "t"}, {"y"}); }, 1,
          EXACT(std::isnan(a) ? 0 : std::clamp(std::trunc(a), -0x1p31, 0x1p31 - 1)), kExact),
      simple("Mean", 2, EXACT((static_cast<float>(a + b)) / 2), kRounded),
      several(
          "Where", [](OnnxModel &model) { model.node("Less", {"a", "b"}, {"p"}).node("Where", {"p", "a", "c"}, {"y"}); }, 3,
          EXACT(a < b ? a : c), kExact),
  };
  for (double p : {1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 1.5, -1.5, 4.0, 0.0}) {
    rows.push_back(power(p, {4}));
  }
  llvm::append_range(cases, rows);
}

void addActivations(std::vector<Case> &cases) {
  // e^x - 1 cancels around 0: absolute errors, of the size of the function's scale.
  std::vector<Case> rows = {
      unary("Celu", EXACT(larger(a, 0) + smaller(0, 2 * std::expm1(a / 2))), {2, 5e-7}, EXACT(a > 0 ? 1 : std::exp(a / 2)),
            {{"alpha", 2.0f}}),
      unary("Clip", EXACT(larger(-1, smaller(a, 2))), {}, nullptr),
      unary("Elu", EXACT(a > 0 ? a : std::expm1(a)), {2, 2e-7}, EXACT(a > 0 ? 1 : std::exp(a))),
      unary("HardSigmoid", EXACT(hardSigmoid(a, 0.2f, 0.5)), {1, 2e-7}, EXACT(std::abs(a) < 2.5 ? 0.2f : 0)),
      unary("HardSwish", EXACT(a * hardSigmoid(a, 1.0 / 6, 0.5)), {2, 1e-6}),
      unary("LeakyRelu", EXACT(a > 0 ? a : 0.25 * a), {0.5}, EXACT(a > 0 ? 1 : 0.25), {{"alpha", 0.25f}}),
      unary("Mish", EXACT(a * std::tanh(softplus(a))), {8, 1e-6}, EXACT(mishSlope(a))),
      simple("PRelu", 2, EXACT(a > 0 ? a : a * b), {0.5}),
      unary("Selu", EXACT(kGamma * (a > 0 ? a : kAlpha * std::expm1(a))), {2, 5e-7}, EXACT(kGamma * (a > 0 ? 1 : kAlpha * std::exp(a)))),
      unary("Shrink",
            EXACT(a < -1  ? a + 0.25
                  : a > 1 ? a - 0.25
                          : 0),
            {0.5}, EXACT(std::abs(a) > 1), {{"bias", 0.25f}, {"lambd", 1.0f}}),
      unary("Softplus", EXACT(softplus(a)), {4}, EXACT(sigmoid(a))),
      unary("Softsign", EXACT(a / (1 + std::abs(a))), {2}, EXACT(1 / ((1 + std::abs(a)) * (1 + std::abs(a))))),
      simple("SwiGLU", 2, EXACT(static_cast<float>(a * static_cast<float>(sigmoid(a))) * b), {8, 1e-6}),
      unary("Swish", EXACT(a * sigmoid(a)), {4, 1e-40}, EXACT(swishSlope(a))),
      unary("ThresholdedRelu", EXACT(a > 1 ? a : 0), {}, EXACT(a > 1)),
  };
  rows[1].build = [](OnnxModel &model) {
    model.initializer("low", TensorProto::FLOAT, {}, {-1}).initializer("high", TensorProto::FLOAT, {}, {2});
    model.node("Clip", {"a", "low", "high"}, {"y"});
  };
  llvm::append_range(cases, rows);
}

// The spellings of 1 / sqrt(x), each of two roundings, and what graph networks make of it: the degree to the power -1/2, 0 for no
// neighbours.
void addRoots(std::vector<Case> &cases) {
  auto one = [](OnnxModel &model) -> OnnxModel & { return model.initializer("one", TensorProto::FLOAT, {}, {1}); };
  Exact exact = EXACT(1 / static_cast<float>(std::sqrt(a)));
  std::vector<Case> rows = {
      several("1/sqrt", [](OnnxModel &model) { model.node("Sqrt", {"a"}, {"r"}).node("Reciprocal", {"r"}, {"y"}); }, 1, exact, {0.5}),
      several("1/sqrt", [=](OnnxModel &model) { one(model).node("Sqrt", {"a"}, {"r"}).node("Div", {"one", "r"}, {"y"}); }, 1, exact, {0.5}),
      several("1/sqrt", [](OnnxModel &model) { model.node("Sqrt", {"b"}, {"r"}).node("Div", {"a", "r"}, {"y"}); }, 2,
              EXACT(a / static_cast<float>(std::sqrt(b))), {0.5}),
      several("1/sqrt",
              [](OnnxModel &model) {
                model.initializer("p", TensorProto::FLOAT, {}, {-0.5}).initializer("infinity", TensorProto::FLOAT, {}, {kInfinity});
                model.initializer("zero", TensorProto::FLOAT, {}, {0}).node("Pow", {"a", "p"}, {"r"});
                model.node("Equal", {"r", "infinity"}, {"e"}).node("Where", {"e", "zero", "r"}, {"y"});
              },
              1, EXACT(a == 0 ? 0 : std::pow(a, -0.5)), {1.5}),
  };
  llvm::append_range(cases, rows);
}

#undef EXACT

std::vector<Case> makeCases() {
  std::vector<Case> cases;
  addFunctions(cases);
  addActivations(cases);
  addRoots(cases);
  return cases;
}

// Ops of the two families that compute no f32 from f32.
const std::set<std::string> kOthers = {"And",      "Not",        "Or",         "Xor",                     // of bools
                                       "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", // of integers
                                       "Identity"};                                                       // nothing is computed

// Adds @name, which computes the case from arrays of `length`.
void addFunction(ModuleOp module, const Case &c, const std::string &name, int64_t length) {
  OnnxModel model(26);
  for (int k = 0; k < c.operands; ++k) {
    model.input(std::string(1, "abc"[k]), {length});
  }
  c.build(model);
  OwningOpRef<ModuleOp> imported = test::import(model.output("y"));
  func::FuncOp function = imported->lookupSymbol<func::FuncOp>("forward").clone();
  function.setName(name);
  module.push_back(function);
}

} // namespace

TEST_CASE("onnx ops: kernels of every f32 function are within its bound and keep special values", "[numbers][slow]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  INFO("target " << exec::stringifyTarget(target).str());
  std::vector<Case> cases = makeCases();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&test::context()));
  for (auto [i, c] : llvm::enumerate(cases)) {
    addFunction(*module, c, "f" + std::to_string(i), test::kElements);
    addFunction(*module, c, "f" + std::to_string(i) + "_odd", test::kElements + 1);
  }
  test::fuse(*module, target);
  std::mt19937_64 random(test::testSeed());
  std::unique_ptr<test::CompiledKernels> kernels = test::runnerOf(*module, target, random);
  for (auto [i, c] : llvm::enumerate(cases)) {
    INFO(c.op << ", case " << i);
    if (kernels) {
      test::checkFunction(*kernels, {"f" + std::to_string(i), c.operands, c.exact, c.bound, /*anyZero=*/true}, target);
    }
  }
}

TEST_CASE("onnx ops: the interpreter agrees, and slopes are right where the function is", "[numbers][slow]") {
  const std::vector<float> &values = test::specialValues();
  auto count = static_cast<int64_t>(values.size());
  for (const Case &c : makeCases()) {
    INFO(c.op);
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&test::context()));
    addFunction(*module, c, "f", count);
    auto operand = [&](size_t v, size_t k) { return values[(v + k) % values.size()]; };
    std::vector<reference::Tensor> inputs;
    for (int k = 0; k < c.operands; ++k) {
      inputs.emplace_back(RankedTensorType::get({count}, Float32Type::get(&test::context())));
      for (int64_t v = 0; v < count; ++v) {
        inputs.back().setFloat(v, operand(v, k));
      }
    }
    reference::Tensor y = test::run(*module, "f", inputs).front();
    for (int64_t v = 0; v < count; ++v) {
      INFO("of element " << v << ", " << values[v]);
      CHECK(test::differenceFrom(c.exact(operand(v, 0), operand(v, 1), operand(v, 2)), y.getNumber(v), c.bound, /*anyZero=*/true) == "");
    }
    if (!c.slope) {
      continue;
    }
    func::FuncOp function = module->lookupSymbol<func::FuncOp>("f");
    test::differentiate(function);
    inputs.emplace_back(inputs.front().getType());
    for (int64_t v = 0; v < count; ++v) {
      inputs.back().setFloat(v, 1);
    }
    reference::Tensor interpreted = test::run(*module, "f", inputs).front();
    test::fuse(*module);
    std::mt19937_64 random(test::testSeed());
    reference::Tensor computed = test::CompiledKernels(*module, random).run("f", inputs).front();
    for (int64_t v = 0; v < count; ++v) {
      if (std::isnan(c.exact(values[v], 0, 0))) {
        continue;
      }
      INFO("slope at element " << v << ", " << values[v]);
      constexpr Bound kSlope{8, 2e-6}; // several ops, some of which cancel where the slope is small
      CHECK(test::differenceFrom(c.slope(values[v], 0, 0), interpreted.getFloat(v), kSlope, /*anyZero=*/true) == "");
      CHECK(test::differenceFrom(c.slope(values[v], 0, 0), computed.getFloat(v), kSlope, /*anyZero=*/true) == "");
    }
  }
}

TEST_CASE("onnx ops: every element-wise op that is registered has a case", "[numbers]") {
  std::set<std::string> tested;
  for (const Case &c : makeCases()) {
    tested.insert(c.op);
  }
  for (auto rows : {frontend::elementwiseRows(), frontend::activationRows()}) {
    for (const frontend::RegistryRow &row : rows) {
      INFO(row.opType.str());
      CHECK(tested.count(row.opType.str()) + kOthers.count(row.opType.str()) == 1);
    }
  }
}

// Against central differences in f64. The first query sees no key: nothing comes from it, and no NaN.
TEST_CASE("onnx ops: the gradient of an attention with a query that sees no key", "[numbers]") {
  OnnxModel model(25);
  model.input("x", {1, 2, 3, 2}, TensorProto::DOUBLE).initializer("m", TensorProto::BOOL, {3, 3}, {0, 0, 0, 1, 0, 1, 1, 1, 1});
  model.node("Attention", {"x", "x", "x", "m"}, {"y"}, {{"softcap", 2.0f}}).output("y");
  OwningOpRef<ModuleOp> module = test::import(model);
  auto type = RankedTensorType::get({1, 2, 3, 2}, Float64Type::get(&test::context()));
  std::mt19937_64 random(test::testSeed());
  reference::Tensor x = reference::randomTensor(type, random, /*intLimit=*/1), g = reference::randomTensor(type, random, /*intLimit=*/1);
  auto weighted = [&](const reference::Tensor &at) {
    reference::Tensor y = test::run(*module, "forward", {at}).front();
    double sum = 0;
    for (int64_t i = 0; i < y.getNumElements(); ++i) {
      sum += g.getFloat(i) * y.getFloat(i);
    }
    return sum;
  };
  constexpr double kStep = 1e-5;
  std::vector<double> differences;
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    reference::Tensor above = x, below = x;
    above.setFloat(i, x.getFloat(i) + kStep);
    below.setFloat(i, x.getFloat(i) - kStep);
    differences.push_back((weighted(above) - weighted(below)) / (2 * kStep));
  }
  test::differentiate(module->lookupSymbol<func::FuncOp>("forward"));
  reference::Tensor gradient = test::run(*module, "forward", {x, g}).front();
  for (int64_t i = 0; i < x.getNumElements(); ++i) {
    CHECK(std::abs(gradient.getFloat(i) - differences[i]) <= 1e-7);
  }
}

// Rows: constant (variance 0), of subnormal spread, ordinary. 1 / 0 is infinite, and 0 * infinity NaN, as ONNX's formula has it.
TEST_CASE("onnx ops: LayerNormalization without an epsilon", "[numbers]") {
  auto target = GENERATE(exec::Target::Cpu, exec::Target::Cuda);
  constexpr int64_t kRows = 21, kColumns = 8;
  OnnxModel model(17);
  model.input("a", {kRows, kColumns}).input("s", {kColumns});
  model.node("LayerNormalization", {"a", "s"}, {"y", "mean", "inverse"}, {{"epsilon", 0.0f}}).output("y").output("inverse");
  OwningOpRef<ModuleOp> module = test::import(model);
  test::fuse(*module, target);
  std::mt19937_64 random(test::testSeed());
  std::unique_ptr<test::CompiledKernels> kernels = test::runnerOf(*module, target, random);
  if (!kernels) {
    return;
  }
  auto spread = [](int64_t row) { return row % 3 == 0 ? 0.0 : row % 3 == 1 ? 1e-19 : 2.0; };
  reference::Tensor a = test::f32({kRows, kColumns}, std::vector<double>(kRows * kColumns));
  for (int64_t i = 0; i < a.getNumElements(); ++i) {
    a.setFloat(i, i % 2 == 0 ? spread(i / kColumns) : -spread(i / kColumns)); // mean 0, variance spread^2
  }
  std::vector<reference::Tensor> results = kernels->run("forward", {a, test::f32({kColumns}, std::vector<double>(kColumns, 1))});
  for (int64_t i = 0; i < a.getNumElements(); ++i) {
    int64_t row = i / kColumns;
    INFO("target " << exec::stringifyTarget(target).str() << ", row " << row << ", element " << i % kColumns);
    // A variance of 1e-38 is subnormal: 23 of its bits are left.
    CHECK(test::differenceFrom(1 / spread(row), results[1].getFloat(row), {8}, /*anyZero=*/false) == "");
    CHECK(test::differenceFrom(a.getFloat(i) / spread(row), results[0].getFloat(i), {8}, /*anyZero=*/false) == "");
  }
}

} // namespace ashlar::test::onnx_ops_test
