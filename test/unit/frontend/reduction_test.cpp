// SPDX-License-Identifier: Apache-2.0
//
// Reductions of a function and norms, against plain loops; the values of special cases are NumPy's.

#include "test/unit/frontend/onnx_gradient.h"
#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <limits>

namespace ashlar::test::reduction_test {

using onnx::TensorProto;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

double sumOf(const Numbers &x, const std::function<double(double)> &f) {
  double sum = 0;
  for (double value : x) {
    sum += f(value);
  }
  return sum;
}
double normOf(const Numbers &x) {
  return std::sqrt(sumOf(x, [](double v) { return v * v; }));
}
double logSumOf(const Numbers &x) {
  return std::log(sumOf(x, [](double v) { return v; }));
}
double logSumExpOf(const Numbers &x) {
  return std::log(sumOf(x, [](double v) { return std::exp(v); }));
}
double productOf(const Numbers &x) {
  double product = 1;
  for (double value : x) {
    product *= value;
  }
  return product;
}

struct Function {
  const char *op;
  double (*of)(const Numbers &);
};
constexpr Function kFunctions[] = {
    {"ReduceL2", normOf}, {"ReduceLogSum", logSumOf}, {"ReduceLogSumExp", logSumExpOf}, {"ReduceProd", productOf}};

// Numbers in (0, 2), of which no two are alike.
Numbers positives(int64_t count) {
  Numbers values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(i * 37 % 101 + 1) / 64);
  }
  return values;
}

// x (2, 3, 5), with `axes` as attribute before opset 18 and as input since; without where `given` is false.
OnnxModel reduction(const char *op, int64_t opset, Ints axes, bool given, bool keep, bool noop = false) {
  OnnxModel model = OnnxModel(opset).input("x", {2, 3, 5});
  std::vector<Attribute> attributes;
  std::vector<std::string> inputs = {"x"};
  if (given && opset < 18) {
    attributes.push_back({"axes", axes});
  } else if (given) {
    model.ints("axes", {axes.begin(), axes.end()});
    inputs.push_back("axes");
  }
  attributes.push_back({"keepdims", int64_t(keep)});
  if (noop) {
    attributes.push_back({"noop_with_empty_axes", int64_t(1)});
  }
  return model.node(op, inputs, {"y"}, attributes).output("y");
}

// The expected result of reducing `axes` of positives() of (2, 3, 5).
Numbers reduced(const Function &function, const std::vector<bool> &isReduced) {
  const Ints sizes = {2, 3, 5};
  Numbers x = positives(30), result;
  std::vector<Numbers> groups(30);
  for (int64_t i = 0; i < 30; ++i) {
    const Ints at = {i / 15, i / 5 % 3, i % 5};
    int64_t group = 0;
    for (int d = 0; d < 3; ++d) {
      group = isReduced[d] ? group : group * sizes[d] + at[d];
    }
    groups[group].push_back(x[i]);
  }
  for (const Numbers &group : groups) {
    if (!group.empty()) {
      result.push_back(function.of(group));
    }
  }
  return result;
}

// A model of x (rows, columns) of `type`, reduced along the columns.
OnnxModel rows(const char *op, std::vector<Dim> shape, int32_t type = TensorProto::FLOAT) {
  return OnnxModel(18)
      .input("x", std::move(shape), type)
      .ints("axes", {1})
      .node(op, {"x", "axes"}, {"y"}, {{"keepdims", int64_t(0)}})
      .output("y");
}

} // namespace

TEST_CASE("onnx reductions of functions, by plain loops", "[frontend][reduction]") {
  for (const Function &function : kFunctions) {
    for (int64_t opset : {7, 11, 13, 18, 28}) {
      INFO(function.op << ", opset " << opset);
      auto run = [&](Ints axes, bool given, bool keep) {
        return evaluate(reduction(function.op, opset, std::move(axes), given, keep), {f32({2, 3, 5}, positives(30))})[0];
      };
      CHECK(holds(run({1}, true, true), {2, 1, 5}, reduced(function, {false, true, false})));
      CHECK(holds(run({2, -3}, true, false), {3}, reduced(function, {true, false, true})));
      CHECK(holds(run({}, false, true), {1, 1, 1}, reduced(function, {true, true, true})));
      CHECK(holds(run({}, false, false), {}, reduced(function, {true, true, true})));
    }
    // No axes may mean no reduction: the function of each element.
    Numbers each;
    for (double value : positives(30)) {
      each.push_back(function.of({value}));
    }
    for (bool given : {false, true}) {
      OnnxModel model = reduction(function.op, 18, {}, given, /*keep=*/true, /*noop=*/true);
      CHECK(holds(evaluate(model, {f32({2, 3, 5}, positives(30))})[0], {2, 3, 5}, each));
    }
    CHECK_THAT(importError(reduction(function.op, 18, {3}, true, true)), contains("axis 3 is not in [-3, 3)"));
  }
}

