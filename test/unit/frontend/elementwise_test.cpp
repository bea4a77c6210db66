// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ONNX ops against expectations made by hand.

#include "test/unit/frontend/onnx_model.h"

#include "dialects/nn/nn.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>

namespace ashlar::test::elementwise_test {

using onnx::TensorProto;

namespace {

// x -> op -> y on f32 (4).
OnnxModel unary(const std::string &op, std::vector<Attribute> attributes = {}, int64_t opset = 20) {
  return OnnxModel(opset).input("x", {4}).node(op, {"x"}, {"y"}, std::move(attributes)).output("y");
}

OnnxModel binary(const std::string &op, std::vector<Dim> lhs, std::vector<Dim> rhs, int32_t type = TensorProto::FLOAT) {
  return OnnxModel(17).input("a", lhs, type).input("b", rhs, type).node(op, {"a", "b"}, {"y"}).output("y");
}

} // namespace

// Each unary op computes its function.
TEST_CASE("onnx unary ops", "[frontend]") {
  struct Row {
    const char *op;
    std::function<double(double)> function;
    std::vector<Attribute> attributes;
  };
  std::vector<Row> rows = {
      {"Abs", [](double x) { return std::abs(x); }, {}},
      {"Asinh", [](double x) { return std::asinh(x); }, {}},
      {"Atan", [](double x) { return std::atan(x); }, {}},
      {"Ceil", [](double x) { return std::ceil(x); }, {}},
      {"Cos", [](double x) { return std::cos(x); }, {}},
      {"Cosh", [](double x) { return std::cosh(x); }, {}},
      {"Erf", [](double x) { return std::erf(x); }, {}},
      {"Exp", [](double x) { return std::exp(x); }, {}},
      {"Floor", [](double x) { return std::floor(x); }, {}},
      {"Gelu", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); }, {}},
      {"Gelu",
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       {{"approximate", std::string("tanh")}}},
      {"Identity", [](double x) { return x; }, {}},
      {"LeakyRelu", [](double x) { return x > 0 ? x : 0.01 * x; }, {}},
      {"LeakyRelu", [](double x) { return x > 0 ? x : 0.25 * x; }, {{"alpha", 0.25f}}},
      {"Neg", [](double x) { return -x; }, {}},
      {"Relu", [](double x) { return x > 0 ? x : 0; }, {}},
      {"Round", [](double x) { return std::nearbyint(x); }, {}},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, {}},
      {"Sin", [](double x) { return std::sin(x); }, {}},
      {"Sinh", [](double x) { return std::sinh(x); }, {}},
      {"Tan", [](double x) { return std::tan(x); }, {}},
      {"Tanh", [](double x) { return std::tanh(x); }, {}},
  };
  for (const Row &row : rows) {
    INFO(row.op);
    std::vector<double> inputs = {-1.5, 0, 0.5, 2}, expected;
    for (double x : inputs) {
      expected.push_back(row.function(x));
    }
    CHECK(holds(evaluate(unary(row.op, row.attributes), {f32({4}, inputs)})[0], {4}, expected));
  }
  CHECK(holds(evaluate(unary("Log"), {f32({4}, {1, 2, 4, 0.5})})[0], {4}, {0, std::log(2), std::log(4), std::log(0.5)}));
  const std::vector<double> small = {-1, 0, 0.5, 1};
  CHECK(holds(evaluate(unary("Acos"), {f32({4}, small)})[0], {4}, {std::acos(-1), std::acos(0), std::acos(0.5), 0}));
  CHECK(holds(evaluate(unary("Asin"), {f32({4}, small)})[0], {4}, {std::asin(-1), 0, std::asin(0.5), std::asin(1)}));
  CHECK(holds(evaluate(unary("Atanh"), {f32({4}, small)})[0], {4}, {-INFINITY, 0, std::atanh(0.5), INFINITY}));
  CHECK(holds(evaluate(unary("Acosh"), {f32({4}, {1, 2, 100, 0.5})})[0], {4}, {0, std::acosh(2), std::acosh(100), NAN}));
  CHECK(holds(evaluate(unary("Sqrt"), {f32({4}, {1, 2, 4, 0.25})})[0], {4}, {1, std::sqrt(2), 2, 0.5}));
}