// Each size takes another way through the halves.
TEST_CASE("onnx ReduceProd of every size", "[frontend][reduction]") {
  for (int64_t size = 0; size <= 17; ++size) {
    INFO("size " << size);
    Numbers x = positives(2 * size), expected;
    expected.push_back(productOf({x.begin(), x.begin() + size}));
    expected.push_back(productOf({x.begin() + size, x.end()}));
    CHECK(holds(evaluate(rows("ReduceProd", {2, size}), {f32({2, size}, x)})[0], {2}, expected));
  }
  auto i32 = mlir::IntegerType::get(&context(), 32);
  OnnxModel ints = rows("ReduceProd", {2, 3}, TensorProto::INT32);
  CHECK(holds(evaluate(ints, {makeTensor(i32, {2, 3}, {2, -3, 5, 65536, 65536, 7})})[0], {2}, {-30, 0})); // wraps
}

TEST_CASE("onnx reductions of no elements", "[frontend][reduction]") {
  for (auto [op, neutral] : std::initializer_list<std::pair<const char *, double>>{{"ReduceL1", 0},
                                                                                   {"ReduceL2", 0},
                                                                                   {"ReduceLogSum", -kInfinity},
                                                                                   {"ReduceLogSumExp", -kInfinity},
                                                                                   {"ReduceMax", -kInfinity},
                                                                                   {"ReduceMin", kInfinity},
                                                                                   {"ReduceProd", 1},
                                                                                   {"ReduceSum", 0},
                                                                                   {"ReduceSumSquare", 0}}) {
    INFO(op);
    CHECK(holds(evaluate(rows(op, {2, 0}), {f32({2, 0}, {})})[0], {2}, {neutral, neutral}));
    CHECK(holds(evaluate(rows(op, {0, 2}), {f32({0, 2}, {})})[0], {0}, {}));
  }
  CHECK_THAT(importError(rows("ReduceMean", {2, 0})), contains("has no elements to reduce"));
}

// False < True; of no elements the least and the largest of them.
TEST_CASE("onnx ReduceMax and ReduceMin of bools", "[frontend][reduction]") {
  for (auto [op, expected, neutral] :
       std::initializer_list<std::tuple<const char *, Numbers, double>>{{"ReduceMax", {0, 1, 1}, 0}, {"ReduceMin", {0, 0, 1}, 1}}) {
    INFO(op);
    auto result = evaluate(rows(op, {3, 2}, TensorProto::BOOL), {boolean({3, 2}, {0, 0, 1, 0, 1, 1})})[0];
    CHECK(result.getType().getElementType().isInteger(1));
    CHECK(holds(result, {3}, expected));
    CHECK(holds(evaluate(rows(op, {2, 0}, TensorProto::BOOL), {boolean({2, 0}, {})})[0], {2}, {neutral, neutral}));
  }
}

// By numpy.logaddexp.reduce and numpy.linalg.norm.
TEST_CASE("onnx reductions keep special values", "[frontend][reduction]") {
  auto run = [](const char *op, const Numbers &x) { return evaluate(rows(op, {1, 2}), {f32({1, 2}, x)})[0]; };
  CHECK(holds(run("ReduceLogSumExp", {-kInfinity, -kInfinity}), {1}, {-kInfinity}));
  CHECK(holds(run("ReduceLogSumExp", {-kInfinity, 3}), {1}, {3}));
  CHECK(holds(run("ReduceLogSumExp", {kInfinity, 3}), {1}, {kInfinity}));
  CHECK(holds(run("ReduceLogSumExp", {kInfinity, -kInfinity}), {1}, {kInfinity}));
  CHECK(holds(run("ReduceLogSumExp", {kNaN, 3}), {1}, {kNaN}));
  CHECK(holds(run("ReduceLogSumExp", {1000, 1000}), {1}, {1000 + std::log(2)}));
  CHECK(holds(run("ReduceLogSumExp", {-1000, -1000}), {1}, {-1000 + std::log(2)}));
  CHECK(holds(run("ReduceLogSumExp", {3e38, -3e38}), {1}, {3e38}));
  CHECK(holds(run("ReduceL2", {0, 0}), {1}, {0}));
  CHECK(holds(run("ReduceL2", {kNaN, 1}), {1}, {kNaN}));
  CHECK(holds(run("ReduceL2", {-kInfinity, 1}), {1}, {kInfinity}));
  CHECK(holds(run("ReduceLogSum", {0, 0}), {1}, {-kInfinity}));
  CHECK(holds(run("ReduceLogSum", {-1, 0}), {1}, {kNaN}));
  CHECK(holds(run("ReduceProd", {kInfinity, 0}), {1}, {kNaN}));
  CHECK(holds(run("ReduceProd", {kInfinity, -2}), {1}, {-kInfinity}));
  // Squares of f16 are computed in f32: 300^2 is no f16.
  OnnxModel half = rows("ReduceL2", {1, 2}, TensorProto::FLOAT16);
  CHECK(holds(evaluate(half, {makeTensor(mlir::Float16Type::get(&context()), {1, 2}, {300, 400})})[0], {1}, {500}));
  OnnxModel whole = rows("ReduceL2", {1, 2}, TensorProto::INT64); // truncated, as astype does
  CHECK(holds(evaluate(whole, {i64({1, 2}, {2, 3})})[0], {1}, {3}));
  CHECK_THAT(importError(rows("ReduceLogSumExp", {1, 2}, TensorProto::INT64)), contains("its inputs are floats"));
}