// An attribute no handler asks for, or a value it does not know, is an error.
TEST_CASE("onnx attributes are never ignored", "[frontend]") {
  CHECK(importError(unary("Relu", {{"slope", 1.0f}})) ==
        "model.onnx: node \"Relu_0\" (Relu, opset 20): attribute \"slope\" is not supported");
  CHECK_THAT(importError(unary("Gelu", {{"approximate", std::string("fast")}})), contains("is \"fast\"; one of none, tanh"));
  CHECK_THAT(importError(unary("LeakyRelu", {{"alpha", int64_t(1)}})), contains("attribute \"alpha\" has type INT, not FLOAT"));
}

TEST_CASE("onnx op on a type it does not take", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {4}, TensorProto::INT32).node("Sqrt", {"x"}, {"y"}, {}, "root").output("y");
  CHECK_THAT(importError(model),
             contains("model.onnx: node \"root\" (Sqrt, opset 17): input 0 is a tensor of i32, which the op does not take"));
}

// Operands broadcast by numpy's rule, in either direction and both at once.
TEST_CASE("onnx binary ops broadcast", "[frontend]") {
  CHECK(holds(evaluate(binary("Add", {2, 3}, {3}), {f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({3}, {10, 20, 30})})[0], {2, 3},
              {11, 22, 33, 14, 25, 36}));
  CHECK(holds(evaluate(binary("Sub", {3}, {2, 1}), {f32({3}, {1, 2, 3}), f32({2, 1}, {10, 20})})[0], {2, 3}, {-9, -8, -7, -19, -18, -17}));
  CHECK(holds(evaluate(binary("Mul", {2, 1, 2}, {1, 2, 1}), {f32({2, 1, 2}, {1, 2, 3, 4}), f32({1, 2, 1}, {10, 100})})[0], {2, 2, 2},
              {10, 20, 100, 200, 30, 40, 300, 400}));
  CHECK(holds(evaluate(binary("Div", {}, {2}), {f32({}, {6}), f32({2}, {2, 4})})[0], {2}, {3, 1.5}));
  CHECK(holds(evaluate(binary("Div", {2}, {2}, TensorProto::INT64), {i64({2}, {7, -7}), i64({2}, {2, 2})})[0], {2}, {3, -3}));
  CHECK_THAT(importError(binary("Add", {2, 3}, {2})), contains("node \"Add_0\" (Add, opset 17): shapes [2, 3] and [2] do not broadcast"));
}

TEST_CASE("onnx binary op on two element types", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("a", {2}).input("b", {2}, TensorProto::DOUBLE).node("Add", {"a", "b"}, {"y"}).output("y");
  CHECK_THAT(importError(model), contains("operands tensor<2xf32> and tensor<2xf64> have different element types"));
}

// Known exponents become products and quotients, others stay powers.
TEST_CASE("onnx Pow", "[frontend]") {
  std::vector<double> bases = {1, 2, 4, 0.5};
  for (double power : {1.0, 2.0, 3.0, 0.5, -1.0, 1.5}) {
    OnnxModel model = OnnxModel(17).input("x", {4}).initializer("p", TensorProto::FLOAT, {}, {power});
    model.node("Pow", {"x", "p"}, {"y"}).output("y");
    std::vector<double> expected;
    for (double base : bases) {
      expected.push_back(std::pow(base, power));
    }
    CHECK(holds(evaluate(model, {f32({4}, bases)})[0], {4}, expected));
    CHECK((print(*import(model)).find("nn.pow") != std::string::npos) == (power == 0.5 || power == 1.5));
  }
  CHECK(holds(evaluate(binary("Pow", {2, 1}, {2}), {f32({2, 1}, {2, 3}), f32({2}, {2, 3})})[0], {2, 2}, {4, 8, 9, 27}));
  OnnxModel mixed = OnnxModel(17).input("x", {2}).initializer("p", TensorProto::INT64, {}, {4}).node("Pow", {"x", "p"}, {"y"}).output("y");
  CHECK(holds(evaluate(mixed, {f32({2}, {2, -1})})[0], {2}, {16, 1}));
  // Integers wrap around, as their products do; test/job_options has more of them.
  OnnxModel whole =
      OnnxModel(17).input("x", {3}, TensorProto::INT64).input("p", {3}, TensorProto::INT64).node("Pow", {"x", "p"}, {"y"}).output("y");
  CHECK(holds(evaluate(whole, {i64({3}, {3, -1, 2}), i64({3}, {5, -3, 64})})[0], {3}, {243, -1, 0}));
  OnnxModel logical(17);
  logical.input("x", {2}, TensorProto::INT32).input("p", {2}, TensorProto::BOOL).node("Pow", {"x", "p"}, {"y"}).output("y");
  CHECK_THAT(importError(logical), contains("input 1 is a tensor of bool, which the op does not take"));
}