TEST_CASE("onnx LpNormalization", "[frontend][reduction]") {
  auto model = [](int64_t opset, std::vector<Attribute> attributes, int32_t type = TensorProto::FLOAT) {
    return OnnxModel(opset).input("x", {2, 2}, type).node("LpNormalization", {"x"}, {"y"}, std::move(attributes)).output("y");
  };
  auto run = [&](std::vector<Attribute> attributes, const Numbers &x) {
    return evaluate(model(22, std::move(attributes)), {f32({2, 2}, x)})[0];
  };
  CHECK(holds(run({}, {3, -4, 0, 5}), {2, 2}, {0.6, -0.8, 0, 1}));
  CHECK(holds(run({{"axis", int64_t(0)}}, {3, -4, 4, 3}), {2, 2}, {0.6, -0.8, 0.8, 0.6}));
  CHECK(holds(run({{"p", int64_t(1)}}, {1, -3, 5, 5}), {2, 2}, {0.25, -0.75, 0.5, 0.5}));
  CHECK(holds(evaluate(model(7, {}), {f32({2, 2}, {3, -4, 0, 5})})[0], {2, 2}, {0.6, -0.8, 0, 1}));
  auto f64 = makeTensor(mlir::Float64Type::get(&context()), {2, 2}, {1, -2, 3, 0.5});
  for (int64_t p : {1, 2}) {
    CHECK(holds(run({{"p", p}}, {0, 0, kNaN, 1}), {2, 2}, {0, 0, kNaN, kNaN}));
    CHECK(gradientDifference(model(22, {{"p", p}}, TensorProto::DOUBLE), {f64}) == "");
    CHECK(holds(gradientOf(model(22, {{"p", p}}), {f32({2, 2}, {0, 0, 0, 2})}, f32({2, 2}, {1, 1, 1, 1})), {2, 2}, {0, 0, 0.5, 0}));
  }
  CHECK_THAT(importError(model(22, {{"p", int64_t(3)}})), contains("attribute \"p\" is 3; one of 1, 2"));
}

TEST_CASE("onnx reductions of functions: gradients", "[frontend][reduction]") {
  auto f64 = [](std::vector<int64_t> shape, Numbers x) {
    return makeTensor(mlir::Float64Type::get(&context()), std::move(shape), std::move(x));
  };
  for (const Function &function : kFunctions) {
    INFO(function.op);
    CHECK(gradientDifference(rows(function.op, {2, 7}, TensorProto::DOUBLE), {f64({2, 7}, positives(14))}) == "");
  }
  // The product of the others, with one zero and with two.
  CHECK(gradientDifference(rows("ReduceProd", {3, 5}, TensorProto::DOUBLE), {f64({3, 5}, {2, 0, 3, 4, 5, 2, 0, 3, 0, 5, 1, 2, 3, 4, 5})}) ==
        "");
  // Where the slope has no limit, the gradient is 0: a zero norm, a row of nothing but -infinity.
  auto one = f32({2}, {1, 1});
  CHECK(holds(gradientOf(rows("ReduceL2", {2, 2}), {f32({2, 2}, {0, 0, 3, 4})}, one), {2, 2}, {0, 0, 0.6, 0.8}));
  Numbers masked = {-kInfinity, -kInfinity, -kInfinity, 2};
  CHECK(holds(gradientOf(rows("ReduceLogSumExp", {2, 2}), {f32({2, 2}, masked)}, one), {2, 2}, {0, 0, 0, 1}));
}

} // namespace ashlar::test::reduction_test