TEST_CASE("onnx comparisons and logic", "[frontend]") {
  auto run = [](const char *op) { return evaluate(binary(op, {3}, {3}), {f32({3}, {1, 2, 3}), f32({3}, {2, 2, 2})})[0]; };
  CHECK(holds(run("Equal"), {3}, {0, 1, 0}));
  CHECK(holds(run("Less"), {3}, {1, 0, 0}));
  CHECK(holds(run("LessOrEqual"), {3}, {1, 1, 0}));
  CHECK(holds(run("Greater"), {3}, {0, 0, 1}));
  CHECK(holds(run("GreaterOrEqual"), {3}, {0, 1, 1}));
  auto logic = [](const char *op) {
    return evaluate(binary(op, {4}, {4}, TensorProto::BOOL), {boolean({4}, {0, 0, 1, 1}), boolean({4}, {0, 1, 0, 1})})[0];
  };
  CHECK(holds(logic("And"), {4}, {0, 0, 0, 1}));
  CHECK(holds(logic("Or"), {4}, {0, 1, 1, 1}));
  OnnxModel model = OnnxModel(17).input("x", {2}, TensorProto::BOOL).node("Not", {"x"}, {"y"}).output("y");
  CHECK(holds(evaluate(model, {boolean({2}, {0, 1})})[0], {2}, {1, 0}));
}

TEST_CASE("onnx Where broadcasts its three inputs", "[frontend]") {
  OnnxModel model =
      OnnxModel(17).input("c", {2, 1}, TensorProto::BOOL).input("a", {3}).input("b", {}).node("Where", {"c", "a", "b"}, {"y"});
  CHECK(holds(evaluate(model.output("y"), {boolean({2, 1}, {1, 0}), f32({3}, {1, 2, 3}), f32({}, {9})})[0], {2, 3}, {1, 2, 3, 9, 9, 9}));
}

TEST_CASE("onnx Cast", "[frontend]") {
  auto to = [](int64_t type) { return unary("Cast", {{"to", type}}); };
  CHECK(holds(evaluate(to(TensorProto::INT64), {f32({4}, {-1.7, 0, 0.5, 2.9})})[0], {4}, {-1, 0, 0, 2}));
  CHECK(holds(evaluate(to(TensorProto::BOOL), {f32({4}, {-1.7, 0, 0.5, 2})})[0], {4}, {1, 0, 1, 1}));
  CHECK(evaluate(to(TensorProto::FLOAT), {f32({4}, {1, 2, 3, 4})})[0].getType().getElementType().isF32());
  CHECK(holds(evaluate(to(TensorProto::INT8), {f32({4}, {-1.7, 300, -300, NAN})})[0], {4}, {-1, 127, -128, 0}));
  CHECK(holds(evaluate(to(TensorProto::UINT8), {f32({4}, {-1.7, 300, 2.9, NAN})})[0], {4}, {0, 255, 2, 0}));
  CHECK(holds(evaluate(to(TensorProto::UINT64), {f32({4}, {-1.7, 1e30, 0x1p63, 3})})[0], {4}, {0, 0x1p64, 0x1p63, 3}));
  CHECK_THAT(
      importError(to(/*FLOAT8E5M2*/ 19)),
      contains("element type FLOAT8E5M2 is not supported; the supported ones are FLOAT, DOUBLE, FLOAT16, BFLOAT16, INT8, INT16, INT32, "
               "INT64, UINT8, UINT16, UINT32, UINT64, BOOL"));
}

// Integers of other widths and signs keep the low bits, as ONNX says; numpy gives these numbers.
TEST_CASE("onnx Cast of integers", "[frontend]") {
  auto cast = [](int32_t from, int32_t to, std::vector<double> values) {
    const int64_t size = static_cast<int64_t>(values.size());
    OnnxModel model = OnnxModel(17).initializer("x", from, {size}, std::move(values)).node("Cast", {"x"}, {"y"}, {{"to", int64_t(to)}});
    return evaluate(model.output("y"), {})[0];
  };
  CHECK(holds(cast(TensorProto::INT32, TensorProto::INT8, {300, -300, 127, 128}), {4}, {44, -44, 127, -128}));
  CHECK(holds(cast(TensorProto::INT32, TensorProto::UINT8, {300, -300, -1, 128}), {4}, {44, 212, 255, 128}));
  CHECK(holds(cast(TensorProto::INT8, TensorProto::UINT16, {-1, 5}), {2}, {65535, 5}));
  CHECK(holds(cast(TensorProto::UINT8, TensorProto::INT16, {255, 5}), {2}, {255, 5}));
  CHECK(holds(cast(TensorProto::UINT8, TensorProto::INT8, {255, 5}), {2}, {-1, 5}));
  CHECK(holds(cast(TensorProto::UINT16, TensorProto::FLOAT, {65535, 5}), {2}, {65535, 5}));
  CHECK(holds(cast(TensorProto::UINT32, TensorProto::DOUBLE, {4294967295, 5}), {2}, {4294967295, 5}));
  CHECK(holds(cast(TensorProto::UINT64, TensorProto::FLOAT, {0x1p63, 5}), {2}, {0x1p63, 5}));
  CHECK(holds(cast(TensorProto::BOOL, TensorProto::UINT8, {1, 0}), {2}, {1, 0}));
  CHECK(holds(cast(TensorProto::INT8, TensorProto::BOOL, {-128, 0}), {2}, {1, 0}));
}

// The numbers are those of numpy's ndarray.view.
TEST_CASE("onnx BitCast", "[frontend]") {
  auto model = [](int32_t from, int32_t to, std::vector<double> values) {
    const int64_t size = static_cast<int64_t>(values.size());
    OnnxModel model = OnnxModel(26).initializer("x", from, {size}, std::move(values));
    return model.node("BitCast", {"x"}, {"y"}, {{"to", int64_t(to)}}).output("y");
  };
  auto are = [](const reference::Tensor &tensor, const std::vector<double> &values) { // zeros with their sign, too
    auto isEqual = [](double x, double y) { return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y); };
    std::vector<double> elements;
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      elements.push_back(tensor.getNumber(i));
    }
    return llvm::equal(elements, values, isEqual);
  };
  auto bits = [&](int32_t from, int32_t to, std::vector<double> values) { return evaluate(model(from, to, std::move(values)), {})[0]; };
  CHECK(are(bits(TensorProto::INT8, TensorProto::UINT8, {-1, -128, 127, 0}), {255, 128, 127, 0}));
  CHECK(are(bits(TensorProto::UINT8, TensorProto::INT8, {255, 128, 127, 0}), {-1, -128, 127, 0}));
  CHECK(are(bits(TensorProto::INT16, TensorProto::UINT16, {-2, -32768}), {65534, 32768}));
  CHECK(are(bits(TensorProto::UINT32, TensorProto::INT32, {4294967295, 0x1p31, 7}), {-1, -0x1p31, 7}));
  CHECK(are(bits(TensorProto::INT64, TensorProto::UINT64, {-0x1p63, 5}), {0x1p63, 5}));
  CHECK(are(bits(TensorProto::INT8, TensorProto::UINT8, {}), {}));
  CHECK(are(bits(TensorProto::FLOAT, TensorProto::FLOAT, {-0.5, 3}), {-0.5, 3}));
  CHECK(are(bits(TensorProto::FLOAT, TensorProto::INT32, {1, -2.5, 0, -0.0, INFINITY, 0x1p-149, NAN}),
            {1065353216, -1071644672, 0, -2147483648, 2139095040, 1, 2143289344}));
  CHECK(are(bits(TensorProto::INT32, TensorProto::FLOAT, {1065353216, 1, 2139095040, -1071644672, 2143289344, -2147483648}),
            {1, 0x1p-149, INFINITY, -2.5, NAN, -0.0}));
  auto given = [&](mlir::Type element, int32_t from, int32_t to, std::vector<double> values) {
    const auto size = static_cast<int64_t>(values.size());
    OnnxModel model = OnnxModel(26).input("x", {size}, from).node("BitCast", {"x"}, {"y"}, {{"to", int64_t(to)}});
    return evaluate(model.output("y"), {makeTensor(element, {size}, std::move(values))})[0];
  };
  auto f16 = mlir::Float16Type::get(&context());
  auto bf16 = mlir::BFloat16Type::get(&context());
  CHECK(are(given(f16, TensorProto::FLOAT16, TensorProto::UINT16, {1, -2.5, 65504, 0x1p-24, -0.0}), {15360, 49408, 31743, 1, 32768}));
  CHECK(are(bits(TensorProto::UINT16, TensorProto::FLOAT16, {15360, 64512, 1, 49408}), {1, -INFINITY, 0x1p-24, -2.5}));
  CHECK(are(given(bf16, TensorProto::BFLOAT16, TensorProto::INT16, {1, -2.5, 0x1.fep127, -0.0}), {16256, -16352, 32639, -32768}));
  CHECK(are(bits(TensorProto::INT16, TensorProto::BFLOAT16, {16256, -16352, 1, 32640}), {1, -2.5, 0x1p-133, INFINITY}));
  CHECK(are(given(f16, TensorProto::FLOAT16, TensorProto::BFLOAT16, {1, 1.5, -2}), {0.0078125, 0.125, -2}));
  CHECK(are(given(bf16, TensorProto::BFLOAT16, TensorProto::FLOAT16, {1, 1.5, -2}), {1.875, 1.9375, -2}));
  CHECK(are(bits(TensorProto::DOUBLE, TensorProto::INT64, {1, -2, 0x1p-1074}), {0x3ffp52, -0x1p62, 1}));
  CHECK(are(bits(TensorProto::INT64, TensorProto::DOUBLE, {0x3ffp52, -0x1p62, 1}), {1, -2, 0x1p-1074}));
  CHECK(are(bits(TensorProto::UINT32, TensorProto::FLOAT, {0x7f800001}), {NAN})); // a signalling one
  CHECK(are(bits(TensorProto::BOOL, TensorProto::INT8, {1, 0}), {1, 0}));
  CHECK(are(bits(TensorProto::UINT8, TensorProto::BOOL, {1, 0, 2}), {1, 0, 1}));
  CHECK(are(bits(TensorProto::BOOL, TensorProto::BOOL, {1, 0}), {1, 0}));
  CHECK_THAT(importError(model(TensorProto::INT32, TensorProto::INT64, {1})),
             contains("takes the bits of i32 as i64, of another width; use Cast"));
  CHECK_THAT(importError(model(TensorProto::BOOL, TensorProto::INT16, {1})), contains("takes the bits of bool as i16, of another width"));
  CHECK_THAT(importError(model(TensorProto::FLOAT, TensorProto::INT64, {1})), contains("takes the bits of f32 as i64, of another width"));
  CHECK_THAT(importError(model(TensorProto::INT8, TensorProto::STRING, {1})), contains("element type STRING is not supported"));
}

// Integers wrap around; quotients, maxima, comparisons and rests of those without a sign are theirs.
TEST_CASE("onnx arithmetic of all integers", "[frontend]") {
  auto apply = [](const std::string &op, int32_t type, std::vector<double> x, std::vector<double> y) {
    const int64_t size = static_cast<int64_t>(x.size());
    OnnxModel model = OnnxModel(17).initializer("x", type, {size}, std::move(x)).initializer("y", type, {size}, std::move(y));
    return evaluate(model.node(op, {"x", "y"}, {"z"}).output("z"), {})[0];
  };
  CHECK(holds(apply("Add", TensorProto::INT8, {100, -100}, {100, -100}), {2}, {-56, 56}));
  CHECK(holds(apply("Add", TensorProto::UINT8, {200, 1}, {100, 2}), {2}, {44, 3}));
  CHECK(holds(apply("Sub", TensorProto::UINT16, {1}, {2}), {1}, {65535}));
  CHECK(holds(apply("Mul", TensorProto::UINT32, {65536}, {65537}), {1}, {65536}));
  CHECK(holds(apply("Div", TensorProto::UINT8, {200, 7}, {100, 2}), {2}, {2, 3}));
  CHECK(holds(apply("Div", TensorProto::INT8, {-128, -7}, {-1, 2}), {2}, {-128, -3}));
  CHECK(holds(apply("Div", TensorProto::UINT64, {0x1p63}, {2}), {1}, {0x1p62}));
  CHECK(holds(apply("Mod", TensorProto::UINT8, {200, 7}, {150, 4}), {2}, {50, 3}));
  CHECK(holds(apply("Mod", TensorProto::INT8, {-7, 7}, {4, -4}), {2}, {1, -1}));
  CHECK(holds(apply("Mod", TensorProto::UINT64, {0x1p63 + 4096}, {0x1p62}), {1}, {4096}));
  CHECK(holds(apply("Max", TensorProto::UINT64, {0x1p63, 1}, {3, 2}), {2}, {0x1p63, 2}));
  CHECK(holds(apply("Min", TensorProto::UINT64, {0x1p63, 1}, {3, 2}), {2}, {3, 1}));
  CHECK(holds(apply("Max", TensorProto::INT16, {-5, 1}, {3, -2}), {2}, {3, 1}));
  CHECK(holds(apply("Less", TensorProto::UINT64, {0x1p63, 1}, {3, 2}), {2}, {0, 1}));
  CHECK(holds(apply("Greater", TensorProto::UINT8, {200, 1}, {3, 2}), {2}, {1, 0}));
  OnnxModel negated = OnnxModel(17).input("x", {2}, TensorProto::UINT8).node("Neg", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(negated), contains("input 0 is a tensor of u8, which the op does not take; its inputs are numbers with a sign"));
}

// By Python's % and math.fmod.
TEST_CASE("onnx Mod of integers", "[frontend]") {
  auto mod = [](int64_t fmod, std::vector<double> divisors) {
    OnnxModel model = OnnxModel(17).input("x", {6}, TensorProto::INT64).ints("d", divisors);
    return model.node("Mod", {"x", "d"}, {"y"}, {{"fmod", fmod}}).output("y");
  };
  const std::vector<double> divisors = {2, -3, 8, -2, 3, 5};
  auto input = i64({6}, {-4, 7, 5, 4, -7, 8});
  CHECK(holds(evaluate(mod(0, divisors), {input})[0], {6}, {0, -2, 5, 0, 2, 3}));
  CHECK(holds(evaluate(mod(1, divisors), {input})[0], {6}, {0, 1, 5, 0, -1, 3}));
  CHECK_THAT(importError(mod(0, {0})), contains("divides by zero"));
}

// By math.fmod and Python's %, with the special values of ONNX's text.
TEST_CASE("onnx Mod of floats", "[frontend]") {
  auto mod = [](int64_t opset, std::vector<Attribute> attributes, std::vector<double> x, std::vector<double> y) {
    auto size = static_cast<int64_t>(x.size());
    OnnxModel model = OnnxModel(opset).input("x", {size}).input("y", {size}).node("Mod", {"x", "y"}, {"z"}, std::move(attributes));
    return evaluate(model.output("z"), {f32({size}, x), f32({size}, y)})[0];
  };
  const std::vector<double> x = {-4.5, 7.25, 5, 4, -7.5, 1e30}, y = {2, -3, 8, -2.5, 3, 7};
  const double far = std::fmod(static_cast<float>(1e30), 7);
  for (int64_t opset : {10, 13, 28}) {
    CHECK(holds(mod(opset, {{"fmod", int64_t(1)}}, x, y), {6}, {-0.5, 1.25, 5, 1.5, -1.5, far}));
  }
  CHECK(holds(mod(28, {}, x, y), {6}, {1.5, -1.75, 5, -1, 1.5, far}));
  ashlar::reference::Tensor zeros = mod(28, {}, {0, -0.0, 6, -6}, {-3, 3, -3, 3});
  for (int i = 0; i < 4; ++i) { // the sign of the divisor
    CHECK(zeros.getFloat(i) == 0);
    CHECK(std::signbit(zeros.getFloat(i)) == (i % 2 == 0));
  }
  const std::vector<double> specials = {INFINITY, 1, 1, -1, NAN}, divisors = {2, 0, INFINITY, INFINITY, 1};
  CHECK(holds(mod(28, {}, specials, divisors), {5}, {NAN, NAN, 1, INFINITY, NAN}));
  CHECK(holds(mod(28, {{"fmod", int64_t(1)}}, specials, divisors), {5}, {NAN, NAN, 1, -1, NAN}));
  CHECK_THAT(importError(OnnxModel(17).input("x", {2}).node("Mod", {"x", "x"}, {"y"}).output("y")),
             contains("of floats has attribute \"fmod\" 0, which ONNX has since opset 28; set it to 1"));
}

TEST_CASE("onnx bitwise ops", "[frontend]") {
  auto run = [](const char *op) {
    return evaluate(binary(op, {3, 1}, {2}, TensorProto::INT64), {i64({3, 1}, {12, -1, -0x1p63}), i64({2}, {10, -8})})[0];
  };
  CHECK(holds(run("BitwiseAnd"), {3, 2}, {8, 8, 10, -8, 0, -0x1p63}));
  CHECK(holds(run("BitwiseOr"), {3, 2}, {14, -4, -1, -1, -0x1p63, -8}));
  CHECK(holds(run("BitwiseXor"), {3, 2}, {6, -12, -11, 7, -0x1p63, 0x1p63}));
  OnnxModel invert = OnnxModel(18).input("x", {3}, TensorProto::INT64).node("BitwiseNot", {"x"}, {"y"}).output("y");
  CHECK(holds(evaluate(invert, {i64({3}, {12, -1, 0})})[0], {3}, {-13, 0, -1}));
  CHECK_THAT(importError(binary("BitwiseAnd", {2}, {2})),
             contains("input 0 is a tensor of f32, which the op does not take; its inputs are integers"));
}

// As ONNX's text has it: an amount that no bit survives gives what the sign fills with.
TEST_CASE("onnx BitShift", "[frontend]") {
  auto shift = [](const char *direction, int64_t opset = 28) {
    auto type = TensorProto::INT32;
    return OnnxModel(opset)
        .input("x", {7}, type)
        .input("n", {7}, type)
        .node("BitShift", {"x", "n"}, {"y"}, {{"direction", std::string(direction)}})
        .output("y");
  };
  auto i32 = [](std::vector<double> x) { return makeTensor(mlir::IntegerType::get(&context(), 32), {7}, std::move(x)); };
  const std::vector<double> x = {16, -16, -5, 3, -3, -0x1p31, 0x1p31 - 1}, n = {2, 2, 1, 31, 32, 31, -1};
  CHECK(holds(evaluate(shift("RIGHT"), {i32(x), i32(n)})[0], {7}, {4, -4, -3, 0, -1, -1, 0}));
  CHECK(holds(evaluate(shift("LEFT"), {i32(x), i32(n)})[0], {7}, {64, -64, -10, -0x1p31, 0, 0, 0}));
  CHECK_THAT(importError(shift("UP")), contains("attribute \"direction\" is \"UP\"; one of LEFT, RIGHT"));
  CHECK_THAT(importError(shift("LEFT", 11)),
             contains("input 0 is a tensor of i32, which the op takes since opset 28; before, its inputs are without a sign"));
}

} // namespace ashlar::test::elementwise_test
